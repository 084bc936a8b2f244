"""The section `compact` of the settings."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct


class CompactSettings(Struct, frozen=True, kw_only=True):
    """What a shortened conversation keeps."""

    keep_messages: Annotated[int, Meta(ge=1, description="Newest messages that stay as they are.")] = 5
    max_summary_input: Annotated[
        int, Meta(ge=1000, description="Characters of the summary that is made without a model.")
    ] = 15_000
    max_message_slice: Annotated[
        int, Meta(ge=1, description="Characters of one message in the summary that is made without a model.")
    ] = 800
