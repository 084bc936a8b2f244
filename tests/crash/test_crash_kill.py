"""`kill -9` at random over sends and turns: what was acknowledged is answered once, and every file stays sound."""

from __future__ import annotations

import asyncio
import os
import random
import re
import time
from http.client import HTTPException
from pathlib import Path
from typing import Any

import apsw
import pytest

from halo_kernel.folds import CUT_MARKER
from halo_kernel.testing.openai_server import Received, Script, ScriptedCall, ScriptedOpenAI

from .served import Served

KILLS = int(os.environ.get("HALO_CRASH_KILLS", "30"))
SECONDS = 3.0 * KILLS  # the most that the kills may take
SEED = int(os.environ.get("HALO_CRASH_SEED", random.randrange(1 << 30)))
SESSIONS = 3
TOKEN = re.compile(r"<m\d+>")


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


def responder(rnd: random.Random) -> Any:
    """Answer all that is unanswered, slowly, sometimes after a tool call."""

    def respond(request: Received) -> Script:
        if rnd.random() < 0.3:
            return Script(
                text="let me look ", calls=(ScriptedCall(name="file_list", arguments={"path": "."}),), delay=0.01
            )
        text = "answered " + " ".join(unanswered(request.messages))
        return Script(text=text, pieces=rnd.randint(1, 8), delay=rnd.choice([0.0, 0.02, 0.1]))

    return respond


class Client:
    """Sends numbered messages; a send whose answer was lost is repeated with its key, as a good client does."""

    def __init__(self, served: Served, rnd: random.Random) -> None:
        self.served = served
        self.rnd = rnd
        self.acknowledged: dict[str, str] = {}
        self.receipts: dict[str, int] = {}
        self.paths: list[str] = []
        self._number = 0
        self.done = False

    async def call(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        return await asyncio.to_thread(self.served.call, method, path, body)

    async def set_up(self, folder: Path) -> None:
        _, workspace = await self.call("POST", "/api/workspaces", {"path": str(folder)})
        for _ in range(SESSIONS):
            base = f"/api/workspaces/{workspace['id']}/sessions"
            status, session = await self.call("POST", base, {})
            assert status == 201, session
            self.paths.append(f"{base}/{session['id']}")

    async def send_all(self) -> None:
        while not self.done:
            self._number += 1
            token, path = f"<m{self._number}>", self.rnd.choice(self.paths)
            mode = self.rnd.choice(["interrupt_soft", "steer", "follow_up", "interrupt_hard"])
            await self._send(path, {"text": f"please {token}", "key": token, "mode": mode}, token)
            await asyncio.sleep(self.rnd.random() * 0.15)

    async def _send(self, path: str, body: dict[str, Any], token: str) -> None:
        for _ in range(self.rnd.choice([1, 1, 1, 50])):
            try:
                status, receipt = await self.call("POST", f"{path}/messages", body)
            except (OSError, HTTPException):
                await asyncio.sleep(0.05)
                continue
            if status == 202:
                assert self.receipts.setdefault(token, receipt["row"]) == receipt["row"], (
                    "a repeat has the first receipt"
                )
                self.acknowledged[token] = path
                return
            if status != 503:
                raise AssertionError(f"unexpected answer {status}: {receipt}")
            await asyncio.sleep(0.05)

    async def rest(self, path: str) -> None:
        """Wait until all is answered; a session that was parked after crashes in a row is asked once more, as a person
        would."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            _, info = await self.call("GET", path)
            events = await self.journal(path) if info["state"] == "idle" else []
            if events and (answered(events) or not rows(events)):
                return
            if info["parked"]:
                self._number += 1
                token = f"<m{self._number}>"
                await self._send(path, {"text": f"please {token}", "key": token}, token)
            await asyncio.sleep(0.1)
        raise AssertionError(f"{path} does not come to rest: {self.served.log.read_text()[-3000:]}")

    async def journal(self, path: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        cursor = ""
        while True:
            _, page = await self.call("GET", f"{path}/events?limit=500" + (f"&after={cursor}" if cursor else ""))
            found += page["events"]
            if len(page["events"]) < 500:
                return found
            cursor = page["cursor"]


def rows(events: list[dict[str, Any]]) -> list[int]:
    return [event["body"]["row"] for event in events if event["kind"] == "input.added"]


def answered(events: list[dict[str, Any]]) -> bool:
    ends = [event["body"]["outcome"] for event in events if event["kind"] == "turn.ended"]
    return bool(ends) and ends[-1] == "succeeded"


def around(events: list[dict[str, Any]], token: str) -> str:
    """Return what happened from a message on, for a failure's report."""
    first = next(place for place, event in enumerate(events) if token in str(event["body"].get("text", "")))
    return "\n".join(
        f"{event['seq']} {event['kind']} {str(event['body'])[:300]}" for event in events[first - 3 : first + 30]
    )


def check(events: list[dict[str, Any]], tokens: list[str]) -> int:
    """Check one session's journal; return the number of turns that a crash cut."""
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1)), "no gap in the journal"
    texts = [event["body"]["text"] for event in events if event["kind"] == "input.added"]
    finals = [
        "".join(block["text"] for block in event["body"]["content"] if block["type"] == "text")
        for event in events
        if event["kind"] == "assistant.message"
        and not any(block["type"] == "tool_call" for block in event["body"]["content"])
    ]
    for token in tokens:
        assert sum(token in text for text in texts) == 1, f"{token} is consumed once"
        assert sum(token in final for final in finals) == 1, f"{token} is answered once: {around(events, token)}"
    open_turn, cut = "", 0
    for event in events:
        if event["kind"] == "turn.started":
            assert not open_turn, "one turn at a time"
            open_turn = event["turn"]
        elif event["kind"] == "turn.ended":
            assert open_turn == event["turn"]
            open_turn, cut = "", cut + (event["body"]["error_kind"] == "crash")
    return cut


def integrity(folder: Path) -> None:
    found = sorted(folder.rglob("*.db"))
    assert found
    for path in found:
        with apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY) as database:
            assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)], path


@pytest.mark.timeout(210 + 4 * KILLS)
async def test_killed_at_random_nothing_is_lost_or_doubled(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """S36: each acknowledged message has one turn and one answer, through thirty kills at random instants."""
    rnd = random.Random(SEED)
    print(f"seed {SEED}")
    (tmp_path / "w").mkdir()
    async with ScriptedOpenAI(responder=responder(rnd)) as model:
        env = {
            "OPENAI_BASE_URL": model.url,
            "OPENAI_API_KEY": "sk-test",
            "OPENAI_MODEL": "scripted",
            "HALO_PLUGINS": "api,workspace,tools,openai",
        }
        served = Served(tmp_path / "home", env)
        served.start()
        request.addfinalizer(served.end)
        client = Client(served, rnd)
        await client.set_up(tmp_path / "w")
        senders = [asyncio.create_task(client.send_all()) for _ in range(3)]
        kills, end = 0, time.monotonic() + SECONDS
        while kills < KILLS and time.monotonic() < end:
            await asyncio.sleep(0.2 + rnd.random() * 1.3)
            await asyncio.to_thread(served.kill)
            kills += 1
            await asyncio.to_thread(served.start)
        client.done = True
        await asyncio.gather(*senders)
        cut = 0
        for path in client.paths:
            await client.rest(path)
            mine = [token for token, place in client.acknowledged.items() if place == path]
            cut += check(await client.journal(path), mine)
        assert served.stop() == 0
    integrity(tmp_path)
    print(f"{kills} kills, {len(client.acknowledged)} messages acknowledged, {cut} turns cut, none lost, none doubled")
    assert kills >= min(KILLS, 10) and client.acknowledged
