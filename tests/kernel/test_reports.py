"""What becomes of a child's work reaches its parent: once, whatever the outcome, and wherever the parent is then."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halo_kernel import (
    OPERATOR,
    Incoming,
    InputAdded,
    Kernel,
    ModelRequest,
    Principal,
    Prompt,
    QueueFull,
    Session,
    SessionSettings,
    TurnEnded,
)
from halo_kernel.reports import REPORT_CHARS
from halo_kernel.testing import (
    Answer,
    Calls,
    Fail,
    Hang,
    NoteTool,
    ScriptedModel,
    Step,
    VirtualClock,
    a_session,
    journal,
    running_kernel,
    until,
)

PARENT = Principal(name="session:parent", kind="agent")


def said(request: ModelRequest) -> str:
    """Return the last thing that was said to the model."""
    return str(request.messages[-1])


async def inputs(session: Session, cause: str = "report") -> list[str]:
    """Return what a session was told for a cause, as its model reads it."""
    bodies = [event.body for event in await journal(session)]
    return [body.content or body.text for body in bodies if isinstance(body, InputAdded) and body.cause == cause]


async def rests(*sessions: Session) -> None:
    """Return when nothing has happened in a tree for a while."""
    still = 0
    while still < 5:
        await asyncio.sleep(0.02)
        still = still + 1 if all(each.info.state in {"idle", "closed"} for each in sessions) else 0


class Family:
    """A model for a parent, which acknowledges reports, and its child, which does as its script says."""

    def __init__(self, *steps: Step) -> None:
        self.child = list(steps)
        self.told: list[str] = []
        self.model = ScriptedModel(responder=self._answer)

    def _answer(self, request: ModelRequest) -> Step:
        if "(from: session sub_" in said(request):
            self.told.append(said(request))
            return Answer("read")
        return self.child.pop(0) if self.child else Answer("ok")


@pytest.mark.parametrize(
    ("step", "report"),
    [
        (Answer("the answer"), "the answer"),
        (Fail("account", text="half"), "[SUB-AGENT ABORTED: scripted]\n\n(no output)"),
        (Hang("half"), "[SUB-AGENT ABORTED: the turn was cancelled]\n\n(no output)"),
    ],
    ids=["succeeded", "failed", "cancelled"],
)
async def test_every_outcome_reaches_the_parent_once(tmp_path: Path, step: Step, report: str) -> None:
    """A child's end is one message to its parent, told from a person's, which the parent answers in a turn."""
    family = Family(step)
    async with running_kernel(tmp_path / "home", model=family.model) as kernel:
        parent = await a_session(kernel, tmp_path / "w")
        child = await parent.start_child("default")
        handle = child.prompt(Incoming(text="work", principal=PARENT))
        if isinstance(step, Hang):
            await until(lambda: family.model.active)
            child.interrupt()
        await handle.result
        await until(lambda: family.told)
        await rests(parent, child)
        (found,) = await inputs(parent)
        assert found.startswith(f"(from: session {child.info.id})\n")
        assert found.partition("\n")[2].replace("model error: ", "").startswith(report.partition(": ")[0])
        assert found.endswith(report.rpartition("\n")[2]) and len(family.told) == 1


async def test_a_busy_parent_reads_reports_after_its_batch(tmp_path: Path) -> None:
    """Reports that come while the parent works are read together, in one turn of their own."""
    gate = asyncio.Event()
    family = Family(Calls([("note", {"text": "x"})]), Answer("one"), Answer("two"))
    async with running_kernel(
        tmp_path / "home", model=family.model, tools=[NoteTool(wait=lambda call: gate.wait())]
    ) as kernel:
        parent = await a_session(kernel, tmp_path / "w")
        mine = parent.prompt(Incoming(text="go"))
        await until(lambda: parent.info.state == "running" and len(family.model.requests) == 1)
        children = [await parent.start_child("default") for _ in range(2)]
        for child in children:
            await child.prompt(Incoming(text="work", principal=PARENT)).result
        await rests(*children)
        assert await inputs(parent) == []
        gate.set()
        await mine.result
        await rests(parent)
        assert [text.partition("\n")[2] for text in await inputs(parent)] == ["one", "two"] and len(family.told) == 1


async def test_a_report_waits_for_what_is_below(tmp_path: Path) -> None:
    """A child reports when all below it rests, with what it says last: after it has read its own child's report."""
    gate = asyncio.Event()
    note = NoteTool(wait=lambda call: gate.wait())

    def answer(request: ModelRequest) -> Step:
        text = said(request)
        if "deep" in text:
            return Calls([("note", {"text": "x"})])
        return Answer(
            "both done" if "(from: session sub_" in text else "from below" if "ToolResult" in text else "on my way"
        )

    async with running_kernel(tmp_path / "home", model=ScriptedModel(responder=answer), tools=[note]) as kernel:
        parent = await a_session(kernel, tmp_path / "w")
        child = await parent.start_child("default")
        below = await child.start_child("default")
        await below.submit(Incoming(text="deep", principal=PARENT))
        await until(lambda: note.seen)
        assert (await child.prompt(Incoming(text="work", principal=PARENT)).result).text == "on my way"
        await rests(parent, child)
        (meanwhile,) = await inputs(parent)
        assert "[Interim report" in meanwhile and "on my way" in meanwhile and "Not the final result." in meanwhile
        gate.set()
        await until(lambda: below.info.state != "running")
        await rests(parent, child, below)
        assert len(await inputs(child)) == 1
        assert [text.rpartition("\n")[2] for text in await inputs(parent)] == ["Not the final result.", "both done"]


async def test_a_long_report_is_cut(tmp_path: Path) -> None:
    """A report has at most 8,192 characters of the output, says how much there is and whose output that is."""
    family = Family(Answer("x" * 20_000))
    async with running_kernel(tmp_path / "home", model=family.model) as kernel:
        parent = await a_session(kernel, tmp_path / "w")
        child = await parent.start_child("default")
        await child.prompt(Incoming(text="work", principal=PARENT)).result
        await until(lambda: family.told)
        (found,) = await inputs(parent)
        assert found.count("x" * REPORT_CHARS) == 1 and "x" * (REPORT_CHARS + 1) not in found
        assert "20000 chars total, showing first 8192" in found and child.info.id in found.rpartition("[")[2]


async def test_a_person_who_talks_to_a_child_is_answered_there(tmp_path: Path) -> None:
    """While a child works for its parent, what a person says to it makes no interim report of its own."""
    family = Family(Hang(), Answer("for you"))
    async with running_kernel(tmp_path / "home", model=family.model) as kernel:
        parent = await a_session(kernel, tmp_path / "w")
        child = await parent.start_child("default")
        await child.submit(Incoming(text="work", principal=PARENT))
        await until(lambda: family.model.active)
        person = child.prompt(Incoming(text="how is it?", mode="interrupt_hard"))
        behind = child.prompt(Incoming(text="and then?", principal=PARENT, mode="follow_up"))
        assert (await person.result).text == "for you"
        await behind.result
        await rests(parent, child)
        found = await inputs(parent)
        assert len(found) == 1 and "for you" not in found[0]


async def test_a_stopped_parent_keeps_reports_for_later(tmp_path: Path) -> None:
    """A report starts no turn of a parent that was stopped; the next message there is answered with it."""
    family = Family(Answer("late"))
    async with running_kernel(tmp_path / "home", model=family.model) as kernel:
        parent = await a_session(kernel, tmp_path / "w")
        child = await parent.start_child("default")
        await parent.stop()
        await child.prompt(Incoming(text="work", principal=PARENT)).result
        await rests(parent, child)
        assert parent.info.stopped and await inputs(parent) == [] and family.told == []
        await parent.prompt(Incoming(text="what came of it?")).result
        await rests(parent)
        assert [text.partition("\n")[2] for text in await inputs(parent)] == ["late"]
        assert not parent.info.stopped


async def test_an_archived_parent_is_told_nothing(tmp_path: Path) -> None:
    """An archived session takes no report, and its child's turn ends all the same."""
    family = Family(Answer("late"))
    async with running_kernel(tmp_path / "home", model=family.model) as kernel:
        parent = await a_session(kernel, tmp_path / "w")
        child = await parent.start_child("default")
        handle = child.prompt(Incoming(text="work", principal=PARENT))
        await handle.accepted
        await parent.archive()
        assert (await handle.result).outcome == "cancelled"
        await rests(parent, child)
        assert await inputs(parent) == []


async def test_reports_keep_no_person_out(tmp_path: Path) -> None:
    """A queue that agents have filled still takes a person's message; a person's is full for persons."""
    model = ScriptedModel([Hang()])
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        kernel.workspaces.seats[session.info.workspace].limits = SessionSettings(max_queue_size=2)
        await session.submit(Incoming(text="go"))
        await until(lambda: model.active)
        for number in range(2):
            await session.submit(Incoming(text=f"agent {number}", principal=PARENT, mode="follow_up"))
        with pytest.raises(QueueFull):
            await session.submit(Incoming(text="agent 2", principal=PARENT, mode="follow_up"))
        await session.submit(Incoming(text="person", mode="follow_up"))


async def test_a_crash_is_told_all_the_way_up(tmp_path: Path) -> None:
    """The root, whose own turn comes first, lets those in between read what became of the work below them."""
    model = ScriptedModel([Hang()])
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        root = await a_session(kernel, tmp_path / "w")
        child = await root.start_child("default")
        grandchild = await child.start_child("default")
        await grandchild.submit(Incoming(text="go", principal=PARENT))
        await until(lambda: model.active)
    model = ScriptedModel(responder=lambda request: Answer("seen"))
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        opened = kernel.host.sessions.open
        root = await opened(root.info.id, workspace=root.info.workspace, principal=OPERATOR)
        await until(lambda: len(model.requests) == 3)  # the nudge, the report to the child, its own to the root
        assert len(await inputs(root)) == 1 and "seen" in (await inputs(root))[0]
        child = await opened(child.info.id, workspace=root.info.workspace, principal=OPERATOR)
        assert ["SUB-AGENT ABORTED" in told for told in await inputs(child)] == [True]


async def test_a_crash_of_a_child_is_told_once(tmp_path: Path) -> None:
    """A child that a crash cut is reported as aborted, once, also when the server crashes again before it is read."""
    home, family = tmp_path / "home", Family(Hang())
    async with running_kernel(home, model=family.model) as kernel:
        parent = await a_session(kernel, tmp_path / "w")
        child = await parent.start_child("default")
        await child.submit(Incoming(text="work", principal=PARENT))
        await until(lambda: family.model.active)
        names, workspace = (parent.info.id, child.info.id), parent.info.workspace
    family = Family()
    async with running_kernel(home, model=family.model, recover=False) as kernel:
        await kernel.host.workspaces.get(workspace)
        seat = kernel.workspaces.seats[workspace]
        # As after kill -9: the turn was another process's, which did not land it.
        await seat.database.write(lambda tx: tx.one("UPDATE runs SET landed = 0, boot = 'dead'"))
        await kernel.recover()
        parent, child = [await _open(kernel, name, workspace) for name in names]
        await until(lambda: family.told)
        await rests(parent, child)
        (found,) = await inputs(parent)
        assert "[SUB-AGENT ABORTED: the server stopped" in found
        assert len(await inputs(parent, "recovery")) == 1
    async with running_kernel(home, model=family.model) as kernel:
        parent = await _open(kernel, names[0], workspace)
        await rests(parent)
        assert len(await inputs(parent)) == 1


async def _open(kernel: Kernel, session: str, workspace: str) -> Session:
    return await kernel.host.sessions.open(session, workspace=workspace, principal=OPERATOR)


# Any schedule


def _random_answer(rnd: random.Random) -> ScriptedModel:
    def respond(request: ModelRequest) -> Step:
        steps: list[Step] = [Answer("a"), Calls([("note", {"text": "x"})]), Fail("account"), Fail("network")]
        return rnd.choices(steps, [5, 2, 1, 1])[0]

    return ScriptedModel(responder=respond)


async def _act(session: Session, rnd: random.Random, number: int) -> Prompt | None:
    match rnd.choice(["ask", "ask", "ask", "interrupt", "cancel", "stop"]):
        case "interrupt":
            session.interrupt()
        case "stop" if session.info.parent is not None and rnd.random() < 0.3:
            await session.stop()
        case what:
            mode = rnd.choice(["steer", "follow_up", "interrupt_soft", "interrupt_hard"])
            handle = session.prompt(Incoming(text=f"m{number}", principal=PARENT, mode=mode))
            await asyncio.sleep(rnd.random() * 0.004)
            if what == "cancel":
                handle.cancel()
            return handle
    return None


async def _scenario(seed: int, home: Path) -> None:
    rnd = random.Random(seed)
    tool = NoteTool(wait=lambda call: asyncio.sleep(rnd.random() * 0.003))
    async with running_kernel(home / "home", model=_random_answer(rnd), tools=[tool], clock=VirtualClock()) as kernel:
        tree = [await a_session(kernel, home / "w")]
        for _ in range(4):
            tree.append(await rnd.choice(tree).start_child("default"))
        for number in range(rnd.randint(3, 15)):
            await _act(rnd.choice(tree[1:]), rnd, number)
            await asyncio.sleep(rnd.random() * 0.005)
        await rests(*tree)
        seat = kernel.workspaces.seats[tree[0].info.workspace]
        pointers = await seat.database.read(lambda tx: list(tx.execute("SELECT id FROM sessions WHERE reply_to <> ''")))
        assert pointers == [], "what a session was asked for is reported when it rests"
        rows = await seat.database.read(
            lambda tx: list(tx.execute("SELECT session, principal, state, text, key FROM inbox WHERE cause = 'report'"))
        )
        assert all(state in {"consumed", "held", "stopped"} for _, _, state, _, _ in rows)
        assert max(Counter(key for *_, key in rows).values(), default=1) == 1
        parents = {session.info.id: session.info.parent for session in tree}
        assert all(parents[who.removeprefix("session:")] == to for to, who, *_ in rows)
        final = Counter(who.removeprefix("session:") for _, who, _, text, _ in rows if "[Interim" not in text)
        for session in tree[1:]:
            ends = [event for event in await journal(session) if isinstance(event.body, TurnEnded)]
            assert (final[session.info.id] > 0) >= bool(ends), "who has worked has reported"


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1 << 30))
def test_no_schedule_loses_or_doubles_a_report(seed: int) -> None:
    """Whatever is asked of a tree, interrupted, withdrawn and stopped when: each piece of work is reported once."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_scenario(seed, Path(folder)))
