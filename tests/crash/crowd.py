"""Many clients of one server over HTTP: some messages are sent twice, some on a connection that breaks."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, Literal

from .served import Served

MODES = ("interrupt_soft", "steer", "follow_up", "interrupt_hard")
FAULTS = 0.05  # the share of messages sent twice, and that of connections cut
Fault = Literal["", "twice", "cut"]
Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Send:
    """One message: where it goes, what befalls it on the way, and after how long within its server's life."""

    token: str
    session: int
    mode: str
    fault: Fault
    part: float  # of the request that is sent before a cut; 1 is all of it
    delay: float  # a share of that life


def plan(rnd: random.Random, messages: int, sessions: int) -> Iterator[Send]:
    """Say all that will be sent; in three sessions of four every second message is work to be handed on."""
    for number in range(1, messages + 1):
        session, chance = rnd.randrange(sessions), rnd.random()
        yield Send(
            token=f"<{'h' if session % 4 and rnd.random() < 0.5 else 'm'}{number}>",
            session=session,
            mode=rnd.choice(MODES),
            fault="twice" if chance < FAULTS else "cut" if chance > 1 - FAULTS else "",
            part=rnd.choice([rnd.random(), 1.0]),
            delay=rnd.random(),
        )


class Crowd:
    """The clients: each repeats its message with its key until it is acknowledged, as a good client does."""

    def __init__(self, served: Served, base: str, sessions: list[str]) -> None:
        self.served = served
        self.base = base
        self.sessions = sessions
        self.receipts: dict[str, set[int]] = {}
        self.asked: dict[str, str] = {}

    async def call(self, method: str, path: str, body: object = None, *, key: str = "") -> tuple[int, Any]:
        return await asyncio.to_thread(self.served.call, method, path, body, key=key)

    async def send(self, send: Send, life: float) -> None:
        """Send one message of a server that lives `life` seconds from now."""
        await asyncio.sleep(send.delay * life)
        await self.deliver(self.sessions[send.session], send)

    async def deliver(self, session: str, send: Send) -> None:
        self.asked[send.token] = session
        path, body = f"{self.base}/{session}/messages", {"text": f"please {send.token}", "mode": send.mode}
        if send.fault == "cut":
            with suppress(OSError):
                await asyncio.to_thread(self.served.break_off, path, body, key=send.token, part=send.part)
        await asyncio.gather(*[self._insist(path, body, send.token) for _ in range(1 + (send.fault == "twice"))])

    async def _insist(self, path: str, body: Json, token: str) -> None:
        while True:
            try:
                status, answer = await self.call("POST", path, body, key=token)
            except (OSError, HTTPException):
                status, answer = 503, {}
            if status == 202:
                self.receipts.setdefault(token, set()).add(answer["row"])
                return
            assert status == 503, f"unexpected answer {status}: {answer}"
            await asyncio.sleep(0.05)

    async def children(self, session: str) -> list[Json]:
        _, found = await self.call("GET", f"{self.base}/{session}/children")
        return found["sessions"]

    async def journal(self, session: str) -> list[Json]:
        """Return all events of a session."""
        found: list[Json] = []
        cursor = ""
        while True:
            after = f"&after={cursor}" if cursor else ""
            status, page = await self.call("GET", f"{self.base}/{session}/events?limit=500{after}")
            assert status == 200, f"{session} cannot be read: {page}"
            found += page["events"]
            if len(page["events"]) < 500:
                return found
            cursor = page["cursor"]
