"""Opens: shared, tracked and undone when they fail; a workspace lives while anybody uses it, and is itself anywhere."""

from __future__ import annotations

import asyncio
import gc
import random
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halo_kernel import (
    OPERATOR,
    Conflict,
    HaloError,
    Host,
    Incoming,
    Kernel,
    NotFound,
    Place,
    Session,
    SessionClosed,
    StorageUnavailable,
    WorkspaceInfo,
    hook,
)
from halo_kernel.testing import FaultyStorage, Hang, ScriptedModel, VirtualClock, a_session, running_kernel, until

SEEDS = st.integers(0, 1 << 30)


def scheduled(scenario: Callable[[random.Random, Path], Awaitable[None]], seed: int) -> None:
    """Run a scenario in a folder of its own."""

    async def run(folder: str) -> None:
        await scenario(random.Random(seed), Path(folder))

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(folder))


async def a_workspace(kernel: Kernel, folder: Path) -> str:
    folder.mkdir(exist_ok=True)
    return (await kernel.host.workspaces.open(folder)).id


async def opened(kernel: Kernel, name: str, workspace: str, **more: Any) -> Any:
    return await kernel.host.sessions.open(name, workspace=workspace, principal=OPERATOR, **more)


async def opened_and_closed(rnd: random.Random, home: Path) -> None:
    async with running_kernel(home / "home") as kernel:
        workspace = await a_workspace(kernel, home / "w")
        found: dict[str, list[Any]] = {"a": [], "b": []}

        async def visit() -> None:
            for _ in range(rnd.randint(1, 5)):
                await asyncio.sleep(rnd.random() * 0.004)
                name = rnd.choice("ab")
                session = await opened(kernel, name, workspace, create=True)
                if session not in found[name]:
                    found[name].append(session)
                assert len([each for each in found[name] if not each.closed]) <= 1, "one instance at a time"
                what = rnd.random()
                if what < 0.4:
                    session.close(rnd.choice(["abort", "land"]))
                elif what < 0.6 and not session.closed:
                    session.doze()
                elif what < 0.8 and not session.closed:
                    with suppress(SessionClosed):
                        await session.submit(Incoming(text="hello"))

        await asyncio.gather(*(visit() for _ in range(5)))


@settings(max_examples=20, deadline=None)
@given(SEEDS)
def test_an_id_has_one_open_instance(seed: int) -> None:
    """S29: whoever makes, opens, uses and closes sessions of an id, one instance of it is unclosed at a time."""
    scheduled(opened_and_closed, seed)


class Failing:
    """Lets the n-th read or write of a database fail."""

    def __init__(self, database: Any, at: int, patch: pytest.MonkeyPatch) -> None:
        self.left = at
        for name in ("read", "write"):
            patch.setattr(database, name, self._wrapped(getattr(database, name)))

    def _wrapped(self, real: Any) -> Any:
        async def call(fn: Any) -> Any:
            self.left -= 1
            if self.left == 0:
                raise StorageUnavailable("injected")
            return await real(fn)

        return call


async def failed(how: str, at: int, home: Path) -> None:
    """Let step `at` of an open fail, see that nothing of it is left, and do it again."""
    async with running_kernel(home / "home") as kernel:
        parent: Any = await a_session(kernel, home / "w")
        await parent.prompt(Incoming(text="one")).result
        info, seat = parent.info, parent.seat
        closed = await a_session(kernel, home / "w")
        name = closed.info.id
        await closed.close("land")  # type: ignore[attr-defined]
        del closed
        ways: dict[str, Callable[[], Awaitable[Session]]] = {
            "open": lambda: opened(kernel, name, info.workspace),
            "open new": lambda: opened(kernel, "new", info.workspace, create=True),
            "create": lambda: kernel.host.sessions.create(workspace=info.workspace, principal=OPERATOR),
            "child": lambda: parent.start_child("default"),
        }
        before = dict(seat.sessions)
        with pytest.MonkeyPatch.context() as patch:
            failing = Failing(seat.database, at, patch)
            try:
                await ways[how]()
            except HaloError as error:
                assert error.message == "injected"
                assert dict(seat.sessions) == before and not kernel.sessions._opening
                assert not seat.scope._children.keys() - {parent._scope}, "no scope of it is left"
            else:
                assert failing.left > 0, "it has fewer steps"
        again = await ways[how]()
        assert (await again.prompt(Incoming(text="hi")).result).text == "echo: hi"


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(["open", "open new", "create", "child"]), st.integers(1, 6))
def test_an_open_that_fails_at_any_step_leaves_nothing(how: str, at: int) -> None:
    """S30: whichever read or write of an open fails, that error is raised, nothing is left, and the next open works."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(failed(how, at, Path(folder)))


@pytest.mark.parametrize("at", [1, 2])
async def test_a_workspace_that_cannot_be_registered_is_closed_again(tmp_path: Path, at: int) -> None:
    """S30: when the home cannot take a workspace in, nothing of it stays open, and the next open works."""
    async with running_kernel(tmp_path / "home") as kernel:
        (tmp_path / "w").mkdir()
        with pytest.MonkeyPatch.context() as patch:
            Failing(kernel.workspaces.registry, at, patch)
            with pytest.raises(StorageUnavailable, match="injected"):
                await kernel.host.workspaces.open(tmp_path / "w")
        assert not kernel.workspaces.seats
        place = Place(name="halo", scope="workspace", directory=(tmp_path / "w").resolve() / ".halo")
        assert place not in kernel.data.places()
        session = await opened(kernel, "a", await a_workspace(kernel, tmp_path / "w"), create=True)
        assert (await session.prompt(Incoming(text="hi")).result).text == "echo: hi"


async def test_a_workspace_whose_first_write_fails_is_closed_again(tmp_path: Path) -> None:
    """S30: when a workspace cannot be written to, its database does not stay open, and the next open works."""
    failing = [True]

    def before(place: Place, number: int) -> None:
        if place.name == "halo" and failing[0]:
            raise StorageUnavailable("injected")

    async with running_kernel(tmp_path / "home", extra={"faulty": FaultyStorage(before)}) as kernel:
        (tmp_path / "w").mkdir()
        with pytest.raises(StorageUnavailable, match="injected"):
            await kernel.host.workspaces.open(tmp_path / "w")
        assert not [place for place in kernel.data.places() if place.name == "halo"]
        failing[0] = False
        assert await a_workspace(kernel, tmp_path / "w")


class Composed:
    """A plugin that counts how often a workspace is opened."""

    def __init__(self) -> None:
        self.times = 0

    @hook
    async def workspace_opened(self, workspace: WorkspaceInfo, host: Host) -> None:
        self.times += 1


async def lived_in(rnd: random.Random, home: Path) -> None:
    """Open and leave sessions of one workspace at random, let time go by, and close what is idle."""
    clock, composed = VirtualClock(), Composed()
    async with running_kernel(home / "home", clock=clock, extra={"composed": composed}) as kernel:
        workspace = await a_workspace(kernel, home / "w")
        seats, lives, held = [kernel.workspaces.seats[workspace]], 1, list[Session]()
        for _ in range(rnd.randint(3, 12)):
            what = rnd.choice(["use", "use", "leave", "wait", "idle", "idle"])
            if what == "use":
                sessions = await asyncio.gather(*(opened(kernel, n, workspace, create=True) for n in "abca"))
                assert sessions[0] is sessions[3]
                held += [session for session in sessions if rnd.random() < 0.3]
                seat = kernel.workspaces.seats[workspace]
                lives += seat is not seats[-1]
                seats += [seat] if seat is not seats[-1] else []
                del sessions
            elif what == "leave":
                held.clear()
            elif what == "wait":
                await clock.sleep(rnd.choice([10, 400]))
            else:
                gc.collect()
                before = kernel.workspaces.seats.get(workspace)
                await kernel.workspaces.close_idle()
                assert not held or kernel.workspaces.seats.get(workspace) is before, "somebody holds a session"
            assert composed.times == lives, "composed once for each of its lives"
            assert len([seat for seat in seats if seat.scope._closing is None]) <= 1, "and one of these at a time"
        session = await opened(kernel, "a", workspace, create=True)
        assert (await session.prompt(Incoming(text="hi")).result).text == "echo: hi"


@settings(max_examples=20, deadline=None)
@given(SEEDS)
def test_a_workspace_is_open_while_anybody_uses_it(seed: int) -> None:
    """S31: a workspace stays open while a session of it is held; it is composed once for each of its lives."""
    scheduled(lived_in, seed)


async def opened_while_closing(rnd: random.Random, home: Path) -> None:
    model = ScriptedModel(responder=lambda request: Hang("half"))
    async with running_kernel(home / "home", model=model) as kernel:
        session: Any = await a_session(kernel, home / "w")
        name, workspace = session.info.id, session.info.workspace
        if rnd.random() < 0.7:
            await session.submit(Incoming(text="go"))
            await asyncio.sleep(rnd.random() * 0.02)
        closing = session.close(rnd.choice(["abort", "land"]))

        async def visit() -> Any:
            await asyncio.sleep(rnd.random() * 0.01)
            fresh = await opened(kernel, name, workspace)
            assert closing.done(), "it has waited for the end"
            return fresh

        visitors = await asyncio.gather(*(visit() for _ in range(4)))
        assert len(set(map(id, visitors))) == 1 and visitors[0] is not session and not visitors[0].closed


@settings(max_examples=15, deadline=None)
@given(SEEDS)
def test_who_opens_a_session_that_closes_waits_for_its_end(seed: int) -> None:
    """S32: a session that is opened while it closes is opened after that, once for all who ask."""
    scheduled(opened_while_closing, seed)


async def test_a_workspace_is_itself_wherever_it_lies(tmp_path: Path) -> None:
    """S33: a workspace's id is in it: it outlives a restart and a move with its sessions; two of one id are refused."""
    home, folder = tmp_path / "home", tmp_path / "w"
    async with running_kernel(home) as kernel:
        session = await a_session(kernel, folder)
        await session.prompt(Incoming(text="one")).result
        name, workspace = session.info.id, session.info.workspace
    folder.rename(tmp_path / "moved")
    model = ScriptedModel()
    async with running_kernel(home, model=model) as kernel:
        assert await a_workspace(kernel, tmp_path / "moved") == workspace
        session = await opened(kernel, name, workspace)
        assert session.info.folder == str((tmp_path / "moved").resolve())
        await session.prompt(Incoming(text="two")).result
        assert len(model.requests[-1].messages) == 3, "it remembers"
        shutil.copytree(tmp_path / "moved", tmp_path / "copy")
        with pytest.raises(Conflict, match="one workspace"):
            await kernel.host.workspaces.open(tmp_path / "copy")
        assert (await session.prompt(Incoming(text="three")).result).text == "echo: three"


async def test_who_joins_an_open_session_gets_what_it_asked_for_or_an_error(tmp_path: Path) -> None:
    """S34: an open with another directory re-points the one session for all, or is refused while that runs."""
    model = ScriptedModel()
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        for name in ("a", "b"):
            (tmp_path / "w" / name).mkdir(parents=True)
        workspace = await a_workspace(kernel, tmp_path / "w")
        both = await asyncio.gather(
            *(opened(kernel, "s", workspace, create=True, directory=each) for each in ("a", "b", "a"))
        )
        assert len(set(map(id, both))) == 1 and both[0].info.directory in ("a", "b")
        session = await opened(kernel, "s", workspace, directory="b")
        assert session.info.directory == "b" and (await opened(kernel, "s", workspace)).info.directory == "b"
        model.then(Hang())
        session.prompt(Incoming(text="go"))
        await until(lambda: model.active)
        with pytest.raises(Conflict, match="running"):
            await opened(kernel, "s", workspace, directory="a")
        assert session.info.directory == "b" and await opened(kernel, "s", workspace, directory="b") is session


async def deleted_meanwhile(rnd: random.Random, home: Path) -> None:
    async with running_kernel(home / "home") as kernel:
        session: Any = await a_session(kernel, home / "w")
        name, workspace, gone = session.info.id, session.info.workspace, [False]
        place: Any = {"workspace": workspace, "principal": OPERATOR}

        async def visit() -> None:
            for _ in range(4):
                await asyncio.sleep(rnd.random() * 0.004)
                before = gone[0]
                try:
                    live = await opened(kernel, name, workspace, create=rnd.random() < 0.5)
                    if rnd.random() < 0.3:
                        await kernel.host.sessions.fork(name, **place)
                    await live.submit(Incoming(text="hello"))
                except (NotFound, SessionClosed):
                    continue
                assert not before, "nothing of a deleted session is opened, made, copied or written to"
                if rnd.random() < 0.3:
                    live.close("land")

        visiting = [asyncio.create_task(visit()) for _ in range(4)]
        await asyncio.sleep(rnd.random() * 0.012)
        await kernel.host.sessions.delete(name, **place)
        gone[0] = True
        await asyncio.gather(*visiting)
        for create in (False, True):
            with pytest.raises(NotFound):
                await opened(kernel, name, workspace, create=create)
        database = kernel.workspaces.seats[workspace].database
        sql = "SELECT count(*) FROM inbox WHERE session = ? AND state = 'waiting'"
        assert await database.read(lambda tx: tx.one(sql, (name,))) == (0,)
        assert await database.read(lambda tx: tx.one("SELECT count(*) FROM runs WHERE session = ?", (name,))) == (0,)


@settings(max_examples=15, deadline=None)
@given(SEEDS)
def test_a_deleted_session_stays_deleted(seed: int) -> None:
    """S32: from its deletion on a session is not opened, made, forked or written to, whoever was about to do so."""
    scheduled(deleted_meanwhile, seed)
