"""The plugin's settings."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from halo_kernel import Section


class SignInSettings(Struct, frozen=True, kw_only=True):
    """What people see before they have signed in."""

    badge: Annotated[
        str,
        Meta(max_length=40, description="A word that tells this server from others.", extra={"env": "HALO_BADGE"}),
    ] = ""


SECTION = Section("signin", SignInSettings, global_only=True)
