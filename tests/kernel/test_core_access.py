"""Access levels: a chain is worth its weakest link, by whatever name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo_kernel import BadInput, ToolSpec, fold_access, parse_access, permits

LEVELS = ("readonly", "workspace", "full")
levels = st.lists(st.sampled_from(LEVELS), min_size=1)


@given(levels, levels)
def test_a_longer_chain_is_never_worth_more(one: list[str], more: list[str]) -> None:
    """S55: adding a link never raises a level, and their order does not matter."""
    folded = fold_access(*one)  # type: ignore[arg-type]
    assert LEVELS.index(fold_access(*one, *more)) <= LEVELS.index(folded)  # type: ignore[arg-type]
    assert fold_access(*reversed(one)) == folded  # type: ignore[arg-type]


def test_observer_is_readonly() -> None:
    """The old name of the lowest level folds to it, and a word that is no level is refused by name."""
    assert fold_access("full", "observer") == "readonly"  # type: ignore[arg-type]
    for wrong in ("root", "", "FULL"):
        with pytest.raises(BadInput) as caught:
            fold_access("full", wrong)  # type: ignore[arg-type]
        assert caught.value.field == "access"
        with pytest.raises(BadInput):
            parse_access(wrong)


@given(st.sampled_from(LEVELS), st.sampled_from(["read", "write", "execute"]))
def test_a_lower_level_permits_no_more(level: str, effect: str) -> None:
    """S55: what a level permits, every higher one permits; the lowest permits reading alone."""
    tool = ToolSpec(name="t", description="", parameters={}, effect=effect)  # type: ignore[arg-type]
    allowed = [permits(each, tool) for each in LEVELS]  # type: ignore[arg-type]
    assert allowed == sorted(allowed)
    assert permits("readonly", tool) == (effect == "read")
    assert permits(level, tool) or level == "readonly"  # type: ignore[arg-type]
