"""Our rules of Block Kit refuse what the validators of Slack's own models refuse."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slack_sdk.errors import SlackObjectFormationError
from slack_sdk.models.blocks import Block

from .slack.blocks import complaints, markdown_length
from .slack.rules import BLOCKS, BLOCKS_MOST


def _plain(length: int) -> dict[str, Any]:
    return {"type": "plain_text", "text": "x" * length}


def _button(**facts: Any) -> dict[str, Any]:
    return {"type": "button", "action_id": "go", "text": _plain(2), **facts}


def _option(number: int) -> dict[str, Any]:
    return {"text": _plain(1), "value": str(number)}


near = st.sampled_from([-1, 0, 1])


@st.composite
def blocks(draw: st.DrawFn) -> dict[str, Any]:
    """A block that is right, or wrong by one in one of its measures."""
    off = draw(near)
    select = {"type": "static_select", "action_id": "s", "options": [_option(each) for each in range(100 + off)]}
    overflow = {"type": "overflow", "action_id": "o", "options": [_option(each) for each in range(5 + off)]}
    image = {"type": "image", "image_url": "https://x.org/" + "x" * (3000 + off - 14), "alt_text": "x"}
    made: list[dict[str, Any]] = [
        {"type": "section", "text": _plain(3000 + off)},
        {"type": "section", "text": {"type": "mrkdwn", "text": "x" * (3000 + off)}},
        {"type": "section", "fields": [_plain(1)] * (10 + off)},
        {"type": "section", "text": _plain(1), "accessory": _button(value="x" * (2000 + off))},
        {"type": "section", "text": _plain(1), "block_id": "x" * (255 + off)},
        {"type": "section", "text": _plain(1), "accessory": select},
        {"type": "section", "text": _plain(1), "accessory": overflow},
        {"type": "section"},
        {"type": "header", "text": _plain(150 + off)},
        {"type": "markdown", "text": "x" * (12_000 + off)},
        {"type": "actions", "elements": [_button(action_id=f"go{each}") for each in range(25 + off)]},
        {"type": "actions", "elements": [_button(text=_plain(75 + off))]},
        {"type": "actions", "elements": [_button(url="https://x.org/" + "x" * (3000 + off - 14))]},
        {"type": "actions", "elements": [_button(action_id="x" * (255 + off))]},
        {"type": "actions", "elements": [_button(style=draw(st.sampled_from(["primary", "danger", "loud"])))]},
        {"type": "context", "elements": [{"type": "mrkdwn", "text": "x"}] * (10 + off)},
        {"type": "image", "image_url": "https://x.org/a.png", "alt_text": "x" * (2000 + off)},
        {"type": "context", "elements": [image]},
        {"type": "divider"},
    ]
    return draw(st.sampled_from(made))


def _refused_by_slack(block: dict[str, Any]) -> bool:
    """Let the client's own model, and every model within, look at a block."""
    (model,) = Block.parse_all([block])
    parts = [model, *(getattr(model, "elements", None) or []), getattr(model, "accessory", None)]
    try:
        for part in parts:
            if hasattr(part, "validate_json"):
                part.validate_json()
    except SlackObjectFormationError:
        return True
    return False


@given(blocks())
def test_what_slacks_models_refuse_is_refused(block: dict[str, Any]) -> None:
    """At each limit, one below and one above, both say the same."""
    assert bool(complaints([block])) == _refused_by_slack(block)


@given(st.recursive(st.none() | st.integers() | st.text() | st.booleans(), lambda x: st.lists(x) | st.dictionaries(
    st.sampled_from(["type", "text", "elements", "fields", "accessory", "options", "action_id", "block_id"]), x
)))  # fmt: skip
def test_anything_gets_an_answer(value: Any) -> None:
    """Whatever stands where blocks should is looked through, never choked on."""
    found = complaints(value)
    assert all("[json-pointer:/blocks" in each for each in found)
    assert found or (isinstance(value, list) and all(each["type"] in BLOCKS for each in value))


@given(st.sampled_from(sorted(BLOCKS)), st.recursive(st.none() | st.text(), lambda x: st.lists(x)))
def test_fields_of_any_kind_get_an_answer(kind: str, value: Any) -> None:
    """A known block whose fields are of the wrong kind gets complaints, not an error."""
    fields = dict.fromkeys(("text", "elements", "fields", "accessory", "element", "rows", "title"), value)
    assert isinstance(complaints([{"type": kind, **fields}]), list)


@pytest.mark.parametrize(
    ("made", "place"),
    [
        ([{"type": "divider"}] * (BLOCKS_MOST + 1), "/blocks]"),
        ([{"type": "divider", "block_id": "one"}] * 2, "/blocks/1/block_id]"),
        ([{"type": "actions", "elements": [_button(), _button()]}], "/blocks/0/elements/1/action_id]"),
        ([{"type": "actions", "elements": []}], "/blocks/0/elements]"),
        ([{"type": "header", "text": {"type": "mrkdwn", "text": "x"}}], "/blocks/0/text]"),
        ([{"type": "section", "text": {"type": "mrkdwn", "text": ""}}], "/blocks/0/text/text]"),
        ([{"type": "context", "elements": [_button()]}], "/blocks/0/elements/0/type]"),
    ],
)
def test_the_server_alone_knows(made: list[Any], place: str) -> None:
    """What Slack's server refuses and its models do not notice is refused too, with its place."""
    (found,) = complaints(made)
    assert found.endswith(place)


def test_markdown_is_measured_together() -> None:
    """The limit of markdown holds for all markdown blocks of a message."""
    assert markdown_length([{"type": "markdown", "text": "ab"}, {"type": "divider"}, {"type": "markdown"}]) == 2
