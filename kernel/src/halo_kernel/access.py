"""Access levels: how they fold, and the one check before any tool call."""

from __future__ import annotations

from .errors import BadInput
from .records import Access, ToolSpec

_ORDER: tuple[Access, ...] = ("readonly", "workspace", "full")
_ALIASES: dict[str, Access] = {"observer": "readonly", "full": "full", "workspace": "workspace", "readonly": "readonly"}


def parse_access(name: str) -> Access:
    """Return the level called `name`; `observer` is `readonly`. Raises `BadInput` for any other word."""
    if name not in _ALIASES:
        raise BadInput(f"access must be full, workspace or readonly, not {name!r}", field="access")
    return _ALIASES[name]


def fold_access(*levels: Access) -> Access:
    """Return the lowest of `levels`: a chain is worth its weakest link. Raises `BadInput` for what is no level."""
    return min(map(parse_access, levels), key=_ORDER.index)


def permits(level: Access, tool: ToolSpec) -> bool:
    """Tell whether a session at `level` may call `tool`: `readonly` reads, and changes nothing."""
    return level != "readonly" or tool.effect == "read"
