"""Random trees of sessions, and what is done to them meanwhile: every piece of work is reported once."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hypothesis import given, settings
from hypothesis import strategies as st

import halo_team
from halo_kernel import Incoming, ModelRequest, Session, Text
from halo_kernel.testing import Answer, Calls, Fail, Hang, ScriptedModel, Step, Workbench

from .conftest import Agents, Desk, Orders, inputs, rest

End = Literal["say", "fail", "hang"]


@dataclass(frozen=True)
class Node:
    """A session of the tree: which sessions it starts, and how its first turn ends."""

    end: End
    below: tuple[Node, ...] = ()

    def order(self) -> str:
        return "plan: " + json.dumps({"end": self.end, "below": [each.order() for each in self.below]})


LEAVES = st.sampled_from([Node("say"), Node("fail"), Node("hang")])
INNER = st.sampled_from(["say", "fail"])
TREES = st.recursive(LEAVES, lambda below: st.builds(Node, INNER, st.lists(below, max_size=3).map(tuple)), max_leaves=6)
TREES = st.builds(Node, INNER, st.lists(TREES, max_size=3).map(tuple))
ACTS = st.lists(st.tuples(st.sampled_from(["query", "interrupt", "stop", "archive"]), st.integers(0, 9)), max_size=4)


def act(request: ModelRequest) -> Step:
    """Do what the session was told last: start its sessions, then end; answer reports and questions at once."""
    last = request.messages[-1]
    texts = [block.text for block in last.content if isinstance(block, Text)]
    if not texts:  # the results of start_session
        first = next(m for m in reversed(request.messages[:-1]) if "plan: " in str(m.content) and m.role == "user")
        return _end(_plan(first.content[-1].text)["end"])  # type: ignore[union-attr]
    plan = _plan(texts[-1])
    if plan is None:
        return Answer("read")
    if plan["below"]:
        return Calls([("start_session", {"agent_id": "lead", "message": order}) for order in plan["below"]])
    return _end(plan["end"])


def _plan(text: str) -> dict[str, object] | None:
    found = text.partition("\n\n[System @ ")[0].partition("plan: ")[2]
    return json.loads(found) if found else None


def _end(end: End) -> Step:
    return {"say": Answer("done"), "fail": Fail("refused", "it broke"), "hang": Hang("half")}[end]


async def walk(desk: Desk, session: Session) -> list[Session]:
    """Return all sessions below one, parents first."""
    found: list[Session] = []
    for info in await session.children():
        child = await desk.open(info.id)
        found += [child, *await walk(desk, child)]
    return found


async def settled(desk: Desk) -> list[Session]:
    """Return all sessions below the root when they do nothing any more but hang, and those are stopped."""
    while await desk.session.children(working=True):
        for each in await walk(desk, desk.session):
            if each.info.state == "running" and _hangs(desk, each):
                each.interrupt()
        await asyncio.sleep(0.02)
    await rest(desk.session)
    return await walk(desk, desk.session)


def _hangs(desk: Desk, session: Session) -> bool:
    asked = [request for request in desk.halo.model.requests if request.session == session.info.id]
    return bool(asked) and isinstance(act(asked[-1]), Hang)


async def finals(session: Session, child: Session) -> list[str]:
    """Return the keys of a child's reports that were not interim."""
    return [
        each.key
        for each in await inputs(session)
        if each.sender == f"session:{child.info.id}" and each.key.startswith("report:")
    ]


async def _undisturbed(root: Node, folder: Path) -> None:
    async with opened(folder) as desk:
        await desk.session.prompt(Incoming(text=root.order())).result
        found = {each.info.id: each for each in [desk.session, *await settled(desk)]}
        assert len(found) == 1 + _count(root)
        for each in found.values():
            if each.info.parent is not None:
                assert len(await finals(found[each.info.parent], each)) == 1, "each reports once, when all of it rests"
        said = ["All sub-agents" in each.content for each in await inputs(desk.session)]
        assert said.count(True) == int(bool(root.below)) and said[-1] == bool(root.below), "at the end, and once"


async def _disturbed(root: Node, acts: list[tuple[str, int]], folder: Path) -> None:
    async with opened(folder) as desk:
        await desk.session.prompt(Incoming(text=root.order())).result
        for name, number in acts:
            if not (found := await walk(desk, desk.session)):
                return
            target = found[number % len(found)].info.id
            which = {"target_session_id" if name == "query" else "session_id": target}
            said = {"message": Node("say").order()} if name in ("query", "interrupt") else {}
            await desk.ask(f"{name}_session", **which, **said)
        found = {each.info.id: each for each in [desk.session, *await settled(desk)]}
        for each in found.values():
            keys = await finals(found[each.info.parent], each) if each.info.parent else []
            assert len(keys) == len(set(keys)), "no report comes twice"
            above = await _line(found, each)
            if not any(other.info.stopped or other.info.archived for other in (each, *above)) and each.info.parent:
                assert keys, "what works for one that lives has reported"


async def _line(found: dict[str, Session], session: Session) -> list[Session]:
    above: list[Session] = []
    while session.info.parent is not None:
        session = found[session.info.parent]
        above.append(session)
    return above


def _count(node: Node) -> int:
    return sum(1 + _count(each) for each in node.below)


@asynccontextmanager
async def opened(folder: Path) -> AsyncGenerator[Desk]:
    """A root session of the lead, in a kernel of its own."""
    model = ScriptedModel(responder=_either)
    halo = Workbench(folder, plugins={"team": halo_team, "agents": Agents()}, model=model)
    try:
        yield Desk(halo, Orders(), await halo.session(agent="lead"))
    finally:
        await halo.close()


def _either(request: ModelRequest) -> Step:
    """Call a tool when the test says so, else act."""
    last = request.messages[-1].content
    told = last[-1].text if isinstance(last[-1], Text) else ""
    return Orders()(request) if told.startswith("do: call") or _after_call(request) else act(request)


def _after_call(request: ModelRequest) -> bool:
    asked = next(m for m in reversed(request.messages) if m.role == "user" and isinstance(m.content[-1], Text))
    return asked.content[-1].text.startswith("do: call")  # type: ignore[union-attr]


@settings(max_examples=8, deadline=None)
@given(TREES)
def test_any_tree_reports_once(root: Node) -> None:
    """45 Whatever the tree, each session reports to the one above it once, and the root hears once that all is done."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_undisturbed(root, Path(folder)))


@settings(max_examples=8, deadline=None)
@given(TREES, ACTS)
def test_no_act_loses_or_doubles_a_report(root: Node, acts: list[tuple[str, int]]) -> None:
    """Whatever is asked, interrupted, stopped and archived meanwhile, no report comes twice and none is missing."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_disturbed(root, acts, Path(folder)))
