"""The data of one streamed event as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping

from halo_kernel import ModelError

from .loose import mapping


def read_chunk(data: str, *, tail: bool = False) -> Mapping[str, object]:
    """Return the JSON object in an event's data, an empty one for anything else.

    With `tail` (what a closed stream left without its blank line) broken JSON is ignored: it is a cut, which whoever
    reads the stream to its end reports. Raises `ModelError` of kind `network` for broken JSON.
    """
    if not data.strip():
        return {}
    try:
        return mapping(json.loads(data))
    except (ValueError, RecursionError):
        if tail:
            return {}
        raise ModelError("the stream is damaged: one of its chunks is not JSON", kind="network") from None
