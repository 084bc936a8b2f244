"""What an operator sets."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from halo_kernel import Secret

URL = r"^(https?://[^\s/?#@]+[^\s?#@]*)?$"


class ElizaSettings(Struct, frozen=True, kw_only=True):
    """Where the Eliza server is, and what it offers."""

    base_url: Annotated[str, Meta(pattern=URL, description="Where the server is: http://… or https://….")] = ""
    api_key: Annotated[
        Secret | None, Meta(description="The server's key, if it wants one.", extra={"env": "ELIZA_API_KEY"})
    ] = None
    models: Annotated[tuple[str, ...], Meta(description="Ids of the models that it has, best first.")] = ("doctor",)
    timeout: Annotated[float, Meta(gt=0, le=600, description="Seconds in which an answer has to begin.")] = 30.0
    context_window: Annotated[int, Meta(ge=1, description="Tokens that a conversation may have.")] = 32_000
