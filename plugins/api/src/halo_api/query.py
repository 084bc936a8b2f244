"""Parameters of query and path, each checked against its rule."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from halo_kernel import BadInput, Exchange, NotFound

_CURSOR = re.compile(r"[0-9A-Za-z_-]{1,64}\.[0-9]{1,19}")
_MILLISECONDS = re.compile(r"[0-9]{1,15}")
_NUMBER = re.compile(r"[0-9]{1,18}")
MOST = 500


def limit_of(query: Mapping[str, str], default: int) -> int:
    """Return `limit`, 1 to 500. Raises `BadInput`."""
    raw = query.get("limit")
    if raw is None:
        return default
    if not re.fullmatch(r"[0-9]{1,3}", raw) or not 1 <= int(raw) <= MOST:
        raise BadInput(f"limit must be a whole number from 1 to {MOST}, not {raw!r}", field="limit")
    return int(raw)


def before_of(query: Mapping[str, str]) -> int | None:
    """Return `before` in UTC milliseconds, the `updated_at` of the last row that the caller has. Raises `BadInput`."""
    raw = query.get("before")
    if raw is None:
        return None
    if not _MILLISECONDS.fullmatch(raw):
        raise BadInput(f"before must be a time in milliseconds, digits only, not {raw!r}", field="before")
    return int(raw)


def flag_of(query: Mapping[str, str], name: str) -> bool:
    """Return whether `name` is set: `true` or `1`, against `false`, `0`, or nothing. Raises `BadInput`."""
    raw = query.get(name, "").lower()
    if raw not in ("true", "1", "false", "0", ""):
        raise BadInput(f"{name} must be true or false, not {raw!r}", field=name)
    return raw in ("true", "1")


def choices_of(query: Mapping[str, str], name: str, known: Collection[str]) -> Collection[str]:
    """Return the words of `name`, which has commas between them. Raises `BadInput` for one that is none of `known`."""
    words = [word for word in query.get(name, "").split(",") if word]
    for word in words:
        if word not in known:
            raise BadInput(f"{name} must be of {', '.join(known)}, not {word!r}", field=name)
    return words


def number_of(exchange: Exchange, name: str) -> int:
    """Return the number in the path. Raises `NotFound` for what is none."""
    raw = exchange.params[name]
    if not _NUMBER.fullmatch(raw):
        raise NotFound(f"there is no {name} {raw}")
    return int(raw)


def after_of(exchange: Exchange) -> str | None:
    """Return the cursor to go on after: `Last-Event-ID`, which a reconnecting stream sends, else `after`.

    Raises `BadInput` for anything that is not a cursor.
    """
    raw = exchange.last_event_id or exchange.query.get("after")
    if not raw:
        return None
    if not _CURSOR.fullmatch(raw):
        raise BadInput(f"after must be a cursor as this API gave it, not {raw!r}", field="after")
    return raw
