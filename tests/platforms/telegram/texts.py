"""Texts as the platform keeps them: cleaned, cut to size, counted in UTF-16 units, with their entities."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .arguments import Arguments
from .chats import User
from .html_markup import parse_html
from .legacy_markup import parse_legacy
from .markdown_markup import parse_markdown
from .refusals import bad_request
from .units import Entity, length

Users = Mapping[int, User]
PARSERS = {"html": parse_html, "markdownv2": parse_markdown, "markdown": parse_legacy}
KIND_NAMES = (
    "bold italic underline strikethrough spoiler code pre text_link text_mention custom_emoji blockquote "
    "expandable_blockquote mention hashtag cashtag bot_command url email phone_number date_time"
)
KINDS = KIND_NAMES.split()
FOUND = re.compile(
    r"""(?P<url>https?://[^\s<>"]*[^\s<>".,;:!?)\]'])
    |(?P<email>(?<![\w.])[\w.+-]+@[\w-]+\.[\w.-]*\w)
    |(?P<mention>(?<![\w@/])@[A-Za-z]\w{2,31}\b)
    |(?P<hashtag>(?<![\w\#])\#\w*[^\W\d]\w*)
    |(?P<bot_command>(?<![\w/<>@])/[A-Za-z0-9_]{1,64}(?:@[A-Za-z]\w{2,31})?(?![\w/]))""",
    re.VERBOSE,
)
CONTROL = {code: " " for code in range(32) if code not in (10, 13)} | {13: None}


@dataclass(frozen=True)
class Formatted:
    """A text and what parts of it are."""

    text: str = ""
    entities: tuple[Entity, ...] = ()


NOTHING = Formatted()


def formatted(text: str, entities: Sequence[Entity] = ()) -> Formatted:
    """Clean and trim a text and add the entities that everybody's texts get."""
    text = text.translate(CONTROL)
    start = min((entity["offset"] for entity in entities), default=len(text))
    skipped = len(text[:start]) - len(text[:start].lstrip(" \n"))
    text = text[skipped:].rstrip()
    if not text:
        raise bad_request("text must be non-empty")
    moved = [entity | {"offset": entity["offset"] - skipped} for entity in entities]
    kept = list(_within(moved, length(text)))
    kept += [entity for entity in _found(text) if not any(_overlap(entity, other) for other in kept)]
    return Formatted(text, tuple(sorted(kept, key=lambda each: (each["offset"], -each["length"]))))


def _within(entities: Sequence[Entity], end: int) -> Iterator[Entity]:
    for entity in entities:
        left = min(entity["offset"] + entity["length"], end) - entity["offset"]
        if left > 0:
            yield entity | {"length": left}


def _overlap(one: Entity, other: Entity) -> bool:
    begins, ends = max(one["offset"], other["offset"]), min(_end(one), _end(other))
    return begins < ends and other["type"] not in (
        "bold",
        "italic",
        "underline",
        "strikethrough",
        "spoiler",
        "blockquote",
    )


def _end(entity: Entity) -> int:
    return int(entity["offset"]) + int(entity["length"])


def _found(text: str) -> Iterator[Entity]:
    for match in FOUND.finditer(text):
        yield {"type": match.lastgroup, "offset": length(text[: match.start()]), "length": length(match[0])}


def read_text(arguments: Arguments, *, limit: int, users: Users) -> Formatted:
    """Read a message's text."""
    if not arguments.text("text"):
        raise bad_request("message text is empty")
    text = read_formatted(arguments, "text", "entities", users)
    if length(text.text) > limit:
        raise bad_request("message is too long")
    return text


def read_caption(arguments: Arguments, *, limit: int, users: Users) -> Formatted:
    """Read the text that goes with a file."""
    if not arguments.text("caption").strip():
        return NOTHING
    caption = read_formatted(arguments, "caption", "caption_entities", users)
    if length(caption.text) > limit:
        raise bad_request("message caption is too long")
    return caption


def read_formatted(arguments: Arguments, name: str, entities: str, users: Users) -> Formatted:
    """Read a text with its parse mode or its entities."""
    text, mode = arguments.text(name), arguments.text("parse_mode").lower()
    if len(text.encode()) > 1 << 15:
        raise bad_request("text is too long")
    if mode not in ("", "none", *PARSERS):
        raise bad_request("unsupported parse_mode")
    if mode in PARSERS:
        parsed, found = PARSERS[mode](text)
    else:
        listed = arguments.document(entities, "entities")
        parsed, found = text, [_checked(each, text) for each in listed] if isinstance(listed, list) else []
    return formatted(parsed, [*_named(found, users)])


def _named(entities: Sequence[Entity], users: Users) -> Iterator[Entity]:
    """Leave out who is mentioned and unknown."""
    for entity in entities:
        if entity["type"] != "text_mention":
            yield entity
        elif user := users.get(entity["user"]["id"]):
            yield entity | {"user": user.record}


def _checked(entity: Any, text: str) -> Entity:
    if not isinstance(entity, dict):
        raise bad_request("can't parse MessageEntity: expected an Object")
    for name, kind in (("offset", int), ("length", int), ("type", str)):
        if not isinstance(entity.get(name), kind):
            raise bad_request(f"can't parse MessageEntity: Can't find field \"{name}\"")
    if entity["type"] not in KINDS:
        raise bad_request("can't parse MessageEntity: Unsupported type specified")
    user = entity.get("user")
    if entity["type"] == "text_mention" and not (isinstance(user, dict) and isinstance(user.get("id"), int)):
        raise bad_request("can't parse MessageEntity: Can't find field \"user\"")
    if entity["offset"] < 0:
        raise bad_request(f"receive an entity with incorrect offset {entity['offset']}")
    if entity["length"] < 0:
        raise bad_request(f"receive an entity with incorrect length {entity['length']}")
    _halves(entity, text)
    return dict(entity)


def _halves(entity: Entity, text: str) -> None:
    """Refuse an entity that parts a character of two units."""
    units, offset = text.encode("utf-16-le"), entity["offset"]
    ends = f"entity beginning at UTF-16 offset {offset} ends"
    for place, says in ((offset, "entity begins"), (_end(entity), ends)):
        unit = units[2 * place : 2 * place + 2]
        if len(unit) == 2 and 0xDC <= unit[1] <= 0xDF:
            after = len(units[: 2 * place + 2].decode("utf-16-le").encode())
            raise bad_request(f"{says} in a middle of a UTF-16 symbol at byte offset {after}")
