"""What a dispatcher supplies, and what a plugin may owe."""

# pyright: reportReturnType=false
# The docstring is the whole body of a protocol's method.
from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..records import Delivery, Guarantee, Owed, Part


class Dispatcher(Protocol):
    """Carries deliveries of one `kind` to where they are owed.

    `guarantee` says what becomes of a part that was being sent when its process died.
    """

    kind: str
    guarantee: Guarantee

    def split(self, text: str) -> Sequence[str]:
        """Return the messages that a text is sent in, within the target's limits; plain and quick."""

    async def deliver(self, part: Part) -> str:
        """Send one part and return the id that the target gave it.

        Raises `DeliveryFailed` when nothing was sent. After anything else, and after a minute, nobody knows, and
        `guarantee` decides. A delivery into a plugin's own rows is finished there, by `part.key`, before this returns.
        """

    async def find(self, part: Part) -> str | None:
        """Return the target's id of a part that may have been sent, None when it was not; asked of `queryable` ones."""


class Outbox(Protocol):
    """What this home owes to others."""

    async def owe(self, owed: Owed, *, workspace: str) -> int:
        """Make a delivery durable and return its number; a key that was seen before gives the first one's."""

    async def list(
        self, *, workspace: str, session: str | None = None, unsettled: bool = False, limit: int = 100
    ) -> Sequence[Delivery]:
        """Return deliveries, newest first; `unsettled` ones have a part that is neither sent nor given up."""

    async def retry(self, delivery: int, *, workspace: str) -> Delivery:
        """Send the failed and uncertain parts of a delivery again. Raises `NotFound`, `Conflict` when it has none."""
