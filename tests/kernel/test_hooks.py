"""The five verbs: what a plugin that raises, hangs, lies or cancels itself does to the caller and to the others."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from typing import Any, cast

import pluggy
import pytest

from halo_kernel import (
    ContextPart,
    Denial,
    PluginFailed,
    PreparedInput,
    Principal,
    Section,
    Session,
    StorageUnavailable,
    WorkspaceInfo,
    WrongCredentials,
    hook,
    hookspecs,
)
from halo_kernel.hooks import QUEUE, Hooks
from halo_kernel.settings import AgentSettings, LimitSettings
from halo_kernel.supervisor import left_behind

BUDGET = 0.5
SESSION = cast("Session", object())
REQUEST = cast("Any", object())
CALL = cast("Any", object())
HOST = cast("Any", object())


class Bench:
    """Hooks over plugins that a test gives as objects, with the failures they reported."""

    def __init__(self) -> None:
        self.manager = pluggy.PluginManager(hookspecs.PROJECT)
        self.manager.add_hookspecs(hookspecs)
        self.failures: list[PluginFailed] = []
        self.hooks = Hooks(self.manager, on_failure=self.failures.append, budget=BUDGET)

    def add(self, **plugins: object) -> Hooks:
        for name, plugin in plugins.items():
            self.manager.register(plugin, name=name)
        return self.hooks

    @property
    def blamed(self) -> list[tuple[str, str]]:
        return [(failure.plugin, failure.hook) for failure in self.failures]


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    yield made
    await made.hooks.close()


def plugin(name: str, function: Callable[..., object]) -> object:
    """Return a plugin whose one hook is `function`."""
    return type("Plugin", (), {name: staticmethod(hook(function))})()


async def forever() -> None:
    await asyncio.Event().wait()


async def deaf(seconds: float) -> None:
    """Wait, whatever is cancelled."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        try:
            await asyncio.sleep(left)
        except asyncio.CancelledError:
            continue


# collect


def provides(*items: object) -> object:
    return plugin("provide_settings", lambda: items)


SECTION, OTHER = Section("a", AgentSettings), Section("b", LimitSettings)


async def test_gather_orders_by_plugin_name(bench: Bench) -> None:
    """S53: parts come by plugin name, each plugin's in its own order, whatever the order of registration."""
    hooks = bench.add(zoo=provides(SECTION), ant=provides(OTHER, SECTION))
    assert await hooks.gather(hookspecs.provide_settings) == [("ant", OTHER), ("ant", SECTION), ("zoo", SECTION)]


async def test_arguments_reach_only_who_takes_them(bench: Bench) -> None:
    """An implementation names the arguments it wants; positional and keyword calls are the same."""
    seen: list[object] = []

    def provide_models(settings: object) -> list[Any]:
        seen.append(settings)
        return []

    hooks = bench.add(takes=plugin("provide_models", provide_models), not_=plugin("provide_models", lambda: ()))
    given = cast("Any", object())
    await hooks.gather(hookspecs.provide_models, given)
    await hooks.gather(hookspecs.provide_models, settings=given)
    assert seen == [given, given]


def raises() -> object:
    raise ValueError("boom\nmore")


def exits() -> object:
    raise SystemExit(3)


def stops() -> object:
    return next(iter(()))


def hangs() -> object:
    time.sleep(2)
    return []


def half() -> Iterator[Section]:
    yield SECTION
    raise ValueError("boom")


BROKEN: dict[str, tuple[Callable[[], object], str]] = {
    "raises": (raises, "ValueError: boom"),
    "exits": (exits, "SystemExit: 3"),
    "stops": (stops, "StopIteration:"),
    "hangs": (hangs, "it gave no answer within 0.5 s"),
    "half a generator": (half, "ValueError: boom"),
    "None": (lambda: None, "it answered with NoneType"),
    "text": (lambda: "abc", "it answered with str"),
    "mapping": (lambda: {"a": SECTION}, "it answered with dict"),
    "one wrong item": (lambda: [SECTION, 1], "it answered with int, not Section"),
    "an item is None": (lambda: [None], "it answered with NoneType, not Section"),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_gather_leaves_out_a_failing_plugin(bench: Bench, name: str) -> None:
    """S53: whatever a plain hook does, its part alone is missing."""
    function, reason = BROKEN[name]
    hooks = bench.add(bad=plugin("provide_settings", function), good=provides(SECTION))
    assert await hooks.gather(hookspecs.provide_settings) == [("good", SECTION)]
    assert bench.blamed == [("bad", "provide_settings")]
    assert f"plugin 'bad' failed in provide_settings: {reason}" in str(bench.failures[0])
    assert "\n" not in str(bench.failures[0])


async def test_a_hanging_plain_hook_blocks_no_loop(bench: Bench) -> None:
    """`gather` waits for a plain hook in a daemon thread while the loop goes on."""
    hooks = bench.add(bad=plugin("provide_settings", hangs))
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticking = asyncio.create_task(tick())
    await hooks.gather(hookspecs.provide_settings)
    ticking.cancel()
    assert ticks > 5
    left = [thread for thread in threading.enumerate() if thread.name == "bad.provide_settings"]
    assert left
    assert all(thread.daemon for thread in left)


async def test_a_protocol_is_checked_by_its_members(bench: Bench) -> None:
    """A thing that lacks members of its contract is a wrong answer that names them."""

    class HalfTool:
        spec = None

    hooks = bench.add(bad=plugin("provide_tools", lambda: [HalfTool()]))
    assert await hooks.gather(hookspecs.provide_tools, SESSION) == []
    assert str(bench.failures[0]).endswith("it answered with HalfTool, not Tool, it has no run")


def test_every_specification_has_a_known_result() -> None:
    """The result type of each hook resolves, so that no answer goes unchecked."""
    from halo_kernel.hooks import result_type

    specs = [each for each in vars(hookspecs).values() if hasattr(each, "halo_spec")]
    assert len(specs) > 15
    assert all(result_type(spec) not in (object, Any) for spec in specs)


# prepare_context: asynchronous collect


PART = ContextPart(slot="agent", source="a", text="b")


async def good_context() -> list[ContextPart]:
    return [PART]


async def cancels_itself() -> Any:
    raise asyncio.CancelledError


async def cancels_its_task() -> Any:
    cast("asyncio.Task[Any]", asyncio.current_task()).cancel()
    await asyncio.sleep(0)


async def hangs_async() -> Any:
    await forever()


async def hangs_deaf() -> Any:
    await deaf(1)


async def exits_async() -> Any:
    raise SystemExit(1)


async def raises_base() -> Any:
    raise BaseException("bang")


async def lies() -> Any:
    return [1]


ASYNC_BROKEN: dict[str, tuple[Callable[[], Any], str]] = {
    "cancelled error": (cancels_itself, "it cancelled itself"),
    "cancels its task": (cancels_its_task, "it cancelled itself"),
    "hangs": (hangs_async, "it gave no answer within 0.5 s"),
    "deaf": (hangs_deaf, "it gave no answer within 0.5 s"),
    "exits": (exits_async, "SystemExit: 1"),
    "base exception": (raises_base, "BaseException: bang"),
    "wrong type": (lies, "it answered with "),
}


@pytest.mark.parametrize("name", ASYNC_BROKEN)
async def test_a_failing_context_is_reported_after_all_were_asked(bench: Bench, name: str) -> None:
    """`gather` leaves a failing part out; where that is strict, it raises it, typed, once all have been asked."""
    function, reason = ASYNC_BROKEN[name]
    asked: list[str] = []

    async def prepare_context() -> list[ContextPart]:
        await asyncio.sleep(0.05)
        asked.append("good")
        return [PART]

    hooks = bench.add(bad=plugin("prepare_context", function), good=plugin("prepare_context", prepare_context))
    assert await hooks.gather(hookspecs.prepare_context, session=SESSION) == [("good", PART)]
    with pytest.raises(PluginFailed) as raised:
        await replace(hooks, strict=True).gather(hookspecs.prepare_context, session=SESSION)
    assert raised.value.plugin == "bad"
    assert reason in str(raised.value)
    assert asked == ["good", "good"]
    assert cast("asyncio.Task[Any]", asyncio.current_task()).cancelling() == 0


async def test_a_deaf_hook_is_left_behind_by_name(bench: Bench) -> None:
    """A hook that ignores its cancellation costs the budget, not its own time, and is listed until it ends."""
    hooks = bench.add(bad=plugin("prepare_context", hangs_deaf))
    started = time.monotonic()
    await hooks.gather(hookspecs.prepare_context, session=SESSION)
    assert time.monotonic() - started < BUDGET + 0.5
    assert [task.get_name() for task in left_behind] == ["bad.prepare_context"]
    await asyncio.sleep(1.1)
    assert not left_behind


async def test_cancelling_the_caller_cancels_the_plugins(bench: Bench) -> None:
    """A cancelled caller is cancelled at once, its plugins' calls are too, and nobody is blamed."""
    ended: list[str] = []

    async def prepare_context() -> Any:
        try:
            await forever()
        finally:
            ended.append("cancelled")

    hooks = bench.add(slow=plugin("prepare_context", prepare_context), deaf=plugin("prepare_context", hangs_deaf))
    asking = asyncio.create_task(hooks.gather(hookspecs.prepare_context, session=SESSION))
    await asyncio.sleep(0.05)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await asyncio.sleep(0.01)
    assert ended == ["cancelled"]
    assert bench.failures == []


# notify


async def test_notify_waits_for_nobody_and_keeps_order(bench: Bench) -> None:
    """S53: a slow plugin delays neither the caller nor the others; each gets its notifications in order."""
    seen: dict[str, list[str]] = {"slow": [], "quick": []}

    def listener(name: str, pause: float) -> object:
        async def run_started(turn: str) -> None:
            await asyncio.sleep(pause)
            seen[name].append(turn)

        return plugin("run_started", run_started)

    hooks = bench.add(slow=listener("slow", 0.02), quick=listener("quick", 0))
    started = time.monotonic()
    for turn in "abc":
        hooks.notify(hookspecs.run_started, session=cast("Any", None), turn=cast("Any", turn))
    assert time.monotonic() - started < 0.02
    await asyncio.sleep(0.01)
    assert seen["quick"] == ["a", "b", "c"]
    await hooks.close()
    assert seen["slow"] == ["a", "b", "c"]


async def test_notify_drops_and_counts_when_full(bench: Bench) -> None:
    """A plugin that never keeps up loses notifications, which are counted; memory does not grow."""
    hooks = bench.add(slow=plugin("run_started", hangs_async))
    for _ in range(QUEUE + 7):
        hooks.notify(hookspecs.run_started, session=cast("Any", None), turn=cast("Any", "t"))
    assert hooks.dropped == {"slow": 7}


async def test_a_failing_notification_stops_no_later_one(bench: Bench) -> None:
    """A listener that raises is reported and still gets the next notification."""
    seen: list[str] = []

    async def run_started(turn: str) -> None:
        seen.append(turn)
        raise ValueError(turn)

    hooks = bench.add(bad=plugin("run_started", run_started))
    hooks.notify(hookspecs.run_started, session=cast("Any", None), turn=cast("Any", "a"))
    hooks.notify(hookspecs.run_started, session=cast("Any", None), turn=cast("Any", "b"))
    await hooks.close()
    assert seen == ["a", "b"]
    assert bench.blamed == [("bad", "run_started")] * 2


async def test_a_failing_failure_report_is_not_reported_to_plugins(bench: Bench) -> None:
    """`plugin_failed` raising cannot go round in circles."""
    calls: list[str] = []

    async def plugin_failed(failure: PluginFailed) -> None:
        calls.append(failure.hook)
        raise ValueError("again")

    hooks = bench.add(bad=plugin("plugin_failed", plugin_failed))
    told: list[PluginFailed] = []

    def report(failure: PluginFailed) -> None:
        told.append(failure)
        hooks.notify(hookspecs.plugin_failed, failure=failure)

    hooks.on_failure = report
    hooks.notify(hookspecs.plugin_failed, failure=PluginFailed("x", plugin="other", hook="run_started"))
    await asyncio.sleep(0.05)
    assert calls == ["run_started"]
    assert [each.hook for each in told] == ["plugin_failed"]


async def test_tell_waits_for_all_and_never_raises(bench: Bench) -> None:
    """`tell` returns once every plugin was told, failures reported."""
    seen: list[str] = []

    async def slow(workspace: WorkspaceInfo) -> None:
        await asyncio.sleep(0.05)
        seen.append(workspace.id)

    async def bad() -> None:
        raise ValueError("x")

    hooks = bench.add(slow=plugin("workspace_opened", slow), bad=plugin("workspace_opened", bad))
    await hooks.tell(hookspecs.workspace_opened, WorkspaceInfo(id="w", path="/w"), HOST)
    assert seen == ["w"]
    assert bench.blamed == [("bad", "workspace_opened")]


# first


def answers(value: object) -> object:
    async def authenticate() -> object:
        return value

    return plugin("authenticate", authenticate)


ALICE, BOB = Principal(name="alice"), Principal(name="bob")


async def test_first_takes_the_first_answer_in_order(bench: Bench) -> None:
    """Plugins are asked by name, those marked `tryfirst` before and `trylast` after; None is no answer."""

    class Last:
        @hook(trylast=True)
        async def authenticate(self) -> Principal:
            return ALICE

    hooks = bench.add(aaa=Last(), none=answers(None), zzz=answers(BOB))
    assert await hooks.first(hookspecs.authenticate, request=REQUEST, scheme="s") == BOB


async def test_first_without_an_answer_is_none(bench: Bench) -> None:
    """Nobody answering is None."""
    hooks = bench.add(none=answers(None))
    assert await hooks.first(hookspecs.authenticate, REQUEST, "s") is None


@pytest.mark.parametrize("name", [each for each in ASYNC_BROKEN if each != "deaf"])
async def test_a_failing_question_never_goes_to_the_next_plugin(bench: Bench, name: str) -> None:
    """An exception, a timeout or a wrong type fails the question."""
    function, reason = ASYNC_BROKEN[name]
    hooks = bench.add(bad=plugin("authenticate", function), next=answers(BOB))
    with pytest.raises(PluginFailed, match=reason):
        await hooks.first(hookspecs.authenticate, request=REQUEST, scheme="s")
    assert bench.blamed == [("bad", "authenticate")]


async def test_a_typed_refusal_passes_through(bench: Bench) -> None:
    """A `HaloError` that a plugin raises is its answer, not its failure."""

    async def authenticate() -> None:
        raise WrongCredentials("no")

    hooks = bench.add(auth=plugin("authenticate", authenticate), next=answers(BOB))
    with pytest.raises(WrongCredentials):
        await hooks.first(hookspecs.authenticate, request=REQUEST, scheme="s")
    assert bench.failures == []


# guard


def judges(verdict: object, asked: list[str] | None = None) -> object:
    async def authorize_tool() -> object:
        if asked is not None:
            asked.append("asked")
        return verdict

    return plugin("authorize_tool", authorize_tool)


async def test_guard_asks_all_and_any_denial_wins(bench: Bench) -> None:
    """S55: one denial among permits denies, and every plugin was asked."""
    asked: list[str] = []
    hooks = bench.add(a=judges(None, asked), b=judges(Denial("no"), asked), c=judges(None, asked))
    assert await hooks.guard(hookspecs.authorize_tool, call=CALL) == Denial("no")
    assert len(asked) == 3


async def test_guard_without_denial_permits(bench: Bench) -> None:
    """All saying nothing is permission."""
    hooks = bench.add(a=judges(None), b=judges(None))
    assert await hooks.guard(hookspecs.authorize_tool, call=CALL) is None


async def test_a_failing_guard_names_the_way_back(bench: Bench) -> None:
    """What a person can do about a guard's failure is in the denial."""

    async def authorize_tool() -> None:
        raise StorageUnavailable("The database x.db is damaged.", advice="Restore it.")

    denial = await bench.add(bad=plugin("authorize_tool", authorize_tool)).guard(hookspecs.authorize_tool, call=CALL)
    assert denial is not None
    assert denial.reason.endswith("The database x.db is damaged. Restore it.")


@pytest.mark.parametrize("name", ASYNC_BROKEN)
async def test_a_failing_guard_denies(bench: Bench, name: str) -> None:
    """S55: a guard that raises, hangs or answers nonsense is a denial that names the plugin."""
    hooks = bench.add(bad=plugin("authorize_tool", ASYNC_BROKEN[name][0]), good=judges(None))
    denial = await hooks.guard(hookspecs.authorize_tool, call=CALL)
    assert denial is not None
    assert "plugin 'bad'" in denial.reason
    assert bench.blamed == [("bad", "authorize_tool")]


# fold


def row(number: int, text: str = "") -> PreparedInput:
    return PreparedInput(row=number, text=text, content=text, sender="s", stamp="t")


def appends(letter: str) -> object:
    async def prepare_input(batch: list[PreparedInput]) -> list[PreparedInput]:
        return [row(each.row, each.text + letter) for each in batch]

    return plugin("prepare_input", prepare_input)


async def test_fold_runs_by_plugin_name(bench: Bench) -> None:
    """Each plugin gets what the one before it, by name, made of the value."""
    hooks = bench.add(z=appends("z"), a=appends("a"), m=appends("m"))
    value, failures = await hooks.fold(hookspecs.prepare_input, [row(1)], session=SESSION)
    assert [each.text for each in value] == ["amz"]
    assert failures == []


async def test_fold_leaves_out_a_failing_change(bench: Bench) -> None:
    """S53: a failing plugin's change is left out and returned; the others' changes stay."""

    async def drops_a_row(batch: list[PreparedInput]) -> list[PreparedInput]:
        return batch[1:]

    hooks = bench.add(
        a=appends("a"),
        b=plugin("prepare_input", drops_a_row),
        c=plugin("prepare_input", cancels_itself),
        d=plugin("prepare_input", lies),
        e=appends("e"),
    )
    value, failures = await hooks.fold(hookspecs.prepare_input, [row(1), row(2)], SESSION)
    assert [each.text for each in value] == ["ae", "ae"]
    assert [failure.plugin for failure in failures] == ["b", "c", "d"]
    assert "must keep the rows [1, 2]" in str(failures[0])


# strict, close


async def test_strict_raises_what_would_be_left_out() -> None:
    """With `strict` a failing part is raised after it was reported."""
    made = Bench()
    made.hooks = Hooks(made.manager, on_failure=made.failures.append, strict=True, budget=BUDGET)
    hooks = made.add(bad=plugin("provide_settings", raises))
    with pytest.raises(PluginFailed):
        await hooks.gather(hookspecs.provide_settings)
    assert len(made.failures) == 1


async def test_a_broken_reporter_hurts_no_call(bench: Bench) -> None:
    """`on_failure` raising is logged; the verb's own rule holds."""

    def report(failure: PluginFailed) -> None:
        raise RuntimeError("reporter")

    hooks = Hooks(bench.manager, on_failure=report, budget=BUDGET)
    bench.add(bad=plugin("provide_settings", raises), good=provides(SECTION))
    assert await hooks.gather(hookspecs.provide_settings) == [("good", SECTION)]


async def test_close_is_bounded_by_a_stuck_listener(bench: Bench) -> None:
    """Closing gives waiting notifications a second and then ends, whoever is stuck."""
    hooks = bench.add(bad=plugin("run_started", hangs_deaf))
    for _ in range(10):
        hooks.notify(hookspecs.run_started, session=cast("Any", None), turn=cast("Any", "t"))
    started = time.monotonic()
    await hooks.close()
    assert time.monotonic() - started < 2
