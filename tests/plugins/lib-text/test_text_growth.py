"""Time in proportion to the length, on texts that are made to cost more."""

from __future__ import annotations

import sys
from types import FrameType

import pytest

from halo_lib_text import split, utf16_length

from .platforms import telegram

SHORT, LONG = 1_500, 6_000
GROWTH = 1.6  # what is allowed over the texts' growth, where the square of it would be 4 times


def deep_lists(length: int) -> str:
    """Lists in each other, as deep as the margins leave room for."""
    lines, size = [], 0
    while size < length:
        lines.append(" " * (2 * len(lines) % 60) + "- x")
        size += len(lines[-1]) + 1
    return "\n".join(lines)


REPEATED = {
    "backticks": "`",
    "growing code spans": "`a``b```c````",
    "asterisks": "*",
    "underscores": "_",
    "tildes": "~",
    "opened brackets": "[",
    "opened images": "![",
    "closed brackets": "]",
    "links that do not end": "[a](b ",
    "links in links": "[a](<b",
    "empty links": "[]()",
    "emphasis in emphasis": "**a *b ",
    "emphasis that does not match": "**_* ",
    "bold words": "**a** ",
    "quotes in quotes": ">",
    "quotes": "> a\n",
    "lists in a line": "- ",
    "list items": "- a\n",
    "loose items": "1. a\n\n",
    "headings": "# a\n",
    "fences": "```\n",
    "rows": "|a|b|\n",
    "tables": "a|b\n-|-\n",
    "pipes": "|",
    "references": "[a]: b\n",
    "uses of references": "[a][b] ",
    "html": "<a href='",
    "comments": "<!--",
    "ampersands": "&",
    "entities": "&amp;",
    "escapes": "\\*",
    "addresses": "http://a_b.c/d) ",
    "one address": "https://",
    "brackets behind an address": ")",
    "blanks": " ",
    "empty lines": "\n",
    "hard breaks": "a  \n",
    "full stops": ".",
    "joined emoji": "👨\u200d",
    "flags": "🇩",
    "accents": "\u0301",
    "half pairs": "\ud83d",
    "Windows' lines": "a\r\n",
    "one word": "x",
    "words": "word word. ",
    "Chinese": "中文。",
}


MADE = ["deep lists", "a line in a fence", "a long table"]


def hostile(name: str, length: int) -> str:
    """Return a text of that kind."""
    if name == "deep lists":
        return deep_lists(length)
    if name == "a line in a fence":
        return "```python\n" + "x" * length
    if name == "brackets behind an address":
        return "https://a.b" + ")" * length
    if name == "a long table":
        return "| a | b |\n|---|---|\n" + "| c | d |\n" * (length // 10)
    pattern = REPEATED[name]
    return pattern * (length // len(pattern))


def cost(text: str) -> tuple[int, int]:
    """Return how many calls of functions and how many rendered characters it takes to split a text for a platform.

    Unlike time both are the same in every run.
    """
    calls = characters = 0

    def on_event(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    def measure(shown: str) -> int:
        nonlocal characters
        characters += len(shown)
        return utf16_length(shown)

    sys.setprofile(on_event)
    try:
        split(text, 500, measure=measure, render=telegram)
    finally:
        sys.setprofile(None)
    return calls, characters


@pytest.mark.parametrize("name", [*MADE, *REPEATED])
def test_a_text_four_times_as_long_costs_four_times_as_much(name: str) -> None:
    """Neither the calls nor the characters that are rendered grow faster than the text."""
    cost("x")  # what is loaded and made once
    short, long = hostile(name, SHORT), hostile(name, LONG)
    (calls, characters), (more_calls, more_characters) = cost(short), cost(long)
    grown = len(long) / len(short) * GROWTH
    assert more_calls <= calls * grown
    assert more_characters <= characters * grown + LONG


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", [*MADE, *REPEATED])
def test_no_text_of_60000_characters_takes_long(name: str) -> None:
    """A watchdog ends this test where one of these takes a minute; each takes a second or less."""
    text = hostile(name, 60_000)
    assert sum(len(each.source) for each in split(text, 4096, measure=utf16_length, render=telegram)) == len(text)


@pytest.mark.timeout(60)
def test_a_line_of_a_million_characters_in_a_fence_comes_to_an_end() -> None:
    """One line of a megabyte is cut into as many pieces as it needs, each of them a fence."""
    source = "```python\n" + "x" * 1_000_000 + "\n```"
    chunks = split(source, 4096, measure=utf16_length, render=telegram)
    assert 240 < len(chunks) < 260
    assert all(each.text.startswith('<pre><code class="language-python">x') for each in chunks)
