"""A team made of files: who may start whom is what agent.yaml says now, and each tool does as its agents' files say."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from halo_kernel import Incoming, ModelRequest, Session, Text, ToolFinished
from halo_kernel.testing import Answer, Calls, ScriptedModel, Step, Workbench, journal, until

ORDER = "do: call "
NINE = ["archive_session", "continue_task", "get_session_output", "interrupt_session", "query_agent", "query_session"]
NINE += ["session_list", "start_session", "stop_session"]


def obey(request: ModelRequest) -> Step:
    """Call the tool that a message names, else answer."""
    blocks = [block.text for block in request.messages[-1].content if isinstance(block, Text)]
    name, _, arguments = blocks[-1].partition(ORDER)[2].partition(" ") if blocks else ("", "", "")
    return Calls([(name, json.loads(arguments))]) if name else Answer("done")


class Team:
    """A workspace with agents as files, and a session of the lead."""

    def __init__(self, halo: Workbench) -> None:
        self.halo = halo

    def write(self, agent: str, text: str, words: str = "") -> None:
        folder = self.halo.folder / ".halo" / "agents" / agent
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "agent.yaml").write_text(text)
        if words:
            (folder / "AGENT.md").write_text(words)

    async def ask(self, session: Session, tool: str, **arguments: object) -> dict[str, Any]:
        await session.prompt(Incoming(text=f"{ORDER}{tool} {json.dumps(arguments)}")).result
        bodies = [event.body for event in await journal(session)]
        done = next(body for body in reversed(bodies) if isinstance(body, ToolFinished))
        assert done.outcome == "ok", done.text
        return json.loads(done.text)  # type: ignore[no-any-return]

    def system(self, session: Session) -> str:
        return next(each.system for each in reversed(self.halo.model.requests) if each.session == session.info.id)


def in_a_loop(test: Callable[[Team], Coroutine[Any, Any, None]]) -> Callable[[Team], None]:
    """Run a test in a thread with a loop of its own: the browser of other tests keeps one in this thread."""

    async def whole(team: Team) -> None:
        try:
            await test(team)
        finally:
            await team.halo.close()

    @wraps(test)
    def run(team: Team) -> None:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(asyncio.run, whole(team)).result()

    return run


@pytest.fixture
def team(tmp_path: Path) -> Team:
    model = ScriptedModel(responder=obey)
    made = Team(Workbench(tmp_path, plugins=["halo_workspace", "halo_team"], model=model))
    made.write("lead", "name: Lead\npriority: 99\ntools: []\nteam: [lead, worker, secret, gone]\n", "You lead.")
    made.write("worker", "description: Does the work.\ntools: [file_read]\n", "You work.")
    made.write("secret", "internal: true\n")
    made.write("other", "description: Not of the team.\n")
    return made


@in_a_loop
async def test_each_tool_with_real_agents(team: Team) -> None:
    """A lead starts a session of an agent that is a file, asks it, interrupts, lists, reads, stops and archives it."""
    lead = await team.halo.session(agent="lead")
    started = await team.ask(lead, "start_session", agent_id="worker", message="begin", title="the work")
    child = started["session_id"]
    assert started["code"] == 0 and [each.id for each in await lead.children()] == [child]

    async def rests() -> bool:
        return not await lead.children(working=True)

    for tool, arguments in (
        ("query_session", {"target_session_id": child, "message": "more"}),
        ("interrupt_session", {"session_id": child, "message": "now"}),
    ):
        assert (await team.ask(lead, tool, **arguments))["code"] == 0
    while not await rests():
        await until(lambda: lead.info.state == "idle")
    (line,) = (await team.ask(lead, "session_list"))["sessions"]
    assert (line["id"], line["agentName"], line["title"], line["status"]) == (child, "worker", "the work", "idle")
    assert (await team.ask(lead, "get_session_output", session_id=child))["output"] == "done"
    described = (await team.ask(lead, "query_agent", agent_id="worker"))["content"]
    assert "Does the work." in described and "Tools: file_read" in described and "You work." not in described
    assert (await team.ask(lead, "continue_task"))["status"] == "not_interrupted"
    assert (await team.ask(lead, "stop_session", session_id=child))["code"] == 0
    assert (await team.ask(lead, "archive_session", session_id=child))["message"] == "Archived 1 session."
    request = next(each for each in team.halo.model.requests if each.session == child)
    assert "You work." in request.system and str(request.messages[-1]).count(f"[Session {child}]") == 1


@in_a_loop
async def test_who_is_refused(team: Team) -> None:
    """An internal agent, a missing one and one outside the team are refused as they are for agents of any source."""
    lead = await team.halo.session(agent="lead")
    for agent in ("secret", "gone", "nobody"):
        assert (await team.ask(lead, "start_session", agent_id=agent, message="hi"))["error"].startswith(
            f'agent "{agent}" not found. Your team: lead, worker'
        )
        assert (await team.ask(lead, "query_agent", agent_id=agent))["error"] == f'agent "{agent}" not found.'
    refused = await team.ask(lead, "start_session", agent_id="other", message="hi")
    assert refused["error"].startswith('agent "other" is not in your team.')
    assert await lead.children() == []


@in_a_loop
async def test_an_edit_counts_at_once(team: Team) -> None:
    """Who is in the team is what agent.yaml says at the call; one that is broken then refuses, and names its line."""
    lead = await team.halo.session(agent="lead")
    assert (await team.ask(lead, "query_agent", agent_id="other"))["code"] == 1
    team.write("lead", "priority: 99\ntools: []\nteam: [other]\n")
    assert (await team.ask(lead, "query_agent", agent_id="other"))["code"] == 0
    assert (await team.ask(lead, "query_agent", agent_id="worker"))["code"] == 1
    team.write("other", "internal: true\n")
    assert (await team.ask(lead, "query_agent", agent_id="other"))["code"] == 1
    team.write("lead", "priority: 99\nteam: 7\n")
    broken = await team.ask(lead, "start_session", agent_id="other", message="hi")
    assert broken["code"] == 1 and "agent.yaml, line 2: team" in broken["error"]


@in_a_loop
async def test_the_roster_in_the_prompt(team: Team) -> None:
    """A team stands in the prompt after the agent's own text: with advice for a root, short below, as it is now."""
    lead = await team.halo.session(agent="lead")
    await lead.prompt(Incoming(text="hi")).result
    system = team.system(lead)
    assert system.index("You lead.") < system.index("## Know Your Team Before You Act")
    assert "- `lead` Lead (you)" in system and "- `worker`: Does the work." in system
    assert "secret" not in system and "`other`" not in system
    assert team.halo.model.requests[-1].tools and [tool.name for tool in team.halo.model.requests[-1].tools] == NINE
    child = await lead.start_child("lead")
    await child.prompt(Incoming(text="hi")).result
    assert "## Your Team" in team.system(child) and "Know Your Team" not in team.system(child)
    team.write("worker", "description: Works no more.\n")
    await lead.prompt(Incoming(text="hi")).result
    assert "- `worker`: Works no more." in team.system(lead)


@in_a_loop
async def test_no_team_no_roster(team: Team) -> None:
    """6 An agent with no team has neither roster nor tools about sessions, even if its `tools` name one."""
    team.write("alone", "tools: [start_session]\nteam: []\n", "You are alone.")
    alone = await team.halo.session(agent="alone")
    await alone.prompt(Incoming(text="hi")).result
    assert "Team" not in team.system(alone)
    assert [tool.name for tool in team.halo.model.requests[-1].tools] == ["continue_task"]
