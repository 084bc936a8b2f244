"""The section `web` of the settings."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct


class WebSettings(Struct, frozen=True, kw_only=True):
    """What a message through the channel may carry."""

    max_file_bytes: Annotated[
        int,
        Meta(
            ge=1024,
            le=268_435_456,
            description="Bytes of one file that comes with a message, or is read from the workspace.",
            extra={"restart": True},
        ),
    ] = 20_971_520


def body_limit(settings: WebSettings) -> int:
    """Return how long a message with its files, in base64, may be in bytes."""
    return settings.max_file_bytes * 4 // 3 + 4_194_304
