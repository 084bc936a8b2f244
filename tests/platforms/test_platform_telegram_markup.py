"""HTML and MarkdownV2 are read as strictly as the real platform reads them."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from .conftest import Telegram
from .telegram.html_markup import parse_html
from .telegram.legacy_markup import parse_legacy
from .telegram.markdown_markup import parse_markdown
from .telegram.refusals import Refused
from .telegram.units import cut, length

BOLD, ITALIC = {"type": "bold"}, {"type": "italic"}
RESERVED = re.compile(r"([_*\[\]()~`>#+\-=|{}.!\\])")
TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=60)
CODE = "Can't find end of {} entity at byte offset {}"


def at(offset: int, size: int, **more: Any) -> dict[str, Any]:
    """Return an entity."""
    return more | {"offset": offset, "length": size}


@pytest.mark.parametrize(
    ("source", "text", "entities"),
    [
        ("a < b", None, 'Unsupported start tag "" at byte offset 2'),
        ("<b>x</b>", "x", [at(0, 1, type="bold")]),
        ("<B>x</ b>", None, "Unclosed end tag at byte offset 4"),
        ("<b>x</>", "x", [at(0, 1, type="bold")]),
        ("<b>😀<i>y</i></b>", "😀y", [at(0, 3, type="bold"), at(2, 1, type="italic")]),
        ("<u>x</u><ins>y</ins>", "xy", [at(0, 1, type="underline"), at(1, 1, type="underline")]),
        ("<s>x</s><del>y</del>", "xy", [at(0, 1, type="strikethrough"), at(1, 1, type="strikethrough")]),
        ('<span class="tg-spoiler">x</span>', "x", [at(0, 1, type="spoiler")]),
        ("<tg-spoiler>x</tg-spoiler>", "x", [at(0, 1, type="spoiler")]),
        ('<a href="https://a.b/?x=1&amp;y=2">z</a>', "z", [at(0, 1, type="text_link", url="https://a.b/?x=1&y=2")]),
        ("<a>a.example</a>", "a.example", [at(0, 9, type="text_link", url="http://a.example/")]),
        ('<a href="javascript:x">z</a>', "z", []),
        ("<code>x</code>", "x", [at(0, 1, type="code")]),
        ("<pre>x</pre>", "x", [at(0, 1, type="pre")]),
        ('<pre><code class="language-py">x</code></pre>', "x", [at(0, 1, type="pre", language="py")]),
        ("<blockquote>x</blockquote>", "x", [at(0, 1, type="blockquote")]),
        ("<blockquote expandable>x</blockquote>", "x", [at(0, 1, type="expandable_blockquote")]),
        ("<b></b>x", "x", []),
        ('<a href="tg://user?id=7">x</a>', "x", [at(0, 1, type="text_mention", user={"id": 7})]),
        (
            '<tg-time unix="1647531900" format="wDT">x</tg-time>',
            "x",
            [at(0, 1, type="date_time", unix_time=1647531900, date_time_format="wDT")],
        ),
        ('<code class="language-py">x</code>', "x", [at(0, 1, type="code")]),
        ('<code class="language-py"><pre>x</pre></code>', "x", [at(0, 1, type="pre", language="py")]),
        ("&lt;&gt;&amp;&quot;&#39;&#x1F600;", "<>&\"'😀", []),
        ("&nbsp;&copy; & &x", "&nbsp;&copy; & &x", []),
        ("ä<p>x</p>", None, 'Unsupported start tag "p" at byte offset 2'),
        ("x<br/>", None, 'Unsupported start tag "br/" at byte offset 1'),
        ("<b>x", None, 'Can\'t find end tag corresponding to start tag "b"'),
        ("x</b>", None, "Unexpected end tag at byte offset 1"),
        ("<b>x</i>", None, 'Unmatched end tag at byte offset 4, expected "</b>", found "</i>"'),
        ("<b", None, "Unclosed start tag at byte offset 0"),
        ("<b>x</b", None, "Unclosed end tag at byte offset 4"),
        ("<span>x</span>", None, 'Tag "span" must have class "tg-spoiler" at byte offset 0'),
        ("<a href=x/y>z</a>", None, "Unexpected end of name token at byte offset 8"),
        ("<a =x>z</a>", None, 'Empty attribute name in the tag "a" at byte offset 0'),
        ('<a href="x>z</a>', None, "Unclosed start tag at byte offset 0"),
    ],
)
def test_html(source: str, text: str | None, entities: Any) -> None:
    """A text with tags is a text with entities, or is refused at the byte where it is wrong."""
    check(parse_html, source, text, entities)


@pytest.mark.parametrize(
    ("source", "text", "entities"),
    [
        ("*x*", "x", [at(0, 1, type="bold")]),
        ("_x_ __y__", "x y", [at(0, 1, type="italic"), at(2, 1, type="underline")]),
        ("~x~ ||y||", "x y", [at(0, 1, type="strikethrough"), at(2, 1, type="spoiler")]),
        ("*a _b_ c*", "a b c", [at(0, 5, type="bold"), at(2, 1, type="italic")]),
        ("`a*b`", "a*b", [at(0, 3, type="code")]),
        ("```\na_b\n```", "a_b\n", [at(0, 4, type="pre")]),
        ("```py\na_b```", "a_b", [at(0, 3, type="pre", language="py")]),
        ("[x](https://a.b/\\))", "x", [at(0, 1, type="text_link", url="https://a.b/)")]),
        (">a\n>b\nc", "a\nb\nc", [at(0, 4, type="blockquote")]),
        (">a||", "a", [at(0, 1, type="expandable_blockquote")]),
        (
            "![👍](tg://emoji?id=5368324170671202286)",
            "👍",
            [at(0, 2, type="custom_emoji", custom_emoji_id="5368324170671202286")],
        ),
        (r"1\. a\-b\!", "1. a-b!", []),
        ("1. a", None, "Character '.' is reserved and must be escaped with the preceding '\\'"),
        ("a-b", None, "Character '-' is reserved and must be escaped with the preceding '\\'"),
        ("a > b", None, "Character '>' is reserved and must be escaped with the preceding '\\'"),
        ("a | b", None, "Character '|' is reserved and must be escaped with the preceding '\\'"),
        ("ä *x", None, CODE.format("Bold", 3)),
        ("snake_case", None, CODE.format("Italic", 5)),
        ("__x", None, CODE.format("Underline", 0)),
        ("`x", None, CODE.format("Code", 0)),
        ("```py\nx", None, CODE.format("PreCode", 0)),
        ("[x](y", None, "Can't find end of a URL at byte offset 4"),
        ("[x", None, CODE.format("TextUrl", 0)),
        ("*_x*_", None, CODE.format("Italic", 4)),
    ],
)
def test_markdown(source: str, text: str | None, entities: Any) -> None:
    """A text with marks is a text with entities; what is reserved and no mark is refused."""
    check(parse_markdown, source, text, entities)


@pytest.mark.parametrize(
    ("source", "text", "entities"),
    [
        ("*a* _b_ `c`", "a b c", [at(0, 1, type="bold"), at(2, 1, type="italic"), at(4, 1, type="code")]),
        ("*a_b*", "a_b", [at(0, 3, type="bold")]),
        ("[x](https://a.b/)", "x", [at(0, 1, type="text_link", url="https://a.b/")]),
        ("```py\nx```", "x", [at(0, 1, type="pre", language="py")]),
        (r"snake\_case. a-b!", "snake_case. a-b!", []),
        ("ä snake_case", None, "Can't find end of the entity starting at byte offset 8"),
    ],
)
def test_legacy_markdown(source: str, text: str | None, entities: Any) -> None:
    """The first Markdown knows no nesting, and refuses a mark without its end."""
    check(parse_legacy, source, text, entities)


def check(parse: Any, source: str, text: str | None, entities: Any) -> None:
    if text is None:
        with pytest.raises(Refused) as refused:
            parse(source)
        assert refused.value.description.startswith(f"Bad Request: can't parse entities: {entities}")
    else:
        assert parse(source) == (text, entities)


@given(TEXTS)
def test_escaped_html_is_what_it_was(text: str) -> None:
    """A text whose `<`, `>` and `&` are escaped arrives as it is."""
    assert parse_html(html.escape(text)) == (text, [])


@given(TEXTS)
def test_escaped_markdown_is_what_it_was(text: str) -> None:
    """A text whose reserved characters are escaped arrives as it is."""
    assert parse_markdown(RESERVED.sub(r"\\\1", text)) == (text, [])


@given(st.text(st.sampled_from("ab😀<>/&;\"'= \nib1x-code_*`[]()~|!>#\\"), max_size=40))
def test_whatever_is_read_has_its_entities_inside(source: str) -> None:
    """Any text is refused, or its entities lie within it and part no character."""
    for parse in (parse_html, parse_markdown, parse_legacy):
        try:
            text, entities = parse(source)
        except Refused as refused:
            assert refused.code == 400
            continue
        for entity in entities:
            assert 0 <= entity["offset"] < entity["offset"] + entity["length"] <= length(text)
            assert "�" not in cut(text, entity["offset"], entity["length"])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("/start now", [("bot_command", "/start")]),
        ("/start@halo_bot", [("bot_command", "/start@halo_bot")]),
        ("hi @halo_bot!", [("mention", "@halo_bot")]),
        ("see https://a.b/c, now", [("url", "https://a.b/c")]),
        ("me@example.org #tag a/b", [("email", "me@example.org"), ("hashtag", "#tag")]),
        ("😀 /go", [("bot_command", "/go")]),
    ],
)
async def test_entities_are_found_in_plain_texts(telegram: Telegram, text: str, found: list[tuple[str, str]]) -> None:
    """Commands, mentions, addresses and tags are entities, whoever wrote them."""
    telegram.stage.say(telegram.ann, text)
    (update,) = await telegram.done("getUpdates")
    said = update["message"]
    units = [(each["type"], cut(said["text"], each["offset"], each["length"])) for each in said.get("entities", [])]
    assert units == found


async def test_only_known_people_are_mentioned(telegram: Telegram) -> None:
    """A link to a person becomes a mention of them, or nothing."""
    text = f'<a href="tg://user?id={telegram.ann}">Ann</a> <a href="tg://user?id=1">Nobody</a>'
    sent = await telegram.done("sendMessage", chat_id=telegram.ann, text=text, parse_mode="HTML")
    (entity,) = sent["entities"]
    assert (entity["type"], entity["length"], entity["user"]["first_name"]) == ("text_mention", 3, "Ann")


async def test_texts_are_cleaned_as_the_platform_does(telegram: Telegram) -> None:
    """Blanks around a text go, control characters become blanks, a carriage return is nothing."""
    entities = [{"type": "bold", "offset": 2, "length": 4}]
    sent = await telegram.done("sendMessage", chat_id=telegram.ann, text="\n\na\tb\r  ", entities=entities)
    assert (sent["text"], sent["entities"]) == ("a b", [at(0, 3, type="bold")])


async def test_the_limit_counts_what_is_left_after_parsing(telegram: Telegram) -> None:
    """4,096 UTF-16 units are allowed, tags and escapes apart."""
    text = "<b>" + "&lt;" * 4094 + "😀</b>"
    sent = await telegram.done("sendMessage", chat_id=telegram.ann, text=text, parse_mode="HTML")
    assert sent["entities"] == [at(0, 4096, type="bold")]
    assert "message is too long" in await telegram.refused(
        "sendMessage", chat_id=telegram.ann, text="x" + text, parse_mode="HTML"
    )
