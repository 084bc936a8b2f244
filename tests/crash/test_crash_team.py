"""A team in a real server under `kill -9`: however a child's work ends, its parent is told once."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from halo_kernel.testing.openai_server import Received, Script, ScriptedCall, ScriptedOpenAI

from .served import Served

LONG = Script(text="word " * 600, pieces=600, delay=0.1)  # a minute, so that only a kill or an interrupt ends it
DOES = {
    "succeeds": Script(text="the work is done"),
    "fails": Script(status=400, body='{"error": {"message": "it cannot be done"}}'),
    "times out": Script(hang_at=0),
    "is cancelled": LONG,
    "is killed": LONG,
}
CUT = "[SUB-AGENT ABORTED: the server stopped"
REPORTS = {
    "succeeds": "the work is done",
    "fails": "it cannot be done",
    "times out": "the model sent nothing for 2 seconds",
    "is cancelled": "[SUB-AGENT ABORTED: the turn was cancelled",
    "is killed": CUT,
}


@dataclass
class Model:
    """Starts a session for each of `DOES`, which does that; `busy` is how long the parent then goes on."""

    busy: float
    doing: set[str] = field(default_factory=set[str])

    def __call__(self, request: Received) -> Script:
        asked = request.question
        if "[Session sub_" in asked:
            what = asked.rpartition("do: ")[2]
            self.doing.add(what)
            return DOES[what]
        if not asked.endswith("do: start"):
            return Script(text="read")
        if request.results:
            return Script(text="started " * 100, pieces=100, delay=self.busy / 100)
        calls = (ScriptedCall(name="start_session", arguments=_order(what)) for what in DOES)
        return Script(text="I give that away.", calls=tuple(calls))


def _order(what: str) -> dict[str, str]:
    return {"agent_id": "worker", "message": f"do: {what}", "title": what}


@dataclass
class Root:
    """The parent, as a client of the server sees it."""

    served: Served
    base: str
    id: str

    async def call(self, method: str, path: str, body: object = None) -> Any:
        status, answer = await asyncio.to_thread(self.served.call, method, f"{self.base}/{path}", body)
        assert status < 300, answer
        return answer

    async def journal(self, session: str = "") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.call("GET", f"{session or self.id}/events?limit=500"))["events"]
        return found

    async def children(self) -> dict[str, str]:
        """Return the ids of the children by what they do, as far as they are started."""
        calls: dict[str, str] = {}
        found: dict[str, str] = {}
        for event in await self.journal():
            body = event["body"]
            if event["kind"] == "assistant.message":
                calls |= {b["id"]: b["arguments"]["title"] for b in body["content"] if b["type"] == "tool_call"}
            elif event["kind"] == "tool.finished" and body["call"] in calls and body["outcome"] == "ok":
                found[calls[body["call"]]] = json.loads(body["text"])["session_id"]
        return found

    async def told(self, session: str) -> list[str]:
        """Return what a child reported, in the order in which the parent took it up."""
        bodies = [event["body"] for event in await self.journal() if event["kind"] == "input.added"]
        return [body["text"] for body in bodies if body["key"].startswith(f"report:{session}:")]

    async def rests(self) -> bool:
        infos = [await self.call("GET", name) for name in (self.id, *(await self.children()).values())]
        return all(info["state"] == "idle" for info in infos)


async def until(look: Callable[[], Awaitable[object]], what: str, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not await look():
        assert time.monotonic() < end, f"not within {seconds:g} s: {what}"
        await asyncio.sleep(0.1)


async def open_root(served: Served, folder: Path) -> Root:
    """Write the agents' files, and make a session of the lead."""
    for agent, text in (("lead", "team: [worker]\npriority: 9\n"), ("worker", "description: Does the work.\n")):
        path = folder / ".halo" / "agents" / agent
        path.mkdir(parents=True)
        (path / "agent.yaml").write_text(text)
    _, workspace = await asyncio.to_thread(served.call, "POST", "/api/workspaces", {"path": str(folder)})
    base = f"/api/workspaces/{workspace['id']}/sessions"
    _, session = await asyncio.to_thread(served.call, "POST", base, {"agent": "lead"})
    return Root(served, base, session["id"])


@pytest.mark.timeout(120)
@pytest.mark.parametrize("busy", [False, True], ids=["a parent that has read the others", "a busy parent"])
async def test_every_outcome_reaches_the_parent_once(
    tmp_path: Path, request: pytest.FixtureRequest, busy: bool
) -> None:
    """A child succeeds, fails, times out, is cancelled, is cut by `kill -9`: each is reported once, and read once."""
    model = Model(busy=60 if busy else 0.5)
    async with ScriptedOpenAI(responder=model) as server:
        env = {
            "OPENAI_BASE_URL": server.url,
            "OPENAI_API_KEY": "sk-test",
            "OPENAI_MODEL": "scripted",
            "HALO_PLUGINS": "api,workspace,tools,team,openai",
            "HALO_MODEL_IDLE_TIMEOUT": "2",
            "HALO_AGENT_MAX_RETRIES": "1",
        }
        served = Served(tmp_path / "home", env)
        served.start()
        request.addfinalizer(served.end)
        root = await open_root(served, tmp_path / "w")
        await root.call("POST", f"{root.id}/messages", {"text": "do: start", "key": "start"})

        async def all_began() -> bool:
            return model.doing == set(DOES) and len(await root.children()) == len(DOES)

        await until(all_began, "every child works")
        children = await root.children()
        await root.call("POST", f"{children['is cancelled']}/interrupt")

        async def all_but_one_ended() -> bool:
            ends = [any(e["kind"] == "turn.ended" for e in await root.journal(each)) for each in children.values()]
            return ends.count(True) == len(DOES) - 1

        await until(all_but_one_ended, "all but one child have ended")
        if not busy:
            await until(lambda: _all_read(root, children, len(DOES) - 1), "the parent has read what came")
        else:
            assert not await _all_read(root, children, 1), "the parent is busy, and its reports wait"
        for _ in range(2):  # the second time while it may be reading
            await asyncio.to_thread(served.kill)
            await asyncio.to_thread(served.start)
        await until(lambda: _all_read(root, children, len(DOES)), "the parent has read all")
        await until(root.rests, "the tree rests")
        for what, child in children.items():
            (report,) = await root.told(child)
            assert REPORTS[what] in report, (what, report)
            assert report.startswith("[SUB-AGENT ABORTED: ") == (what != "succeeds")
        last = [each for each in server.completions if each.question and "[Session sub_" not in each.question][-1]
        for child in children.values():
            assert str(last.messages).count(f"(from: session {child})") == 1, "its model is shown each once"
        assert served.stop() == 0


async def _all_read(root: Root, children: dict[str, str], count: int) -> bool:
    return sum([len(await root.told(child)) for child in children.values()]) >= count
