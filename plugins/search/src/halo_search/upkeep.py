"""Keeping an index up to date: in the background, one sweep at a time, in small steps that hold up nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from halo_kernel import Event, HaloError, Host, NotFound, Principal, SessionInfo, WorkspaceInfo

from .entries import portions
from .index import Index, Position

_SETTLED = 60_000  # milliseconds: a change is committed this long after its own time at most
_PAGE = 500
_EVENTS = 64
_REST = 1.0  # seconds from a hint to the sweep that follows it


class Upkeep:
    """What keeps one workspace's index up to date.

    `share` is how much of the changes the last sweep has indexed, 0 to 1, `busy` whether it still runs.
    """

    def __init__(self, host: Host, workspace: WorkspaceInfo) -> None:
        self.host = host
        self.share = 0.0
        self._workspace = workspace
        self._index: Index | None = None
        self._asked: asyncio.Future[bool] | None = None
        self.busy = self._hinted = self._looked = False
        self._broken: set[str] = set()

    async def index(self) -> Index:
        """Return the index, open. Raises `StorageUnavailable`, `NewerData`."""
        if self._index is None:
            self._index = await Index.open(self.host, self._workspace.id)
        return self._index

    def hint(self) -> None:
        """Something may have changed: look soon, once for many hints."""
        if not self._hinted:
            self._hinted = True
            self.host.spawn(f"a look at {self._workspace.path}", self._look_soon())

    async def _look_soon(self) -> None:
        await self.host.clock.sleep(_REST)
        self._hinted = False
        self.caught_up()

    def caught_up(self) -> asyncio.Future[bool]:
        """Sweep once more; the result, when that is over, tells whether all that was committed by now is indexed."""
        if self._asked is None:
            self._asked = asyncio.get_running_loop().create_future()
            if not self.busy:
                self.busy = True
                self.host.spawn(f"index of {self._workspace.path}", self._work())
        return self._asked

    async def rebuild(self) -> None:
        """Forget all and begin anew, in the background."""
        await (await self.index()).empty()
        self.share = 0.0
        self.caught_up()

    async def catch_up_with(self, info: SessionInfo) -> None:
        """Bring one session up to date now, and see that what was erased is not in the index's files either."""
        index, done = await self.index(), False
        while not done:
            done = await self._follow(index, info, (await index.positions([info])).get(info.id))
        await index.scrub()

    async def _work(self) -> None:
        """Sweep as often as somebody asks meanwhile."""
        asked: asyncio.Future[bool] | None = None
        try:
            while (asked := self._asked) is not None:
                self._asked, done = None, False
                try:
                    done = await self._sweep(await self.index())
                except HaloError as error:
                    self.host.log.warning("not indexed", workspace=self._workspace.path, error=error.message)
                asked.set_result(done)
        finally:
            self.busy = False
            for waited in (asked, self._asked):
                if waited is not None and not waited.done():
                    waited.set_result(False)
            self._asked = None

    async def _sweep(self, index: Index) -> bool:
        """Index what changed since the last sweep, all if the index was emptied; false if something is missing."""
        began = self.host.clock.now()
        mark = await index.mark()
        await index.scrub()  # what a sweep that was cut has left
        # The first time all are looked at, as the database may be another one, such as after a restore. And with a
        # clock that was set back changes look older than they are.
        since = mark.since - _SETTLED if self._looked and mark.since <= began else 0
        done = await self._follow_all(index, await self._changed(max(0, since)))
        await index.scrub()
        if done:
            self._looked = True
            await index.advance(mark, began)
        elif (await index.mark()).emptied != mark.emptied:
            return await self._sweep(index)
        return done

    async def _changed(self, since: int) -> Sequence[SessionInfo]:
        found: list[SessionInfo] = []
        while True:
            last = found[-1].id if found else ""
            page = await self.host.sessions.changed(workspace=self._workspace.id, since=since, after=last, limit=_PAGE)
            found += page
            if len(page) < _PAGE:
                return found

    async def _follow_all(self, index: Index, sessions: Sequence[SessionInfo]) -> bool:
        """Bring sessions up to date, one after the other; one that fails keeps no other waiting."""
        done, total, size = True, sum(info.head for info in sessions), 0
        for at in range(0, len(sessions), _PAGE):
            page = sessions[at : at + _PAGE]
            positions = await index.positions(page)
            for info in page:
                self.share = size / total if total else 1.0
                done &= await self._follow_safely(index, info, positions.get(info.id))
                size += info.head
        if done:
            self.share = 1.0
        return done

    async def _follow_safely(self, index: Index, info: SessionInfo, position: Position | None) -> bool:
        try:
            done = await self._follow(index, info, position)
        except Exception as error:  # whatever a body that nobody expected leads to
            if info.id not in self._broken:
                self.host.log.error("session not indexed", session=info.id, error=repr(error))
            self._broken.add(info.id)
            return False
        self._broken.discard(info.id)
        return done

    async def _follow(self, index: Index, info: SessionInfo, position: Position | None) -> bool:
        """Bring a session up to date; false when the index was emptied, or somebody else was at it, meanwhile."""
        if info.deleted:
            if position is not None:
                await index.remove(info.id)
            return True
        if position is not None and position.seq > info.head:
            return await self._check_head(index, info, position.seq)
        known = position is not None and (position.title, position.archived) == (info.title, info.archived)
        seq = position.seq if position and known else await index.enter(info)
        while seq < info.head:
            before, events = seq, await self._events(info, seq, limit=_EVENTS)
            for portion in await asyncio.to_thread(lambda: list(portions(events))):  # noqa: B023 awaited here
                if not await index.store(info.id, seq, portion):
                    return False
                seq = portion.upto
            if seq == before:
                break  # deleted since it was listed
        return True

    async def _check_head(self, index: Index, info: SessionInfo, seq: int) -> bool:
        """An index that knows of events that there are not is of another database, such as before a restore."""
        if await self._events(info, seq - 1, limit=1):
            return True  # the session went on since it was listed
        await index.empty()
        return False

    async def _events(self, info: SessionInfo, after: int, *, limit: int) -> Sequence[Event]:
        owner = Principal(name=info.principal, kind=info.principal_kind, access="readonly")
        try:
            return await self.host.sessions.events(
                info.id, workspace=self._workspace.id, principal=owner, after=after, limit=limit
            )
        except NotFound:
            return ()
