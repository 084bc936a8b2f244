"""`kill -9` at random over sends, turns and children: what was acknowledged is answered once, a child reports once."""

from __future__ import annotations

import asyncio
import os
import random
import textwrap
import time
from pathlib import Path
from typing import Any

import apsw
import pytest

from halo_kernel.folds import CUT_MARKER
from halo_kernel.testing.openai_rules import complaint
from halo_kernel.testing.openai_server import Received, Script, ScriptedCall, ScriptedOpenAI

from .crowd import Crowd, Send, plan
from .served import Served
from .verdict import TOKEN, Verdict, answered, check_order, finals

KILLS = int(os.environ.get("HALO_CRASH_KILLS", "30"))
MESSAGES = int(os.environ.get("HALO_CRASH_MESSAGES", "200"))
SEED = int(os.environ.get("HALO_CRASH_SEED", random.randrange(1 << 30)))
SESSIONS = 8
REST = 60.0  # seconds for all that is left after the last kill
AGENT = "name: Lead\ntools: [file_list, delegate]\npriority: 200\n"
PLUGINS = "api,workspace,tools,openai,crew"
CREW = '''
    """Has work done by a session of its own."""

    from halo_kernel import Incoming, Principal, ToolSpec, hook


    class Delegate:
        spec = ToolSpec(name="delegate", description="Hand work on.", parameters={"type": "object"}, effect="write")

        async def run(self, call):
            child = await call.session.start_child(call.session.agent.id)
            me = Principal(name=f"session:{call.session.info.id}", kind="agent")
            work = Incoming(text=call.arguments["task"], principal=me, key=f"{call.turn.id}:{call.id}")
            await child.prompt(work).accepted
            return f"{child.info.id} is at work"


    @hook
    def provide_tools():
        return [Delegate()]
'''


def install_crew(home: Path) -> None:
    """Lay out a plugin whose tool gives work to a child, as an installer does, and an agent that may use it."""
    agent, site = home / "global" / "agents" / "lead", home / "plugins"
    agent.mkdir(parents=True)
    (agent / "agent.yaml").write_text(AGENT)
    (agent / "AGENT.md").write_text("You lead a crew.")
    package, info = site / "halo_crew", site / "halo_crew-1.0.dist-info"
    for folder in (package, info):
        folder.mkdir(parents=True)
    (package / "__init__.py").write_text(textwrap.dedent(CREW))
    (package / "halo.toml").write_text('kernel = ">=0.1,<0.2"\nprovides = ["tools"]\n')
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: halo-crew\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[halo.plugins]\ncrew = halo_crew\n")


def unanswered(messages: list[dict[str, Any]]) -> list[str]:
    """Return the tokens that came after the last whole answer."""
    found: list[str] = []
    for message in messages:
        text = message.get("content") or ""
        if message["role"] == "assistant" and not message.get("tool_calls") and CUT_MARKER not in text:
            found.clear()
        elif message["role"] == "user":
            found.extend(token for token in TOKEN.findall(text) if token not in found)
    return found


def has_work(tokens: list[str]) -> bool:
    """Tell whether something is to be handed on."""
    return any(token.startswith("<h") for token in tokens)


class Model:
    """Answers all that is unanswered, slowly, sometimes after a tool call."""

    def __init__(self, rnd: random.Random) -> None:
        self._rnd = rnd
        self._calls = 0

    def respond(self, request: Received) -> Script:
        tokens = unanswered(request.messages)
        if self._rnd.random() < (0.5 if has_work(tokens) else 0.2):
            return Script(text="let me look ", calls=(self._call(tokens),), delay=0.01)
        text = "answered " + " ".join(tokens)
        return Script(text=text, pieces=self._rnd.randint(1, 8), delay=self._rnd.choice([0.0, 0.02, 0.1]))

    def _call(self, tokens: list[str]) -> ScriptedCall:
        self._calls += 1
        name, arguments = "file_list", {"path": "."}
        if has_work(tokens):
            name, arguments = "delegate", {"task": f"work <w{self._calls}>"}
        return ScriptedCall(name=name, arguments=arguments, id=f"call_{self._calls}")


async def open_sessions(served: Served, folder: Path) -> Crowd:
    folder.mkdir()
    _, workspace = await asyncio.to_thread(served.call, "POST", "/api/workspaces", {"path": str(folder)})
    crowd = Crowd(served, f"/api/workspaces/{workspace['id']}/sessions", [])
    for _ in range(SESSIONS):
        status, session = await crowd.call("POST", crowd.base, {})
        assert status == 201, session
        crowd.sessions.append(session["id"])
    return crowd


async def kill_at_random(crowd: Crowd, rnd: random.Random) -> None:
    """Kill the server again and again while all messages are sent, in equal shares."""
    sends, tasks = list(plan(rnd, MESSAGES, SESSIONS)), list[asyncio.Task[None]]()
    for number in range(KILLS):
        life = 0.1 + rnd.random() * 1.1
        share = sends[MESSAGES * number // KILLS : MESSAGES * (number + 1) // KILLS]
        tasks += [asyncio.create_task(crowd.send(send, life)) for send in share]
        await asyncio.sleep(life)
        await asyncio.to_thread(crowd.served.kill)
        await asyncio.to_thread(crowd.served.start)
    await asyncio.gather(*tasks)


def more(crowd: Crowd) -> Send:
    """Return one more message, without a fault."""
    return Send(token=f"<m{10_000 + len(crowd.asked)}>", session=0, mode="follow_up", fault="", part=1.0, delay=0.0)


async def come_to_rest(crowd: Crowd, session: str) -> None:
    """Return when a tree has done all there is, or has had the time for it.

    One that was parked after crashes in a row is asked once more, as a person would.
    """
    end = time.monotonic() + REST
    while time.monotonic() < end:
        _, info = await crowd.call("GET", f"{crowd.base}/{session}")
        family = [info, *await crowd.children(session)]
        if {each["state"] for each in family} == {"idle"}:
            verdict = await judge(crowd, session, Verdict())
            if not info["parked"] and answered(await crowd.journal(session)) and not verdict.faults:
                return
        if info["parked"]:
            await crowd.deliver(session, more(crowd))
        await asyncio.sleep(0.5)


async def judge(crowd: Crowd, session: str, verdict: Verdict) -> Verdict:
    """Add what is to be said about a tree."""
    events = await crowd.journal(session)
    verdict.messages(events, [token for token, place in crowd.asked.items() if place == session])
    for child in await crowd.children(session):
        verdict.child(child["id"], await crowd.journal(child["id"]), events)
    return verdict


async def try_open(crowd: Crowd, session: str, verdict: Verdict) -> None:
    """Ask a session that its process has never seen, read its children, and judge all of it."""
    send, end = more(crowd), time.monotonic() + REST
    try:
        await crowd.deliver(session, send)
        while not any(send.token in text for text in finals(await crowd.journal(session))):
            assert time.monotonic() < end, f"it does not answer: {crowd.served.log.read_text()[-2000:]}"
            await asyncio.sleep(0.1)
        await judge(crowd, session, verdict)
    except AssertionError as error:
        verdict.shut.append(f"{session}: {error}")


def integrity(folder: Path) -> None:
    found = sorted(folder.rglob("*.db"))
    assert found
    for path in found:
        with apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY) as database:
            assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)], path


@pytest.mark.timeout(240 + 6 * KILLS)
async def test_killed_at_random_nothing_is_lost_or_doubled(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """S36: each acknowledged message has one answer and each child's work one report, through kills at random."""
    rnd, begin = random.Random(SEED), time.monotonic()
    print(f"HALO_CRASH_SEED={SEED}")
    model = Model(random.Random(SEED))
    install_crew(tmp_path / "home")
    async with ScriptedOpenAI(responder=model.respond) as server:
        env = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "sk-test", "OPENAI_MODEL": "scripted"}
        served = Served(tmp_path / "home", {**env, "HALO_PLUGINS": PLUGINS})
        served.start()
        request.addfinalizer(served.end)
        crowd = await open_sessions(served, tmp_path / "w")
        await kill_at_random(crowd, rnd)
        await asyncio.gather(*[come_to_rest(crowd, session) for session in crowd.sessions])
        assert served.stop() == 0
        served.start()
        verdict = Verdict()
        await asyncio.gather(*[try_open(crowd, session, verdict) for session in crowd.sessions])
        cut, children = await count(crowd)
        assert served.stop() == 0
        refused = [wrong for request in server.completions if (wrong := complaint(request.body))]
    integrity(tmp_path)
    print(f"{KILLS} kills, {len(crowd.receipts)} messages acknowledged, {cut} turns cut, {children} children,")
    print(f"{time.monotonic() - begin:.0f} s, {os.cpu_count()} cores\n{verdict.table}")
    assert not verdict.faults, "\n\n".join(verdict.faults)
    assert not refused, refused
    assert len(crowd.receipts) >= MESSAGES and all(len(rows) == 1 for rows in crowd.receipts.values())
    assert cut and children, "the run shows nothing"


async def count(crowd: Crowd) -> tuple[int, int]:
    """Return how many turns were cut, and how many children there are."""
    below = [child["id"] for session in crowd.sessions for child in await crowd.children(session)]
    cuts = [check_order(await crowd.journal(session)) for session in [*crowd.sessions, *below]]
    return sum(cuts), len(below)
