"""A workspace under a machine that does anything in any order: its server, and everybody outside."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from halo_kernel import (
    OPERATOR,
    Call,
    Conflict,
    Database,
    HaloError,
    Incoming,
    Kernel,
    ModelRequest,
    NotFound,
    Place,
    Pointer,
    Question,
    Receipt,
    Session,
    StorageUnavailable,
    ToolSpec,
    Tx,
)
from halo_kernel.journal.snapshots import keep_folds
from halo_kernel.testing import (
    Answer,
    Calls,
    Fail,
    FaultyStorage,
    Lost,
    NoteTool,
    Pieces,
    Postbox,
    Refused,
    ScriptedModel,
    Step,
    VirtualClock,
    running_kernel,
)

Halt = Literal["stop", "interrupt", "archive", "delete"]
GUARANTEES = ("keyed", "queryable", "local", "none")
_SESSIONS = 5  # at most so many at a time, so that most of what is done meets what was done
_BELLS = ("inbox", "outbox", "questions")
_LEFT = (
    "SELECT 'run', * FROM runs WHERE session NOT IN (SELECT id FROM sessions WHERE deleted_at IS NOT NULL)",
    "SELECT 'row', * FROM inbox WHERE state = 'waiting'",
    "SELECT 'part', * FROM parts WHERE state IN ('pending', 'sending')",
    "SELECT 'question', * FROM questions WHERE state = 'pending'",
    "SELECT 'owed', * FROM inbox WHERE owed = 1 AND state <> 'held'",
    "SELECT 'pointer', id, reply_to FROM sessions WHERE reply_to <> ''",
)
_MOMENTS = 400  # until everything has to be at rest


class Ask:
    """A tool that asks before it does anything."""

    spec = ToolSpec(name="ask", description="Ask.", parameters={"type": "object"}, effect="write")

    async def run(self, call: Call) -> str:
        """Ask, then tell what was answered."""
        if call.answer is None:
            call.ask(Question(text="May I?", expires_in=3600))
        return f"told {call.answer.text}"


class Said(NamedTuple):
    """What somebody says to a session; `held` with a handle, `points` with a claim to a report."""

    key: str | None = None
    mode: str = "follow_up"
    route: str = ""
    points: bool = False
    held: bool = False

    def message(self, session: str) -> Incoming:
        """As it is sent to a session."""
        pointer = Pointer(dispatcher="keyed", target="keyed:a:report", claim="report") if self.points else None
        key = self.key and f"{session}:{self.key}"
        return Incoming(text="hello", key=key, mode=self.mode, route=self.route, reply_to=pointer)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Sent:
    """A message that was acknowledged."""

    receipt: Receipt
    session: str
    said: Said


@dataclass
class World:
    """What the rules act on; `calm` makes the outside do as it should, so that all can come to rest."""

    folder: Path
    rnd: random.Random
    kernel: Kernel = field(init=False)
    workspace: str = ""
    calm: bool = False
    fuse: int | None = None  # so many commits until the process dies
    dead: bool = False
    above: dict[str, str | None] = field(default_factory=dict[str, "str | None"])  # each session's parent
    archived: set[str] = field(default_factory=set[str])
    deleted: set[str] = field(default_factory=set[str])
    again: set[str] = field(default_factory=set[str])  # parts sent once more by somebody who cannot know of the first
    sent: list[Sent] = field(default_factory=list[Sent])
    keys: dict[str, Receipt] = field(default_factory=dict[str, Receipt])

    def __post_init__(self) -> None:
        self.clock = VirtualClock()
        self.model = ScriptedModel(responder=self._respond)
        self.posts = [Postbox(kind=each, guarantee=each, limit=4, fates=self._fates()) for each in GUARANTEES]
        self._stack = AsyncExitStack()
        self._handles: list[Any] = []

    # The outside

    def _respond(self, request: ModelRequest) -> Step:
        steps: list[Step] = [
            Answer("done"),
            Pieces(["one ", "two ", "three"], 0.001),
            Calls([("note", {"text": "x"}), ("ask", {}), ("note", {"text": "y"})]),
            Calls([("note", {"text": "x"}), ("missing", {})], text="look"),
            Fail("network"),
            Fail("account", text="half"),
        ]
        return self.rnd.choices(steps, [6, 3, 0, 0, 0, 0] if self.calm else [4, 4, 3, 2, 1, 1])[0]

    def _fates(self) -> Iterator[Refused | Lost | None]:
        fates = [None, Refused(), Refused(permanent=True), Refused(retry_after=30), Lost(True), Lost(False)]
        while True:
            yield None if self.calm else self.rnd.choices(fates, [6, 1, 1, 1, 2, 2])[0]

    def _before(self, place: Place, number: int) -> Callable[[Tx], object] | None:
        if self.fuse is not None:
            self.fuse -= 1
            self.dead = self.dead or self.fuse < 0
        if self.dead:
            raise StorageUnavailable("the process is dead")
        return None

    # The server

    async def start(self) -> None:
        """Bring up a server on this home, after what the last one left."""
        self.dead, self.fuse = False, None
        self.clock.advance(1)
        tools = [NoteTool(wait=lambda call: asyncio.sleep(self.rnd.random() * 0.003)), Ask()]
        extra = {"storage": FaultyStorage(self._before), **{each.kind: each for each in self.posts}}
        running = running_kernel(self.folder / "home", model=self.model, tools=tools, extra=extra, clock=self.clock)
        self.kernel = await self._stack.enter_async_context(running)
        (self.folder / "work").mkdir(exist_ok=True)
        self.workspace = (await self.kernel.host.workspaces.open(self.folder / "work")).id

    async def end(self, *, crash: bool = False) -> None:
        """End the server: as its stop does, or so that nothing more of it is ever written."""
        self.dead = self.dead or crash
        self._handles.clear()
        stack, self._stack = self._stack, AsyncExitStack()
        await stack.aclose()

    async def crash(self, doing: Coroutine[Any, Any, object], *, commits: int) -> None:
        """Do something in a process that dies after so many commits, or soon; what was done shows afterwards."""
        self.fuse = commits
        work = asyncio.ensure_future(doing)
        for _ in range(20):
            if not self.dead:
                await asyncio.sleep(0.001)
        await self.end(crash=True)
        await asyncio.gather(work, return_exceptions=True)
        await self.start()
        rows = await self.rows("SELECT id, parent, archived_at, deleted_at FROM sessions")
        self.above = {name: parent for name, parent, *_ in rows}
        self.archived = {name for name, _, at, _ in rows if at is not None}
        self.deleted = {name for name, *_, at in rows if at is not None}

    @property
    def database(self) -> Database:
        """The workspace's."""
        return self.kernel.workspaces.seats[self.workspace].database

    async def rows(self, sql: str, *args: Any) -> list[Any]:
        """Return what the workspace's database says."""
        return await self.database.read(lambda tx: list(tx.execute(sql, args)))

    async def open(self, name: str) -> Session:
        """Open a session as the operator."""
        return await self.kernel.host.sessions.open(name, workspace=self.workspace, principal=OPERATOR)

    @property
    def alive(self) -> list[str]:
        """The sessions that are not deleted, oldest first."""
        return [name for name in self.above if name not in self.deleted]

    def _tree(self, name: str) -> set[str]:
        found = {name}
        for child, parent in self.above.items():
            found |= {child} if parent in found else set()
        return found

    # What people do

    async def begin(self, name: str | None = None, *, how: str = "create") -> None:
        """Make a session, or a child or a copy of one that is there, unless there are enough."""
        if len(self.alive) >= _SESSIONS:
            return
        sessions, of = self.kernel.host.sessions, {"workspace": self.workspace, "principal": OPERATOR}
        if name is None:
            made = await sessions.create(**of)
        elif how == "fork":
            made = await sessions.fork(name, **of)
        elif name in self.archived:
            return
        else:
            made = await (await self.open(name)).start_child("default")
        self.above[made.info.id] = made.info.parent

    async def say(self, name: str, said: Said) -> None:
        """Send a message; what is refused is refused for a reason."""
        message = said.message(name)
        try:
            receipt = await self._submit(await self.open(name), message, held=said.held)
        except HaloError as error:
            refused = name in self.archived | self.deleted or (said.points and self.above[name] is not None)
            assert refused or self.dead, error
            return
        first = self.keys.setdefault(message.key or f"{receipt.row}", receipt)
        assert first.row == receipt.row, "a repeat is answered by the first receipt"
        if first is receipt:
            self.sent.append(Sent(receipt, name, said))

    async def _submit(self, session: Session, message: Incoming, *, held: bool) -> Receipt:
        if not held:
            return await session.submit(message)
        self._handles.append(handle := session.prompt(message))
        return await handle.accepted

    async def cancel(self, number: int) -> None:
        """Withdraw what somebody holds a handle of."""
        if self._handles:
            self._handles[number % len(self._handles)].cancel()

    async def halt(self, name: str, how: Halt) -> None:
        """Interrupt, stop, archive or delete a session."""
        if how == "delete":
            self.deleted |= self._tree(name)
            await self.kernel.host.sessions.delete(name, workspace=self.workspace, principal=OPERATOR)
            return
        session = await self.open(name)
        if how == "interrupt":
            session.interrupt()
        elif how == "archive":
            self.archived |= self._tree(name)
            await session.archive()
        else:
            await session.stop()

    async def compact(self, name: str) -> None:
        """Have a session's past shortened, if it may be."""
        try:
            await (await self.open(name)).compact()
        except Conflict:
            return

    async def answer(self, approved: bool) -> None:
        """Answer every question, and once more, which is too late."""
        questions, how = self.kernel.host.questions, {"principal": OPERATOR, "approved": approved}
        for each in await questions.list(workspace=self.workspace, principal=OPERATOR):
            try:
                await questions.answer(each.id, workspace=self.workspace, **how)
                await questions.answer(each.id, workspace=self.workspace, **how)
            except (Conflict, NotFound):
                continue
            raise AssertionError("a question is answered once")

    async def keep_folds(self, name: str) -> None:
        """Keep what a journal comes to so far."""
        await keep_folds(self.database, name)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.advance(seconds)
        for bell in _BELLS:
            self.database.notify(bell)

    async def retry(self) -> None:
        """Have a delivery sent again whose parts failed or may have arrived."""
        for each in await self.kernel.host.outbox.list(workspace=self.workspace):
            try:
                await self.kernel.host.outbox.retry(each.id, workspace=self.workspace)
            except Conflict:
                continue
            doubtful = [part.number for part in each.parts if part.state != "sent"]  # what waited may be lost meanwhile
            self.again |= {f"outbox:{self.workspace}:{each.key}#{number}" for number in doubtful}
            return

    async def rest(self) -> None:
        """Wait until nothing is left to do, with everybody outside doing as they should."""
        self.calm = True
        for moment in range(_MOMENTS):
            await asyncio.sleep(0.01)
            if not await self._left():
                self.calm = False
                return
            await self.answer(True)
            self.advance(301)
            if moment % 50 == 49:
                await self._unpark()
        raise AssertionError(f"it does not come to rest: {await self._left()}")

    async def _left(self) -> list[object]:
        return await self.database.read(lambda tx: [row for sql in _LEFT for row in tx.execute(sql)])

    async def _unpark(self) -> None:
        for (name,) in await self.rows("SELECT id FROM sessions WHERE parked = 1 AND deleted_at IS NULL"):
            await self.say(name, Said())
