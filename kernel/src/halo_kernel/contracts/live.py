"""Topics inside this process: hints for whoever looks at the moment, kept for nobody."""

# pyright: reportReturnType=false
# The docstring is the whole body of a protocol's method.
from __future__ import annotations

from typing import Any, Protocol


class Subscription(Protocol):
    """What is published from now on, in order; ends when it is closed. Dropping it closes it."""

    missed: int
    """How many values were dropped, always the oldest, because nobody took them in time."""

    def __aiter__(self) -> Subscription:
        """Return itself."""

    async def __anext__(self) -> Any:
        """Wait for the next value."""

    def close(self) -> None:
        """Take no more; values that wait can still be had."""


class Live(Protocol):
    """Lossy topics, `<plugin>:<noun>`, such as `cron:run_changed`. Use it on the event loop's thread."""

    def publish(self, topic: str, value: object) -> None:
        """Hand a value to those who listen now; never waits, and costs nothing when nobody does."""

    def subscribe(self, topic: str) -> Subscription:
        """Listen from now on. Raises `BadInput` for a topic of another form."""
