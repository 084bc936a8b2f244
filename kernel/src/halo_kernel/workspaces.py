"""The workspaces of this home: directories with a `.halo` folder, known by the random id in their database."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .contracts import AgentSource, Clock, Database, Place, Tx
from .data import Data
from .errors import Conflict, HaloError, NotFound, WorkspaceUnusable
from .outbox import has_unsettled
from .presence import is_running
from .records import AgentSpec, WorkspaceInfo
from .records.storable import is_storable
from .schema import WORKSPACE
from .sessions.seat import Seat
from .supervisor import at_bell
from .tables import insert, select

IDLE_SECONDS = 300.0
_LOOK_SECONDS = 60.0
SeatMaker = Callable[[WorkspaceInfo, Database], Awaitable[Seat]]


@dataclass(kw_only=True)
class Workspaces:
    """The workspaces of this home. `make_seat` gives an opened workspace its seat; `default` is the setting's agent."""

    data: Data
    registry: Database
    clock: Clock
    boot: str
    default: str
    make_seat: SeatMaker
    sources: Sequence[AgentSource] = ()
    seats: dict[str, Seat] = field(default_factory=dict[str, Seat])
    _marked: set[str] = field(default_factory=set[str])
    _opening: dict[Path, asyncio.Task[Seat]] = field(default_factory=dict[Path, "asyncio.Task[Seat]"])
    _ending: dict[Path, asyncio.Task[None]] = field(default_factory=dict[Path, "asyncio.Task[None]"])

    async def open(self, path: str | Path, *, anew: bool = False) -> WorkspaceInfo:
        """Open a directory as a workspace and remember it; with `anew` under a new id, as a copy needs it.

        Raises `WorkspaceUnusable`, `Conflict`: it is a copy, or `anew` it is open or has work that is not finished.
        """
        return (await self._at(_checked(Path(path)), anew=anew)).workspace

    async def get(self, workspace: str) -> WorkspaceInfo:
        """Return a workspace by id, opening it. Raises `NotFound`, `WorkspaceUnusable`."""
        return (await self.seat(workspace)).workspace

    async def seat(self, workspace: str) -> Seat:
        """Return the seat of a workspace by id, opening it. Raises `NotFound`, `WorkspaceUnusable`."""
        if (seat := self.seats.get(workspace)) is not None:
            seat.used = self.clock.monotonic()
            return seat
        row = await self.registry.read(lambda tx: tx.one("SELECT path FROM workspaces WHERE id = ?", (workspace,)))
        if row is None:
            raise NotFound(f"there is no workspace {workspace}", advice="open its folder first")
        return await self._at(_checked(Path(row[0])))

    async def list(self) -> Sequence[WorkspaceInfo]:
        """Return those that were opened, newest use first."""
        source = "workspaces ORDER BY used_at DESC, id"
        return await self.registry.read(lambda tx: select(tx, WorkspaceInfo, source, ()))

    async def forget(self, workspace: str) -> None:
        """Take it off that list, until it is opened again; its directory stays. Raises `NotFound`, `Conflict`."""
        if seat := self.seats.get(workspace):
            raise _held(seat.workspace.path)
        drop = "DELETE FROM workspaces WHERE id = ? RETURNING id"
        if await self.registry.write(lambda tx: tx.one(drop, (workspace,))) is None:
            raise NotFound(f"there is no workspace {workspace}")

    def agents(self, workspace: WorkspaceInfo) -> Sequence[AgentSpec]:
        """Return the agents that can run here, best default first.

        The first source that has an id wins, and its order among equals.
        """
        found: dict[str, AgentSpec] = {}
        for source in self.sources:
            for agent in source.list(workspace):
                found.setdefault(agent.id, agent)
        return sorted(found.values(), key=lambda agent: -agent.priority)

    def agent(self, workspace: WorkspaceInfo, name: str | None = None) -> AgentSpec:
        """Return one agent, the default one for None. Raises `NotFound`, `BadFile`."""
        name = name or self.default or None
        if name is None:
            agents = [agent for agent in self.agents(workspace) if not agent.internal]
            if not agents:
                advice = "`pip install halo-workspace` brings some; `halo logs` names those that cannot be read"
                raise NotFound("there is no agent in this workspace", advice=advice)
            return agents[0]
        if agent := next(filter(None, (source.find(workspace, name) for source in self.sources)), None):
            return agent
        known = ", ".join(agent.id for agent in self.agents(workspace)) or "none"
        advice = f"name one of them, or add .halo/agents/{name}/agent.yaml"
        raise NotFound(f"there is no agent {name!r} in this workspace (there are: {known})", advice=advice)

    async def busy(self) -> Sequence[WorkspaceInfo]:
        """Return the workspaces in which some process had a duty when it ended, or has one."""
        source = "workspaces WHERE id IN (SELECT workspace FROM busy) ORDER BY id"
        return await self.registry.read(lambda tx: select(tx, WorkspaceInfo, source, ()))

    async def close(self) -> None:
        """Take the busy mark back from every open workspace that owes nothing."""
        for seat in self.seats.values():
            if not await seat.database.read(_owes):
                await self._clear_busy(seat.workspace.id)

    async def watch(self, recover: Callable[[], Awaitable[None]]) -> None:
        """Recover now and then, and when another process is busy, whose duties go on when it ends; close the idle."""

        async def look() -> float:
            await recover()
            await self.close_idle()
            return _LOOK_SECONDS

        await at_bell(self.registry.listen("busy"), look)

    async def close_idle(self) -> None:
        """Close every workspace that nobody has used for five minutes, no session is in memory of, and owes nothing."""
        for seat in list(self.seats.values()):
            used = seat.used
            if self.clock.monotonic() - used < IDLE_SECONDS:
                continue
            seat.doze(0)
            if len(seat.sessions) or await seat.database.read(_owes):
                continue
            if seat.used == used and not seat.sessions:  # as before
                path = Path(seat.workspace.path)
                del self.seats[seat.workspace.id], self._opening[path]
                self._ending[path] = asyncio.get_running_loop().create_task(self._end(seat, path))
                await asyncio.wait({self._ending[path]})

    async def _end(self, seat: Seat, path: Path) -> None:
        """Give back what a workspace holds; whoever opens it meanwhile waits for this."""
        try:
            self._marked.discard(seat.workspace.id)
            await seat.scope.close()
            await self._clear_busy(seat.workspace.id)
            await self.data.forget(_place(path))
        finally:
            del self._ending[path]

    async def _clear_busy(self, workspace: str) -> None:
        """Delete this process's mark and those of dead ones; a living process clears its own."""

        def write(tx: Tx) -> None:
            for boot, pid in list(tx.execute("SELECT boot, pid FROM busy WHERE workspace = ?", (workspace,))):
                if boot == self.boot or not is_running(pid):
                    tx.execute("DELETE FROM busy WHERE workspace = ? AND boot = ?", (workspace, boot))

        await self.registry.write(write)

    async def mark_busy(self, workspace: str) -> None:
        """Say, once a process and before the first duty, that the next boot must look here."""
        if workspace in self._marked:
            return
        values = {"workspace": workspace, "boot": self.boot, "pid": os.getpid()}
        await self.registry.write(lambda tx: insert(tx, "busy", values, more="ON CONFLICT(workspace, boot) DO NOTHING"))
        self._marked.add(workspace)
        self.registry.notify("busy")

    async def _at(self, path: Path, *, anew: bool = False) -> Seat:
        task = self._opening.get(path)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = asyncio.get_running_loop().create_task(self._open(path, anew))
            self._opening[path] = task
        elif anew:
            raise _held(str(path))
        seat = await asyncio.shield(task)
        seat.used = self.clock.monotonic()
        return seat

    async def _open(self, path: Path, anew: bool) -> Seat:
        if path in self._ending:
            await asyncio.wait({self._ending[path]})
        place = _place(path)
        database = await self.data.open_place(place, WORKSPACE)
        fresh = self.clock.new_id(64)
        try:
            name = await database.write(lambda tx: _identity(tx, fresh, anew))
            info = WorkspaceInfo(id=name, path=str(path))
            await self._register(info)
        except HaloError:
            await self.data.forget(place)
            raise
        seat = await self.make_seat(info, database)
        self.seats[info.id] = seat
        return seat

    async def _register(self, info: WorkspaceInfo) -> None:
        row = await self.registry.read(lambda tx: tx.one("SELECT path FROM workspaces WHERE id = ?", (info.id,)))
        if row and os.path.realpath(row[0]) != info.path and (Path(row[0]) / ".halo" / "halo.db").exists():
            advice = f"make the copy a workspace of its own: halo workspaces new-id {shlex.quote(info.path)}"
            raise Conflict(f"{info.path} and {row[0]} are one workspace: one is a copy of the other", advice=advice)
        values = {"id": info.id, "path": info.path, "used_at": self.clock.now()}

        def write(tx: Tx) -> None:
            tx.execute("DELETE FROM workspaces WHERE path = ? OR id = ?", (info.path, info.id))
            insert(tx, "workspaces", values)

        await self.registry.write(write)


def _place(path: Path) -> Place:
    return Place(name="halo", scope="workspace", directory=path / ".halo")


def _checked(path: Path) -> Path:
    """Return the real path of a directory that can be a workspace. Raises `WorkspaceUnusable`."""
    advice = "name another folder"
    try:
        real = Path(os.path.realpath(os.path.expanduser(path)))
        exists, folder = os.path.lexists(real), os.path.isdir(real)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise WorkspaceUnusable(f"the workspace {str(path)!r} cannot be looked at: {why}", advice=advice) from error
    if not is_storable(str(real)):
        raise WorkspaceUnusable(f"the workspace {str(real)!r} has a name that is not UTF-8 text", advice=advice)
    if not exists:
        raise WorkspaceUnusable(f"the workspace {path} does not exist", advice="create the folder, or name another")
    if not folder:
        raise WorkspaceUnusable(f"the workspace {path} is a file, not a folder", advice="name a folder")
    inner = real / ".halo"
    if inner.exists() and not inner.is_dir():
        raise WorkspaceUnusable(f"{inner} is a file, not a folder", advice="move it away")
    if not os.access(inner if inner.exists() else real, os.W_OK | os.X_OK):
        advice = "change its permissions, or name another folder"
        raise WorkspaceUnusable(f"the workspace {path} is not writable for this user", advice=advice)
    return real


def _held(path: str) -> Conflict:
    return Conflict(f"the workspace {path} is open", advice="stop the server first, with `halo stop`")


def _identity(tx: Tx, fresh: str, anew: bool) -> str:
    if anew and _owes(tx):
        said = "work in this workspace is not finished, and a copy with an id of its own would do it once more"
        raise Conflict(said, advice="copy it again once it is finished, or delete the copy's .halo/halo.db*")
    act = "UPDATE SET value = excluded.value" if anew else "NOTHING"
    tx.execute(f"INSERT INTO meta(name, value) VALUES ('workspace', ?) ON CONFLICT(name) DO {act}", (fresh,))
    row = tx.one("SELECT value FROM meta WHERE name = 'workspace'")
    return str(row[0]) if row else fresh


def _owes(tx: Tx) -> bool:
    waits = tx.one("SELECT 1 FROM runs UNION ALL SELECT 1 FROM inbox WHERE state = 'waiting' LIMIT 1")
    return waits is not None or has_unsettled(tx)
