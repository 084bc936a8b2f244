"""Failover: which models are asked when one fails, in which order, how often, and how long anybody waits for it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from halo_kernel import (
    OPERATOR,
    AgentSpec,
    AssistantDiscarded,
    AssistantMessage,
    Chunk,
    Denial,
    Incoming,
    Kernel,
    Message,
    ModelCall,
    ModelChoice,
    ModelError,
    ModelErrorKind,
    ModelRequest,
    Offer,
    Session,
    Text,
    TextDelta,
    TurnResult,
    UsageRecorded,
    hook,
)
from halo_kernel.testing import (
    Answer,
    Calls,
    Fail,
    Hang,
    NoteTool,
    Pieces,
    ScriptedModel,
    VirtualClock,
    a_session,
    journal,
    running_kernel,
    until,
)

pytestmark = pytest.mark.thorough

IDLE = 0.05
FAULTS: Mapping[str, Callable[[], Any]] = {
    "429": lambda: Fail("throttle", retry_after=None),
    "500": lambda: Fail("server", retry_after=None),
    "timeout": lambda: Hang("half"),
    "cut": lambda: Pieces(["half"], cut=True),
    "key": lambda: Fail("account", retry_after=None),
    "empty": lambda: Pieces([]),
}
KINDS: Mapping[str, ModelErrorKind] = {
    "429": "throttle",
    "500": "server",
    "timeout": "timeout",
    "cut": "network",
    "key": "account",
    "empty": "empty",
}
TRIES = {"429": 2, "500": 2, "timeout": 1, "cut": 2, "key": 1, "empty": 2}  # of a model that has others after it
LAST_TRIES = {**dict.fromkeys(FAULTS, 5), "key": 1}
NAMES = ["a/model", "b/model", "c/model", "d/model"]


class Vendor(ScriptedModel):
    """A provider with a key, whose faults are per model; it answers with its model's name and notes who is asked."""

    def __init__(self, name: str, asked: list[str]) -> None:
        super().__init__(name=name, responder=lambda request: self.faults.get(request.model, self.answer)())
        self.key = f"{name.upper()}_KEY"
        self.faults: dict[str, Callable[[], Any]] = {}
        self._asked = asked

    def answer(self) -> Any:
        return Answer(f"{self.name} here")

    async def offers(self) -> Sequence[Offer]:
        limits = {"model": 4000, "other": 2000}
        return [
            Offer(model=f"{self.name}/{id}", ready=True, reason="a test", max_tokens=most, credential=self.key)
            for id, most in limits.items()
        ]

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        self._asked.append(f"{self.name}/{request.model}")
        try:
            async for chunk in super().stream(request):
                yield chunk
        except ModelError as error:
            raise ModelError(
                error.message, kind=error.kind, retry_after=error.retry_after, credential=self.key
            ) from None


class Market:
    """A plugin with the vendors a, b, c and d, an alias, an agent of its own, and a watch over model calls."""

    def __init__(self, agent: AgentSpec | None = None) -> None:
        self.asked: list[str] = []
        self.vendors = {name: Vendor(name, self.asked) for name in "abcd"}
        self.allowed: list[str] = []
        self.finished: list[ModelCall] = []
        self.refused = ""
        self._agent = agent

    def fail(self, model: str, fault: str, **more: Any) -> None:
        vendor, id = model.split("/")
        self.vendors[vendor].faults[id] = (lambda: Fail(KINDS[fault], **more)) if more else FAULTS[fault]

    def mend(self) -> None:
        for vendor in self.vendors.values():
            vendor.faults.clear()
        self.asked.clear()

    @hook
    def provide_models(self) -> list[Vendor]:
        return list(self.vendors.values())

    @hook
    def provide_agents(self) -> list[Market]:
        return [self] if self._agent else []

    def find(self, workspace: object, agent: str) -> AgentSpec | None:
        return self._agent if self._agent and agent == self._agent.id else None

    def list(self, workspace: object) -> Sequence[AgentSpec]:
        return [self._agent] if self._agent else []

    @hook
    async def resolve_model(self, name: str, session: Session) -> str | None:
        return {"fast": "b/model", "best": "a/model"}.get(name.partition("/")[2])

    @hook
    async def authorize_model(self, call: ModelCall) -> Denial | None:
        self.allowed.append(call.model)
        return Denial("too dear") if call.model == self.refused else None

    @hook
    async def model_finished(self, call: ModelCall) -> None:
        self.finished.append(call)


@asynccontextmanager
async def market(
    tmp_path: Path, names: Sequence[str] = NAMES, *, agent: AgentSpec | None = None, tools: Sequence[Any] = ()
) -> AsyncGenerator[tuple[Kernel, Market, VirtualClock]]:
    """Run a kernel whose models are these, the first by `model.default`, the others as its fallbacks."""
    plugin, clock = Market(agent), VirtualClock()
    first, *others = names
    env = {
        "HALO_MODEL_DEFAULT": first,
        "HALO_MODEL_FALLBACKS": ",".join(others),
        "HALO_MODEL_IDLE_TIMEOUT": str(IDLE),
    }
    home = tmp_path / "home"
    async with running_kernel(home, extra={"market": plugin}, clock=clock, env=env, tools=tools) as kernel:
        yield kernel, plugin, clock


async def ask(session: Session, text: str = "go") -> TurnResult:
    return await asyncio.wait_for(session.prompt(Incoming(text=text)).result, 30)


async def test_every_fault_at_every_place_keeps_the_order(tmp_path: Path) -> None:
    """Whatever the first three models fail with, they are asked in the configured order, and the fourth answers."""
    async with market(tmp_path) as (kernel, plugin, clock):
        session = await a_session(kernel, tmp_path / "w")
        for faults in itertools.product(FAULTS, repeat=3):
            for name, fault in zip(NAMES[:3], faults, strict=True):
                plugin.fail(name, fault)
            before = clock.monotonic()
            assert (await ask(session)).text == "d here", faults
            wanted = [name for name, fault in zip(NAMES, faults, strict=False) for _ in range(TRIES[fault])]
            assert plugin.asked == [*wanted, "d/model"], faults
            assert clock.monotonic() - before <= 3 * 5, faults
            plugin.mend()
            clock.advance(60)


@pytest.mark.parametrize("failing", [0, 1, 2, 3])
@pytest.mark.parametrize("fault", FAULTS)
async def test_each_attempt_is_an_event_that_names_its_model(tmp_path: Path, fault: str, failing: int) -> None:
    """What failed is journaled attempt by attempt with its model, as is every cost that a model reported."""
    async with market(tmp_path) as (kernel, plugin, _):
        for name in NAMES[:failing]:
            plugin.fail(name, fault)
        session = await a_session(kernel, tmp_path / "w")
        assert (await ask(session)).outcome == "succeeded"
        bodies = [event.body for event in await journal(session)]
        discarded = [(body.model, body.attempt, body.reason) for body in bodies if isinstance(body, AssistantDiscarded)]
        assert discarded == [
            (name, number + 1, KINDS[fault]) for name in NAMES[:failing] for number in range(TRIES[fault])
        ]
        said = [(body.model, body.attempt) for body in bodies if isinstance(body, AssistantMessage)]
        assert said == [(NAMES[failing], 1)]
        paid = [name for name, _, _ in discarded if fault == "empty"]  # which ends, unlike the others, with its usage
        assert [body.model for body in bodies if isinstance(body, UsageRecorded)] == [*paid, NAMES[failing]]
        assert session.info.model == NAMES[failing]


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("fault", FAULTS)
async def test_the_last_model_has_all_attempts_and_the_wait_is_bounded(tmp_path: Path, fault: str, count: int) -> None:
    """When all fail, the last had `agent.max_retries`, and the turn ends with its error within the stated time."""
    async with market(tmp_path, NAMES[:count]) as (kernel, plugin, clock):
        for name in NAMES[:count]:
            plugin.fail(name, fault)
        session = await a_session(kernel, tmp_path / "w")
        before = clock.monotonic()
        result = await ask(session)
        assert (result.outcome, result.kind) == ("failed", KINDS[fault])
        wanted = [name for name in NAMES[: count - 1] for _ in range(TRIES[fault])]
        assert plugin.asked == [*wanted, *[NAMES[count - 1]] * LAST_TRIES[fault]]
        assert clock.monotonic() - before <= 5 * (count - 1) + 4 * 61


async def test_nobody_waits_for_a_model_that_asks_for_long(tmp_path: Path) -> None:
    """A model that wants an hour is left at once for the next; only the last one is waited for, a minute at a time."""
    async with market(tmp_path, NAMES[:2]) as (kernel, plugin, clock):
        for name in NAMES[:2]:
            plugin.fail(name, "429", retry_after=3600)
        session = await a_session(kernel, tmp_path / "w")
        before = clock.monotonic()
        assert (await ask(session)).kind == "throttle"
        assert plugin.asked == ["a/model", *["b/model"] * 5]
        assert clock.monotonic() - before == pytest.approx(4 * 60)


@pytest.mark.parametrize("kind", ["overflow", "refused"])
async def test_what_no_other_model_does_better_is_not_passed_on(tmp_path: Path, kind: ModelErrorKind) -> None:
    """A request that is too long or wrong fails at once, with one attempt."""
    async with market(tmp_path) as (kernel, plugin, _):
        plugin.vendors["a"].then(Fail(kind))
        session = await a_session(kernel, tmp_path / "w")
        assert (await ask(session)).kind == kind
        assert plugin.asked == ["a/model"]


@pytest.mark.parametrize(
    ("fault", "more", "seconds"),
    [
        *[("429", {"retry_after": None}, 60), ("429", {"retry_after": 10.0}, 10), ("429", {"retry_after": 1e9}, 3600)],
        *[("500", {"retry_after": None}, 60), ("key", {"retry_after": None}, 60)],
        *[("cut", {"retry_after": None}, 0), ("empty", {"retry_after": None}, 0)],
    ],
)
async def test_a_failing_model_cools_down(tmp_path: Path, fault: str, more: dict[str, Any], seconds: int) -> None:
    """After 429, 5xx and a refused key a model is passed over for as long as it asked, or a minute; else not."""
    async with market(tmp_path, NAMES[:2]) as (kernel, plugin, clock):
        session = await a_session(kernel, tmp_path / "w")
        plugin.fail("a/model", fault, **more)
        assert (await ask(session)).text == "b here"
        plugin.mend()
        if seconds:
            clock.advance(seconds - 1)
            assert (await ask(session)).text == "b here" and plugin.asked == ["b/model"]
            clock.advance(1.1)
        assert (await ask(session)).text == "a here"


async def test_the_last_model_is_asked_though_it_cools_down(tmp_path: Path) -> None:
    """When all are cooling down, the last one is asked all the same."""
    async with market(tmp_path, NAMES[:3]) as (kernel, plugin, _):
        session = await a_session(kernel, tmp_path / "w")
        for name in NAMES[:3]:
            plugin.fail(name, "key")
        assert (await ask(session)).kind == "account"
        plugin.mend()
        assert (await ask(session)).text == "c here"
        assert plugin.asked == ["c/model"]


async def test_cooling_down_is_of_one_model_under_one_key(tmp_path: Path) -> None:
    """A model's other names and other keys are not meant: the same key serves another model, another key this one."""
    names = ["a/model", "a/other", "b/model"]
    async with market(tmp_path, names) as (kernel, plugin, _):
        session = await a_session(kernel, tmp_path / "w")
        plugin.fail("a/model", "429", retry_after=None)
        assert (await ask(session)).outcome == "succeeded"
        assert plugin.asked == ["a/model", "a/model", "a/other"]
        plugin.mend()
        await ask(session)
        assert plugin.asked == ["a/other"]
        plugin.asked.clear()
        plugin.vendors["a"].key = "SECOND_KEY"
        kernel._models._known.clear()  # what it offers is asked again after two real seconds
        await ask(session)
        assert plugin.asked == ["a/model"]
        plugin.asked.clear()
        plugin.vendors["a"].key = "A_KEY"
        kernel._models._known.clear()
        await ask(session)
        assert plugin.asked == ["a/other"]


async def test_a_provider_that_names_no_key_cools_down_by_model(tmp_path: Path) -> None:
    """Where an offer does not say which key it would use, a model is passed over whichever of its keys failed."""
    async with market(tmp_path, NAMES[:2]) as (kernel, plugin, _):
        vendor = plugin.vendors["a"]

        async def silent() -> Sequence[Offer]:
            return [Offer(model="a/model", ready=True, reason="a test")]

        vendor.offers = silent  # type: ignore[method-assign]
        session = await a_session(kernel, tmp_path / "w")
        plugin.fail("a/model", "key")
        await ask(session)
        await ask(session)
        assert plugin.asked == ["a/model", "b/model", "b/model"]


async def test_a_turn_that_moved_on_stays_there(tmp_path: Path) -> None:
    """Within a turn nobody goes back to a model that failed; the next turn begins with the first again."""
    async with market(tmp_path, NAMES[:2], tools=[NoteTool()]) as (kernel, plugin, _):
        plugin.fail("a/model", "cut")
        plugin.vendors["b"].then(Calls([("note", {"text": "x"})]))
        session = await a_session(kernel, tmp_path / "w")
        assert (await ask(session)).text == "b here"
        assert plugin.asked == ["a/model", "a/model", "b/model", "b/model"]
        plugin.mend()
        assert (await ask(session)).text == "a here"


async def test_a_fallback_gets_the_conversation_and_none_of_the_agents_options(tmp_path: Path) -> None:
    """The agent's endpoint and options are meant for its own model; a limit of tokens holds, within the other's own."""
    wish = ModelChoice(model="x/best", endpoint="https://a.example", max_tokens=3000, options={"thinking": True})
    agent = AgentSpec(id="chooser", name="Chooser", model=wish, priority=9)
    async with market(tmp_path, ["d/model", "a/other", "x/fast"], agent=agent) as (kernel, plugin, _):
        plugin.fail("a/model", "key")
        plugin.fail("a/other", "key")
        (tmp_path / "w").mkdir()
        workspace = await kernel.host.workspaces.open(tmp_path / "w")
        session = await kernel.host.sessions.create(workspace=workspace.id, principal=OPERATOR, agent="chooser")
        assert (await ask(session, "hello")).text == "b here"
        assert plugin.asked == ["a/model", "a/other", "b/model"]
        requests = [*plugin.vendors["a"].requests, *plugin.vendors["b"].requests]
        sent = [(request.endpoint, request.options, request.max_tokens) for request in requests]
        assert sent == [("https://a.example", {"thinking": True}, 3000), (None, {}, 2000), (None, {}, 3000)]
        assert len({request.messages for request in requests}) == 1


async def test_a_fallback_without_a_provider_is_left_out(tmp_path: Path) -> None:
    """A fallback that no plugin provides is passed over, one that is named twice is asked once."""
    async with market(tmp_path, ["a/model", "nobody/x", "a/model", "b/model"]) as (kernel, plugin, _):
        plugin.fail("a/model", "cut")
        session = await a_session(kernel, tmp_path / "w")
        assert (await ask(session)).text == "b here"
        assert plugin.asked == ["a/model", "a/model", "b/model"]


@pytest.mark.parametrize(
    ("own", "asked"),
    [(("c/model", "d/model"), "c"), ((), ""), (None, "b")],
    ids=["its own", "none", "those of all"],
)
async def test_an_agent_has_fallbacks_of_its_own(tmp_path: Path, own: tuple[str, ...] | None, asked: str) -> None:
    """An agent's fallbacks are asked in place of those of all; an empty list is none."""
    agent = AgentSpec(id="picky", name="picky", model=ModelChoice(model="a/model", fallbacks=own))
    async with market(tmp_path, NAMES[:2], agent=agent) as (kernel, plugin, _):
        plugin.fail("a/model", "key")
        workspace = await kernel.host.workspaces.open(_folder(tmp_path))
        session = await kernel.host.sessions.create(workspace=workspace.id, principal=OPERATOR, agent="picky")
        result = await ask(session)
        assert (result.outcome, result.text) == (("succeeded", f"{asked} here") if asked else ("failed", ""))
        assert plugin.asked == ["a/model", *([f"{asked}/model"] if asked else [])]


def _folder(tmp_path: Path) -> Path:
    (tmp_path / "w").mkdir(exist_ok=True)
    return tmp_path / "w"


async def test_each_model_is_a_call_of_its_own_for_the_guards(tmp_path: Path) -> None:
    """Every model that is asked is allowed first and accounted for; a denial is not passed on to the next one."""
    async with market(tmp_path, NAMES[:3]) as (kernel, plugin, _):
        plugin.fail("a/model", "key")
        session = await a_session(kernel, tmp_path / "w")
        await ask(session)
        await until(lambda: len(plugin.finished) == 2)
        first, second = plugin.finished
        assert plugin.allowed == [first.model, second.model] == NAMES[:2] and first.id != second.id
        assert first.error and first.error.kind == "account" and second.usage and not second.error
        plugin.refused = "b/model"
        result = await ask(session)
        assert result.kind == "refused" and "too dear" in result.error
        assert plugin.asked == ["a/model", "b/model"]


async def test_a_call_beside_the_turn_fails_over_too(tmp_path: Path) -> None:
    """`Session.complete` asks the same models in the same order; one that it names goes before the fallbacks."""
    async with market(tmp_path, NAMES[:2]) as (kernel, plugin, _):
        plugin.fail("a/model", "cut")
        session = await a_session(kernel, tmp_path / "w")
        request = ModelRequest(model="", system="", messages=(Message("user", (Text("sum up"),)),))
        assert await session.complete(request, purpose="summary") == "b here"
        assert plugin.asked == ["a/model", "a/model", "b/model"]
        plugin.mend()
        plugin.fail("c/model", "500")
        named = ModelRequest(model="c/model", system="", messages=request.messages)
        assert await session.complete(named, purpose="summary") == "b here"
        assert plugin.asked == ["c/model", "c/model", "b/model"]
        costs = [event.body for event in await journal(session) if isinstance(event.body, UsageRecorded)]
        assert [(cost.model, cost.purpose) for cost in costs] == [("b/model", "summary")] * 2


@pytest.mark.parametrize("said", ["word", ""])
async def test_data_holds_the_idle_timeout_off(tmp_path: Path, said: str) -> None:
    """An answer that takes longer than the idle timeout is waited for while anything comes, a sign of life too."""

    class Slow(ScriptedModel):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
            for _ in range(5):
                await asyncio.sleep(0.3)
                yield TextDelta(said)
            async for chunk in super().stream(request):
                yield chunk

    model, env = Slow([Answer("done")]), {"HALO_MODEL_IDLE_TIMEOUT": "1"}
    async with running_kernel(tmp_path / "home", model=model, env=env) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        assert (await ask(session)).text == f"{said * 5}done"
        assert len(model.requests) == 1
