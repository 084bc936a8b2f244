"""Answers as Telegram takes them: parts within its limit, in its HTML.

Source: https://core.telegram.org/bots/api#html-style
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from html import escape
from urllib.parse import urlsplit

from halo_lib_text import Chunk, Document, Style, fold, plain, split, take_media, utf16_length

LIMIT = 4096
"""UTF-16 code units of a message, its markup not counted."""
_SCHEMES = ("http", "https", "tg", "mailto", "tel")


def _text(text: str) -> str:
    return escape(text, quote=False)


def _link(label: str, url: str) -> str:
    if urlsplit(url).scheme.lower() in _SCHEMES and label.strip():
        return f'<a href="{escape(url)}">{label}</a>'
    return f"{label} ({_text(url)})".lstrip()


def _quote(text: str, depth: int) -> str:
    if depth:  # a quote cannot lie in another
        return "\n".join(f"&gt; {line}".rstrip() for line in text.split("\n"))
    return f"<blockquote>{text}</blockquote>"


def _fence(code: str, language: str) -> str:
    if language:
        return f'<pre><code class="language-{escape(language)}">{_text(code)}</code></pre>'
    return f"<pre>{_text(code)}</pre>"


HTML = Style(
    text=_text,
    code=lambda text: f"<code>{_text(text)}</code>",
    emphasis=lambda text: f"<i>{text}</i>",
    strong=lambda text: f"<b>{text}</b>",
    strike=lambda text: f"<s>{text}</s>",
    link=_link,
    image=_link,
    heading=lambda text, level: f"<b>{text}</b>",
    quote=_quote,
    fence=_fence,
    item=_text,
)


def to_html(document: Document) -> str:
    """Return a document in Telegram's HTML."""
    return fold(document, HTML)


@lru_cache(maxsize=8)  # each part of an answer asks for all of them
def pieces(text: str) -> Sequence[Chunk]:
    """Return the pieces of a text that one message takes each, none of them blank.

    They are measured as plain text, which is never shorter than what people see of the HTML: so each may be sent as
    either.
    """
    found = split(text, LIMIT, measure=utf16_length, render=plain)
    return [piece for piece in found if piece.source.strip()]


def messages(text: str) -> Sequence[str]:
    """Return what a text is sent in: its pieces, then a line `MEDIA:<path>` for each file."""
    words, files = take_media(text)
    return [*map(source_of, pieces(words)), *(f"MEDIA:{path}" for path in files)]


def source_of(piece: Chunk) -> str:
    """Return a piece as a message's text, without the ends of lines around it, which nobody sees."""
    return piece.source.strip("\n")


def file_of(text: str) -> str:
    """Return the path of a message that is a file, else ''."""
    if not text.startswith("MEDIA:"):
        return ""
    words, files = take_media(text)
    return files[0] if len(files) == 1 and not words else ""
