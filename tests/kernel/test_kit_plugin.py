"""The pytest plugin in other projects: idle where nobody uses it, and without configuration where somebody does."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

MODES = ["--asyncio-mode=strict", "--asyncio-mode=auto"]
HELLO = """
import asyncio, time
import pytest
from halo_kernel import ContextPart, hook

class Hello:
    @hook
    async def prepare_context(self, session):
        return [ContextPart(slot="agent", source="hello", text="Begin with: Hello.")]
"""


def test_it_imports_nothing_for_those_that_do_not_use_it(pytester: pytest.Pytester) -> None:
    """In a project that uses no fixture of it, the plugin has imported nothing of the kernel but itself."""
    pytester.makepyfile(
        """
        import sys
        def test_nothing_is_loaded():
            ours = {name for name in sys.modules if name.startswith("halo_kernel")}
            assert ours == {"halo_kernel", "halo_kernel.pytest_plugin"}
            assert not {"apsw", "starlette", "hypercorn", "msgspec", "structlog"} & set(sys.modules)
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


def test_it_does_no_harm_without_asyncio(pytester: pytest.Pytester) -> None:
    """Where pytest-asyncio is turned off, other tests run as before."""
    pytester.makepyfile("def test_plain(scripted_model): assert scripted_model.requests == []")
    pytester.runpytest_subprocess("-p", "no:asyncio").assert_outcomes(passed=1)


@pytest.mark.parametrize("mode", MODES)
def test_the_fixture_needs_no_configuration(pytester: pytest.Pytester, mode: str) -> None:
    """A test file alone tests a plugin, in both modes of pytest-asyncio and with strict marks."""
    pytester.makepyfile(
        HELLO
        + """
@pytest.fixture
def halo_plugins():
    return [Hello()]

@pytest.mark.asyncio
async def test_hello(halo, scripted_model, workspace_folder):
    assert (await halo.ask("hi")).text == "echo: hi"
    assert scripted_model.requests[0].system == "Begin with: Hello."
    assert (workspace_folder / ".halo" / "halo.db").exists()
"""
    )
    pytester.runpytest_subprocess(mode, "--strict-markers").assert_outcomes(passed=1)


def test_guards_fail_a_test_and_marks_let_it_be(pytester: pytest.Pytester) -> None:
    """What is left and what blocks fails the test after its end, named; with its mark it does not."""
    pytester.makepyfile(
        HELLO
        + """
async def forgotten():
    await asyncio.sleep(600)

async def test_leaves(halo):
    halo.left = asyncio.create_task(forgotten(), name="poller")
    await halo.start()

@pytest.mark.halo_may_leak("task")
async def test_may_leave(halo):
    asyncio.create_task(forgotten(), name="allowed")
    await asyncio.sleep(0)

async def test_blocks(halo):
    time.sleep(0.6)

@pytest.mark.halo_may_block(5)
async def test_may_block(halo):
    time.sleep(0.6)

@pytest.mark.halo_may_block
async def test_may_block_for_ever(halo):
    time.sleep(0.6)
"""
    )
    result = pytester.runpytest_subprocess("--asyncio-mode=auto", "--strict-markers")
    result.assert_outcomes(passed=5, errors=2)
    result.stdout.fnmatch_lines(
        [
            "*ERROR at teardown of test_leaves*",
            "left behind: task 'poller', waiting at *in forgotten: await asyncio.sleep(600)",
            "*ERROR at teardown of test_blocks*",
            "task * blocked the event loop for 0.* s at *in test_blocks: time.sleep(0.6)",
        ]
    )
    result.stdout.no_fnmatch_line("*allowed*")


def test_fixtures_and_marks_are_described(pytester: pytest.Pytester) -> None:
    """`--fixtures` and `--markers` say what there is."""
    pytester.runpytest_subprocess("--markers").stdout.fnmatch_lines(
        ["@pytest.mark.halo_may_leak*", "@pytest.mark.halo_may_block*"]
    )
    listed = pytester.runpytest_subprocess("--fixtures").stdout.str()
    for name in ("halo", "halo_plugins", "scripted_model", "virtual_clock", "workspace_folder", "crash_points"):
        assert f"\n{name} " in listed
