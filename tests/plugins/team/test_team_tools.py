"""The tools about sessions: who has them, whom they reach, what they answer and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from halo_kernel import Access, Call, Incoming, Principal, Question, Session, Tool, ToolFinished, ToolSpec, hook
from halo_kernel.testing import Answer, ScriptedModel, Workbench, until

from .conftest import NINE, Agents, Desk, Orders, ends, eventually, inputs, rest


async def offered(halo: Workbench, agent: str, access: Access = "full") -> set[str]:
    session = await halo.session(agent=agent, access=access)
    halo.model.requests.clear()
    await session.prompt(Incoming(text="hi")).result
    return {tool.name for tool in halo.model.requests[0].tools}


@pytest.mark.parametrize("agent", ["worker", "nobody", "hidden"])
async def test_no_team_no_tools(halo: Workbench, agents: Agents, agent: str) -> None:
    """6 An agent with no team, an empty one, or that is internal gets no session tool, whatever its `tools` list."""
    agents.specs = [replace(each, tools=("start_session", "continue_task")) for each in agents.specs]
    assert await offered(halo, agent) == {"continue_task"}


@pytest.mark.parametrize("access", ["full", "workspace", "readonly"])
async def test_a_team_gives_all_tools(halo: Workbench, access: Access) -> None:
    """A team gives all of the tools about sessions, at every level, although `tools` does not list them."""
    assert await offered(halo, "lead", access) == NINE


@pytest.mark.parametrize("name", ["hidden", "missing", "noone", ""])
async def test_internal_is_as_missing(desk: Desk, name: str) -> None:
    """7 An internal agent gives the same "not found" text as a missing one, from start_session and query_agent."""
    name = name or "x y"
    started = await desk.ask("start_session", agent_id=name, message="hi")
    asked = await desk.ask("query_agent", agent_id=name)
    team = "Your team: lead, middle, worker."
    assert started == {"code": 1, "error": f'agent "{name}" not found. {team}'}
    assert asked == {"code": 1, "error": f'agent "{name}" not found.'}
    assert await desk.session.children() == []


async def test_not_in_the_team(desk: Desk) -> None:
    """An agent that is not in the team is refused as such, and `query_agent` does not even say that it exists."""
    started = await desk.ask("start_session", agent_id="stranger", message="hi")
    assert started == {
        "code": 1,
        "error": 'agent "stranger" is not in your team. Your team: lead, middle, worker.',
    }
    assert (await desk.ask("query_agent", agent_id="stranger"))["error"] == 'agent "stranger" not found.'
    assert await desk.session.children() == []


async def test_the_team_is_read_anew(desk: Desk, agents: Agents) -> None:
    """The team that a call is checked against is that of now, not that of when the session was opened."""
    await desk.start("do: say hi")
    agents.specs[0] = replace(agents.specs[0], team=("stranger",))
    assert (await desk.ask("start_session", agent_id="worker", message="hi"))["code"] == 1
    assert (await desk.ask("start_session", agent_id="stranger", message="hi"))["code"] == 0


async def test_what_a_new_session_is_told(desk: Desk) -> None:
    """The opening names the session, then the context, then the task, and the title is the one that was given."""
    child = await desk.start("do: say hi", title="Say  hi", system_prompt_context="Be brief.")
    (first,) = await eventually(lambda: inputs(child))
    assert first.text == f"[Session {child.info.id}]\n\nBe brief.\n\ndo: say hi"
    assert first.sender == f"session:{desk.session.info.id}"
    assert child.info.title == "Say hi" and child.info.agent == "worker" and child.info.parent == desk.session.info.id
    assert (await desk.start("word " * 40)).info.title == ("word " * 12).strip()


async def test_a_child_has_its_folder(desk: Desk) -> None:
    """`working_dir` is a folder in the workspace, else the session's own; a bad one is refused and nothing is made."""
    (desk.halo.folder / "docs").mkdir()
    (desk.halo.folder / "file").touch()
    child = await desk.start("do: say hi", working_dir="docs")
    assert child.info.directory == "docs"
    count = len(await desk.session.children())
    for bad, why in (("..", "is outside the workspace"), ("nowhere", "is not a folder"), ("file", "is not a folder")):
        refused = await desk.ask("start_session", agent_id="worker", message="hi", working_dir=bad)
        assert refused["code"] == 1 and refused["error"].startswith(f"working_dir {bad} {why}"), refused
    assert len(await desk.session.children()) == count


async def test_arguments_that_are_missing(desk: Desk) -> None:
    """What a call lacks is named, and nothing happens."""
    for arguments in ({}, {"agent_id": "worker"}, {"agent_id": "worker", "message": "  "}, {"message": None}):
        done = await desk.call("start_session", **arguments)
        assert (done.outcome, done.text) == ("error", "Error: agent_id and message are required")
    done = await desk.call("stop_session")
    assert (done.outcome, done.text) == ("error", "Error: session_id is required")
    done = await desk.call("session_list", all=True)
    assert done.outcome == "error" and "`all`" in done.text
    assert await desk.session.children() == []


async def test_access_is_inherited_at_creation(halo: Workbench, orders: Orders) -> None:
    """9 A child keeps the level its parent had at creation, and no message of a lower one raises it."""
    desk = Desk(halo, orders, await halo.session(agent="lead", access="workspace"))
    child = await desk.start("do: say hi")
    assert child.info.access == "workspace"
    reader = Principal(name="guest", access="readonly")
    await desk.ask("start_session", who=reader, agent_id="worker", message="do: say hi")
    levels = [each.access for each in await desk.session.children()]
    assert sorted(levels) == ["readonly", "workspace"]


async def test_a_message_is_worth_its_sender(desk: Desk) -> None:
    """A message that a turn of lower access sends to a session of its tree runs at the lower access there."""
    child = await desk.start("do: say hi")
    await eventually(lambda: ends(child))
    reader = Principal(name="guest", access="readonly")
    await desk.ask("query_session", who=reader, target_session_id=child.info.id, message="do: say again")
    await eventually(lambda: _two_turns(child))
    events = [update.event async for update in child.events() if update.event]
    assert [event.body.access for event in events if event.kind == "turn.started"] == ["full", "readonly"]  # type: ignore[union-attr]


async def _two_turns(session: Session) -> bool:
    return len(await ends(session)) == 2


async def test_another_tree_is_not_found(desk: Desk) -> None:
    """10 The tools that take an id answer `session <id> not found` for another tree, and don't touch the target."""
    other = Desk(desk.halo, desk.orders, await desk.halo.session(agent="lead"))
    foreign = await other.start("do: say hi")
    await eventually(lambda: ends(foreign))
    head = foreign.info.head
    for session in (foreign, other.session):
        name = session.info.id
        for tool, arguments in (
            ("query_session", {"target_session_id": name, "message": "hi"}),
            ("interrupt_session", {"session_id": name, "message": "hi"}),
            ("stop_session", {"session_id": name}),
            ("archive_session", {"session_id": name}),
            ("get_session_output", {"session_id": name}),
        ):
            assert await desk.ask(tool, **arguments) == {"code": 1, "error": f"session {name} not found"}
    assert (await desk.ask("stop_session", session_id="../x y"))["error"] == "session ../x y not found"
    assert foreign.info.head == head and not foreign.info.stopped and not foreign.info.archived


async def test_neither_itself_nor_above(desk: Desk) -> None:
    """11 `stop_session` and `archive_session` on itself or an ancestor give code 1 and change nothing."""
    middle = await desk.start("do: say hi", "middle")
    low = await desk.start("do: say hi", "middle", by=middle)
    for act in ("stop", "archive"):
        for target in (low, middle, desk.session):
            refused = await desk.ask(f"{act}_session", low, session_id=target.info.id)
            why = f"cannot {act} session {target.info.id}: it is this session or one above it"
            assert refused == {"code": 1, "error": why}
    for each in (low, middle, desk.session):
        assert not each.info.stopped and not each.info.archived


async def test_a_sibling_may_be_stopped(desk: Desk) -> None:
    """The tools reach all of the tree: a session beside the caller, and one below that."""
    first, second = await desk.start("do: say hi", "middle"), await desk.start("do: say hi", "middle")
    low = await desk.start("do: hang", by=second)
    await until(lambda: low.info.state == "running")
    stopped = await desk.ask("stop_session", first, session_id=second.info.id)
    assert stopped["code"] == 0 and second.info.id in stopped["message"]
    assert (second.info.stopped, low.info.stopped, first.info.stopped) == (True, True, False)
    await eventually(lambda: ends(low))
    assert await ends(low) == ["cancelled"]


async def test_archive_is_for_good(desk: Desk) -> None:
    """Archiving tells how many sessions it ended, and they take no message afterwards."""
    middle = await desk.start("do: say hi", "middle")
    low = await desk.start("do: say hi", by=middle)
    found = await desk.ask("archive_session", session_id=middle.info.id)
    assert found == {"code": 0, "message": "Archived 2 sessions."}
    for each in (middle, low):
        refused = await desk.ask("query_session", target_session_id=each.info.id, message="hi")
        assert refused["code"] == 1 and "archived" in refused["error"]
    assert (await desk.ask("session_list"))["sessions"] == []
    assert await desk.ask("archive_session", session_id=middle.info.id) == {
        "code": 0,
        "message": "Archived 0 sessions.",
    }


async def test_the_list(desk: Desk) -> None:
    """`session_list` has the direct children, the latest first, with what each does; an archived one is left out."""
    done, busy = await desk.start("do: say hi", title="one"), await desk.start("do: hang", title="two")
    middle, gone = await desk.start("do: say hi", "middle"), await desk.start("do: say hi")
    low = await desk.start("do: hang", by=middle)
    await gone.archive()
    for each in (busy, low):
        await until(lambda each=each: each.info.state == "running")
    await eventually(lambda: ends(done))
    found = await desk.ask("session_list")
    status = {each["id"]: each["status"] for each in found["sessions"]}
    assert status == {done.info.id: "idle", busy.info.id: "running", middle.info.id: "running"}
    assert found["count"] == 3 and "left_off" not in found
    line = next(each for each in found["sessions"] if each["id"] == busy.info.id)
    assert line["agentName"] == "worker" and line["title"] == "two" and line["parentId"] == desk.session.info.id
    times = [each["updatedAt"] for each in found["sessions"]]
    assert times == sorted(times, reverse=True)
    await busy.stop()
    assert {each["id"]: each["status"] for each in (await desk.ask("session_list"))["sessions"]}[
        busy.info.id
    ] == "stopped"


async def test_a_long_list_stays_json(halo: Workbench, orders: Orders) -> None:
    """A list that is longer than a result may be is cut between sessions, and says how many it leaves off."""
    desk = Desk(halo, orders, await halo.session(agent="lead"))
    for number in range(40):
        await desk.session.start_child("worker", title=f'"{number}"' * 10)
    found = await desk.ask("session_list")
    assert 0 < found["count"] == len(found["sessions"]) == 40 - found["left_off"] < 40


async def test_the_output_keeps_its_tail(desk: Desk) -> None:
    """43 `get_session_output` keeps the tail when it must cut, and says so before it."""
    child = await desk.start("do: say " + "".join(f'\n"{number}"' for number in range(3000)))
    await eventually(lambda: ends(child))
    done = await desk.call("get_session_output", session_id=child.info.id)
    found = json.loads(done.text)
    assert len(done.text) <= 8000
    first, _, rest = found["output"].partition("\n")
    whole = await child.output()
    assert first == f"[Output truncated: {len(whole)} chars total, showing last {len(rest)}.]"
    assert whole.endswith(rest) and len(rest) > 3000
    assert found["status"] == "idle" and found["last_activity_at"] == child.info.updated_at


async def test_the_output_before_there_is_one(desk: Desk) -> None:
    """A session that has said nothing yet is told apart from one that said nothing."""
    child = await desk.start("do: hang")
    await until(lambda: child.info.state == "running")
    found = await desk.ask("get_session_output", session_id=child.info.id)
    assert (found["status"], found["output"]) == ("running", "(no output yet)")


@pytest.mark.parametrize(("access", "tools"), [("full", "note, file_write, shell_exec"), ("readonly", "note")])
async def test_query_agent(halo: Workbench, orders: Orders, access: Access, tools: str) -> None:
    """`query_agent` describes a member of the team; a readonly caller is not told of tools that it lends nobody."""
    desk = Desk(halo, orders, await halo.session(agent="lead", access=access))
    found = await desk.ask("query_agent", agent_id="worker")
    lines = ["Name: worker (worker)", "Description: Does the work.", "Model: chosen by the server", f"Tools: {tools}"]
    assert found == {"code": 0, "content": "\n".join(lines)}


async def test_a_message_goes_through_the_prompt(desk: Desk) -> None:
    """An idle session answers a message of the parent's, and remembers what it did before."""
    child = await desk.start("do: say one")
    await eventually(lambda: ends(child))
    found = await desk.ask("query_session", target_session_id=child.info.id, message="do: say two")
    assert found == {
        "code": 0,
        "message": f"Session {child.info.id} has your message. It reports when it is done.",
    }
    await eventually(lambda: _two_turns(child))
    assert await child.output() == "two"
    last = next(each for each in reversed(desk.halo.model.requests) if each.session == child.info.id)
    assert len([message for message in last.messages if message.role == "assistant"]) == 1


class Asking:
    """A tool that asks a person first."""

    spec = ToolSpec(name="note", description="Ask.", parameters={"type": "object"}, effect="read")

    @hook
    def provide_tools(self) -> list[Tool]:
        return [self]

    async def run(self, call: Call) -> str:
        if call.answer is None:
            call.ask(Question(text="Shall I?"))
        return "asked"


async def test_a_message_to_one_that_waits_for_a_person(halo: Workbench, orders: Orders) -> None:
    """Who waits for a person takes a message up after the answer, and lists and results say that it waits."""
    await halo.start(plugins=[Asking()])
    desk = Desk(halo, orders, await halo.session(agent="lead"))
    child = await desk.start("do: call note {}")
    await until(lambda: child.info.state == "waiting")
    found = await desk.ask("query_session", target_session_id=child.info.id, message="do: say hi")
    assert found["code"] == 0 and "waits for a person" in found["message"]
    assert (await desk.ask("session_list"))["sessions"][0]["status"] == "waiting"
    assert (await desk.ask("get_session_output", session_id=child.info.id))["status"] == "waiting"
    assert (await desk.ask("interrupt_session", session_id=child.info.id, message="do: say hi"))["code"] == 0
    await rest(desk.session)
    assert await child.output() == "hi" and child.info.state == "idle"


async def test_a_repeated_call_sends_once(desk: Desk) -> None:
    """A message has the call's id as its key, so that the very same call is one message."""
    child = await desk.start("do: say one")
    await eventually(lambda: ends(child))
    await desk.ask("query_session", target_session_id=child.info.id, message="do: say two")
    first, second = await eventually(lambda: _two_inputs(child))
    calls = [body for body in await _finished(desk.session) if body.name in ("start_session", "query_session")]
    assert [first.key, second.key] == [f"call:{body.call}" for body in calls]


async def _two_inputs(session: Session) -> object:
    found = await inputs(session)
    return found if len(found) == 2 else None


async def _finished(session: Session) -> list[ToolFinished]:
    events = [update.event async for update in session.events() if update.event]
    return [event.body for event in events if isinstance(event.body, ToolFinished)]


async def test_import_is_light(tmp_path: Path) -> None:
    """The plugin's tools are found in a kernel that has no agent with a team, and do no harm there."""
    model = ScriptedModel([Answer("hi")])
    bench = Workbench(tmp_path, plugins=["halo_team"], model=model)
    assert (await bench.ask("hi")).text == "hi"
    assert [tool.name for tool in model.requests[0].tools] == ["continue_task"]
    await bench.close()
