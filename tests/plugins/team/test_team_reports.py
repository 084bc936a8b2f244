"""What sessions tell each other: messages down and across, reports up, and what a root is told beside these."""

from __future__ import annotations

import asyncio

from halo_kernel import OPERATOR, Incoming, Session, SessionSettings, TurnStarted
from halo_kernel.testing import Answer, Calls, Fail, Hang, until

from .conftest import Desk, bodies, eventually, inputs, rest

DONE = "All sub-agents you dispatched have completed."
NOT_YET = "Do NOT wrap up yet — "


async def notes(session: Session) -> list[str]:
    """Return what a session was told after each batch of reports, '' for nothing."""
    contents = [each.content for each in await inputs(session) if each.sender.startswith("session:")]
    return [content.partition("\n\n[System @ ")[2].partition("] ")[2] for content in contents]


def reports(told: list[object], child: Session) -> list[str]:
    """Return what a child reported, oldest first."""
    return [each.text for each in told if each.sender == f"session:{child.info.id}"]  # type: ignore[attr-defined]


async def hangs(desk: Desk, count: int) -> None:
    await until(lambda: desk.halo.model.active == count)


async def test_whether_all_is_done(desk: Desk) -> None:
    """16 "All sub-agents … have completed" only when no child works and nothing is queued, else which of them work."""
    first = await desk.start("do: hang", title="the long one")
    await hangs(desk, 1)
    second = await desk.start("do: say early")
    await eventually(lambda: inputs_of(desk, second))
    (early,) = await notes(desk.session)
    assert early.startswith(
        f"{NOT_YET}1 sub-agent(s) still running, 0 report(s) still queued.\n- worker {first.info.id}"
    )
    assert early.endswith(": the long one") and "created 20" in early and "last active 20" in early
    await first.submit(Incoming(text="do: say late", mode="interrupt_hard"))
    await rest(desk.session)
    assert (await notes(desk.session))[-1].startswith(DONE)
    assert DONE not in early and len([text for text in await notes(desk.session) if DONE in text]) == 1


async def inputs_of(desk: Desk, child: Session) -> list[str]:
    return reports(await inputs(desk.session), child)


async def test_what_is_queued_is_not_done(desk: Desk) -> None:
    """16 While a message waits that did not fit into the turn, nothing is said to be completed."""
    desk.orders.plans[desk.session.info.id] = [Hang("busy")]
    child = await desk.session.start_child("worker")
    await desk.session.submit(Incoming(text="work"))
    await hangs(desk, 1)
    await child.prompt(Incoming(text="do: say early", mode="follow_up")).result
    for text in ("and this?", "and that?"):
        await desk.session.submit(Incoming(text=text, mode="follow_up"))
    desk.session.interrupt()
    await rest(desk.session)
    assert (await notes(desk.session))[0] == f"{NOT_YET}0 sub-agent(s) still running, 2 report(s) still queued."


async def test_a_grandchild_at_work_counts(desk: Desk) -> None:
    """16 A child that rests while one below it works is not done."""
    middle = await desk.start("do: say hi", "middle")
    low = await desk.start("do: hang", by=middle)
    await hangs(desk, 1)
    other = await desk.start("do: say early")
    await eventually(lambda: inputs_of(desk, other))
    assert (await notes(desk.session))[-1].startswith(f"{NOT_YET}1 sub-agent(s)")
    await low.stop()
    await rest(desk.session)
    assert (await notes(desk.session))[-1].startswith(DONE)


async def test_who_is_told_nothing_beside(desk: Desk) -> None:
    """15 The suffix is absent for a batch of people's messages only, and for any session that is no root."""
    middle = await desk.start("do: say hi", "middle")
    await desk.start("do: say low", by=middle)
    await rest(desk.session)
    for session in (desk.session, middle):
        for each in await inputs(session):
            told = "[System @ " in each.content
            assert told == (session is desk.session and each.sender.startswith("session:")), each
    assert any(each.sender.startswith("session:sub_") for each in await inputs(middle))


async def test_the_prefix_is_for_the_model(desk: Desk) -> None:
    """14 `(from: session X)` stands before what the model reads; the text that waits and that people see is raw."""
    child = await desk.start("do: hang")
    await hangs(desk, 1)
    mine = desk.session.info.id
    await desk.ask("query_session", target_session_id=child.info.id, message="do: say two")
    (row,) = await child.waiting()
    assert (row.text, row.sender) == ("do: say two", f"session:{mine}")
    child.interrupt()
    await rest(desk.session)
    last = (await inputs(child))[-1]
    assert last.text == "do: say two" and last.content == f"(from: session {mine})\ndo: say two"


async def test_messages_meanwhile_are_one_turn(desk: Desk) -> None:
    """12 Three messages that come while a session is busy become one model turn, joined by blank lines or apart."""
    child = await desk.start("do: hang")
    await hangs(desk, 1)
    for text in ("one", "two", "do: say three"):
        await desk.ask("query_session", target_session_id=child.info.id, message=text)
    child.interrupt()
    await rest(desk.session)
    started = [body for body in await bodies(child) if isinstance(body, TurnStarted)]
    assert [len(body.rows) for body in started] == [1, 3] and await child.output() == "three"


async def test_the_queue_of_agents_has_an_end(desk: Desk) -> None:
    """13 The cap counts only agents' messages to a session that runs, and never blocks interrupt_session or people."""
    assert desk.halo.kernel is not None
    desk.halo.kernel.workspaces.seats[desk.session.info.workspace].limits = SessionSettings(max_queue_size=2)
    child = await desk.start("do: hang")
    await hangs(desk, 1)
    for _ in range(2):
        assert (await desk.ask("query_session", target_session_id=child.info.id, message="more"))["code"] == 0
        await child.submit(Incoming(text="a person's", mode="follow_up"))
    full = await desk.ask("query_session", target_session_id=child.info.id, message="more")
    assert full["code"] == 1 and full["error"].startswith(f"session {child.info.id} message queue is full (")
    found = await desk.ask("interrupt_session", session_id=child.info.id, message="do: say stopped")
    assert found["code"] == 0
    await rest(desk.session)
    assert await child.output() in ("stopped", "done") and len(await inputs(child)) == 6
    assert (await desk.ask("query_session", target_session_id=child.info.id, message="do: say again"))["code"] == 0
    await rest(desk.session)


async def test_a_report_is_the_last_word(desk: Desk) -> None:
    """42 A report carries the final output, not what was said on the way; why it was cut short survives its own cut."""
    child = await desk.session.start_child("worker")
    desk.orders.plans[child.info.id] = [
        Calls([("continue_task", {})], text="let me see"),
        Answer("x" * 9000),
    ]
    await child.prompt(Incoming(text="work")).result
    await rest(desk.session)
    desk.orders.plans[child.info.id] = [
        Calls([("continue_task", {})], text="y" * 9000),
        Fail("refused", "it broke"),
    ]
    await child.prompt(Incoming(text="work")).result
    await rest(desk.session)
    good, bad = reports(await inputs(desk.session), child)
    assert good.startswith("x" * 8192) and "let me see" not in good and "9000 chars total" in good
    assert bad.startswith("[SUB-AGENT ABORTED: it broke]") and "showing first 8192" in bad


async def test_one_work_one_report(desk: Desk) -> None:
    """44 What was asked is reported once: a turn that ends later, of something else that was asked, repeats nothing."""
    child = await desk.start("do: say one")
    await rest(desk.session)
    await desk.ask("query_session", target_session_id=child.info.id, message="do: say two")
    await rest(desk.session)
    assert reports(await inputs(desk.session), child) == ["one", "two"]


async def test_a_tree_reports_once(desk: Desk) -> None:
    """45 A nested tree reports once, after its last grandchild: a parent with a child at work has not finished."""
    middle = await desk.session.start_child("middle")
    order = 'do: call start_session {"agent_id": "worker", "message": "do: hang"}'
    await middle.prompt(Incoming(text=order)).result
    await hangs(desk, 1)
    assert not any("[Interim" not in text for text in reports(await inputs(desk.session), middle))
    (low,) = await middle.children()
    await (await desk.open(low.id)).submit(Incoming(text="do: say deep", mode="interrupt_hard"))
    await rest(desk.session)
    final = [text for text in reports(await inputs(desk.session), middle) if "[Interim" not in text]
    assert len(final) == 1 and [each.text for each in await inputs(middle)][-1] == "deep"


async def test_a_message_starts_a_stopped_session_again(desk: Desk) -> None:
    """46 A message to a stopped session lets it go on, and it reports again later."""
    child = await desk.start("do: hang")
    await hangs(desk, 1)
    assert (await desk.ask("stop_session", session_id=child.info.id))["code"] == 0
    await rest(desk.session)
    assert child.info.stopped
    await desk.ask("query_session", target_session_id=child.info.id, message="do: say back")
    await rest(desk.session)
    assert not child.info.stopped
    cut, back = reports(await inputs(desk.session), child)
    assert cut.startswith("[SUB-AGENT ABORTED: the turn was cancelled]") and back == "back"


async def test_a_stream_stays_open_between_turns(desk: Desk) -> None:
    """18 Between the turns of a queue a stream goes on: it ends with no turn, and brings the next one's events."""
    desk.orders.plans[desk.session.info.id] = [Hang("busy"), Answer("one"), Answer("two")]
    ended: list[str] = []

    async def follow() -> None:
        async for update in desk.session.events(live=True):
            if update.event and update.event.kind == "turn.ended":
                ended.append(update.event.body.outcome)  # type: ignore[union-attr]

    task = asyncio.create_task(follow())
    await desk.session.submit(Incoming(text="work"))
    await hangs(desk, 1)
    await desk.session.submit(Incoming(text="and?", mode="interrupt_hard"))
    await rest(desk.session)
    await desk.session.prompt(Incoming(text="then?")).result
    await until(lambda: len(ended) == 3)
    assert ended == ["interrupted", "succeeded", "succeeded"] and not task.done()
    task.cancel()


async def test_what_has_ended_runs_no_more(desk: Desk) -> None:
    """17 Who hears that a turn has ended, and looks, sees a session that does not run."""
    assert desk.halo.kernel is not None
    sessions, info = desk.halo.kernel.host.sessions, desk.session.info
    seen: list[str] = []

    async def follow() -> None:
        async for update in desk.session.events(live=True):
            if update.event and update.event.kind == "turn.ended":
                view, _ = await sessions.view(info.id, workspace=info.workspace, principal=OPERATOR)
                seen.append(view.running)

    task = asyncio.create_task(follow())
    await desk.session.prompt(Incoming(text="hi")).result
    await until(lambda: seen)
    task.cancel()
    assert seen == [""]
