"""Plugins beside one another: what each adds, whatever others do; who refuses; and what is one session's alone."""

from __future__ import annotations

import asyncio
import itertools
import random
import tempfile
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, cast

import pluggy
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from halo_kernel import (
    ContextPart,
    Denial,
    Incoming,
    PluginFailed,
    PreparedInput,
    Question,
    Session,
    Tool,
    hook,
    hookspecs,
)
from halo_kernel.hooks import Hooks
from halo_kernel.testing import Calls, NoteTool, ScriptedModel, VirtualClock, a_session, running_kernel

SESSION = cast("Session", object())
CALL = cast("Any", object())
NAMES = st.text("abcxyz", min_size=1, max_size=3)
BROKEN = ("raises", "exits", "cancels itself", "hangs", "text", "nothing")
Does = Callable[[], Coroutine[Any, Any, Any]]


def behaviour(kind: str, good: object) -> Does:
    """Return a hook's body that answers with `good`, or does something else."""

    async def run() -> Any:
        match kind:
            case "raises":
                raise LookupError("broken")
            case "exits":
                raise SystemExit(1)
            case "cancels itself":
                raise asyncio.CancelledError
            case "hangs":
                await asyncio.sleep(60)
            case "slow":
                await asyncio.sleep(0.005)
            case "text":
                return "nonsense"
            case "nothing":
                return object()
            case _:
                pass
        return good

    return run


def hooks_of(plugins: dict[str, object], failures: list[PluginFailed]) -> Hooks:
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    for name, plugin in plugins.items():
        manager.register(plugin, name=name)
    return Hooks(manager, on_failure=failures.append, budget=0.05)


def plugin(name: str, body: Callable[..., Any]) -> object:
    """Return a plugin whose one hook is `body`."""
    return type("Plugin", (), {name: staticmethod(hook(body))})()


def part_of(name: str, does: Does) -> object:
    async def prepare_context() -> Any:
        return await does()

    return plugin("prepare_context", prepare_context)


def change_of(name: str, does: Does) -> object:
    async def prepare_input(batch: Sequence[PreparedInput]) -> Any:
        answer = await does()
        return [replace(row, text=row.text + answer) for row in batch] if answer == f"+{name}" else answer

    return plugin("prepare_input", prepare_input)


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(NAMES, st.sampled_from(["good", "slow", *BROKEN]), max_size=5))
async def test_a_broken_plugin_costs_its_own_part(kinds: dict[str, str]) -> None:
    """S53: whatever some plugins do, the parts and changes of the others are there, by name, and only these fail."""
    good = sorted(name for name, kind in kinds.items() if kind in ("good", "slow"))
    failures: list[PluginFailed] = []
    parts = {name: ContextPart(slot="agent", source=name, text=name) for name in kinds}
    hooks = hooks_of({name: part_of(name, behaviour(kind, [parts[name]])) for name, kind in kinds.items()}, failures)
    assert await hooks.gather(hookspecs.prepare_context, session=SESSION) == [(name, parts[name]) for name in good]
    assert sorted(failure.plugin for failure in failures) == sorted(kinds.keys() - set(good))
    await hooks.close()
    hooks = hooks_of({name: change_of(name, behaviour(kind, f"+{name}")) for name, kind in kinds.items()}, [])
    start: Sequence[PreparedInput] = [PreparedInput(row=1, text="", content="", sender="me", stamp="now")]
    changed, left_out = await hooks.fold(hookspecs.prepare_input, start, session=SESSION)
    assert [each.text for each in changed] == ["".join(f"+{name}" for name in good)]
    assert sorted(failure.plugin for failure in left_out) == sorted(kinds.keys() - set(good))
    await hooks.close()


VERDICTS: dict[str, object] = {"permits": None, "asks": Question(text="?"), "denies": Denial("no")}


def rank(verdict: object) -> int:
    return 2 if isinstance(verdict, Denial) else 1 if isinstance(verdict, Question) else 0


def guard_of(does: Does) -> object:
    async def authorize_tool() -> Any:
        return await does()

    return plugin("authorize_tool", authorize_tool)


async def judged(kinds: Sequence[str]) -> object:
    failing: list[PluginFailed] = []
    guards = {f"p{at}": guard_of(behaviour(kind, VERDICTS.get(kind))) for at, kind in enumerate(kinds)}
    hooks = hooks_of(guards, failing)
    verdict = await hooks.guard(hookspecs.authorize_tool, call=CALL, session=SESSION)
    await hooks.close()
    return verdict


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from([*VERDICTS, *BROKEN]), max_size=4), st.sampled_from([*VERDICTS, *BROKEN]))
async def test_one_more_guard_never_allows_more(kinds: list[str], more: str) -> None:
    """S55: the strictest verdict counts, a guard that fails denies, and a guard that is added never lifts a verdict."""
    before, after = await judged(kinds), await judged([*kinds, more])
    each = [rank(VERDICTS[kind]) if kind in VERDICTS else 2 for kind in kinds]
    assert rank(before) == max(each, default=0)
    assert rank(after) >= rank(before)
    assert rank(await judged([more, *kinds])) == rank(after), "whatever their order"


class PerSession:
    """A plugin that has a tool for each session alone, for all of a tree, or for none."""

    def __init__(self, rnd: random.Random, none: float = 0.0) -> None:
        self._rnd = rnd
        self._none = none
        self.given: dict[str, set[str]] = defaultdict(set)
        self._names = itertools.count()
        self.ended: list[str] = []

    @hook
    def provide_tools(self, session: Session) -> list[Tool]:
        name = f"only_{next(self._names)}"
        session.scope.push("part", lambda: self.ended.append(session.info.id))
        if self._rnd.random() < self._none:
            return []
        self.given[session.info.id].add(name)
        return [NoteTool(name)]


async def beside_one_another(rnd: random.Random, home: Path) -> None:
    plugin, model = PerSession(rnd, none=0.2), ScriptedModel()
    async with running_kernel(
        home / "home", model=model, tools=[NoteTool()], extra={"plugin": plugin}, clock=VirtualClock()
    ) as kernel:
        sessions = [await a_session(kernel, home / "w") for _ in range(3)]
        sessions.append(await sessions[0].start_child("default"))

        async def use(session: Session) -> None:
            for number in range(rnd.randint(1, 3)):
                await asyncio.sleep(rnd.random() * 0.004)
                await session.append("test.count", {}, state={"of": session.info.id, "number": number})
                result = await session.prompt(Incoming(text="hi")).result
                assert result.outcome == "succeeded"

        await asyncio.gather(*(use(session) for session in sessions))
        for request in model.requests:
            own = {tool.name for tool in request.tools} - {"note"}
            assert own <= plugin.given[request.session] and len(own) <= 1, "a session's tools are its own"
        for session in sessions:
            state: Any = await session.state("test")
            assert state["of"] == session.info.id
        name = sessions[1].info.id
        before = list(plugin.ended)  # one that read its journal anew has ended a part before
        await sessions[1].close("abort")  # type: ignore[attr-defined]
        assert plugin.ended == [*before, name], "and so is its end"


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1 << 30))
def test_what_is_one_sessions_is_no_other_s(seed: int) -> None:
    """S56: tools, state and scope that a plugin has for one session are seen by no other, its child's neither."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(beside_one_another(random.Random(seed), Path(folder)))


async def test_a_tool_of_another_session_is_no_tool(tmp_path: Path) -> None:
    """S56: a model that names a tool which only another session has is told that there is none, and nothing runs."""
    plugin, model = PerSession(random.Random()), ScriptedModel()
    async with running_kernel(tmp_path / "home", model=model, extra={"plugin": plugin}) as kernel:
        one, two = await a_session(kernel, tmp_path / "w"), await a_session(kernel, tmp_path / "w")
        await one.prompt(Incoming(text="hi")).result
        (name,) = plugin.given[one.info.id]
        model.then(Calls([(name, {"text": "x"})]))
        await two.prompt(Incoming(text="hi")).result
        assert f'unknown tool "{name}"' in str(model.requests[-1].messages[-1])
