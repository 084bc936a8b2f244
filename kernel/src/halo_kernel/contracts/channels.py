"""What a channel supplies, and where its messages come in."""

# pyright: reportReturnType=false
# The docstring is the whole body of a protocol's method.
from __future__ import annotations

from typing import Protocol

from ..records import Account, Arrival, Receipt


class Door(Protocol):
    """Where one account's messages come in."""

    async def arrive(self, arrival: Arrival) -> Receipt | None:
        """Take a message in and return its receipt; acknowledge it to the platform only then.

        None: its user is not allowed, and is told so once. A repeat gives the first receipt. Raises what `submit`
        raises; then the platform is not to be told that it arrived.
        """

    def heard(self) -> None:
        """Say that the platform has answered: that is what makes the account ready, and silence what makes it not."""


class Channel(Protocol):
    """Brings messages of one `type` in, by the transport of its platform; its dispatcher of that kind carries answers.

    An account whose platform has not been heard for `silence` seconds is not ready.
    """

    type: str
    silence: float

    async def run(self, account: Account, door: Door) -> None:
        """Receive for one account until cancelled, closing the former connection before each new one.

        What is raised is logged, and it is run again after a growing wait.
        """
