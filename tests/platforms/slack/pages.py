"""Long lists in pages: `limit`, `cursor` and `response_metadata.next_cursor`."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from .call import Call
from .messages import Json
from .refusals import Refused
from .rules import PAGE_DEFAULT, PAGE_MOST


def page(call: Call, name: str, items: Sequence[Any]) -> Json:
    """Return the part of `items` that the call asks for, under `name`."""
    limit = call.arguments.number("limit", PAGE_DEFAULT)
    if not 0 < limit <= PAGE_MOST:
        raise Refused("invalid_limit")
    begin = _begin(call.text("cursor"))
    if begin > len(items):
        raise Refused("invalid_cursor")
    end = begin + limit
    cursor = base64.b64encode(b"next:%d" % end).decode() if end < len(items) else ""
    told: Json = {name: list(items[begin:end]), "response_metadata": {"next_cursor": cursor}}
    return told | ({"has_more": bool(cursor)} if name == "messages" else {})


def _begin(cursor: str) -> int:
    if not cursor:
        return 0
    try:
        return int(base64.b64decode(cursor).removeprefix(b"next:"))
    except ValueError:
        raise Refused("invalid_cursor") from None
