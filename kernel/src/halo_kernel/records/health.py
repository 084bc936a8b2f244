"""What `halo doctor` finds."""

from __future__ import annotations

from msgspec import Struct


class HealthCheck(Struct, frozen=True, kw_only=True):
    """One thing that was looked at: whether it is well, in a sentence, and what to do where it is not."""

    name: str
    ok: bool
    text: str
    advice: str = ""
