"""Reload: a plugin is swapped for a newer import of it while no turn runs, all of it or nothing."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from halo_kernel import (
    BadInput,
    Conflict,
    Incoming,
    Kernel,
    ModelRequest,
    NotFound,
    PluginFailed,
    Session,
    ToolFinished,
)
from halo_kernel.http import Face
from halo_kernel.testing import (
    Answer,
    Calls,
    Hang,
    ScriptedModel,
    Step,
    a_session,
    journal,
    running_kernel,
    until,
)

VERSION = "VERSION = {version}\n"
BIRD = '''
"""A plugin with one of everything."""
import asyncio
from typing import Annotated
import msgspec
from halo_kernel import Reply, Route, Section, ToolSpec, hook
from .version import VERSION

class BirdSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Birds."""
    color{version}: Annotated[str, msgspec.Meta(description="Color.")] = "grey"

class See:
    spec = ToolSpec(name="see", description="See version {version}.", parameters={{"type": "object"}}, effect="read")

    async def run(self, call):
        return f"version {{VERSION}}"

class Watch:
    name = "watch"
    async def run(self):
        await asyncio.Event().wait()

class Box:
    kind, guarantee = "nest", "local"
    def split(self, text):
        return [text]
    async def deliver(self, part):
        return f"{{VERSION}}"
    async def find(self, part):
        return None

async def answer(exchange):
    return Reply(body={{"version": VERSION}})

@hook
def provide_settings():
    return [Section(name="bird", type=BirdSettings)]

@hook
def provide_tools(session):
    return [See()]

@hook
def provide_services(host):
    host.settings.of(BirdSettings)
    return [Watch()]

@hook
def provide_dispatchers(host):
    return [Box()]

@hook
def provide_routes(host):
    return [Route(method="GET", path="/api/bird/{version}", handler=answer, summary="Tell.", auth="public")]

@hook
async def session_opened(session):
    session.scope.task(asyncio.Event().wait())
'''
MANIFEST = 'kernel = ">=0"\nprefixes = ["/api/bird"]\n'


class Nest:
    """The folder of an installed plugin, and its files in one version or another."""

    def __init__(self, home: Path) -> None:
        self.folder = home / "plugins"
        self.package = self.folder / "zoo_bird"
        info = self.folder / "halo_bird-1.0.dist-info"
        info.mkdir(parents=True)
        self.package.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: halo-bird\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[halo.plugins]\nbird = zoo_bird\n")

    def write(self, version: int, body: str = BIRD, manifest: str = MANIFEST) -> None:
        (self.package / "halo.toml").write_text(manifest)
        (self.package / "version.py").write_text(VERSION.format(version=version))
        (self.package / "__init__.py").write_text(body.format(version=version))
        for cached in self.package.rglob("*.pyc"):
            cached.unlink()  # a second is too short for its time to tell


@pytest.fixture
def nest(tmp_path: Path) -> Iterator[Nest]:
    path, modules = list(sys.path), set(sys.modules)
    found = Nest(tmp_path / "home")
    found.write(1)
    yield found
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.startswith("zoo_bird"):
            del sys.modules[name]


@asynccontextmanager
async def running(tmp_path: Path, model: ScriptedModel | None = None) -> AsyncGenerator[Kernel, None]:
    env = {"HALO_PLUGINS": "bird"}
    async with running_kernel(
        tmp_path / "home", model=model or ScriptedModel(responder=see), discover=True, env=env
    ) as k:
        await k.work()
        yield k


def see(request: ModelRequest) -> Step:
    return Answer("seen") if "ToolResult" in str(request.messages[-1]) else Calls([("see", {})])


async def seen(session: Session) -> str:
    """Return what the tool says now."""
    await session.prompt(Incoming(text="look")).result
    return [e.body.text for e in await journal(session) if isinstance(e.body, ToolFinished)][-1]


def provided(kernel: Kernel) -> tuple[list[str], Any, list[str]]:
    """Return the routes, the version of the dispatcher, and the settings that the plugin has now."""
    routes = [route.path for plugin, route in kernel.routes if plugin == "bird"]
    box = kernel.host.lookup("dispatcher", "nest")
    version = sys.modules[type(box).__module__].VERSION if box else None
    return routes, version, [field.key for field in kernel.settings.at().fields.values() if field.plugin == "bird"]


async def test_everything_of_a_plugin_is_new(tmp_path: Path, nest: Nest) -> None:
    """S26, S54: after a reload tools of open sessions, routes, dispatchers, settings and services are all new."""
    async with running(tmp_path) as kernel:
        face = Face(kernel, url="http://127.0.0.1:1")
        session = await a_session(kernel, tmp_path / "w")
        assert await seen(session) == "version 1" and provided(kernel) == (["/api/bird/1"], 1, ["bird.color1"])
        nest.write(2)
        row = await kernel.reload("bird")
        assert (row.name, row.state) == ("bird", "loaded")
        assert await seen(session) == "version 2" and provided(kernel) == (["/api/bird/2"], 2, ["bird.color2"])
        paths = [route.path for route in face.routes]  # type: ignore[attr-defined]
        assert "/api/bird/2" in paths and "/api/bird/1" not in paths
        names = [task.get_name() for task in asyncio.all_tasks()]
        assert names.count("bird: watch") == 1


@pytest.mark.parametrize(
    ("body", "manifest", "said"),
    [
        ("syntax error(", MANIFEST, "import failed"),
        ("raise RuntimeError('no')", MANIFEST, "RuntimeError: no"),
        (BIRD + "\n@hook\ndef no_such_hook():\n    pass\n", MANIFEST, "there is no hook no_such_hook"),
        (BIRD, 'kernel = ">=99"\n', "99"),
        (BIRD.replace("return [Box()]", "raise RuntimeError('no box')"), MANIFEST, "no box"),
        (BIRD.replace("return [Watch()]", "raise RuntimeError('no watch')"), MANIFEST, "no watch"),
        (BIRD, MANIFEST, ""),
    ],
    ids=["syntax", "raises", "hook", "range", "dispatcher", "service", "settings"],
)
async def test_a_broken_one_changes_nothing(tmp_path: Path, nest: Nest, body: str, manifest: str, said: str) -> None:
    """S27: whatever of a new version is broken, and whenever that shows, the former one is there as it was."""
    async with running(tmp_path) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        before = provided(kernel)
        modules = {name for name in sys.modules if name.startswith("zoo_bird")}
        if not said:
            (tmp_path / "home" / "secrets" / "settings.yaml").write_text("bird:\n  color2: 5\n")
            body = BIRD.replace('str, msgspec.Meta(description="Color.")', "int, msgspec.Meta(ge=6)").replace(
                '"grey"', "7"
            )
        nest.write(2, body, manifest)
        with pytest.raises((PluginFailed, BadInput), match=said or "color2"):
            await kernel.reload("bird")
        assert provided(kernel) == before and await seen(session) == "version 1"
        assert {name for name in sys.modules if name.startswith("zoo_bird")} == modules
        assert [task.get_name() for task in asyncio.all_tasks()].count("bird: watch") == 1
        (tmp_path / "home" / "secrets" / "settings.yaml").unlink(missing_ok=True)
        nest.write(3)
        await kernel.reload("bird")
        assert await seen(session) == "version 3"


async def test_what_says_restart_is_not_swapped(tmp_path: Path, nest: Nest) -> None:
    """A plugin that needs a restart says so; one that is not there, or of this process itself, is refused."""
    nest.write(1, manifest=MANIFEST + 'reload = "restart"\n')
    async with running(tmp_path) as kernel:
        with pytest.raises(Conflict, match="cannot be changed while the server runs"):
            await kernel.reload("bird")
        with pytest.raises(NotFound, match="no loaded plugin brid, did you mean bird"):
            await kernel.reload("brid")
        with pytest.raises(Conflict):
            await kernel.reload("sqlite")


async def test_a_running_turn_keeps_its_plugin(tmp_path: Path, nest: Nest, monkeypatch: pytest.MonkeyPatch) -> None:
    """S25: a turn that does not end in time has the reload fail by name, and nothing is swapped under it."""
    monkeypatch.setattr("halo_kernel.sessions.gate.REST_SECONDS", 0.2)
    model = ScriptedModel([Hang()], responder=see)
    async with running(tmp_path, model) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        handle = session.prompt(Incoming(text="go"))
        await until(lambda: model.active)
        nest.write(2)
        with pytest.raises(Conflict, match=f"did not rest in .*{session.info.id}"):
            await kernel.reload("bird")
        assert provided(kernel)[1] == 1 and model.active == 1
        session.interrupt()
        await handle.result
        await kernel.reload("bird")
        assert await seen(session) == "version 2"


async def test_messages_that_come_meanwhile_are_answered_by_the_new_one(tmp_path: Path, nest: Nest) -> None:
    """S52: what arrives while a plugin is swapped is answered once, with the new tools."""
    async with running(tmp_path) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        assert await seen(session) == "version 1"
        for version in range(2, 6):
            nest.write(version)
            reload = asyncio.create_task(kernel.reload("bird"))
            await asyncio.sleep(0)
            handles = [session.prompt(Incoming(text=f"look {number}")) for number in range(3)]
            await reload
            for handle in handles:
                assert (await handle.result).outcome == "succeeded"
            assert await seen(session) == f"version {version}"


@pytest.mark.thorough
@pytest.mark.timeout(120)
async def test_a_hundred_reloads_leave_nothing_behind(tmp_path: Path, nest: Nest) -> None:
    """After 100 reloads there are the tasks, threads, routes, modules and watchers of one."""

    def count(kernel: Kernel) -> tuple[int, ...]:
        gc.collect()
        modules = [name for name in sys.modules if name.startswith("zoo_bird_")]
        timers = [each for each in asyncio.get_running_loop()._scheduled if not each._cancelled]  # type: ignore[attr-defined]
        tasks, threads = len(asyncio.all_tasks()), threading.active_count()
        return tasks, threads, len(kernel.served), len(modules), len(timers), len(kernel.plugins.list())

    async with running(tmp_path) as kernel:
        Face(kernel, url="http://127.0.0.1:1")
        session = await a_session(kernel, tmp_path / "w")
        await seen(session)
        nest.write(2)
        await kernel.reload("bird")
        await seen(session)
        await asyncio.sleep(0.2)
        before = count(kernel)
        for _ in range(100):
            await kernel.reload("bird")
        assert await seen(session) == "version 2"
        await asyncio.sleep(0.2)
        after = count(kernel)
        assert all(late <= early for early, late in zip(before, after, strict=True)), (before, after)
