"""The outbox: every route gets one reply, in parts that are sent once and in order, and nothing is lost on the way."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halo_kernel import (
    OPERATOR,
    BadInput,
    Conflict,
    Delivery,
    DeliveryFailed,
    Guarantee,
    Incoming,
    Kernel,
    ModelRequest,
    NotFound,
    Owed,
    Part,
    Principal,
    Session,
    TurnResult,
    hook,
    plain_text,
)
from halo_kernel.outbox import courier
from halo_kernel.testing import (
    Answer,
    Calls,
    Fail,
    Hang,
    Lost,
    NoteTool,
    Postbox,
    Refused,
    ScriptedModel,
    SimplePlugin,
    Step,
    VirtualClock,
    a_session,
    running_kernel,
    until,
)

HERE = "post:me:here"
THERE = "post:me:there"
STATES = {"pending", "sending", "sent", "failed", "uncertain"}


async def deliveries(kernel: Kernel, **options: object) -> list[Delivery]:
    """Return the deliveries of the only workspace, oldest first."""
    (workspace,) = await kernel.host.workspaces.list()
    return [*reversed(await kernel.host.outbox.list(workspace=workspace.id, **options))]  # type: ignore[arg-type]


async def settled(kernel: Kernel, seconds: float = 5.0) -> list[Delivery]:
    """Return the deliveries once none of them has a part that is neither sent nor given up."""
    for _ in range(int(seconds * 100)):
        if not await deliveries(kernel, unsettled=True):
            return await deliveries(kernel)
        await asyncio.sleep(0.01)
    raise AssertionError(f"not settled: {await deliveries(kernel, unsettled=True)}")


def states(delivery: Delivery) -> list[str]:
    return [part.state for part in delivery.parts]


def ring(kernel: Kernel) -> None:
    """Have everybody look again, as when time has passed on a clock that jumps."""
    for seat in kernel.workspaces.seats.values():
        seat.database.notify("outbox")


async def owe(kernel: Kernel, folder: Path, key: str, target: str = HERE, text: str = "hello") -> int:
    folder.mkdir(exist_ok=True)
    workspace = await kernel.host.workspaces.open(folder)
    owed = Owed(key=key, dispatcher="post", target=target, text=text)
    return await kernel.host.outbox.owe(owed, workspace=workspace.id)


async def ask(session: Session, text: str, route: str = HERE) -> TurnResult:
    return await asyncio.wait_for(session.prompt(Incoming(text=text, route=route)).result, 10)


def echoing(*steps: Step) -> ScriptedModel:
    """Return a model that answers with the last line of what it was told."""

    def echo(request: ModelRequest) -> Step:
        return Answer("echo: " + plain_text(request.messages[-1].content).split("\n")[-1])

    return ScriptedModel(steps, responder=echo)


# Replies


async def test_a_turn_replies_to_its_route(tmp_path: Path) -> None:
    """The answer of a turn is delivered to the route of its message, and the delivery says what became of it."""
    post = Postbox()
    async with running_kernel(tmp_path / "home", model=echoing(), extra={"post": post}) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await ask(session, "hi", "post:me:here:thread")
        (delivery,) = await settled(kernel)
        (part,) = post.arrived
        assert (part.text, part.target, part.number, part.attempt) == ("echo: hi", "post:me:here:thread", 1, 1)
        assert (part.debt, part.reason, part.session) == ("reply", "answered", session.info.id)
        assert (delivery.dispatcher, delivery.target, delivery.text) == ("post", "post:me:here:thread", "echo: hi")
        assert states(delivery) == ["sent"] and delivery.parts[0].sent_id == f"sent-{part.key}"
        assert session.info.workspace in part.key, "another workspace's part has another key"


@pytest.mark.parametrize(
    ("how", "reason", "text"),
    [
        ("failed", "aborted", "❌ scripted failure"),
        ("cancelled", "cancelled", "The turn was cancelled."),
        ("interrupted", "aborted", "The turn was interrupted."),
        ("stopped", "cancelled", "The session was stopped."),
        ("archived", "cancelled", "The session was archived."),
    ],
)
async def test_whatever_becomes_of_a_turn_its_route_is_told(tmp_path: Path, how: str, reason: str, text: str) -> None:
    """A turn that fails, is cancelled, interrupted or stopped owes a reply like any other."""
    post, steps = Postbox(), {"failed": Fail("refused")}
    model = ScriptedModel([steps.get(how, Hang("half"))])
    async with running_kernel(tmp_path / "home", model=model, extra={"post": post}) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        first = session.prompt(Incoming(text="go", route=HERE))
        if how not in steps:
            await until(lambda: model.active)
        if how == "cancelled":
            session.interrupt()
        elif how == "interrupted":
            await session.prompt(Incoming(text="now", mode="interrupt_hard")).result
        elif how in ("stopped", "archived"):
            await getattr(session, {"stopped": "stop", "archived": "archive"}[how])()
        await asyncio.wait_for(first.result, 10)
        (delivery,) = await settled(kernel)
        assert (delivery.reason, delivery.text, delivery.target) == (reason, text, HERE)
        assert [part.text for part in post.arrived] == [text]


async def test_a_turn_that_gave_way_owes_nothing(tmp_path: Path) -> None:
    """The routes of a turn that gave way to a newer message pass to the turn that answers both."""
    post, model = Postbox(), echoing(Calls([("note", {"text": "x"})]))
    arrived = asyncio.Event()
    note = NoteTool(wait=lambda call: arrived.wait())
    async with running_kernel(tmp_path / "home", model=model, tools=[note], extra={"post": post}) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        first = session.prompt(Incoming(text="one", route=HERE))
        await until(lambda: note.seen)
        second = session.prompt(Incoming(text="two", route=THERE))
        await second.accepted
        arrived.set()
        assert (await first.result) == (await second.result)
        await settled(kernel)
        assert sorted((part.target, part.text) for part in post.arrived) == [(HERE, "echo: two"), (THERE, "echo: two")]


async def test_a_stop_answers_for_a_turn_that_gave_way(tmp_path: Path) -> None:
    """When the message that a turn gave way to is stopped before it runs, both of their routes are told."""
    post, model = Postbox(), ScriptedModel([Calls([("note", {"text": "x"})]), Hang()])
    arrived = asyncio.Event()
    note = NoteTool(wait=lambda call: arrived.wait())
    async with running_kernel(tmp_path / "home", model=model, tools=[note], extra={"post": post}) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        first = session.prompt(Incoming(text="one", route=HERE))
        await until(lambda: note.seen)
        other = Principal(name="somebody", kind="agent")
        await session.submit(Incoming(text="two", route=THERE, principal=other))  # another kind: a turn of its own
        await session.submit(Incoming(text="three", route="post:me:third"))
        await session.stop()
        arrived.set()
        await first.result
        await settled(kernel)
        assert Counter(part.target for part in post.arrived) == {HERE: 1, THERE: 1, "post:me:third": 1}


async def test_a_message_without_route_owes_nothing(tmp_path: Path) -> None:
    """Who reads the journal gets no delivery."""
    async with running_kernel(tmp_path / "home", extra={"post": Postbox()}) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await ask(session, "hi", "")
        assert await deliveries(kernel) == []


async def test_a_route_gets_one_reply_a_turn(tmp_path: Path) -> None:
    """Three messages that one turn answers, two of them from one place, are two replies."""
    post, model = Postbox(), ScriptedModel([Hang()])
    async with running_kernel(tmp_path / "home", model=model, extra={"post": post}) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        first = session.prompt(Incoming(text="wait"))
        await until(lambda: model.active)
        for text, route in (("a", HERE), ("b", THERE), ("c", HERE)):
            await session.submit(Incoming(text=text, route=route, mode="follow_up"))
        session.interrupt()
        await first.result
        await until(lambda: len(post.arrived) == 2)
        await settled(kernel)
        assert sorted(part.target for part in post.arrived) == [HERE, THERE]


async def test_a_withdrawn_message_owes_nothing(tmp_path: Path) -> None:
    """A message that its sender took back before a turn consumed it has no reply."""
    model = ScriptedModel([Hang()])
    async with running_kernel(tmp_path / "home", model=model, extra={"post": Postbox()}) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        first = session.prompt(Incoming(text="wait"))
        await until(lambda: model.active)
        second = session.prompt(Incoming(text="never mind", route=HERE, mode="follow_up"))
        await second.accepted
        second.cancel()
        assert (await second.result).outcome == "cancelled"
        session.interrupt()
        await first.result
        assert await deliveries(kernel) == []


async def test_what_a_crash_cut_is_answered_by_the_turn_after_it(tmp_path: Path) -> None:
    """The route of a message whose turn was cut gets its reply from the turn that goes on after the restart."""
    post, home = Postbox(), tmp_path / "home"
    async with running_kernel(home, model=ScriptedModel([Hang("half")]), extra={"post": post}) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await session.submit(Incoming(text="go", route=HERE))
        await asyncio.sleep(0.05)
    assert post.arrived == []
    model = ScriptedModel([Answer("here it is")])
    async with running_kernel(home, model=model, extra={"post": post}) as kernel:
        await until(lambda: post.arrived)
        assert [part.text for part in post.arrived] == ["here it is"]
        await settled(kernel)


# Parts


async def test_parts_are_planned_before_the_first_is_sent(tmp_path: Path) -> None:
    """A long text becomes all of its parts at once, and each is begun in the open before it is sent."""
    seen: list[list[str]] = []

    async def look(part: Part) -> None:
        (delivery,) = await deliveries(kernel)
        seen.append(states(delivery))

    post = Postbox(limit=3, before=look)
    async with running_kernel(tmp_path / "home", extra={"post": post}) as kernel:
        await owe(kernel, tmp_path / "w", "k", text="abcdefgh")
        await settled(kernel)
        assert [(part.number, part.text) for part in post.arrived] == [(1, "abc"), (2, "def"), (3, "gh")]
        assert seen == [
            ["sending", "pending", "pending"],
            ["sent", "sending", "pending"],
            ["sent", "sent", "sending"],
        ]
        assert len({part.key for part in post.arrived}) == 3


async def test_one_part_is_in_flight_for_each_chat(tmp_path: Path) -> None:
    """What goes to one chat goes one after the other, threads included; different chats are served side by side."""
    flying, together, most = Counter[str](), 0, 0

    async def fly(part: Part) -> None:
        nonlocal together, most
        chat = ":".join(part.target.split(":")[:3])
        flying[chat] += 1
        together += 1
        most = max(most, together)
        assert flying[chat] == 1
        await asyncio.sleep(0.02)
        flying[chat] -= 1
        together -= 1

    post = Postbox(limit=2, before=fly)
    async with running_kernel(tmp_path / "home", extra={"post": post}) as kernel:
        targets = [HERE, f"{HERE}:thread", THERE, "post:other:here", "anything"]
        for number in range(10):
            await owe(kernel, tmp_path / "w", f"k{number}", targets[number % 5], f"{number}a{number}b")
        done = await settled(kernel)
        assert all(states(delivery) == ["sent", "sent"] for delivery in done)
        for chat in ([HERE, f"{HERE}:thread"], [THERE], ["post:other:here"], ["anything"]):
            texts = [part.text for part in post.arrived if part.target in chat]
            assert texts == sorted(texts), "in the order in which they were owed"
        assert most == 4


FATES = st.one_of(
    st.none(),
    st.builds(Refused, permanent=st.booleans(), retry_after=st.sampled_from([None, 0.0, 5.0, 4000.0])),
    st.builds(Lost, arrived=st.booleans()),
)
GUARANTEES: list[Guarantee] = ["keyed", "queryable", "local", "none"]


@settings(max_examples=40, deadline=None)
@given(
    guarantee=st.sampled_from(GUARANTEES),
    fates=st.lists(FATES, max_size=12),
    owed=st.lists(st.tuples(st.sampled_from([HERE, THERE]), st.integers(1, 3)), min_size=1, max_size=4),
)
def test_every_part_comes_to_an_end(guarantee: Guarantee, fates: list[object], owed: list[tuple[str, int]]) -> None:
    """Whatever becomes of attempts, a planned part is in one of five states, and in one of the last three at the end.

    A part that was sent arrived, exactly once where the guarantee allows to know; one that failed did not arrive; the
    rest of a message whose part failed was not sent; chats are in order.
    """
    post = Postbox(guarantee=guarantee, fates=fates, limit=2)  # type: ignore[arg-type]

    async def check(kernel: Kernel, *, at_end: bool = False) -> None:
        before = [(part.delivery, part.number) for part in post.arrived]
        found_now = await deliveries(kernel)
        after = [(part.delivery, part.number) for part in post.arrived]
        for delivery, (target, count) in zip(found_now, owed, strict=False):
            found = states(delivery)
            assert delivery.target == target and set(found) <= STATES
            assert len(found) in ({count} if at_end else {1, count}), "planned = pending + … + uncertain"
            assert found.count("sending") <= 1
            if "failed" in found:
                bad = found.index("failed")
                assert set(found[bad:]) == {"failed"}
                assert [part.error for part in delivery.parts[bad + 1 :]] == [f"after part {bad + 1}"] * (
                    count - bad - 1
                )
            for part in delivery.parts:
                this = delivery.id, part.number
                if part.state == "sent":
                    assert after.count(this) == 1
                elif part.state == "failed" or (part.state == "pending" and guarantee in ("queryable", "none")):
                    assert before.count(this) == 0
                assert after.count(this) <= 1
                assert (
                    part.state != "uncertain" or guarantee == "none" or part.error.startswith(("given up", "refused"))
                )

    async def run(folder: Path) -> None:
        clock = VirtualClock()
        async with running_kernel(folder / "home", extra={"post": post}, clock=clock) as kernel:
            for number, (target, count) in enumerate(owed):
                await owe(kernel, folder / "w", f"k{number}", target, "xy" * count)
            for _ in range(500):
                await check(kernel)
                if not await deliveries(kernel, unsettled=True):
                    break
                clock.advance(60)
                ring(kernel)
                await asyncio.sleep(0.005)
            await check(kernel, at_end=True)
            assert not await deliveries(kernel, unsettled=True)
            for target in (HERE, THERE):
                order = [(part.delivery, part.number) for part in post.arrived if part.target == target]
                assert order == sorted(order)

    with TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder)))


async def test_a_wait_that_was_asked_for_outlives_the_process(tmp_path: Path) -> None:
    """What the platform wants to have later is stored, sent once after a restart, and not before its time."""
    home, post, clock = tmp_path / "home", Postbox(fates=[Refused(retry_after=100)]), VirtualClock()
    async with running_kernel(home, extra={"post": post}, clock=clock) as kernel:
        await owe(kernel, tmp_path / "w", "k")
        await until(lambda: post.attempts)
        await asyncio.sleep(0.05)
        (delivery,) = await deliveries(kernel)
        (part,) = delivery.parts
        assert (part.state, part.error) == ("pending", "refused by the test")
        assert part.not_before == clock.now() + 100_000
    clock.advance(99)
    async with running_kernel(home, extra={"post": post}, clock=clock) as kernel:
        ring(kernel)
        await asyncio.sleep(0.1)
        assert len(post.attempts) == 1
        clock.advance(1)
        ring(kernel)
        await settled(kernel)
        assert len(post.attempts) == 2 and len(post.arrived) == 1


async def test_a_wait_ends_by_itself(tmp_path: Path) -> None:
    """Nobody has to ring for a part whose time has come."""
    post = Postbox(fates=[Refused(retry_after=0.3)])
    async with running_kernel(tmp_path / "home", extra={"post": post}) as kernel:
        began = time.monotonic()
        await owe(kernel, tmp_path / "w", "k")
        await settled(kernel)
        assert time.monotonic() - began >= 0.3 and len(post.attempts) == 2


async def test_a_chat_waits_for_its_first_delivery_and_others_do_not(tmp_path: Path) -> None:
    """A delivery that has to wait holds up its own chat, in order, and no other."""
    post, clock = Postbox(fates=[Refused(retry_after=100)]), VirtualClock()
    async with running_kernel(tmp_path / "home", extra={"post": post}, clock=clock) as kernel:
        await owe(kernel, tmp_path / "w", "first")
        await until(lambda: post.attempts)
        await owe(kernel, tmp_path / "w", "second", text="second")
        await owe(kernel, tmp_path / "w", "other", THERE)
        await until(lambda: post.arrived)
        await asyncio.sleep(0.05)
        assert [part.target for part in post.arrived] == [THERE]
        clock.advance(100)
        ring(kernel)
        await settled(kernel)
        assert [part.text for part in post.arrived] == ["hello", "hello", "second"]


async def test_a_permanent_refusal_ends_its_message(tmp_path: Path) -> None:
    """After a part that no attempt will get through the rest is not sent, says why, and the next message goes on."""
    post = Postbox(limit=2, fates=[None, Refused(permanent=True)])
    async with running_kernel(tmp_path / "home", extra={"post": post}) as kernel:
        await owe(kernel, tmp_path / "w", "first", text="aabbccdd")
        await owe(kernel, tmp_path / "w", "second", text="ee")
        first, second = await settled(kernel)
        assert states(first) == ["sent", "failed", "failed", "failed"] and states(second) == ["sent"]
        assert [part.error for part in first.parts] == [
            "",
            "refused by the test",
            "after part 2",
            "after part 2",
        ]
        assert [part.text for part in post.arrived] == ["aa", "ee"]


@pytest.mark.parametrize(("guarantee", "fate"), [("none", "refused"), ("keyed", "lost"), ("queryable", "lost")])
async def test_nothing_is_tried_for_ever(tmp_path: Path, guarantee: Guarantee, fate: str) -> None:
    """A part that does not get through is given up when its time to live is over, loudly, and its chat goes on."""
    bad = Refused(retry_after=3600) if fate == "refused" else Lost(arrived=False)
    post, clock = Postbox(guarantee=guarantee, fates=[bad] * 2000), VirtualClock()
    async with running_kernel(tmp_path / "home", extra={"post": post}, clock=clock) as kernel:
        await owe(kernel, tmp_path / "w", "k")
        for _ in range(40):
            if not await deliveries(kernel, unsettled=True):
                break
            tried = len(post.attempts)
            clock.advance(3600)
            ring(kernel)
            for _ in range(50):
                await asyncio.sleep(0.01)
                if len(post.attempts) > tried:
                    break
        (delivery,) = await deliveries(kernel)
        assert states(delivery) == ["uncertain" if guarantee == "keyed" else "failed"]
        assert delivery.parts[0].error.startswith("given up: ")
        assert 20 < len(post.attempts) < 30 and post.arrived == []


# Dispatchers that misbehave


class Odd:
    """A dispatcher with the given methods; what it lacks it does well."""

    kind = "post"

    def __init__(self, guarantee: Guarantee = "none", **methods: object) -> None:
        self.guarantee = guarantee
        self.calls = 0
        self._methods = methods

    @hook
    def provide_dispatchers(self) -> Sequence[Odd]:
        return [self]

    def split(self, text: str) -> Sequence[str]:
        return self._do("split", [text])  # type: ignore[return-value]

    async def deliver(self, part: Part) -> str:
        self.calls += 1
        done = self._do("deliver", f"id-{self.calls}")
        return await done if isinstance(done, Awaitable) else done  # type: ignore[return-value]

    async def find(self, part: Part) -> str | None:
        done = self._do("find", None)
        return await done if isinstance(done, Awaitable) else done  # type: ignore[return-value]

    def _do(self, name: str, default: object) -> object:
        if name not in self._methods:
            return default
        done = self._methods[name]
        if isinstance(done, BaseException):
            raise done
        return done() if isinstance(done, Callable) else done  # type: ignore[arg-type]


async def cancel_itself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(1)


async def be_deaf() -> None:
    end = time.monotonic() + 1.6
    while time.monotonic() < end:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0.1)


@pytest.mark.parametrize(
    ("deliver", "error"),
    [
        (KeyError("x"), "KeyError('x')"),
        (SystemExit(3), "SystemExit(3)"),
        (GeneratorExit(), "it cancelled itself"),
        (cancel_itself, "it cancelled itself"),
        (asyncio.Event().wait, "no answer within 0.2 s"),
        (be_deaf, "no answer within 0.2 s"),
    ],
    ids=["raises", "exits", "generator", "cancels itself", "hangs", "deaf"],
)
async def test_a_broken_dispatcher_harms_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deliver: object, error: str
) -> None:
    """After anything but a refusal nobody knows whether the part arrived; others are delivered meanwhile."""
    monkeypatch.setattr(courier, "SEND_SECONDS", 0.2)
    good = Postbox(kind="good")
    async with running_kernel(tmp_path / "home", extra={"odd": Odd(deliver=deliver), "good": good}) as kernel:
        await owe(kernel, tmp_path / "w", "k")
        session = await a_session(kernel, tmp_path / "w")
        await ask(session, "hi", "good:me:here")
        await until(lambda: good.arrived)
        odd, _ = await settled(kernel)
        assert states(odd) == ["uncertain"] and error in odd.parts[0].error


@pytest.mark.parametrize(
    ("split", "texts"),
    [
        (lambda: "ab", ["whole"]),
        (lambda: None, ["whole"]),
        (lambda: [1, 2], ["whole"]),
        (list, ["whole"]),
        (lambda: ["", " "], ["whole"]),
        (lambda: ["a", "", "b"], ["a", "b"]),
        (lambda: ["a\0", "\ud800"], ["a\ufffd", "\ufffd"]),
        (ValueError("no"), ["whole"]),
        (SystemExit(), ["whole"]),
    ],
)
async def test_a_text_that_is_not_split_well_is_sent_whole(tmp_path: Path, split: object, texts: list[str]) -> None:
    """A splitter that raises, or answers with something else than texts, leaves the text in one part."""
    seen: list[str] = []
    odd = Odd(split=split)

    async def deliver(part: Part) -> str:
        seen.append(part.text)
        return "id"

    odd.deliver = deliver  # type: ignore[method-assign]
    async with running_kernel(tmp_path / "home", extra={"odd": odd}) as kernel:
        await owe(kernel, tmp_path / "w", "k", text="whole")
        (delivery,) = await settled(kernel)
        assert seen == texts and states(delivery) == ["sent"] * len(texts)


@pytest.mark.parametrize(("given", "shown"), [(None, ""), (42, "42"), ("\ud800", "\ufffd")])
async def test_an_id_of_another_type_is_no_failure(tmp_path: Path, given: object, shown: str) -> None:
    """A dispatcher that returns has sent the part, whatever it calls it."""
    async with running_kernel(tmp_path / "home", extra={"odd": Odd("keyed", deliver=lambda: given)}) as kernel:
        await owe(kernel, tmp_path / "w", "k")
        (delivery,) = await settled(kernel)
        assert states(delivery) == ["sent"] and delivery.parts[0].sent_id == shown


@pytest.mark.parametrize("wait", ["soon", float("nan"), float("inf"), -5, 1e30])
async def test_a_wait_that_is_none_is_not_believed(tmp_path: Path, wait: object) -> None:
    """A refusal counts as one whatever it says about the time of the next attempt."""
    refusal = DeliveryFailed("later", retry_after=wait)  # type: ignore[arg-type]
    async with running_kernel(tmp_path / "home", extra={"odd": (odd := Odd(deliver=refusal))}) as kernel:
        await owe(kernel, tmp_path / "w", "k")
        await until(lambda: odd.calls)
        await asyncio.sleep(0.1)
        (delivery,) = await deliveries(kernel)
        assert states(delivery)[0] in ("pending", "failed") and "later" in delivery.parts[0].error


@pytest.mark.parametrize("find", [KeyError("no"), lambda: False, cancel_itself], ids=["raises", "wrong", "cancels"])
async def test_a_look_up_that_fails_is_repeated(tmp_path: Path, find: object) -> None:
    """A part that cannot be looked for stays begun, and is looked for again until its time to live is over."""
    clock = VirtualClock()
    odd = Odd("queryable", deliver=ConnectionResetError("cut"), find=find)
    async with running_kernel(tmp_path / "home", extra={"odd": odd}, clock=clock) as kernel:
        await owe(kernel, tmp_path / "w", "k")
        await until(lambda: odd.calls)
        await asyncio.sleep(0.1)
        (delivery,) = await deliveries(kernel)
        assert states(delivery) == ["sending"] and "cut" in delivery.parts[0].error
        odd._methods["find"] = "found it"  # it answers again
        clock.advance(10)
        ring(kernel)
        (delivery,) = await settled(kernel)
        assert odd.calls == 1 and delivery.parts[0].sent_id == "found it"


async def test_a_look_up_that_never_works_is_given_up(tmp_path: Path) -> None:
    """Where even looking fails until the end, the part is shown as uncertain."""
    clock = VirtualClock()
    odd = Odd("queryable", deliver=ConnectionResetError("cut"), find=KeyError("no"))
    async with running_kernel(tmp_path / "home", extra={"odd": odd}, clock=clock) as kernel:
        await owe(kernel, tmp_path / "w", "k")
        await until(lambda: odd.calls)
        clock.advance(2 * 86_400)
        await asyncio.sleep(0.05)
        ring(kernel)
        (delivery,) = await settled(kernel)
        assert states(delivery) == ["uncertain"] and delivery.parts[0].error.startswith("given up")


# Who sends


async def test_of_two_dispatchers_of_one_kind_the_first_delivers(tmp_path: Path) -> None:
    """A second dispatcher of a kind is left out, and what is owed through the first goes on."""
    first, second = Postbox(), Postbox()
    plugins = {"test": SimplePlugin(ScriptedModel()), "a": first, "b": second}
    kernel = await Kernel.start(tmp_path / "home", discover=False, env={}, extra=plugins)
    try:
        await owe(kernel, tmp_path / "w", "k")
        await settled(kernel)
        assert len(first.arrived) == 1 and not second.attempts
    finally:
        await kernel.close()


async def test_what_nobody_carries_waits_for_a_server_that_does(tmp_path: Path) -> None:
    """Deliveries of a dispatcher that is not loaded stay as they are, and a later server sends them unasked."""
    home = tmp_path / "home"
    async with running_kernel(home, model=echoing(), extra={"other": Postbox(kind="other")}) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await ask(session, "hi")
        await asyncio.sleep(0.1)
        (delivery,) = await deliveries(kernel)
        assert states(delivery) == ["pending"] and delivery.parts[0].attempt == 0
    post = Postbox()
    async with running_kernel(home, extra={"post": post}) as kernel:
        await settled(kernel)
        assert [part.text for part in post.arrived] == ["echo: hi"]


async def test_a_command_s_kernel_sends_nothing(tmp_path: Path) -> None:
    """A kernel for one command leaves what it owes to the server."""
    home, post = tmp_path / "home", Postbox()
    kernel = await Kernel.start(
        home, embedded=True, discover=False, env={}, extra={"test": SimplePlugin(ScriptedModel()), "post": post}
    )
    try:
        session = await a_session(kernel, tmp_path / "w")
        await ask(session, "hi")
        await asyncio.sleep(0.2)
        assert post.attempts == [] and [states(each) for each in await deliveries(kernel)] == [["pending"]]
    finally:
        await kernel.close()
    async with running_kernel(home, extra={"post": post}) as kernel:
        await settled(kernel)
        assert len(post.arrived) == 1


async def test_of_two_servers_one_sends(tmp_path: Path) -> None:
    """Of two kernels on one home the one that holds the account sends, nothing twice, and its end hands over."""
    post, home = Postbox(guarantee="none", limit=2), tmp_path / "home"
    async with running_kernel(home, extra={"post": post}) as other:
        async with running_kernel(
            home, extra={"post": Postbox(guarantee="none", limit=2, file=tmp_path / "first")}
        ) as one:
            first = one.host.lookup("dispatcher", "post")
            assert isinstance(first, Postbox)
            await owe(one, tmp_path / "w", "k0")
            await until(lambda: first.arrived)
            for number in range(1, 4):
                await owe(other, tmp_path / "w", f"k{number}", text="abcd")
                await owe(one, tmp_path / "w", f"k{number}", text="abcd")
            await settled(one)
            assert not post.attempts, "the account is the other's"
            assert len(first.arrived) == 3 + 3 * 2
        await owe(other, tmp_path / "w", "last", text="xy")
        await settled(other, 15)
        assert [part.text for part in post.arrived] == ["xy"]


# What plugins and operators do


async def test_owing_twice_under_one_key_is_owing_once(tmp_path: Path) -> None:
    """The second `owe` of a key gives the first one's number, whatever else it says, also after a restart."""
    post, home = Postbox(), tmp_path / "home"
    async with running_kernel(home, extra={"post": post}) as kernel:
        numbers = {await owe(kernel, tmp_path / "w", "k"), await owe(kernel, tmp_path / "w", "k", THERE, "else")}
        numbers |= set(await asyncio.gather(*(owe(kernel, tmp_path / "w", "k") for _ in range(5))))
        await settled(kernel)
    async with running_kernel(home, extra={"post": post}) as kernel:
        numbers.add(await owe(kernel, tmp_path / "w", "k"))
        await settled(kernel)
    assert len(numbers) == 1 and [part.text for part in post.arrived] == ["hello"]


@pytest.mark.parametrize(
    ("field", "value"), [("key", ""), ("key", "k" * 201), ("dispatcher", ""), ("target", "a\0"), ("text", "\ud800")]
)
async def test_what_cannot_be_owed(tmp_path: Path, field: str, value: str) -> None:
    """A delivery that no row can hold is refused by the name of its field, and nothing is written."""
    owed = {"key": "k", "dispatcher": "post", "target": HERE, "text": "x", field: value}
    async with running_kernel(tmp_path / "home") as kernel:
        session = await a_session(kernel, tmp_path / "w")
        with pytest.raises(BadInput) as caught:
            await kernel.host.outbox.owe(Owed(**owed), workspace=session.info.workspace)
        assert caught.value.field == field and await deliveries(kernel) == []


async def test_an_operator_tries_again(tmp_path: Path) -> None:
    """`retry` sends what failed or is uncertain again, in the parts that it had, and nothing that was sent."""
    post = Postbox(guarantee="none", limit=2, fates=[None, Refused(permanent=True)])
    async with running_kernel(tmp_path / "home", extra={"post": post}) as kernel:
        workspace = (await a_session(kernel, tmp_path / "w")).info.workspace
        number = await owe(kernel, tmp_path / "w", "k", text="aabbcc")
        await settled(kernel)
        post.limit = 1
        again = await kernel.host.outbox.retry(number, workspace=workspace)
        assert states(again) == ["sent", "pending", "pending"]
        (delivery,) = await settled(kernel)
        assert states(delivery) == ["sent"] * 3 and [part.text for part in post.arrived] == ["aa", "bb", "cc"]
        with pytest.raises(Conflict):
            await kernel.host.outbox.retry(number, workspace=workspace)
        with pytest.raises(NotFound):
            await kernel.host.outbox.retry(number + 1, workspace=workspace)


async def test_a_retry_has_a_time_to_live_of_its_own(tmp_path: Path) -> None:
    """What an operator sends again long after is not given up at the first delay; its first part is not split anew."""
    post, clock = Postbox(limit=2, fates=[Refused(permanent=True), Refused(retry_after=5)]), VirtualClock()
    async with running_kernel(tmp_path / "home", extra={"post": post}, clock=clock) as kernel:
        workspace = (await a_session(kernel, tmp_path / "w")).info.workspace
        number = await owe(kernel, tmp_path / "w", "k", text="aabb")
        await settled(kernel)
        clock.advance(10 * 86_400)
        post.limit = 1
        await kernel.host.outbox.retry(number, workspace=workspace)
        await until(lambda: len(post.attempts) == 2)
        clock.advance(6)
        await asyncio.sleep(0.05)
        ring(kernel)
        (delivery,) = await settled(kernel)
        assert states(delivery) == ["sent", "sent"] and [part.text for part in post.arrived] == ["aa", "bb"]


async def test_a_plugin_is_told_what_became_of_a_delivery(tmp_path: Path) -> None:
    """`delivery_settled` is told once for each delivery, with all of its parts."""
    told: list[Delivery] = []

    class Listener:
        @hook
        async def delivery_settled(self, delivery: Delivery) -> None:
            told.append(delivery)

    post = Postbox(limit=2, fates=[None, None, Refused(permanent=True)])
    async with running_kernel(tmp_path / "home", extra={"post": post, "listener": Listener()}) as kernel:
        await owe(kernel, tmp_path / "w", "first", text="aabb")
        await settled(kernel)
        await owe(kernel, tmp_path / "w", "second", text="ccdd")
        await settled(kernel)
        await until(lambda: len(told) == 2)
        assert [(each.key, states(each)) for each in told] == [
            ("first", ["sent", "sent"]),
            ("second", ["failed", "failed"]),
        ]


async def test_deliveries_are_listed(tmp_path: Path) -> None:
    """The newest come first, of one session if it is named, and `limit` counts."""
    async with running_kernel(tmp_path / "home", model=echoing(), extra={"post": Postbox()}) as kernel:
        session, other = await a_session(kernel, tmp_path / "w"), await a_session(kernel, tmp_path / "w")
        await ask(session, "one")
        await ask(other, "two")
        await owe(kernel, tmp_path / "w", "k", "post:me:here")
        await settled(kernel)
        workspace = session.info.workspace
        found = await kernel.host.outbox.list(workspace=workspace)
        assert [each.text for each in found] == ["hello", "echo: two", "echo: one"]
        assert [each.text for each in await kernel.host.outbox.list(workspace=workspace, limit=1)] == ["hello"]
        mine = await kernel.host.outbox.list(workspace=workspace, session=session.info.id)
        assert [each.text for each in mine] == ["echo: one"] and OPERATOR.name == session.info.principal


async def test_an_end_lets_a_part_in_flight_arrive(tmp_path: Path) -> None:
    """A server that stops begins nothing new, and what it is just sending is not made uncertain by that."""
    home = tmp_path / "home"

    async def slow(part: Part) -> None:
        await asyncio.sleep(0.3)

    post = Postbox(guarantee="none", limit=2, before=slow)
    async with running_kernel(home, extra={"post": post}) as kernel:
        await owe(kernel, tmp_path / "w", "k", text="aabb")
        await until(lambda: post.attempts)
    assert [part.text for part in post.arrived] == ["aa"]
    async with running_kernel(home, extra={"post": post}) as kernel:
        (delivery,) = await settled(kernel)
        assert states(delivery) == ["sent", "sent"] and [part.text for part in post.arrived] == ["aa", "bb"]
