"""What an operator sets."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct


class LedgerSettings(Struct, frozen=True, kw_only=True):
    """When a transfer asks a person."""

    limit: Annotated[int, Meta(ge=0, description="The largest amount that is transferred without asking.")] = 100
    expires_in: Annotated[int, Meta(ge=1, description="For how many seconds a question waits.")] = 86_400
