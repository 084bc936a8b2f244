"""The load generator, a process of its own: it reads a plan from stdin and writes what it measured to stdout.

A plan is `{"targets": […], "sessions": N, "passes": N, "warm_up": N, "turns": N, "spread": S, "seconds": S,
"pace": "first=… delay=…"}`, a target `{"kind": "model", "url"}`, `{"kind": "floor", "url", "pid"}` or
`{"kind": "halo", "url", "pid", "token", "folder"}`. Each session makes its `warm_up` turns, which are not measured. In
a pass the targets then take turns: all sessions of one make `turns` turns, one after the other and for at most
`seconds`, then those of the next; what disturbs the machine for a while so disturbs all targets alike. The sessions
begin evenly spread over `spread` seconds: 0 sends all first messages in one instant.

For each target the answer has `taken`, a list of `[first, end]` in the order in which the sessions began: the seconds
from the send to the first word and to the end, less those that the model took itself, as its words say; `opened`, the
seconds until the sessions were there; `wall`; and `cpu`, the CPU seconds of the target's process during the turns.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections.abc import Sequence
from typing import Any, Protocol
from uuid import uuid4

import aiohttp

from .machine import cpu_seconds

FIRST = re.compile(rb"first:([0-9.]+) ")
WHOLE = re.compile(rb"whole:([0-9.]+) ")
END = re.compile(rb'"turn\.ended"')
FRAME = re.compile(rb"\n\n")
Taken = tuple[float, float]


class Talk(Protocol):
    """One session of a target."""

    async def open(self) -> None:
        """Do what comes before the first message."""

    async def turn(self, text: str) -> Taken:
        """Make one turn."""


class Marks:
    """A response, read from mark to mark."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._pieces = response.content.iter_any()
        self._rest = b""

    async def find(self, mark: re.Pattern[bytes], *, before: re.Pattern[bytes] | None = None) -> re.Match[bytes]:
        """Read past the next `mark` and return it. Raises `RuntimeError` when `before` or the end comes first."""
        while (found := mark.search(self._rest)) is None:
            if before is not None and before.search(self._rest):
                raise RuntimeError(f"no answer before the end: {self._rest.decode()[-2000:]}")
            piece = await anext(self._pieces, b"")
            if not piece:
                raise RuntimeError("the stream ended early")
            self._rest += piece
        self._rest = self._rest[found.end() :]
        return found

    async def seconds(self, mark: re.Pattern[bytes], *, before: re.Pattern[bytes] | None = None) -> tuple[float, float]:
        """Read past a mark that names seconds; return when it came, less these, and these."""
        found = await self.find(mark, before=before)
        return time.perf_counter() - float(found[1]), float(found[1])

    async def to_end(self) -> None:
        """Read what is left."""
        async for _ in self._pieces:
            pass


class ModelTalk:
    """A conversation with the model itself."""

    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self._http = http
        self._url = f"{url}/chat/completions"
        self._messages: list[dict[str, str]] = []

    async def open(self) -> None:
        """Do nothing: there are no sessions."""

    async def turn(self, text: str) -> Taken:
        """Ask, with the conversation so far, and read the answer to its end."""
        self._messages.append({"role": "user", "content": text})
        body = {"model": "scripted", "stream": True, "messages": self._messages}
        began = time.perf_counter()
        async with self._http.post(self._url, json=body) as response:
            marks = Marks(response)
            first, _ = await marks.seconds(FIRST)
            _, whole = await marks.seconds(WHOLE)
            await marks.to_end()
            end = time.perf_counter() - whole
        self._messages.append({"role": "assistant", "content": "quark " * 20})
        return first - began, end - began


class ServedTalk:
    """A session of a server: messages are posted, a stream that stays open tells what happens."""

    def __init__(self, http: aiohttp.ClientSession, url: str, headers: dict[str, str]) -> None:
        self._http = http
        self._url = url
        self._headers = headers
        self._marks: Marks

    async def open(self) -> None:
        """Open the stream."""
        stream = await self._http.get(f"{self._url}/stream", headers=self._headers)
        stream.raise_for_status()
        self._marks = Marks(stream)

    async def turn(self, text: str) -> Taken:
        """Send a message and follow the turn to its end."""
        began = time.perf_counter()
        (first, end), _ = await asyncio.gather(_follow(self._marks), self._post(text))
        return first - began, end - began

    async def _post(self, text: str) -> None:
        async with self._http.post(f"{self._url}/messages", json={"text": text}, headers=self._headers) as response:
            if response.status != 202:
                raise RuntimeError(f"{response.status}: {await response.text()}")
            await response.read()


async def _follow(marks: Marks) -> Taken:
    first, _ = await marks.seconds(FIRST, before=END)
    _, whole = await marks.seconds(WHOLE, before=END)
    await marks.find(END)
    end = time.perf_counter() - whole
    await marks.find(FRAME)
    return first, end


async def open_talks(http: aiohttp.ClientSession, target: dict[str, Any], count: int) -> Sequence[Talk]:
    """Return so many new sessions of a target."""
    url = target["url"]
    if target["kind"] == "model":
        return [ModelTalk(http, url) for _ in range(count)]
    if target["kind"] == "floor":
        return [ServedTalk(http, f"{url}/{uuid4().hex}", {}) for _ in range(count)]
    headers = {"Authorization": f"Bearer {target['token']}"}
    workspace = await _made(http, f"{url}/api/workspaces", headers, {"path": target["folder"]})
    base = f"{url}/api/workspaces/{workspace}/sessions"
    return [ServedTalk(http, f"{base}/{await _made(http, base, headers, {})}", headers) for _ in range(count)]


async def _made(http: aiohttp.ClientSession, url: str, headers: dict[str, str], body: dict[str, Any]) -> str:
    async with http.post(url, json=body, headers=headers) as response:
        answer = await response.json()
        if response.status != 201:
            raise RuntimeError(f"{response.status}: {answer}")
        found: str = answer["id"]
        return found


class Measured:
    """What one target has cost so far."""

    def __init__(self, target: dict[str, Any], talks: Sequence[Talk], opened: float) -> None:
        self._pid = target.get("pid")
        self._talks = talks
        self._opened = opened
        self._taken: list[Taken] = []
        self._wall = 0.0
        self._cpu = 0.0

    @property
    def record(self) -> dict[str, Any]:
        """What is written to stdout."""
        return {"taken": self._taken, "opened": self._opened, "wall": self._wall, "cpu": self._cpu}

    async def run(self, plan: dict[str, Any]) -> None:
        """Let all sessions make their turns of one pass."""
        step = plan["spread"] / len(self._talks)
        cpu, began = self._spent(), time.perf_counter()
        until = began + plan["seconds"]
        found = await asyncio.gather(
            *(_turns(talk, plan, until, after=number * step) for number, talk in enumerate(self._talks))
        )
        self._wall += time.perf_counter() - began
        self._cpu += self._spent() - cpu
        self._taken += [taken for turns in found for taken in turns]

    def _spent(self) -> float:
        return cpu_seconds(self._pid) if self._pid else 0.0


async def _turns(talk: Talk, plan: dict[str, Any], until: float, *, after: float) -> list[Taken]:
    await asyncio.sleep(after)
    found: list[Taken] = []
    while len(found) < plan["turns"] and time.perf_counter() < until:
        found.append(await talk.turn(plan["pace"]))
    return found


async def opened(http: aiohttp.ClientSession, target: dict[str, Any], plan: dict[str, Any]) -> Measured:
    """Open a target's sessions and let them warm up."""
    began = time.perf_counter()
    talks = await open_talks(http, target, plan["sessions"])
    await asyncio.gather(*(talk.open() for talk in talks))
    took = time.perf_counter() - began
    for _ in range(plan["warm_up"]):
        await asyncio.gather(*(talk.turn("warm up") for talk in talks))
    return Measured(target, talks, took)


async def carry_out(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """Carry a plan out."""
    timeout = aiohttp.ClientTimeout(total=None, sock_read=60)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as http:
        measured = [await opened(http, target, plan) for target in plan["targets"]]
        for _ in range(plan["passes"]):
            for each in measured:
                await each.run(plan)
    return [each.record for each in measured]


if __name__ == "__main__":
    json.dump(asyncio.run(carry_out(json.load(sys.stdin))), sys.stdout)
