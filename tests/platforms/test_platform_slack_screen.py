"""Text is kept as Slack keeps it, and people read what they would read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from .slack.markup import mentions, rich_text, shown, stored, typed
from .slack.messages import Message
from .slack.screen import on_screen

NAMES = {"U0KIM": "kim", "C0GENERAL": "general"}
IDS = {name: each for each, name in NAMES.items()}

texts = st.lists(
    st.sampled_from(["a", " ", "<", ">", "&", "&amp;", "<@U0KIM>", "@kim", "<https://x.org|x>", "|", "\n", "ü"])
)


def seen(**facts: Any) -> str:
    """Return what is read of a message."""
    whole = {"channel": "C0GENERAL", "ts": "1.000001", "user": "U0KIM", "text": "fallback", "team": "T0"}
    return on_screen(Message(**{**whole, **facts}), NAMES)


def mrkdwn(text: str) -> dict[str, str]:
    """Return a text object."""
    return {"type": "mrkdwn", "text": text}


@given(texts)
def test_what_is_kept_is_kept(pieces: list[str]) -> None:
    """Text that Slack kept once is kept unchanged, and has no loose sign."""
    kept = stored("".join(pieces))
    assert stored(kept) == kept
    for token in ("<@U0KIM>", "<https://x.org|x>", "&amp;", "&lt;", "&gt;"):
        kept = kept.replace(token, "")
    assert not {"<", ">", "&"} & set(kept)


@given(texts)
def test_people_read_what_they_typed(pieces: list[str]) -> None:
    """Whatever a person types, but for tokens that nobody types, is on the screen as it was typed."""
    text = "".join(each for each in pieces if not each.startswith("<") or each == "<")
    wire = typed(text, IDS)
    assert shown(wire, NAMES) == text
    assert seen(text=wire, blocks=rich_text(wire)) == text


def test_mentions_are_found() -> None:
    """Users whom a text mentions are told, escaped ones are not."""
    assert mentions("<@U0KIM> <@U0LOU|lou> &lt;@U0MO&gt;") == {"U0KIM", "U0LOU"}


@pytest.mark.parametrize(
    ("blocks", "read"),
    [
        ([], "fallback"),
        ([{"type": "section", "text": mrkdwn("a &amp; <@U0KIM>")}, {"type": "divider"}], "a & @kim"),
        ([{"type": "section", "fields": [mrkdwn("a"), mrkdwn("b")]}], "a\nb"),
        ([{"type": "header", "text": {"type": "plain_text", "text": "a &amp;"}}], "a &amp;"),
        ([{"type": "context", "elements": [mrkdwn("a"), {"type": "image"}, mrkdwn("b")]}], "a b"),
        ([{"type": "table", "rows": [[{"type": "raw_text", "text": each} for each in "ab"]] * 2}], "a | b\na | b"),
        ([{"type": "markdown", "text": "**a**"}], "**a**"),
        ([{"type": "actions", "elements": [{"type": "button", "text": mrkdwn("no")}]}], ""),
    ],
)
def test_blocks_take_the_place_of_the_text(blocks: list[Any], read: str) -> None:
    """Where there are blocks, people read these."""
    assert seen(blocks=blocks) == read


def test_rich_text_is_read() -> None:
    """A list, a channel, an emoji and a link read as they look."""
    pieces = [{"type": "emoji", "name": "owl"}, {"type": "channel", "channel_id": "C0GENERAL"}]
    link = {"type": "link", "url": "https://x.org", "text": "x"}
    line = {"type": "rich_text_section", "elements": [*pieces, link, {"type": "broadcast", "range": "here"}]}
    listed = {"type": "rich_text_list", "style": "bullet", "elements": [line, line]}
    assert seen(blocks=[{"type": "rich_text", "elements": [listed]}]) == "\n".join(["• :owl:#generalx@here"] * 2)
