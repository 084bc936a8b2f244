"""What goes and what stays, over any history: healthy ones and such with every kind of damage."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo_compaction.plan import REPEATABLE, make_plan
from halo_compaction.summary import INSTRUCTION, summary_request, without_model
from halo_kernel import (
    CLEARED_MARKER,
    ContextCut,
    Event,
    History,
    ModelRequest,
    Piece,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    repair_history,
)

from .conftest import complaint

names = st.sampled_from([*sorted(REPEATABLE), "send_file", "ask"])
ids = st.sampled_from("abcdef")
blocks = st.one_of(
    st.sampled_from(["", " ", "hello", "w" * 2000]).map(Text),
    st.builds(Thinking, st.just("hm")),
    st.builds(ToolCall, ids, names, st.just({"x": 1})),
    st.builds(ToolResult, ids, st.sampled_from(["found", CLEARED_MARKER]), st.booleans()),
)


ROLES: tuple[Role, ...] = ("user", "assistant")


@st.composite
def turns(draw: st.DrawFn) -> list[Piece]:
    """Pieces as turns make them: an input, answers with calls and their results, at last an answer."""
    contents: list[tuple[bool, tuple[Any, ...]]] = []
    for turn in range(draw(st.integers(0, 5))):
        contents.append((False, (Text(f"question {turn}"),)))
        for step in range(draw(st.integers(0, 3))):
            calls = [f"{turn}.{step}.{number}" for number in range(draw(st.integers(1, 3)))]
            contents.append((True, tuple(ToolCall(call, draw(names), {}) for call in calls)))
            contents += [(False, (ToolResult(call, f"result {call}"),)) for call in calls]
        contents.append((True, (Text(f"answer {turn}"),)))
    return [Piece(seq, ROLES[assistant], content, seq, seq) for seq, (assistant, content) in enumerate(contents, 1)]


@st.composite
def damaged(draw: st.DrawFn) -> list[Piece]:
    """Pieces in any order: results without calls, calls without results, ids used twice, nothing but spaces."""
    contents = draw(st.lists(st.tuples(st.booleans(), st.lists(blocks, max_size=3)), max_size=14))
    return [
        Piece(seq, ROLES[assistant], tuple(content), seq, seq) for seq, (assistant, content) in enumerate(contents, 1)
    ]


keeps = st.integers(1, 8)


def after(pieces: Sequence[Piece], keep: int, seq: int = 1000) -> list[Piece]:
    """Return the history with a local compaction done."""
    plan = make_plan(pieces, keep)
    said = without_model(plan.older, slice_chars=800, chars=15000) if plan.older else ""
    history = History(pieces=list(pieces))
    cut = ContextCut(start=1, end=plan.end, replacement=said, reason="overflow", cleared=plan.cleared)
    history.apply(Event(session="s", seq=seq, at=0, turn="", body=cut))
    return history.pieces


def runs(pieces: Sequence[Piece]) -> int:
    """Return how often the side that speaks changes, and one more."""
    return sum(1 for _ in groupby(pieces, key=lambda piece: piece.role))


@given(st.one_of(turns(), damaged()), keeps)
def test_what_is_left_is_valid_and_lasts(pieces: list[Piece], keep: int) -> None:
    """After any compaction a strict provider takes the history, and compacting what is short enough changes nothing."""
    left = after(pieces, keep)
    shown = repair_history(left)
    if shown and shown[-1].role == "user":
        assert complaint(shown) == ""
    assert repair_history(shown) == shown
    if runs(left) <= keep:
        assert after(left, keep, 1001) == left


@given(turns(), keeps)
def test_nothing_behind_the_cut_is_lost(pieces: list[Piece], keep: int) -> None:
    """The newest messages stay with their calls and results; only results that can be had again lose their text."""
    plan = make_plan(pieces, keep)
    whole = runs(pieces)
    assert len(plan.older) in (0, *range(max(0, whole - keep), whole + 1))
    assert (len(plan.older) == 0) == (whole <= keep)
    left = after(pieces, keep)
    kept = [piece for piece in left if piece.seq > plan.end]
    for piece, before in zip(kept, [piece for piece in pieces if piece.seq > plan.end], strict=True):
        if piece.seq not in plan.cleared:
            assert piece == before
        else:
            assert piece.content[0] == ToolResult(before.content[0].call, CLEARED_MARKER)  # type: ignore[union-attr]
    calls = {block.id: block.name for piece in pieces for block in piece.content if isinstance(block, ToolCall)}
    results = [block for piece in kept for block in piece.content if isinstance(block, ToolResult)]
    texts = [result.text for result in results if calls[result.call] in REPEATABLE]
    assert [text != CLEARED_MARKER for text in texts] == [False] * (len(texts) - 1) + [True] * bool(texts)
    if kept:
        assert not isinstance(kept[0].content[0], ToolResult)


@given(st.one_of(turns(), damaged()))
def test_a_wish_for_a_summary_is_valid(pieces: list[Piece]) -> None:
    """The call that asks for a summary begins as a turn's, and a strict provider takes it whatever the history."""
    request = ModelRequest(model="m", system="s", messages=repair_history(pieces))
    asked = summary_request(request)
    assert complaint(asked.messages) == ""
    assert asked.messages[-1].content[-1] == Text(INSTRUCTION)
    assert asked.messages[: len(request.messages) - 1] == request.messages[:-1]


@given(st.one_of(turns(), damaged()), keeps, st.integers(1, 900), st.integers(100, 4000))
def test_a_local_summary_keeps_its_bounds(pieces: list[Piece], keep: int, each: int, chars: int) -> None:
    """It has a header, no message takes more than its slice, and all together no more than the room."""
    plan = make_plan(pieces, keep)
    head, _, said = without_model(plan.older, slice_chars=each, chars=chars).partition("\n")
    assert head == f"[Conversation Summary — {len(plan.older)} messages compacted (local fallback)]"
    assert 0 < len(said) <= max(chars + 1, len("(the earlier messages had no text)"))
    assert all(len(line) <= each + len("[assistant]: ") for line in said.splitlines()) or "had no text" in said


@pytest.mark.parametrize("rounds", [2, 5])
def test_a_former_summary_is_carried_over(rounds: int) -> None:
    """What a summary said is still there after further ones that no model made."""
    pieces = [Piece(1, "user", (Text("[Conversation Summary — 9 messages compacted]\nthe goal is gold"),), 1, 1)]
    for turn in range(rounds):
        start = pieces[-1].seq + 1
        for seq in range(start, start + 12):
            pieces.append(Piece(seq, ROLES[seq % 2 == 0], (Text("w" * 900),), seq, seq))
        pieces = after(pieces, 5, 1000 * (turn + 1))
    first = pieces[0].content[0]
    assert isinstance(first, Text) and "the goal is gold" in first.text and len(first.text) < 15_200
