"""Two platforms' renderers, as a channel would write them, and what these platforms refuse."""

from __future__ import annotations

import re
from html import escape
from html.parser import HTMLParser

from halo_lib_text import Document, Style, fold


def _pre(code: str, language: str) -> str:
    inner = f'<code class="language-{escape(language)}">{escape(code)}</code>' if language else escape(code)
    return f"<pre>{inner}</pre>"


TELEGRAM = Style(
    text=escape,
    code=lambda code: f"<code>{escape(code)}</code>",
    emphasis=lambda inner: f"<i>{inner}</i>",
    strong=lambda inner: f"<b>{inner}</b>",
    strike=lambda inner: f"<s>{inner}</s>",
    link=lambda label, url: f'<a href="{escape(url)}">{label}</a>',
    heading=lambda inner, level: f"<b>{inner}</b>",
    quote=lambda inner, depth: inner if depth else f"<blockquote>{inner}</blockquote>",
    fence=_pre,
    item=lambda marker: "•" if marker in "-*+" else marker,
)


def _mrkdwn(text: str) -> str:
    return text.replace("```", "`\u200b``").replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


SLACK = Style(
    text=_mrkdwn,
    code=lambda code: f"`{_mrkdwn(code.replace('`', 'ˋ'))}`",  # it has no way to write one
    emphasis=lambda inner: f"_{inner}_",
    strong=lambda inner: f"*{inner}*",
    strike=lambda inner: f"~{inner}~",
    link=lambda label, url: f"<{_mrkdwn(url)}|{label}>",
    heading=lambda inner, level: f"*{inner}*",
    fence=lambda code, language: f"```\n{_mrkdwn(code)}\n```",
    item=lambda marker: "•" if marker in "-*+" else marker,
)


def telegram(document: Document) -> str:
    return fold(document, TELEGRAM)


def slack(document: Document) -> str:
    return fold(document, SLACK)


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in {"b", "i", "s", "a", "code", "pre", "blockquote"}, tag
        assert tag != "blockquote" or "blockquote" not in self.open, "a quote in a quote"
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"


def check_telegram(text: str) -> None:
    """Fail as Telegram does: a tag that is not closed, not known or in the wrong place, an entity that is cut."""
    tags = _Tags()
    tags.feed(text)
    tags.close()
    assert not tags.open, f"{tags.open} stay open"
    assert not re.search(r"&(?!(?:amp|lt|gt|quot|#x27);)", text), "an entity is cut"


def check_slack(text: str) -> None:
    """Fail where Slack would show markup: a fence or link that is not closed, an entity that is cut."""
    assert not re.search(r"&(?!(?:amp|lt|gt);)", text), "an entity is cut"
    for opened in re.findall(r"<[^>]*", text):
        assert re.match(r"<[a-z]+:[^|<\s]+\|", opened) or "|" in opened, "a link is cut"
    assert len(re.findall(r"^```$", text, re.MULTILINE)) % 2 == 0, "a fence stays open"
