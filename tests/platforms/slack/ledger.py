"""Everything that arrived and was sent, to be read by tests, and the bell that rings at each change."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from .messages import Json


@dataclass(kw_only=True)
class Called:
    """One call of a method: what it was asked and answered; `fault` is what was injected."""

    method: str
    app: str
    arguments: Json
    at: int
    ok: bool | None = None
    error: str = ""
    status: int = 200
    fault: str = ""


@dataclass(kw_only=True)
class Attempt:
    """One attempt of a delivery: over which socket (or `http`), and what came of it."""

    number: int
    reason: str
    at: int
    via: str = ""
    outcome: str = "sent"
    status: int = 0


@dataclass(kw_only=True)
class Delivered:
    """An event, a command or a press on its way to an app; `state` is pending, acked or lost."""

    id: str
    app: str
    kind: str
    name: str
    payload: Json
    attempts: list[Attempt] = field(default_factory=list)
    state: str = "pending"
    reply: Any = None


@dataclass
class Ledger:
    """What happened, in order."""

    calls: list[Called] = field(default_factory=list)
    deliveries: list[Delivered] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    _bell: asyncio.Event = field(default_factory=asyncio.Event)

    def changed(self) -> None:
        """Wake whoever waits."""
        self._bell.set()
        self._bell = asyncio.Event()

    def count(self, name: str) -> None:
        """Count and wake."""
        self.counts[name] += 1
        self.changed()

    async def wait(self, true: Callable[[], Any], *, timeout: float = 10.0) -> Any:
        """Return the first true value of `true`, which is asked at every change; `timeout` in seconds."""
        async with asyncio.timeout(timeout):
            while not (value := true()):
                await self._bell.wait()
            return value

    def of(self, method: str) -> list[Called]:
        """Return the calls of a method."""
        return [each for each in self.calls if each.method == method]

    def told(self) -> Json:
        """Return everything as JSON."""
        return {
            "calls": [asdict(each) for each in self.calls],
            "deliveries": [asdict(each) for each in self.deliveries],
            "counts": dict(self.counts),
        }
