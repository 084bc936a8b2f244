"""What a message looks like on a person's screen: its blocks if it has any, its text alone if not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .markup import shown
from .messages import Json, Message

Names = Mapping[str, str]


def on_screen(message: Message, names: Names) -> str:
    """Return the words that a person reads; what stands on buttons is not among them."""
    if not message.blocks:
        return shown(message.text, names)
    return "\n".join(line for block in message.blocks for line in _lines(block, names))


def _lines(block: Any, names: Names) -> Iterator[str]:
    if block["type"] == "rich_text":
        yield from _rich_lines(block["elements"], names)
    elif block["type"] == "table":
        yield from (" | ".join(_cell(each, names) for each in row) for row in block["rows"])
    elif block["type"] == "markdown":
        yield block["text"]
    elif block["type"] == "context":
        yield " ".join(_words(each, names) for each in block["elements"] if "text" in each)
    else:
        yield from (_words(each, names) for each in [block.get("text"), *(block.get("fields") or ())] if each)


def _words(text: Any, names: Names) -> str:
    return shown(text["text"], names) if text["type"] == "mrkdwn" else str(text["text"])


def _cell(cell: Any, names: Names) -> str:
    return " ".join(_rich_lines(cell["elements"], names)) if "elements" in cell else str(cell.get("text", ""))


def _rich_lines(elements: Any, names: Names) -> Iterator[str]:
    for element in elements:
        if element["type"] == "rich_text_list":
            yield from (f"• {line}" for line in _rich_lines(element["elements"], names))
        else:
            yield "".join(_piece(each, names) for each in element["elements"])


def _piece(piece: Json, names: Names) -> str:
    match piece["type"]:
        case "user":
            return f"@{names.get(piece['user_id'], piece['user_id'])}"
        case "channel":
            return f"#{names.get(piece['channel_id'], piece['channel_id'])}"
        case "link":
            return str(piece.get("text") or piece["url"])
        case "emoji":
            return f":{piece['name']}:"
        case "broadcast":
            return f"@{piece['range']}"
    return str(piece.get("text", ""))
