"""A session in memory: it takes messages, runs one turn at a time, and is closed once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from typing import Any, Literal, TypeVar

import msgspec
from msgspec.structs import replace

from .. import hookspecs, records
from ..access import fold_access
from ..contracts import Lease, Tx, Update
from ..errors import Conflict, HaloError, LeaseHeld, SessionClosed, Stopping
from ..folds import History
from ..inbox import accept, check, prepared, waiting
from ..journal import EVERY, append, folded, journal_of, keep_folds, last_answer
from ..log import logger
from ..questions import supersede
from ..recovery import recover_tree, withdraw_message
from ..repair import Shown
from ..scopes import Scope
from ..supervisor import Tasks
from ..turns import Desk, Turn, complete, usage_of
from . import rows
from .choices import serve
from .duty import Duty, find_duty
from .prompts import Prompt, Prompts
from .seat import Seat

T = TypeVar("T")

_CLOSE_SECONDS = 5.0
_driving = ContextVar("_driving", default="")  # the id, since a context may outlive the session
_HELD_SECONDS = 1.0


class Session:
    """One conversation of one agent in one workspace. `seat` is the place there that it works from."""

    def __init__(self, seat: Seat, info: records.SessionInfo) -> None:
        self.seat = seat
        self._info = info
        self.agent: records.AgentSpec = records.AgentSpec(id=info.agent, name=info.agent, tools=())  # As it was opened.
        self._has_agent = False
        self._desk: Desk | None = None
        self.lease: Lease | None = None  # the tree's, while this session works under it
        self._driver: asyncio.Task[None] | None = None
        self._turn: Turn | None = None
        self._stirred = asyncio.Event()
        self._prompts = Prompts(seat.database)
        self.writes = Tasks()
        self._still = asyncio.Lock()  # held while turns run, or while the journal is rewritten
        self._keep_at = 0
        self._known = 0  # the journal is in the history up to here
        self._told = True  # whether those whom it reports to know of its last end
        self._hard = 0
        self._retrying = False
        self._closing: asyncio.Task[None] | None = None
        self._rests: records.State = "waiting" if info.state == "waiting" else "idle"
        self._scope: Scope | None = None

    @property
    def info(self) -> records.SessionInfo:
        """What lists show, as of the last turn, with the state as of now."""
        state: records.State = "closed" if self.closed else "running" if self.running else self._rests
        return replace(self._info, state=state)

    @property
    def scope(self) -> Scope:
        """What ends when the session rests for long, or is closed."""
        self._scope = self._scope or Scope(f"session {self._info.id}", parent=self.seat.scope)
        return self._scope

    @property
    def running(self) -> bool:
        """Whether a turn is active or about to start."""
        return self._driver is not None or bool(self.writes)

    @property
    def closed(self) -> bool:
        """Whether it is closed or closing."""
        return self._closing is not None

    # Arrival

    async def submit(self, message: records.Incoming) -> records.Receipt:
        """Make a message durable and see that it is answered; returns after the commit.

        Raises `BadInput`, `SessionClosed`, `QueueFull`, `Conflict` when the session owes its report to somebody who
        does not give way, `StorageUnavailable`; each leaves no trace. What is written for a caller that is cancelled
        meanwhile is answered too.
        """
        self._check_open()
        return await asyncio.shield(self.writes.track(self._receive(message)))

    async def _receive(self, message: records.Incoming) -> records.Receipt:
        receipt, fresh = await self._accept(message)
        if fresh:
            self._arrived(message, receipt)
        return receipt

    def prompt(self, message: records.Incoming) -> Prompt:
        """Register a run at once, write the message, and return a handle. Raises `SessionClosed`."""
        self._check_open()
        handle = Prompt(self._cancel_prompt)
        self._prompts.add(handle)
        self.writes.track(self._write_prompt(message, handle))
        return handle

    async def _write_prompt(self, message: records.Incoming, handle: Prompt) -> None:
        try:
            receipt, fresh = await self._accept(message)
        except Exception as error:
            handle.fail(error)
            return
        handle.accept(receipt)
        if handle.cancelled:
            await self._cancel_prompt(handle)
        elif fresh:
            self._arrived(message, receipt)
        else:
            await self._prompts.settle()  # it may have been answered before
            self.stir()

    async def _cancel_prompt(self, handle: Prompt) -> None:
        """Withdraw a message, or stop the turn that answers it, with those that gave way to that turn."""
        session, row, now = self._info.id, handle.row, self.seat.clock.now()
        if not row:
            return
        try:
            withdrawn = await self.seat.database.write(lambda tx: withdraw_message(tx, session, row, now=now))
        except HaloError as error:
            logger("sessions").warning("could not withdraw a message", session=session, error=error.message)
            withdrawn = False
        if withdrawn:
            self.seat.database.notify("outbox")
            await self._prompts.settle()
            await self.tell_tree()
        elif self._turn is not None and row <= max(self._turn.numbers):
            self._turn.token.request("cancelled")
        elif self._rests == "waiting" and not handle.result.done():  # its turn waits for a person
            await self._end_pause()
        self.stir()

    async def _accept(self, message: records.Incoming) -> tuple[records.Receipt, bool]:
        self._check_open()
        check(message)
        message = replace(message, text=self.seat.mask(message.text))
        seat, session = self.seat, self._info.id
        await seat.host.workspaces.mark_busy(seat.workspace.id)
        key = message.key or f"auto:{seat.clock.new_id()}"
        access = fold_access(self._info.access, message.principal.access, message.access or self._info.access)
        if receipt := await serve(self, message, key=key, access=access):
            return receipt, False
        self.find_agent()
        at, cap = seat.stamp(), seat.limits.max_queue_size
        return await seat.database.write(
            lambda tx: accept(tx, session, message, key=key, at=at, access=access, cap=cap)
        )

    def _arrived(self, message: records.Incoming, receipt: records.Receipt) -> None:
        self.seat.hooks.notify(hookspecs.message_received, session=self.info, receipt=receipt)
        self.stir(receipt.row if message.mode == "interrupt_hard" else 0)

    def _check_open(self) -> None:
        if self._closing is not None:
            raise SessionClosed(f"session {self._info.id} is closed", advice="open it again")
        self.seat.check_running()

    def find_agent(self) -> None:
        """Have an agent, if it was gone until now; without one no turn begins. Raises `NotFound`, `BadFile`."""
        if not self._has_agent:
            self.agent = self.seat.host.workspaces.agent(self.seat.workspace, self._info.agent)
            self._has_agent = True

    # Running

    def stir(self, hard: int = 0, halted: str = "") -> None:
        """Something may wait; inbox row `hard`, if it is new and not the active turn's own, aborts that turn.

        The turn `halted`, if it is still the active one, ends as cancelled: another process wants it so.
        """
        self._stirred.set()
        if self._turn is not None and self._turn.id == halted:
            self._turn.token.request("cancelled")
        if hard > self._hard:
            self._hard = hard
            if self._turn is not None and hard not in self._turn.numbers:
                self._turn.token.request("interrupted")
        self.wake()

    def wake(self) -> None:
        """Start the driver if it is not there; it looks for waiting rows itself."""
        if self._has_agent and self._driver is None and self._closing is None and not self.seat.stopping.is_set():
            self._driver = asyncio.get_running_loop().create_task(self._drive())
            self._driver.add_done_callback(self._driven)

    def _driven(self, task: asyncio.Task[None]) -> None:
        self._driver = None
        if not task.cancelled() and (error := task.exception()) is not None:
            logger("sessions").error("session stopped running", session=self._info.id, error=repr(error))
            self._desk = None
            self._retry_later()
        elif self._stirred.is_set():
            self.wake()
        elif self._closing is None:
            self.seat.rested(self)

    async def _drive(self) -> None:
        """Run turns until nothing waits that this process may run."""
        gate = self.seat.host.sessions.gate
        _driving.set(self._info.id)
        async with self._still:
            while not self.seat.stopping.is_set():
                self._stirred.clear()
                if not gate.enter(self):
                    break
                try:
                    if not await self._advance():
                        break
                finally:
                    gate.leave(self)
        await self._prompts.settle()
        if not self._told:
            await self.tell_tree()
        if self._prompts.wait:  # another process answers
            self._retry_later()

    async def _advance(self) -> bool:
        """Do what is due next; false when nothing is, or when it is not for this process to do."""
        desk = self._desk
        info, boot = self._info, self.seat.boot

        def due(tx: Tx) -> tuple[Duty, int]:
            return find_duty(tx, info, seated=desk is not None, boot=boot), journal_of(tx, info.id)[1]

        duty, head = await self.seat.database.read(due)
        if self._closing is not None or duty.is_nothing:
            return False
        if desk is not None and head != self._known:  # another process has added something, as a stop does
            self.doze()
            return True
        if duty.superseded:  # its turn is ended next
            await self.seat.write(partial(supersede, session=self._info.id, at=self.seat.clock.now()))
            return True
        if desk is None:
            return await self._sit_down() is not None
        return await self._take_turn(desk, duty) and (duty.more or self._stirred.is_set())

    async def tell_tree(self) -> None:
        """Wake those of the tree that have got a report."""
        await self.seat.wake_tree(self._info.root)
        self._told = True

    async def _take_turn(self, desk: Desk, duty: Duty) -> bool:
        """Run one turn and settle its handles; false when it was landed for a shutdown."""
        turn = self._turn = Turn(desk, duty.rows, resumed=duty.resumed)
        if duty.stop is not None:
            turn.token.request(duty.stop)
        if self._prompts.want_end(max(turn.numbers)):
            turn.token.request("cancelled")
        try:
            result = await turn.run()
            self._rests = "waiting" if turn.paused else "idle"
            await self._prompts.settle()
            for name in turn.extensions.taken - {self._info.id}:
                await self.seat.host.sessions.wake(self.seat, name)
            if turn.is_crowded:
                await self.tell_tree()
                await turn.make_room("turn_end")
        finally:
            self._turn = None
            self._told = self._told and self._info.parent is None
        if self._info.head >= self._keep_at:
            self._keep_at = self._info.head + EVERY
            self.seat.host.spawn(f"snapshot of {self._info.id}", self._keep_folds())
        if result is None and not turn.paused:
            self._stirred.set()  # a row was settled under its hands: look again
        return not (turn.token.requested and turn.token.reason == "landed")

    async def compact(self) -> bool:
        """Make the model's history shorter now, and tell whether it has become so; `interrupt` stops this.

        Messages that come meanwhile are answered after it. Raises `Conflict` while the session runs, `PromptTooLarge`,
        and what the plugin raised that does it; then, and when it is stopped, the history is as it was.
        """
        self._check_open()
        if self._turn is not None or self._rests == "waiting":
            raise Conflict(f"session {self._info.id} is {self.info.state}", advice="wait until it rests")
        return await asyncio.shield(self.writes.track(self._compact()))

    async def _compact(self) -> bool:
        async with self._still, self.seat.host.sessions.gate.passage(self):
            try:
                self._check_open()
                self.find_agent()
                desk = self._desk or await self._sit_down()
                if desk is None:
                    raise Conflict(f"session {self._info.id} is parked, or held elsewhere", advice="send it a message")
                self._turn = Turn(desk, ())
                return await self._turn.make_room("manual")
            finally:
                self._turn = None
                self.stir()

    async def _sit_down(self) -> Desk | None:
        """Take the tree's lease, mend what a crash cut, and load the history. None: held elsewhere, or parked."""
        seat, info = self.seat, self._info
        try:
            lease = await seat.database.lease(f"tree:{info.root}")
        except LeaseHeld:
            self._retry_later()
            return None
        self.lease = lease
        cut = await recover_tree(seat.database, lease, info.root, session=info.id, clock=seat.clock, boot=seat.boot)
        seat.feed.publish(cut)
        seat.feed.forget_partial(info.id)
        self._told = self._told and not cut
        await self._refresh()
        if self._info.parked:
            seat.database.notify("outbox")
            self.doze()
            return None
        (history, self._keep_at), self._known = await seat.database.read(
            lambda tx: (folded(tx, info.id, History), journal_of(tx, info.id)[1])
        )
        await seat.hooks.tell(hookspecs.session_opened, session=self)
        self._desk = Desk(
            place=seat,
            session=self,
            lease=lease,
            history=history,
            shown=Shown(history),
            tools=await seat.tools(self),
            stirred=self._stirred,
        )
        return self._desk

    async def _keep_folds(self) -> None:
        self._keep_at = await keep_folds(self.seat.database, self._info.id)

    def told(self, event: records.Event) -> None:
        """Be as lists show it after an event, and remember it, whoever wrote it; what is missing is read later."""
        self._info = rows.after(self._info, event)
        if self._desk is not None and event.seq > self._known:
            self._desk.history.apply(event)
            self._known += event.seq == self._known + 1

    def _retry_later(self) -> None:
        """Look again in a second: nothing tells us when another process dies or a disk has room."""
        if not self._retrying and self._closing is None:
            self._retrying = True
            asyncio.get_running_loop().call_later(_HELD_SECONDS, self._retry)

    def _retry(self) -> None:
        self._retrying = False
        self.wake()

    async def _refresh(self) -> None:
        load = partial(rows.load, session=self._info.id, workspace=self.seat.workspace)
        self._info = await self.seat.database.read(load)

    async def alter(self, change: Callable[[Tx], tuple[tuple[records.Event, ...], T]]) -> tuple[records.Event, T]:
        """Change what there is of the journal while nothing is added; return the last event of it, and what else.

        Raises `Conflict` while it runs, `LeaseHeld` when another process works on the tree.
        """
        return await asyncio.shield(self.writes.track(self._alter(change)))

    async def _alter(self, change: Callable[[Tx], tuple[tuple[records.Event, ...], T]]) -> tuple[records.Event, T]:
        if self._still.locked():
            raise Conflict(f"session {self._info.id} is running", advice="wait until it rests")
        async with self._still, self.seat.host.sessions.gate.passage(self):
            lease = self.lease = await self.seat.database.lease(f"tree:{self._info.root}")

            def write(tx: Tx) -> tuple[tuple[records.Event, ...], T]:
                lease.check(tx)
                return change(tx)

            try:
                events, more = await self.seat.database.write(write)
                self.seat.tell(events)
            finally:
                if self._desk is None:
                    self.doze()
        return events[-1], more

    # Stopping

    def doze(self) -> None:
        """Give the history and the tree's lease back; the next message takes them again.

        The lease is released before anything that is written later, so a message that comes now takes a new one.
        """
        self._desk = None
        self.writes.track(self._give_back())

    async def _give_back(self) -> None:
        lease, self.lease = self.lease, None
        scope, self._scope = self._scope, None
        try:
            if lease is not None and not any(other.lease == lease for other in self.seat.sessions.values()):
                await lease.release()
        except HaloError as error:  # then it is free when this process has ended
            logger("sessions").warning("lease not given back", session=self._info.id, error=error.message)
        if scope is not None:
            await scope.close()

    def interrupt(self) -> bool:
        """Cancel the active run, a paused one too; waiting messages stay. Returns whether there was one."""
        if self._turn is not None:
            self._turn.token.request("cancelled")
            return True
        if self._rests == "waiting" and self._closing is None:
            self.writes.track(self._end_pause())
            return True
        return False

    async def _end_pause(self) -> None:
        await self.seat.write(partial(rows.end_pause, session=self._info.id, at=self.seat.clock.now()))
        self.stir()

    async def stop(self) -> None:
        """Cancel this session and all below it; what waits goes into the history unanswered."""
        await self.seat.halt(self, "stopped")

    async def archive(self) -> None:
        """Stop this session and all below it, drop what waits, and refuse new messages from then on."""
        await self.seat.halt(self, "archived")

    async def halted(self, how: rows.Halt) -> None:
        """End the active run and return when it has ended, after 5 s at the latest; what is deleted is closed."""
        if how == "deleted":
            await self.close("abort")
            return
        self.interrupt()
        self.stir()
        # a tool that halts its session is part of the run
        if self._driver is not None and _driving.get() != self._info.id:
            await asyncio.wait({self._driver}, timeout=_CLOSE_SECONDS)
        await self._refresh()

    def close(self, mode: Literal["abort", "land"] = "land") -> asyncio.Future[None]:
        """Close once, whoever waits for it is cancelled. `land` leaves an unfinished turn for the next boot."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close(mode))
        return asyncio.shield(self._closing)

    async def _close(self, mode: Literal["abort", "land"]) -> None:
        if self._turn is not None:
            self._turn.token.request("cancelled" if mode == "abort" else "landed")
        pending: set[asyncio.Task[Any]] = set(self.writes)
        if self._driver is not None:
            pending.add(self._driver)
        if pending:
            _, late = await asyncio.wait(pending, timeout=_CLOSE_SECONDS)
            if late:
                logger("sessions").warning("closed over a run that does not end", session=self._info.id)
        self._prompts.fail(Stopping("the session was closed before this message was answered"))
        try:
            await self._give_back()
        finally:
            self.seat.left(self)

    # Reading and plugins' events

    def events(self, after: str | None = None, *, live: bool = False) -> AsyncGenerator[Update, None]:
        """Yield what came after the cursor `after`; with `live` go on with events and deltas as they happen.

        Raises `CursorGone` for a cursor of another journal.
        """
        return self.seat.feed.follow(self._info.id, after, live=live)

    async def output(self) -> str:
        """Return the last finished answer's text."""
        return await self.seat.database.read(partial(last_answer, session=self._info.id))

    async def append(
        self, kind: str, body: Mapping[str, object], *, expect_head: int | None = None, state: object = ...
    ) -> records.Event:
        """Write an event of the plugin's own kind, `<plugin>.<noun>`, with its new `state` if one is given.

        Raises `Conflict` when the journal's head is not `expect_head`, `BadInput` for a kind of the kernel's.
        """
        session, now, event = self._info.id, self.seat.clock.now(), records.Foreign(kind=kind, data=dict(body))
        value = None if state is ... else msgspec.json.encode(state).decode()
        (made,) = await self.seat.write(lambda tx: rows.add(tx, session, event, expect_head, value, at=now))
        return made

    async def state(self, plugin: str) -> object:
        """Return the JSON value that `append` last stored for a plugin, or None."""
        return await self.seat.database.read(partial(rows.state_of, session=self._info.id, plugin=plugin))

    async def write(self, bodies: Sequence[records.Body]) -> tuple[records.Event, ...]:
        """Add events of the kernel's own that belong to no turn."""
        return await self.seat.write(partial(append, session=self._info.id, bodies=bodies, at=self.seat.clock.now()))

    async def mark(self, name: str) -> None:
        """Mark the session for good, such as with a source that it has read from; `info.marks` has it."""
        await self.seat.database.write(partial(rows.mark, session=self._info.id, name=name))
        await self._refresh()

    async def commands(self) -> Sequence[records.CommandSpec]:
        """Return what people can ask for here by `/name`, by that name."""
        found = await self.seat.hooks.gather(hookspecs.list_commands, session=self)
        return sorted((spec for _, spec in found), key=lambda spec: spec.name)

    async def complete(self, request: records.ModelRequest, *, purpose: str) -> str:
        """Ask a model beside the turn: guarded, retried, and accounted for in the journal; return its text.

        `request.model` is `<provider>/<id>`, '' for the session's own. Raises `ModelError`.
        """
        answer = await complete(self.seat, self, request, purpose=purpose)
        await self.write([usage_of(answer, purpose=purpose)])
        return answer.text

    # Below

    async def children(self, *, working: bool = False) -> Sequence[records.SessionInfo]:
        """Return the sessions that were started from this one, oldest first; with `working` those not at rest.

        That is, which have something to do yet, themselves or below.
        """
        return await self.seat.database.read(lambda tx: rows.children(tx, self._info, working=working))

    async def waiting(self) -> Sequence[records.PreparedInput]:
        """Return the messages that no turn has taken up yet, oldest first."""
        return await self.seat.database.read(lambda tx: [prepared(row) for row in waiting(tx, self._info.id)])

    async def start_child(
        self, agent: str, *, access: records.Access | None = None, title: str = "", directory: str | None = None
    ) -> Session:
        """Make a session of the same tree, owned by the same principal, at this one's level or a lower one.

        It is about `directory`, a part of the workspace, or about what this one is. Raises `BadInput`, `NotFound`.
        """
        info, seat = self._info, self.seat
        place = info.directory if directory is None else rows.check_directory(seat.workspace, directory)
        owner = records.Principal(name=info.principal, kind=info.principal_kind, access=info.access)
        below = {"root": info.root, "parent": info.id, "title": title, "directory": place}
        return await seat.host.sessions.make(seat, owner, agent, access, origin="sub", **below)
