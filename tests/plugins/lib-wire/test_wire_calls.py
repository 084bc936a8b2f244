"""Tool calls out of fragments, and the arguments a model wrote."""

from __future__ import annotations

import json
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halo_kernel import MALFORMED, ToolCall
from halo_lib_wire.calls import CallParts, parse_arguments

TEXT = st.text(alphabet='ab"\\{}[]:,\n\t\u2028é你😀', max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
ARGUMENTS = st.dictionaries(TEXT, JSON, max_size=4)


def parts() -> CallParts:
    ids = count(1)
    return CallParts(lambda: f"made-{next(ids)}")


def test_calls_by_index_may_be_interleaved() -> None:
    """Fragments of parallel calls are told apart by their index."""
    calls = parts()
    calls.add(index=0, id="a", name="read", arguments='{"pa')
    calls.add(index=1, id="b", name="list", arguments="{")
    calls.add(index=0, id="", name="", arguments='th": "x"}')
    calls.add(index=1, id="", name="", arguments="}")
    assert calls.close() == [ToolCall("a", "read", {"path": "x"}), ToolCall("b", "list", {})]


def test_the_same_index_for_all() -> None:
    """Calls that all have the index 0 are told apart by id and name."""
    calls = parts()
    for id in ("a", "b"):
        calls.add(index=0, id=id, name="read", arguments='{"path":')
        calls.add(index=0, id=id, name="", arguments=f'"{id}"}}')
    assert calls.close() == [ToolCall("a", "read", {"path": "a"}), ToolCall("b", "read", {"path": "b"})]


def test_no_index_and_no_ids() -> None:
    """Without index and ids each name begins a call, and ids are made up."""
    calls = parts()
    calls.add(index=None, id="", name="read", arguments='{"path":')
    calls.add(index=None, id="", name="", arguments='"x"}')
    calls.add(index=None, id="", name="read", arguments='{"path":"y"}')
    assert calls.close() == [ToolCall("made-1", "read", {"path": "x"}), ToolCall("made-2", "read", {"path": "y"})]


def test_id_and_name_in_every_fragment() -> None:
    """A server that repeats id and name in every fragment means one call."""
    calls = parts()
    for piece in ('{"pa', 'th":', '"x"}'):
        calls.add(index=0, id="a", name="read", arguments=piece)
    assert calls.close() == [ToolCall("a", "read", {"path": "x"})]


def test_the_same_id_twice() -> None:
    """Two calls never share an id, for results are paired by it."""
    calls = parts()
    calls.add(index=0, id="call_0", name="read", arguments="{}")
    calls.add(index=1, id="call_0", name="list", arguments="{}")
    assert [call.id for call in calls.close()] == ["call_0", "made-1"]


def test_half_a_character_in_an_id() -> None:
    """An id can be stored and sent back: half a surrogate pair becomes U+FFFD, and two ids that then agree differ."""
    calls = parts()
    calls.add(index=0, id="a\ud83d", name="read", arguments="{}")
    calls.add(index=1, id="a\ud83e", name="list", arguments="{}")
    assert [call.id for call in calls.close()] == ["a\ufffd", "made-1"]


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("", {}),
        ("  ", {}),
        ("null", {}),
        ("{}", {}),
        ('"{\\"path\\": \\"x\\"}"', {"path": "x"}),
        ('{"text": "two\nlines"}', {"text": "two\nlines"}),
        ('{"text": "\\ud83d"}', {"text": "\ufffd"}),
        ('{"text": "\\ud83d\\ude00"}', {"text": "😀"}),
    ],
)
def test_arguments_that_are_understood(text: str, arguments: dict[str, object]) -> None:
    """No arguments, arguments encoded twice and raw line breaks are understood."""
    assert parse_arguments(text) == arguments


@pytest.mark.parametrize("text", ['{"path": "x', "[1]", "path=x", "true", "7", '"word"', "[" * 100_000, "{'a': 1}"])
def test_malformed_arguments_keep_their_text(text: str) -> None:
    """What is no JSON object keeps its text under the one key that the kernel refuses."""
    assert parse_arguments(text) == {MALFORMED: text}


@settings(deadline=None)
@given(ARGUMENTS, st.lists(st.integers(0, 500), max_size=6))
def test_fragments_join_to_what_was_meant(arguments: dict[str, object], places: list[int]) -> None:
    """Arguments cut anywhere come out as they were."""
    raw = json.dumps(arguments)
    marks = sorted({place % (len(raw) + 1) for place in places})
    calls = parts()
    calls.add(index=0, id="a", name="tool", arguments="")
    for begin, end in zip([0, *marks], [*marks, len(raw)], strict=True):
        calls.add(index=0, id="", name="", arguments=raw[begin:end])
    assert calls.close() == [ToolCall("a", "tool", arguments)]
