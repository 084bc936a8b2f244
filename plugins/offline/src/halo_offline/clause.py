"""A rule for one clause: what kind of wish it is when a pattern fits all of it."""

from __future__ import annotations

import re
from typing import Literal

Kind = Literal["list", "read", "about", "search", "help", "other"]
Rule = tuple[Kind, re.Pattern[str]]


def rule(kind: Kind, *pattern: str) -> Rule:
    """Return a rule; its pattern's group `t` holds what is asked about, `w` the folder or file to look in."""
    return kind, re.compile("".join(pattern), re.IGNORECASE)
