"""What a service supplies."""

# pyright: reportReturnType=false
# The docstring is the whole body of a protocol's method.
from __future__ import annotations

from typing import Protocol


class Service(Protocol):
    """A long-lived task of the server."""

    name: str

    async def run(self) -> None:
        """Work until cancelled, which the end of the server does. What fails is started again, after a growing wait."""
