"""What an operator sets."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from halo_kernel import Secret


class ShoutSettings(Struct, frozen=True, kw_only=True):
    """A channel of plain lines over TCP."""

    port: Annotated[int, Meta(ge=0, le=65535, description="Port on 127.0.0.1.", extra={"restart": True})] = 7411
    token: Annotated[Secret | None, Meta(description="What a client says to be let in; none: nobody is.")] = None
    workspace: Annotated[str, Meta(description="Folder it speaks for; empty: none.", extra={"restart": True})] = ""
