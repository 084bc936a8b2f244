"""The load generator, a process of its own: it reads a plan from stdin and writes what it measured to stdout.

A plan is `{"targets": […], "sessions": N, "passes": N, "turns": N, "seconds": S, "pace": "first=… delay=…"}`, a target
`{"kind": "model", "url"}`, `{"kind": "floor", "url", "pid"}` or `{"kind": "halo", "url", "pid", "token", "folder"}`.
In a pass the targets take turns: all sessions of one make their turns at once, each at its own pace and for at most
`seconds`, then those of the next. What disturbs the machine for a while so disturbs all targets alike.

For each target the answer has `taken`, a list of `[first, end]` in seconds from the send to the first word and to the
end, in order of passes and sessions; `wall`; and `cpu`, the CPU seconds of the target's process meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from typing import Any, Protocol
from uuid import uuid4

import aiohttp

from .machine import cpu_seconds

WORD = b"quark "
END = b'"turn.ended"'
FRAME = b"\n\n"
Taken = tuple[float, float]


class Talk(Protocol):
    """One session of a target."""

    async def turn(self, text: str) -> Taken:
        """Make one turn."""


class Marks:
    """A response, read from mark to mark."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._pieces = response.content.iter_any()
        self._rest = b""

    async def find(self, mark: bytes, *, before: bytes | None = None) -> float:
        """Read past the next `mark` and return when it came. Raises `RuntimeError` when `before` or the end does."""
        while mark not in self._rest:
            if before is not None and before in self._rest:
                raise RuntimeError(f"no answer before {before.decode()}: {self._rest.decode()[-2000:]}")
            piece = await anext(self._pieces, b"")
            if not piece:
                raise RuntimeError("the stream ended early")
            self._rest = self._rest[-len(mark) :] + piece if before is None else self._rest + piece
        now = time.perf_counter()
        self._rest = self._rest[self._rest.index(mark) + len(mark) :]
        return now

    async def to_end(self) -> float:
        """Read what is left and return when it was over."""
        async for _ in self._pieces:
            pass
        return time.perf_counter()


class ModelTalk:
    """A conversation with the scripted model itself."""

    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self._http = http
        self._url = f"{url}/chat/completions"
        self._messages: list[dict[str, str]] = []

    async def turn(self, text: str) -> Taken:
        """Ask, with the conversation so far, and read the answer to its end."""
        self._messages.append({"role": "user", "content": text})
        body = {"model": "scripted", "stream": True, "messages": self._messages}
        began = time.perf_counter()
        async with self._http.post(self._url, json=body) as response:
            marks = Marks(response)
            first, end = await marks.find(WORD), await marks.to_end()
        self._messages.append({"role": "assistant", "content": WORD.decode() * 20})
        return first - began, end - began


class ServedTalk:
    """A session of a server: messages are posted, a stream that stays open tells what happens."""

    def __init__(self, http: aiohttp.ClientSession, url: str, headers: dict[str, str]) -> None:
        self._http = http
        self._url = url
        self._headers = headers
        self._marks: Marks | None = None

    async def turn(self, text: str) -> Taken:
        """Send a message and follow the turn to its end."""
        if self._marks is None:
            stream = await self._http.get(f"{self._url}/stream", headers=self._headers)
            stream.raise_for_status()
            self._marks = Marks(stream)
        began = time.perf_counter()
        (first, end), _ = await asyncio.gather(_follow(self._marks), self._post(text))
        return first - began, end - began

    async def _post(self, text: str) -> None:
        async with self._http.post(f"{self._url}/messages", json={"text": text}, headers=self._headers) as response:
            if response.status != 202:
                raise RuntimeError(f"{response.status}: {await response.text()}")
            await response.read()


async def _follow(marks: Marks) -> Taken:
    first = await marks.find(WORD, before=END)
    end = await marks.find(END)
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

    def __init__(self, target: dict[str, Any], talks: Sequence[Talk]) -> None:
        self._pid = target.get("pid")
        self._talks = talks
        self._taken: list[Taken] = []
        self._wall = 0.0
        self._cpu = 0.0

    @property
    def record(self) -> dict[str, Any]:
        """What is written to stdout."""
        return {"taken": self._taken, "wall": self._wall, "cpu": self._cpu}

    async def run(self, plan: dict[str, Any]) -> None:
        """Let all sessions make their turns of one pass."""
        until = time.perf_counter() + plan["seconds"]
        cpu, began = self._spent(), time.perf_counter()
        found = await asyncio.gather(*(_turns(talk, plan["pace"], plan["turns"], until) for talk in self._talks))
        self._wall += time.perf_counter() - began
        self._cpu += self._spent() - cpu
        self._taken += [taken for turns in found for taken in turns]

    def _spent(self) -> float:
        return cpu_seconds(self._pid) if self._pid else 0.0


async def _turns(talk: Talk, text: str, count: int, until: float) -> list[Taken]:
    found: list[Taken] = []
    while len(found) < count and time.perf_counter() < until:
        found.append(await talk.turn(text))
    return found


async def carry_out(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """Carry a plan out; every session has made one turn before anything is measured."""
    timeout = aiohttp.ClientTimeout(total=None, sock_read=60)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as http:
        measured: list[Measured] = []
        for target in plan["targets"]:
            talks = await open_talks(http, target, plan["sessions"])
            await asyncio.gather(*(talk.turn("warm up") for talk in talks))
            measured.append(Measured(target, talks))
        for _ in range(plan["passes"]):
            for each in measured:
                await each.run(plan)
    return [each.record for each in measured]


if __name__ == "__main__":
    json.dump(asyncio.run(carry_out(json.load(sys.stdin))), sys.stdout)
