"""What a channel supplies, and the accounts that it works for."""

# pyright: reportReturnType=false
# The docstring is the whole body of a protocol's method.
from __future__ import annotations

from collections.abc import Sequence
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


class Accounts(Protocol):
    """The accounts of this home, by channel type and id."""

    async def list(self, type: str | None = None) -> Sequence[Account]:
        """Return accounts by type and id."""

    async def put(self, account: Account) -> None:
        """Make or change an account; while the server runs, its channel starts anew with it.

        Raises `BadInput` naming the field, `WorkspaceUnusable`.
        """

    async def remove(self, type: str, id: str) -> None:
        """Remove an account and its token. Raises `NotFound`."""

    async def issue_token(self, type: str, id: str) -> str:
        """Return a new token for an account, in place of an older one; only its hash is kept. Raises `NotFound`."""

    async def silence(self, type: str, id: str) -> float | None:
        """Return for how many seconds the platform has not been heard, None when it never was."""

    def door(self, account: Account) -> Door:
        """Return where an account's messages come in, for a channel that is called rather than run."""
