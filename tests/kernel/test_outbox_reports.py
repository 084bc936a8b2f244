"""Reports: the one pointer of a session is paid when its whole tree rests, and whoever loses it is told so."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo_kernel import (
    OPERATOR,
    BadInput,
    Call,
    Claim,
    Conflict,
    Delivery,
    Incoming,
    Kernel,
    Pointer,
    Principal,
    Question,
    Session,
    ToolSpec,
)
from halo_kernel.outbox.claims import may_take
from halo_kernel.testing import (
    Answer,
    Calls,
    Fail,
    Hang,
    NoteTool,
    Postbox,
    ScriptedModel,
    Step,
    a_session,
    running_kernel,
    until,
)

RELAY = Pointer(dispatcher="relay", target="caller")
CLAIMS: tuple[Claim, ...] = get_args(Claim)


async def reports(session: Session, kernel: Kernel) -> list[Delivery]:
    """Return what the session has reported, oldest first."""
    found = await kernel.host.outbox.list(workspace=session.info.workspace, session=session.info.id)
    return [each for each in reversed(found) if each.debt == "report"]


async def told(session: Session, kernel: Kernel) -> list[tuple[str, str, str]]:
    return [(each.target, each.reason, each.text) for each in await reports(session, kernel)]


async def rests(kernel: Kernel, session: Session, count: int = 1) -> list[tuple[str, str, str]]:
    """Return the reports once there are `count` of them."""
    for _ in range(500):
        if len(found := await told(session, kernel)) >= count:
            await asyncio.sleep(0.05)
            return await told(session, kernel) if found else found
        await asyncio.sleep(0.01)
    raise AssertionError(f"there are {await told(session, kernel)}")


async def inbox(kernel: Kernel, session: Session) -> int:
    """Return how many messages the session was ever sent."""
    database = kernel.workspaces.seats[session.info.workspace].database
    row = await database.read(lambda tx: tx.one("SELECT count(*) FROM inbox WHERE session = ?", (session.info.id,)))
    return int(row[0]) if row else 0


def message(text: str, claim: Claim = "report", target: str = "caller", **options: object) -> Incoming:
    pointer = Pointer(dispatcher=claim, target=target, claim=claim)
    return Incoming(text=text, reply_to=pointer, **options)  # type: ignore[arg-type]


# Whom a session works for


@pytest.mark.parametrize(
    ("new", "held", "taken"),
    [
        ("report", "job", True),
        ("report", "run", True),
        ("report", "report", True),
        ("job", "report", False),
        ("job", "job", True),
        ("job", "run", True),
        ("run", "report", False),
        ("run", "job", False),
        ("run", "run", False),
    ],
)
async def test_who_takes_a_pointer_from_whom(tmp_path: Path, new: Claim, held: Claim, taken: bool) -> None:
    """Who takes the pointer has the one before told so; who is refused leaves no trace, and the holder is answered."""
    model = ScriptedModel([Hang()], responder=lambda request: Answer("done"))
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await session.submit(message("first", held, "a"))
        await until(lambda: model.active)
        if taken:
            await session.submit(message("second", new, "b", mode="interrupt_hard"))
            found = await rests(kernel, session, 2)
            assert found == [("a", "superseded", f"superseded by {new}:b"), ("b", "answered", "done")]
        else:
            with pytest.raises(Conflict, match=f"already works for {held}:a"):
                await session.submit(message("second", new, "b", mode="interrupt_hard"))
            assert await inbox(kernel, session) == 1 and model.active == 1
            session.interrupt()
            assert await rests(kernel, session) == [("a", "cancelled", "(no output)")]


@given(st.lists(st.sampled_from(CLAIMS), min_size=1, max_size=8))
def test_the_pointer_goes_from_hand_to_hand(claims: list[Claim]) -> None:
    """Whatever the order of claimants: what a run holds anybody else takes, what a report holds only a report."""
    held: Claim | None = None
    for claim in claims:
        if held is None or may_take(claim, held):
            held = claim
    rank = {"run": 0, "job": 1, "report": 2}
    assert held is not None and rank[held] == max(rank[claim] for claim in claims)


async def test_a_superseded_pointer_is_told_once(tmp_path: Path) -> None:
    """Of many claimants each but the last is told once that it was superseded, and the last one is answered."""
    model = ScriptedModel([Hang()], responder=lambda request: Answer("done"))
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await session.submit(message("go", target="0"))
        await until(lambda: model.active)
        for number in range(1, 6):
            await session.submit(message("more", target=str(number), mode="follow_up"))
        session.interrupt()
        found = await rests(kernel, session, 6)
        assert [(target, reason) for target, reason, _ in found] == [
            *((str(number), "superseded") for number in range(5)),
            ("5", "answered"),
        ]


async def test_a_key_that_was_seen_takes_no_pointer(tmp_path: Path) -> None:
    """A repeat answers the first receipt and changes nothing, whatever it wants to be told."""
    async with running_kernel(tmp_path / "home") as kernel:
        session = await a_session(kernel, tmp_path / "w")
        first = await session.submit(message("hi", target="a", key="k"))
        await rests(kernel, session)
        again = await session.submit(message("hi", target="b", key="k"))
        await asyncio.sleep(0.1)
        assert again == first and [target for target, _, _ in await told(session, kernel)] == ["a"]


@pytest.mark.parametrize(
    "pointer",
    [
        Pointer(dispatcher="", target="x"),
        Pointer(dispatcher="relay", target=""),
        Pointer(dispatcher="relay", target="a\0b"),
        Pointer(dispatcher="\ud800", target="x"),
    ],
)
async def test_a_pointer_that_is_none(tmp_path: Path, pointer: Pointer) -> None:
    """A pointer that names nobody, or in a text that no row holds, is refused with its message."""
    async with running_kernel(tmp_path / "home") as kernel:
        session = await a_session(kernel, tmp_path / "w")
        with pytest.raises(BadInput) as caught:
            await session.submit(Incoming(text="hi", reply_to=pointer))
        assert caught.value.field == "reply_to" and await inbox(kernel, session) == 0


async def test_a_session_below_another_has_no_pointer(tmp_path: Path) -> None:
    """A child reports to its parent: nobody else can claim its answer."""
    async with running_kernel(tmp_path / "home") as kernel:
        session = await a_session(kernel, tmp_path / "w")
        child = await session.start_child("default")
        with pytest.raises(BadInput, match="reports to its parent"):
            await child.submit(message("hi"))
        assert await inbox(kernel, child) == 0


# What is reported


@pytest.mark.parametrize(
    ("step", "reason", "text"),
    [
        (Answer("done"), "answered", "done"),
        (Fail("refused", "no such model"), "aborted", "❌ no such model"),
    ],
)
async def test_a_report_says_how_the_work_ended(tmp_path: Path, step: Step, reason: str, text: str) -> None:
    """The last answer is reported, and an error where there was one; then the session works for nobody."""
    post = Postbox(kind="relay")
    async with running_kernel(tmp_path / "home", model=ScriptedModel([step]), extra={"relay": post}) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await session.submit(Incoming(text="go", reply_to=RELAY))
        assert await rests(kernel, session) == [("caller", reason, text)]
        await until(lambda: post.arrived)
        (part,) = post.arrived
        assert (part.debt, part.reason, part.target, part.text) == ("report", reason, "caller", text)
        await session.prompt(Incoming(text="and more")).result
        assert len(await told(session, kernel)) == 1


async def test_an_error_is_reported_with_what_was_said_before(tmp_path: Path) -> None:
    """Work that fails half-way reports the error first, then the last answer that there was."""
    model = ScriptedModel([Calls([("note", {"text": "x"})], text="I looked"), Fail("refused", "no more")])
    async with running_kernel(tmp_path / "home", model=model, tools=[NoteTool()]) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await session.submit(message("go"))
        assert await rests(kernel, session) == [("caller", "aborted", "❌ no more\n\nI looked")]


async def test_an_answer_from_before_is_not_reported(tmp_path: Path) -> None:
    """What was said before the work began is no answer to it, though it is the last that was said."""
    model = ScriptedModel([Answer("old"), Hang()])
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await session.prompt(Incoming(text="hi")).result
        await session.submit(message("go"))
        await until(lambda: model.active)
        session.interrupt()
        assert await rests(kernel, session) == [("caller", "cancelled", "(no output)")]


@pytest.mark.parametrize("how", ["stop", "archive", "cancel"])
async def test_work_that_never_began_is_reported(tmp_path: Path, how: str) -> None:
    """A message that is stopped, dropped or withdrawn before a turn has consumed it gives its pointer back."""
    model = ScriptedModel([Answer("old"), Hang()])
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await session.prompt(Incoming(text="hi")).result
        running = session.prompt(Incoming(text="wait"))
        await until(lambda: model.active)
        handle = session.prompt(message("go", mode="follow_up"))
        await handle.accepted
        if how == "cancel":
            handle.cancel()
            await handle.result
            session.interrupt()
        else:
            await getattr(session, how)()
        await running.result
        assert await rests(kernel, session) == [("caller", "cancelled", "(no output)")]


async def test_a_withdrawal_in_a_tree_that_rests_is_reported(tmp_path: Path) -> None:
    """Where nothing runs, taking the only message back is what makes the tree rest."""
    (tmp_path / "w").mkdir()
    model = ScriptedModel([Hang()])
    async with running_kernel(tmp_path / "a", model=model) as holder, running_kernel(tmp_path / "b") as kernel:
        workspace = await holder.host.workspaces.open(tmp_path / "w")
        mine = await holder.host.sessions.open("s", workspace=workspace.id, principal=OPERATOR, create=True)
        await mine.submit(Incoming(text="hold the tree"))
        await until(lambda: model.active)
        workspace = await kernel.host.workspaces.open(tmp_path / "w")
        session = await kernel.host.sessions.open("s", workspace=workspace.id, principal=OPERATOR)
        handle = session.prompt(message("go", mode="follow_up"))
        await handle.accepted
        handle.cancel()
        assert (await handle.result).outcome == "cancelled"
        assert await told(session, kernel) == [], "the other's turn still runs"
        mine.interrupt()
        assert await rests(kernel, session) == [("caller", "cancelled", "(no output)")]


# When it is reported


async def test_a_report_waits_for_what_waits(tmp_path: Path) -> None:
    """A message that waits behind the turn, even of another kind of principal, is answered before the report."""
    model = ScriptedModel([Hang(), Answer("first"), Answer("last")])
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        handle = session.prompt(message("go"))
        await until(lambda: model.active)
        await session.submit(Incoming(text="then", mode="follow_up"))
        other = Principal(name="somebody", kind="agent")
        await session.submit(Incoming(text="and then", mode="follow_up", principal=other))
        session.interrupt()
        await handle.result
        assert await rests(kernel, session) == [("caller", "answered", "last")]


async def test_a_report_waits_for_children(tmp_path: Path) -> None:
    """While a session below runs, or has a message waiting, nothing is reported; its end settles the tree."""
    gate, note = asyncio.Event(), NoteTool(wait=lambda call: gate.wait())
    says = ["the root is done", "the child is done", "its parent has read that", "the root has read that"]
    model = ScriptedModel([Calls([("note", {"text": "x"})]), *map(Answer, says)])
    async with running_kernel(tmp_path / "home", model=model, tools=[note]) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        child = await (await session.start_child("default")).start_child("default")
        await child.submit(Incoming(text="work"))
        await until(lambda: note.seen)
        assert (await session.prompt(message("go")).result).text == "the root is done"
        await asyncio.sleep(0.1)
        assert await told(session, kernel) == []
        gate.set()
        assert await rests(kernel, session) == [("caller", "answered", "the root has read that")]


@pytest.mark.parametrize("archive", [True, False])
async def test_stopping_the_last_child_settles_the_tree(tmp_path: Path, archive: bool) -> None:
    """The stop of a child that was all that ran is reported to the root, which then makes its own report."""
    model = ScriptedModel([Hang(), Answer("done"), Answer("the child was stopped")])
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        child = await session.start_child("default")
        await child.submit(Incoming(text="work"))
        await until(lambda: model.active)
        await session.prompt(message("go")).result
        assert await told(session, kernel) == []
        await (child.archive() if archive else child.stop())
        assert await rests(kernel, session) == [("caller", "answered", "the child was stopped")]
        assert "[SUB-AGENT ABORTED: the turn was cancelled]" in str(model.requests[-1].messages[-1])


class Asking:
    """A tool that asks before it does anything."""

    spec = ToolSpec(name="ask", description="Ask.", parameters={"type": "object"}, effect="write")

    async def run(self, call: Call) -> str:
        if call.answer is None:
            call.ask(Question(text="Really?"))
        return "fine"


@pytest.mark.parametrize("end", ["answer", "interrupt", "stop", "archive"])
async def test_a_report_waits_for_a_question(tmp_path: Path, end: str) -> None:
    """While a question is open nothing is reported, not even after a restart; answered or stopped, it is."""
    home, tool = tmp_path / "home", Asking()
    async with running_kernel(home, model=ScriptedModel([Calls([("ask", {})])]), tools=[tool]) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await session.submit(message("go"))
        await until(lambda: session.info.state == "waiting")
        name, workspace = session.info.id, session.info.workspace
        assert await told(session, kernel) == []
    async with running_kernel(home, model=ScriptedModel([Answer("done")]), tools=[tool]) as kernel:
        session = await kernel.host.sessions.open(name, workspace=workspace, principal=OPERATOR)
        await asyncio.sleep(0.2)
        assert await told(session, kernel) == []
        if end == "answer":
            (asked,) = await kernel.host.questions.list(workspace=workspace, principal=OPERATOR)
            await kernel.host.questions.answer(asked.id, workspace=workspace, principal=OPERATOR, approved=True)
            assert await rests(kernel, session) == [("caller", "answered", "done")]
        else:
            done = getattr(session, end)()
            if asyncio.iscoroutine(done):
                await done
            assert await rests(kernel, session) == [("caller", "cancelled", "(no output)")]


async def test_a_tree_that_was_cut_is_reported_after_it_went_on(tmp_path: Path) -> None:
    """A crash reports nothing: the turn that goes on afterwards answers, once."""
    home = tmp_path / "home"
    async with running_kernel(home, model=ScriptedModel([Hang()])) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await session.submit(message("go"))
        await asyncio.sleep(0.1)
        name, workspace = session.info.id, session.info.workspace
    async with running_kernel(home, model=ScriptedModel([Answer("done")])) as kernel:
        session = await kernel.host.sessions.open(name, workspace=workspace, principal=OPERATOR)
        assert await rests(kernel, session) == [("caller", "answered", "done")]


async def test_a_parked_tree_reports_that_it_was(tmp_path: Path) -> None:
    """The third crash in a row parks the tree: its routes and its pointer are told why, once, and at once."""
    home, post = tmp_path / "home", Postbox()
    async with running_kernel(home, model=ScriptedModel([Hang()]), extra={"post": post}) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await session.submit(message("go", route="post:me:here"))
        await asyncio.sleep(0.1)
        name, workspace = session.info.id, session.info.workspace
    for _ in range(3):
        async with running_kernel(home, model=ScriptedModel([Hang()]), extra={"post": post}, recover=False) as kernel:
            await kernel.host.workspaces.get(workspace)
            seat = kernel.workspaces.seats[workspace]
            # As after kill -9: the turn was another process's, which did not land it.
            await seat.database.write(lambda tx: tx.one("UPDATE runs SET landed = 0, boot = 'dead'"))
            await kernel.recover()
            await asyncio.sleep(0.1)
            session = await kernel.host.sessions.open(name, workspace=workspace, principal=OPERATOR)
            found, parked = await told(session, kernel), session.info.parked
            assert bool(found) == parked
    assert parked
    ((target, reason, text),) = found
    assert (target, reason) == ("caller", "aborted") and "3 times in a row" in text
    (part,) = post.arrived
    assert (part.target, part.reason) == ("post:me:here", "aborted") and "3 times in a row" in part.text
