"""Fixtures for tests of plugins. Nothing of the kit is imported before a test asks for it.

`halo`              a `Workbench`: kernel, session, question and answer without any configuration, guarded
`halo_plugins`      the plugins under test; override it: modules, names of modules, objects
`halo_storage`      the storage engine of the kernels, for a test of one; None is the kernel's own
`scripted_model`    the model that answers; give it steps
`virtual_clock`     a clock that jumps; a test that asks for it has a kernel that lives by it
`stepped_clock`     a clock that stands until the test advances it, in its place, for what runs in the background
`workspace_folder`  an empty folder, the workspace
`crash_points`      kills a piece of work before and after each of its commits
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING or find_spec("pytest_asyncio"):
    from pytest_asyncio import fixture as async_fixture
else:
    async_fixture = pytest.fixture

if TYPE_CHECKING:
    from .contracts import Storage
    from .testing import CrashPoints, ScriptedModel, SteppedClock, VirtualClock, Workbench

_MARKS = (
    "halo_may_leak(*kinds): what the test may leave behind: task, thread, file, process; without one all",
    "halo_may_block(seconds): how long a task may block the event loop; without it for ever",
)


def pytest_configure(config: pytest.Config) -> None:
    """Make the marks known."""
    for mark in _MARKS:
        config.addinivalue_line("markers", mark)


@pytest.fixture
def halo_plugins() -> Iterable[object]:
    """The plugins under test; a test module or conftest.py overrides it."""
    return ()


@pytest.fixture
def scripted_model() -> ScriptedModel:
    """The model of the test's kernels: it plays its steps, then repeats what it was asked."""
    from .testing import ScriptedModel

    return ScriptedModel()


@pytest.fixture
def virtual_clock() -> VirtualClock:
    """A clock that jumps, for the test and for its kernels."""
    from .testing import VirtualClock

    return VirtualClock()


@pytest.fixture
def stepped_clock() -> SteppedClock:
    """A clock that stands until it is advanced, for the test and for its kernels."""
    from .testing import SteppedClock

    return SteppedClock()


@pytest.fixture
def halo_storage() -> Storage | None:
    """The storage engine of the test's kernels; a test module or conftest.py overrides it."""
    return None


@pytest.fixture
def workspace_folder(tmp_path: Path) -> Path:
    """The folder of the test's workspace, empty."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@async_fixture
async def halo(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    workspace_folder: Path,
    scripted_model: ScriptedModel,
    halo_plugins: Iterable[object],
    halo_storage: Storage | None,
) -> AsyncGenerator[Workbench, None]:
    """A workbench; afterwards its kernel is closed, and what is left behind or blocked the loop fails the test."""
    from .testing import FaultyStorage, Workbench, guarded

    clocks = [name for name in ("virtual_clock", "stepped_clock") if name in request.fixturenames]
    clock: VirtualClock | SteppedClock | None = request.getfixturevalue(clocks[0]) if clocks else None
    try:
        async with guarded(may_leak=_may_leak(request), limit=_limit(request)) as watch:
            bench = Workbench(
                tmp_path,
                plugins=halo_plugins,
                model=scripted_model,
                clock=clock,
                storage=FaultyStorage(inner=halo_storage),
                workspace=workspace_folder,
                watch=watch,
            )
            yield bench
            await bench.close()
    except AssertionError as complaint:
        pytest.fail(str(complaint), pytrace=False)


@pytest.fixture
def crash_points(tmp_path: Path, halo_plugins: Iterable[object]) -> CrashPoints:
    """Kills a piece of work before and after each of its commits, and has each wreck looked at."""
    from .testing import CrashPoints

    return CrashPoints(tmp_path, plugins=halo_plugins)


def _may_leak(request: pytest.FixtureRequest) -> tuple[str, ...]:
    from .testing import KINDS

    mark = request.node.get_closest_marker("halo_may_leak")
    return (mark.args or KINDS) if mark else ()


def _limit(request: pytest.FixtureRequest) -> float | None:
    from .testing import LIMIT

    mark = request.node.get_closest_marker("halo_may_block")
    if mark is None:
        return LIMIT
    return float(mark.args[0]) if mark.args else None
