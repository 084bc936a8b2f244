"""Clients that keep a server at a steady rate of turns, in conversations that begin, are followed, and end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from ..readers import Reader
from ..served import Served

LENGTH = 8  # turns of a conversation
PATIENCE = 30.0  # seconds for an answer
ENDINGS: Sequence[tuple[str, str]] = (("", ""), ("POST", "/archive"), ("DELETE", ""))  # left, archived, deleted


class Talkers:
    """So many conversations at a time that together have `rate` turns a second; `latencies` are those of the last."""

    def __init__(self, served: Served, base: str, *, count: int, rate: float) -> None:
        self.turns = 0
        self.late = 0.0  # seconds behind the timetable, at most
        self.latencies: list[float] = []
        self._served = served
        self._base = base
        self._count = count
        self._rate = rate
        self._began = time.monotonic()

    async def run(self, seconds: float) -> None:
        """Talk for so long."""
        self._began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for number in range(self._count):
                group.create_task(self._talk(number, int(seconds * self._rate)))

    async def _talk(self, number: int, last: int) -> None:
        """Make every turn of the timetable that is this one's, a conversation after the other."""
        mine = range(number, last, self._count)
        for place, at in enumerate(range(0, len(mine), LENGTH), number):
            await self._converse(mine[at : at + LENGTH], *ENDINGS[place % len(ENDINGS)])

    async def _converse(self, turns: Sequence[int], method: str, ending: str) -> None:
        path = f"{self._base}/{(await self._call('POST', self._base, {}))['id']}"
        reader = Reader(self._served, f"{path}/stream")
        following = asyncio.create_task(reader.run())
        try:
            for count, turn in enumerate(turns, 1):
                await self._wait_for(turn)
                await self._turn(reader, path, count, turn)
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
        assert not reader.failures, reader.failures
        if method:
            await self._call(method, path + ending)

    async def _wait_for(self, turn: int) -> None:
        left = self._began + turn / self._rate - time.monotonic()
        self.late = max(self.late, -left)
        await asyncio.sleep(left)

    async def _turn(self, reader: Reader, path: str, count: int, turn: int) -> None:
        began = time.monotonic()
        await self._call("POST", f"{path}/messages", {"text": f"question {turn}"}, key=f"key {turn}")
        async with asyncio.timeout(PATIENCE):
            await reader.turns(count)
        self.latencies.append(time.monotonic() - began)
        self.turns += 1

    async def _call(self, method: str, path: str, body: object = None, *, key: str = "") -> Any:
        status, answer = await asyncio.to_thread(self._served.call, method, path, body, timeout=PATIENCE, key=key)
        assert status < 300, answer
        return answer
