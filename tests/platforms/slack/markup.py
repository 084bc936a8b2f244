"""Slack's mrkdwn on the wire: `&`, `<`, `>` are escaped, links and mentions stand in angle brackets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

_TOKEN = re.compile(
    r"<(?:@[UW][A-Z0-9]+|#[CG][A-Z0-9]+|![a-z]+(?:\^[^<>]*)?|(?:https?|mailto|tel|ftp):[^<>|\s]+)(?:\|[^<>]*)?>"
)
_LOOSE = re.compile(r"&(?!(?:amp|lt|gt);)")
_URL = re.compile(r"https?://[^\s<>|]+")
_NAME = re.compile(r"(?<![\w@])@([\w.-]*\w)")


def stored(text: str) -> str:
    """Return what Slack keeps of the text of an app: what is neither escaped nor a link or mention gets escaped."""
    return _outside_tokens(text, _escaped)


def typed(text: str, ids: Mapping[str, str]) -> str:
    """Return what Slack keeps of what a person types: `@name` becomes a mention, an address a link."""

    def mention(match: re.Match[str]) -> str:
        return f"<@{ids[match[1]]}>" if match[1] in ids else match[0]

    def plain(piece: str) -> str:
        escaped = piece.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        return _URL.sub(lambda match: f"<{match[0]}>", _NAME.sub(mention, escaped))

    return _outside_tokens(text, plain)


def shown(text: str, names: Mapping[str, str]) -> str:
    """Return what a person sees: names instead of ids, labels instead of addresses, nothing escaped."""

    def seen(match: re.Match[str]) -> str:
        what, _, label = match[0][1:-1].partition("|")
        if what.startswith(("@", "#")):
            return what[0] + names.get(what[1:], what[1:])
        return label or (f"@{what[1:]}" if what.startswith("!") else what)

    return _unescaped(_TOKEN.sub(seen, text))


def rich_text(text: str) -> list[dict[str, Any]]:
    """Return the block that Slack makes of a stored text."""
    elements, end = [], 0
    for match in _TOKEN.finditer(text):
        elements += [_plain(text[end : match.start()]), _linked(match[0][1:-1])]
        end = match.end()
    elements = [each for each in [*elements, _plain(text[end:])] if each.get("text") != ""]
    section = {"type": "rich_text_section", "elements": elements}
    return [{"type": "rich_text", "block_id": "b0", "elements": [section]}]


def _plain(text: str) -> dict[str, Any]:
    return {"type": "text", "text": _unescaped(text)}


def _linked(token: str) -> dict[str, Any]:
    what, _, label = token.partition("|")
    match what[0]:
        case "@":
            return {"type": "user", "user_id": what[1:]}
        case "#":
            return {"type": "channel", "channel_id": what[1:]}
        case "!":
            return {"type": "broadcast", "range": what[1:]}
    return {"type": "link", "url": _unescaped(what)} | ({"text": _unescaped(label)} if label else {})


def mentions(text: str) -> set[str]:
    """Return the ids of the users whom a stored text mentions."""
    return set(re.findall(r"<@([UW][A-Z0-9]+)(?:\|[^<>]*)?>", text))


def _unescaped(text: str) -> str:
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _escaped(piece: str) -> str:
    return _LOOSE.sub("&amp;", piece).replace("<", "&lt;").replace(">", "&gt;")


def _outside_tokens(text: str, change: Callable[[str], str]) -> str:
    pieces, end = [], 0
    for match in _TOKEN.finditer(text):
        pieces += [change(text[end : match.start()]), match[0]]
        end = match.end()
    return "".join([*pieces, change(text[end:])])
