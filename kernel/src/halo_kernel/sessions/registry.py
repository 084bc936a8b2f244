"""The sessions of this home: opened once, shared by all who ask, filtered by principal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Literal, TypeVar

from msgspec.structs import replace

from .. import hookspecs, tables
from ..access import fold_access
from ..blobs import referenced
from ..contracts import Tx
from ..errors import NotFound, Stopping
from ..folds import History, View
from ..inbox import waiting
from ..journal import append, delete_exchange, erase, folded, journal_of, make_cursor, read
from ..log import logger
from ..records import Access, Event, Message, Principal, QuestionSettled, SessionForked, SessionInfo, TurnEnded
from ..records.storable import check_storable
from ..recovery import is_cut, loose_ends
from ..repair import repair_history
from . import rows
from .gate import Gate
from .seat import Seat
from .session import Session

T = TypeVar("T")
_CLOSE_SECONDS = 8.0
_ENDED = TurnEnded(outcome="interrupted", error="the session was forked in the middle of this turn", kind="fork")
_COPIED = {"events": "seq, at, kind, turn, body", "plugin_state": "plugin, value"}


class Sessions:
    """The sessions of this home, filtered by principal. `seat_of` opens a workspace by id."""

    def __init__(self, seat_of: Callable[[str], Awaitable[Seat]]) -> None:
        self._seat_of = seat_of
        self.gate = Gate()
        self._broken: set[str] = set()
        self._opening: dict[tuple[str, str], asyncio.Task[Session]] = {}

    async def open(
        self,
        session: str,
        *,
        workspace: str,
        principal: Principal,
        agent: str | None = None,
        create: bool = False,
        origin: str = "",
        directory: str | None = None,
    ) -> Session:
        """Return the session, opening it. With `create`, one that does not exist is made with exactly this id.

        An id has 1 to 120 letters, digits, `_-.:`. The owner is the principal's name and kind; for others there is no
        such session (`NotFound`). A new one's `origin` is what its id begins with, before the first `_`, unless given.
        `directory` re-points it to a part of the workspace ('' or '.': all of it). Raises `Conflict` while it runs.
        """
        seat = await self._seat_of(workspace)
        rows.check_id(session)
        place = None if directory is None else rows.check_directory(seat.workspace, directory)
        try:
            await self._find(seat, session, principal)
        except NotFound:
            if not create:
                raise
            source = origin or (session.partition("_")[0] if "_" in session else "")
            await self._make(seat, session, principal, agent, origin=source, directory=place or "")
            await self._find(seat, session, principal)  # the id may be a foreign session's
        live = await self._live(seat, session)
        if place is not None and place != live.info.directory:
            await seat.write(partial(rows.move, session=session, directory=place, at=seat.clock.now()))
        return live

    async def _find(self, seat: Seat, session: str, principal: Principal) -> None:
        """Raise `NotFound` unless the session is the principal's; one in memory is known without asking."""
        live = seat.sessions.get(session)
        if live is None or not rows.is_owner(principal, live.info):
            await seat.database.read(lambda tx: rows.load(tx, session, workspace=seat.workspace, principal=principal))

    async def create(
        self,
        *,
        workspace: str,
        principal: Principal,
        agent: str | None = None,
        access: Access | None = None,
        origin: str = "sid",
        title: str = "",
        directory: str = "",
    ) -> Session:
        """Make a session.

        Raises `NotFound` for an unknown agent or workspace, `BadInput` for a directory that is not in the workspace.
        """
        seat = await self._seat_of(workspace)
        place = rows.check_directory(seat.workspace, directory)
        return await self.make(seat, principal, agent, access, origin=origin, title=title, directory=place)

    async def make(
        self, seat: Seat, owner: Principal, agent: str | None, access: Access | None, *, origin: str, **more: str
    ) -> Session:
        """Make a session with an id of its origin, at its owner's level or a lower one; see `_make`."""
        session, level = rows.check_id(_new_id(seat, origin)), fold_access(owner.access, access or owner.access)
        await self._make(seat, session, replace(owner, access=level), agent, origin=origin, **more)
        return await self._live(seat, session)

    async def list(
        self, *, workspace: str, principal: Principal, before: int | None = None, limit: int = 50
    ) -> Sequence[SessionInfo]:
        """Return root sessions, newest first; `before` is the last row's `updated_at`."""
        seat = await self._seat_of(workspace)
        count = max(1, min(limit, 500))
        newest = partial(rows.newest, workspace=seat.workspace, principal=principal, before=before, limit=count)
        return await seat.database.read(newest)

    async def view(self, session: str, *, workspace: str, principal: Principal) -> tuple[View, str]:
        """Return what people see of a session, and the cursor behind the last event of it. Raises `NotFound`."""

        def look(tx: Tx, _: SessionInfo) -> tuple[View, str]:
            return folded(tx, session, View)[0], make_cursor(*journal_of(tx, session))

        return await self._look(session, workspace, principal, look)

    async def events(
        self, session: str, *, workspace: str, principal: Principal, after: int = 0, limit: int = 500
    ) -> Sequence[Event]:
        """Return events of a session behind number `after`, oldest first, without opening it. Raises `NotFound`."""
        return await self._look(
            session, workspace, principal, lambda tx, _: read(tx, session, after=after, limit=limit)
        )

    async def changed(self, *, workspace: str, since: int, after: str = "", limit: int = 500) -> Sequence[SessionInfo]:
        """Return the sessions, of all principals, that changed since a time in UTC milliseconds, by id.

        Those below others, archived and deleted ones are among them; the next page comes after the last id. A change
        is in the list some time after its own, as writes wait. A plugin that shows any of this to somebody answers for
        the filter by principal.
        """
        seat = await self._seat_of(workspace)
        return await seat.database.read(lambda tx: rows.changed(tx, seat.workspace, since, after, limit))

    async def export(
        self, session: str, *, workspace: str, principal: Principal
    ) -> tuple[SessionInfo, View, tuple[Message, ...]]:
        """Return a session, what people see of it, and its history as any provider takes it; nothing is opened for it.

        Raises `NotFound`.
        """

        def look(tx: Tx, info: SessionInfo) -> tuple[SessionInfo, View, tuple[Message, ...]]:
            return info, folded(tx, session, View)[0], repair_history(folded(tx, session, History)[0].pieces)

        return await self._look(session, workspace, principal, look)

    async def _look(self, session: str, workspace: str, principal: Principal, fn: Callable[[Tx, SessionInfo], T]) -> T:
        """Return what `fn` finds about a session of the principal. Raises `NotFound`."""
        seat = await self._seat_of(workspace)
        load = partial(rows.load, session=session, workspace=seat.workspace, principal=principal)
        return await seat.database.read(lambda tx: fn(tx, load(tx)))

    async def erase(self, session: str, *, workspace: str, principal: Principal, start: int, end: int) -> Event:
        """Take out for good what events `start` to `end` say, whole turns of them; return the event that tells of it.

        Nothing of it is in the database's files then, nor are blobs that only they named. Raises `Conflict` while the
        session runs or sends, or another process works on it, `BadInput` for what is no range of whole turns.
        """
        live = await self.open(session, workspace=workspace, principal=principal)
        seat, now, by = live.seat, live.seat.clock.now(), principal.name
        event, blobs = await live.alter(lambda tx: erase(tx, session, start, end, by=by, at=now))
        await seat.database.scrub()
        if blobs:
            named = await seat.database.read(referenced)
            await seat.host.blobs.collect(workspace, named, seat.clock.now(), erased=blobs)
        await seat.hooks.tell(hookspecs.session_erased, session=live.info)
        return event

    async def delete_exchange(self, session: str, *, workspace: str, principal: Principal, row: int) -> Event:
        """Show a person's message (inbox row `row`) and what was answered to it no more, to people and models.

        Where several were answered together the answer goes with the last one. Nothing is taken out of the journal.
        Raises `NotFound` for what is no exchange, `Conflict` while the session runs.
        """
        live = await self.open(session, workspace=workspace, principal=principal)
        seat, now, by = live.seat, live.seat.clock.now(), principal.name
        event, _ = await live.alter(lambda tx: (delete_exchange(tx, session, row, by=by, at=now), None))
        await seat.hooks.tell(hookspecs.session_erased, session=live.info)
        return event

    async def rename(self, session: str, *, workspace: str, principal: Principal, title: str) -> Event:
        """Give a session a title, which no message replaces. Raises `BadInput`, `NotFound`."""
        seat = await self._seat_of(workspace)
        await self._find(seat, session, principal)
        rename = partial(rows.rename, session=session, title=title, at=seat.clock.now())
        return (await seat.write(rename))[-1]

    async def fork(self, session: str, *, workspace: str, principal: Principal, title: str | None = None) -> Session:
        """Make a root session with the history of another one; from then on neither knows of the other.

        What waits, is asked or owed stays with the original; of its open turn the copy has an interrupted one.
        """
        seat = await self._seat_of(workspace)
        now, journal = seat.clock.now(), seat.clock.new_id()

        def copy(tx: Tx) -> str:
            source = rows.load(tx, session, workspace=seat.workspace, principal=principal)
            change = {"title": source.title if title is None else title, "created_at": now, "updated_at": now}
            access = fold_access(principal.access, source.access)
            _fork(tx, source, replace(source, id=name, root=name, parent=None, access=access, **change), journal)
            return name

        name = _new_id(seat, session.partition("_")[0] if "_" in session else "sid")
        return await self._live(seat, await seat.database.write(copy))

    async def delete(self, session: str, *, workspace: str, principal: Principal) -> None:
        """Delete a session and all below it: it ends at once, its id is never used again, and nobody finds it.

        What it still owes is sent, as `deleted`; a day later its rows are taken out of the database.
        """
        live = await self.open(session, workspace=workspace, principal=principal)
        await live.seat.halt(live, "deleted")
        await live.seat.hooks.tell(hookspecs.session_erased, session=replace(live.info, deleted=True))

    async def recover(self, workspace: str) -> None:
        """Let every session of a workspace go on that a crash cut or where messages wait."""
        seat = await self._seat_of(workspace)
        for session in await seat.database.read(_owed):
            await self.wake(seat, session)

    async def wake(self, seat: Seat, session: str) -> None:
        """Let a session look for what it has to do; one that cannot be opened now keeps no other waiting."""
        try:
            live = await self._live(seat, session)
            live.find_agent()
            live.stir()
            self._broken.discard(session)
        except Stopping:
            pass
        except Exception as error:  # whatever the plugin that finds agents raises
            if session not in self._broken:
                logger("sessions").error("could not recover a session", session=session, error=str(error))
            self._broken.add(session)

    async def close(self, seats: Sequence[Seat], mode: Literal["abort", "land"]) -> None:
        """Close every open session, at most 8 s."""
        if self._opening:
            await asyncio.wait(self._opening.values(), timeout=_CLOSE_SECONDS)
        closing = [session.close(mode) for seat in seats for session in list(seat.sessions.values())]
        if closing:
            await asyncio.wait(closing, timeout=_CLOSE_SECONDS)

    async def _make(self, seat: Seat, session: str, owner: Principal, agent: str | None, **more: str) -> None:
        """Make a session at its owner's level, with `more` of `SessionInfo`; an id that is taken stays whose it is."""
        seat.check_running()
        check_storable(**more)
        now = seat.clock.now()
        info = SessionInfo(
            id=session,
            root=session,
            workspace=seat.workspace.id,
            folder=seat.workspace.path,
            agent=seat.host.workspaces.agent(seat.workspace, agent).id,
            access=owner.access,
            principal=owner.name,
            principal_kind=owner.kind,
            created_at=now,
            updated_at=now,
        )
        info = replace(info, **more)
        await seat.database.write(partial(rows.insert, info=info, journal=seat.clock.new_id(), limits=seat.limits))

    async def _live(self, seat: Seat, session: str) -> Session:
        """Return the one open instance; all who ask while it opens share one opening."""
        while (live := seat.sessions.get(session)) is not None and live.closed:
            await live.close()
        if live is not None:
            return live
        seat.check_running()
        key = (seat.workspace.id, session)
        if (task := self._opening.get(key)) is None:
            task = self._opening[key] = asyncio.get_running_loop().create_task(self._open(seat, session))
            task.add_done_callback(lambda _: self._opening.pop(key, None))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(task)

    async def _open(self, seat: Seat, session: str) -> Session:
        def look(tx: Tx) -> tuple[SessionInfo, bool]:
            info = rows.load(tx, session, workspace=seat.workspace)
            cut = is_cut(tx, info.root, session=session, boot=seat.boot)
            return info, cut or bool(waiting(tx, session))

        info, owed = await seat.database.read(look)
        live = Session(seat, info)
        with suppress(NotFound):  # it can be looked at, left and deleted all the same
            live.find_agent()
        seat.sessions[session] = live
        if owed:
            live.stir()
        return live


def _owed(tx: Tx) -> Sequence[str]:
    found = tx.execute(
        "SELECT id FROM sessions WHERE parked = 0 AND deleted_at IS NULL AND id IN (SELECT root FROM runs UNION SELECT"
        " session FROM runs WHERE waiting > 0 UNION SELECT session FROM inbox WHERE state = 'waiting') ORDER BY id"
    )
    return [str(session) for (session,) in found]


def _new_id(seat: Seat, origin: str) -> str:
    """Return an id that begins with the origin and, in base 36, the time."""
    number, digits = seat.stamp(), ""
    while number:
        number, rest = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[rest] + digits
    return f"{origin}_{digits}_{seat.clock.new_id(64)[:6]}"


def _fork(tx: Tx, source: SessionInfo, copy: SessionInfo, journal: str) -> tuple[Event, ...]:
    """Make `copy` a root with the history of `source` as it is now, whose open turn it ends; return what it adds."""
    values = {name: getattr(copy, name) for name in (*rows.NEW, "model", "head")}
    tables.insert(tx, "sessions", {**values, "marks": " ".join(copy.marks), "journal": journal})
    for table, columns in _COPIED.items():
        which = f"SELECT ?, {columns} FROM {table} WHERE session = ?"
        tx.execute(f"INSERT INTO {table}(session, {columns}) {which}", (copy.id, source.id))
    origin = SessionForked(source=source.id, head=source.head)
    return (*_end_turn(tx, source.id, copy), *append(tx, copy.id, [origin], at=copy.created_at))


def _end_turn(tx: Tx, source: str, copy: SessionInfo) -> tuple[Event, ...]:
    run = tx.one("SELECT turn FROM runs WHERE session = ?", (source,))
    if run is None:
        return ()
    turn = str(run[0])
    asked = tx.execute("SELECT id, call FROM questions WHERE session = ? AND state = 'pending'", (source,))
    settled = [QuestionSettled(question=number, call=call, state="denied", by="fork") for number, call in asked]
    left = loose_ends(tx, copy.id, turn, None, reason="fork")
    return append(tx, copy.id, [*settled, *left, _ENDED], at=copy.created_at, turn=turn)
