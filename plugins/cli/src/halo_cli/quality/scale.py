"""The rules of the scale, as `scale.toml` has them."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from importlib.resources import files
from typing import Literal, get_args

from msgspec import Struct, convert

Tier = Literal["bronze", "silver", "gold", "platinum"]
TIERS: tuple[Tier, ...] = get_args(Tier)
_FILE = files(__package__ or "halo_cli.quality") / "scale.toml"


class Rule(Struct, frozen=True, kw_only=True):
    """What a plugin of a tier keeps to, in a sentence, and what to do about one that does not."""

    id: str
    tier: Tier
    says: str
    advice: str


def read_scale() -> Sequence[Rule]:
    """Return all rules, those of the lowest tier first."""
    return convert(tomllib.loads(_FILE.read_text(encoding="utf-8"))["rule"], list[Rule])
