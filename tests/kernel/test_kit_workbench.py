"""The workbench: a kernel without any configuration, and gone with all that it opened."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import cast

import pytest

from halo_kernel import (
    ContextPart,
    Database,
    HaloError,
    Incoming,
    Migration,
    NotFound,
    Place,
    Session,
    Storage,
    StorageUnavailable,
    Tool,
    Tx,
    hook,
)
from halo_kernel.sqlite import SqliteStorage
from halo_kernel.testing import (
    Answer,
    Calls,
    FaultyStorage,
    Hang,
    NoteTool,
    ScriptedModel,
    VirtualClock,
    Workbench,
    guarded,
    journal,
    until,
)
from halo_kernel.testing.workbench import named


class Greeting:
    @hook
    async def prepare_context(self, session: Session) -> Iterable[ContextPart]:
        return [ContextPart(slot="agent", source="hello", text="Begin with: Hello.")]


class Noting:
    def __init__(self) -> None:
        self.tool = NoteTool()

    @hook
    def provide_tools(self, session: Session) -> Sequence[Tool]:
        return [self.tool]


async def test_a_question_is_answered_without_configuration(halo: Workbench, scripted_model: ScriptedModel) -> None:
    """The fixture alone answers: its model repeats the question, or says what it is told to."""
    assert (await halo.ask("hello")).text == "echo: hello"
    scripted_model.then(Answer("as told"))
    assert (await halo.ask("hello")).text == "as told"


async def test_a_plugin_is_in_the_prompt(halo: Workbench) -> None:
    """A plugin that is an object works as one that is installed."""
    await halo.start(plugins=[Greeting()])
    await halo.ask("hi")
    assert halo.model.requests[-1].system == "Begin with: Hello."


async def test_a_plugins_tool_is_called(halo: Workbench) -> None:
    """The scripted model calls a plugin's tool."""
    noting = Noting()
    await halo.start(plugins={"noting": noting})
    halo.model.then(Calls([("note", {"text": "milk"})]), Answer("done"))
    assert (await halo.ask("note it")).text == "done"
    assert noting.tool.seen == ["milk"]


async def test_a_restart_keeps_what_is_durable(halo: Workbench) -> None:
    """Starting again closes the kernel that runs; a session of a name goes on where it was."""
    first = await halo.session("talk_1")
    await halo.ask("one", session=first)
    before = halo.kernel
    await halo.start()
    assert halo.kernel is not before
    again = await halo.session("talk_1")
    assert await again.output() == "echo: one"
    assert again is not first


async def test_time_is_the_clocks(halo: Workbench, virtual_clock: VirtualClock) -> None:
    """A test that asks for the virtual clock has a kernel that lives by it."""
    virtual_clock.advance(86_400)
    session = await halo.session()
    await halo.ask("hi", session=session)
    assert {event.at for event in await journal(session)} == {virtual_clock.now()}
    assert halo.kernel is not None
    assert halo.kernel.clock is virtual_clock


async def test_what_a_test_leaves_open_is_closed(tmp_path: Path) -> None:
    """A run that hangs, a prompt that nobody awaits and a stream that is not read end with the workbench."""
    async with guarded():
        bench = Workbench(tmp_path, model=ScriptedModel([Hang("half")]))
        session = await bench.session()
        prompt = session.prompt(Incoming(text="go on"))
        stream = session.events(live=True)
        await anext(stream)
        await until(lambda: bench.model.active)
        await bench.close()
        with pytest.raises(HaloError):
            await prompt.result
        await bench.close()


async def test_storage_is_rehearsed(halo: Workbench) -> None:
    """Every function that is written runs twice: one that is not pure is found."""
    kernel = await halo.start()
    database = await kernel.host.data.open("mine", "global", [])
    seen: list[int] = []

    def impure(tx: object) -> int:
        seen.append(1)
        return len(seen)

    with pytest.raises(AssertionError, match="impure is not pure"):
        await database.write(impure)


async def test_functions_run_twice_on_another_engine(tmp_path: Path) -> None:
    """On an engine that is not SQLite's a function runs in a write that is taken back, and then for good."""
    engine = SqliteStorage()

    class Wrapped:
        """A database that is not SQLite's own, for all that can be told from outside."""

        def __init__(self, inner: Database) -> None:
            self.inner = inner

        def __getattr__(self, name: str) -> object:
            return getattr(self.inner, name)

    class Other:
        name = "other"
        copy, owns = engine.copy, staticmethod(engine.owns)

        async def open(self, place: Place, migrations: Sequence[Migration]) -> Wrapped:
            return Wrapped(await engine.open(place, migrations))

    storage = FaultyStorage(inner=cast("Storage", Other()))
    place = Place(name="mine", scope="global", directory=tmp_path)
    database = await storage.open(place, [Migration(version=1, sql="CREATE TABLE notes(text TEXT)")])
    seen: list[int] = []

    def add(tx: Tx) -> int:
        seen.append(1)
        tx.execute("INSERT INTO notes VALUES ('one')")
        return len(seen)

    def fail(tx: Tx) -> None:
        add(tx)
        raise LookupError("on purpose")

    assert (storage.name, await database.write(add)) == ("other", 2)
    with pytest.raises(LookupError):
        await database.write(fail)
    assert await database.read(lambda tx: tx.one("SELECT count(*) FROM notes")) == (1,)
    await database.close()


async def test_a_broken_plugin_is_named(halo: Workbench) -> None:
    """A plugin that does not load fails the start with its name and the reason."""

    class Broken:
        @hook
        def no_such_hook(self) -> None: ...

    with pytest.raises(HaloError, match=r"plugin Broken did not load: .*there is no hook no_such_hook"):
        await halo.start(plugins=[Broken()])


async def test_a_provider_that_is_not_there_is_said(halo: Workbench) -> None:
    """A provider is found by name, and the error names those that there are."""
    assert await halo.provider("scripted") is halo.model
    with pytest.raises(NotFound, match="no model provider openai; there are: scripted"):
        await halo.provider("openai")


async def test_another_storage_can_stand_in(tmp_path: Path) -> None:
    """A storage plugin of the test's own takes the place of the kit's."""

    class Full:
        @hook
        def provide_storage(self) -> Iterable[object]:
            return [self]

        name = "full"

        async def open(self, place: object, migrations: object) -> object:
            raise StorageUnavailable("the disk is full")

        async def copy(self, place: object, path: object) -> None: ...

        def owns(self, path: object) -> bool:
            return False

    with pytest.raises(StorageUnavailable, match="the disk is full"):
        await Workbench(tmp_path, storage=Full()).start()


def test_plugins_have_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules go by their name without `halo_`, objects by their type's, and two of a name are refused."""
    module = ModuleType("halo_hello")
    monkeypatch.setitem(sys.modules, "halo_hello", module)
    greeting = Greeting()
    assert named([module]) == named(["halo_hello"]) == {"hello": module}
    assert named([greeting, module]) == {"Greeting": greeting, "hello": module}
    assert named({"mine": greeting, "other": "halo_hello"}) == {"mine": greeting, "other": module}
    with pytest.raises(ValueError, match="two plugins would be called Greeting"):
        named([greeting, Greeting()])


async def test_a_run_that_is_cancelled_leaves_nothing(halo: Workbench) -> None:
    """The fixture's own guards pass over a run that was cut."""
    halo.model.then(Hang("half"))
    session = await halo.session()
    prompt = session.prompt(Incoming(text="go on"))
    await until(lambda: halo.model.active)
    await asyncio.sleep(0)
    session.interrupt()
    assert (await prompt.result).outcome == "cancelled"
