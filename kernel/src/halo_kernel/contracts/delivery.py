"""What a dispatcher supplies."""

# pyright: reportReturnType=false
# The docstring is the whole body of a protocol's method.
from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..records import Guarantee, Part


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
