"""A dispatcher for tests: what it was given, and how each attempt goes, is what the test says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from ..errors import DeliveryFailed
from ..hookspecs import hook
from ..records import Claim, Guarantee, Part


@dataclass(frozen=True)
class Refused:
    """The target refuses the part: for good, or until `retry_after` seconds have passed."""

    permanent: bool = False
    retry_after: float | None = None


@dataclass(frozen=True)
class Lost:
    """The connection breaks; `arrived` says whether the part had come through, which nobody here can tell."""

    arrived: bool


Fate = Refused | Lost | None


@dataclass
class Postbox:
    """Delivers into `arrived`, in messages of `limit` characters; `fates` are those of its attempts, in order.

    `before` is awaited with each part before anything happens to it.
    """

    kind: str = "post"
    guarantee: Guarantee = "keyed"
    claim: Claim = "report"
    limit: int = 1000
    fates: Iterable[Fate] = ()
    before: Callable[[Part], object] | None = None
    arrived: list[Part] = field(default_factory=list[Part])
    attempts: list[Part] = field(default_factory=list[Part])

    def __post_init__(self) -> None:
        self._fates = list(self.fates)

    def split(self, text: str) -> Sequence[str]:
        """Cut every `limit` characters."""
        return [text[at : at + self.limit] for at in range(0, len(text), self.limit)]

    async def deliver(self, part: Part) -> str:
        """Take the part as its fate is; a key that has arrived before arrives once."""
        self.attempts.append(part)
        if self.before is not None and asyncio.iscoroutine(waited := self.before(part)):
            await waited
        fate = self._fates.pop(0) if self._fates else None
        if isinstance(fate, Refused):
            raise DeliveryFailed("refused by the test", permanent=fate.permanent, retry_after=fate.retry_after)
        if fate is None or fate.arrived:
            self._take(part)
        if fate is not None:
            raise ConnectionResetError("lost by the test")
        return f"sent-{part.key}"

    def _take(self, part: Part) -> None:
        if self.guarantee not in ("keyed", "local") or part.key not in [each.key for each in self.arrived]:
            self.arrived.append(part)

    async def find(self, part: Part) -> str | None:
        """Say whether the part arrived."""
        return f"sent-{part.key}" if part.key in [each.key for each in self.arrived] else None

    @hook
    def provide_dispatchers(self) -> Sequence[Postbox]:
        """Itself: a postbox is its own plugin."""
        return [self]
