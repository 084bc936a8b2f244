"""A dispatcher for tests: what it was given, and how each attempt goes, is what the test says."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from ..errors import DeliveryFailed
from ..hookspecs import hook
from ..records import Guarantee, Part


@dataclass(frozen=True)
class Refused:
    """The target refuses the part: for good, or until `retry_after` seconds have passed."""

    permanent: bool = False
    retry_after: float | None = None
    message: str = "refused by the test"


@dataclass(frozen=True)
class Lost:
    """The connection breaks; `arrived` says whether the part had come through, which nobody here can tell."""

    arrived: bool


Fate = Refused | Lost | None


@dataclass(eq=False)
class Postbox:
    """Delivers to `targets` (None: to any), in messages of `limit` characters; `fates` are those of its attempts.

    They are drawn one by one. `before` is awaited with each part before anything happens to it. `attempts` are what
    this object was given. With a `file`, what arrived is there, beyond the death of the process.
    """

    kind: str = "post"
    guarantee: Guarantee = "keyed"
    limit: int = 1000
    fates: Iterable[Fate] = ()
    before: Callable[[Part], object] | None = None
    targets: Collection[str] | None = None
    file: Path | None = None
    attempts: list[Part] = field(default_factory=list[Part])

    def __post_init__(self) -> None:
        self._fates = iter(self.fates)
        self._arrived: list[Part] = []

    @property
    def arrived(self) -> Sequence[Part]:
        """What came through, in order."""
        if self.file is None:
            return self._arrived
        lines = self.file.read_bytes().splitlines() if self.file.exists() else []
        return [msgspec.json.decode(line, type=Part) for line in lines]

    def split(self, text: str) -> Sequence[str]:
        """Cut every `limit` characters."""
        return [text[at : at + self.limit] for at in range(0, len(text), self.limit)]

    async def deliver(self, part: Part) -> str:
        """Take the part as its fate is; a key that has arrived before arrives once."""
        self.attempts.append(part)
        if self.before is not None and asyncio.iscoroutine(waited := self.before(part)):
            await waited
        if self.targets is not None and part.target not in self.targets:
            raise DeliveryFailed(f"there is no {part.target}", permanent=True)
        fate = next(self._fates, None)
        if isinstance(fate, Refused):
            raise DeliveryFailed(fate.message, permanent=fate.permanent, retry_after=fate.retry_after)
        if fate is None or fate.arrived:
            self._take(part)
        if fate is not None:
            raise ConnectionResetError("lost by the test")
        return f"sent-{part.key}"

    def _take(self, part: Part) -> None:
        if self.guarantee in ("keyed", "local") and part.key in [each.key for each in self.arrived]:
            return
        if self.file is None:
            self._arrived.append(part)
            return
        out = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(out, msgspec.json.encode(part) + b"\n")
        finally:
            os.close(out)

    async def find(self, part: Part) -> str | None:
        """Say whether the part arrived."""
        return f"sent-{part.key}" if part.key in [each.key for each in self.arrived] else None

    @hook
    def provide_dispatchers(self) -> Sequence[Postbox]:
        """Itself: a postbox is its own plugin."""
        return [self]
