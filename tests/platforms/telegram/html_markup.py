"""The platform's HTML: few tags, strictly nested, with the refusals of the real parser."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from .refusals import Refused, cant_parse
from .units import Entity, bytes_before, length

TAGS = {
    "b": "bold",
    "strong": "bold",
    "i": "italic",
    "em": "italic",
    "u": "underline",
    "ins": "underline",
    "s": "strikethrough",
    "strike": "strikethrough",
    "del": "strikethrough",
    "tg-spoiler": "spoiler",
    "span": "spoiler",
    "a": "text_link",
    "tg-emoji": "custom_emoji",
    "tg-time": "date_time",
    "pre": "pre",
    "code": "code",
    "blockquote": "blockquote",
}
NAMED = {"lt": "<", "gt": ">", "amp": "&", "quot": '"'}
REFERENCE = re.compile(r"&(?:#x(?P<hex>[0-9a-fA-F]+)|#(?P<number>[0-9]+)|(?P<name>[a-zA-Z]+));?")
PLAIN = re.compile(r"[^<&]+")
NAME = re.compile(r"[^\s>]*")
SPACE = re.compile(r"\s*")
ATTRIBUTE = re.compile(r"[^\s=>/\"']*")
USER = re.compile(r"tg:(?://)?user\?id=([0-9]{1,15})")
UNIX = re.compile(r"[0-9]{1,10}")
EMOJI_ID = re.compile(r"[0-9]{1,19}")
TOKEN = re.compile(r"[A-Za-z0-9.-]*")


@dataclass(frozen=True)
class _Open:
    tag: str
    attributes: dict[str, str]
    offset: int
    begins: int
    """Where its text begins in the list of pieces."""


@dataclass
class _Reading:
    source: str
    place: int = 0
    pieces: list[str] = field(default_factory=list)
    offset: int = 0
    opened: list[_Open] = field(default_factory=list)
    entities: list[Entity] = field(default_factory=list)

    def take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.source, self.place)
        assert match is not None
        self.place = match.end()
        return match[0]

    def next(self) -> str:
        return self.source[self.place : self.place + 1]

    def say(self, text: str) -> None:
        self.pieces.append(text)
        self.offset += length(text)

    def refuse(self, reason: str, begins: int) -> Refused:
        return cant_parse(f"{reason} at byte offset {bytes_before(self.source, begins)}")


def parse_html(source: str) -> tuple[str, list[Entity]]:
    """Return the text and the entities of a text with tags."""
    reading = _Reading(source)
    while char := reading.next():
        if char == "<":
            _end_tag(reading) if source.startswith("</", reading.place) else _start_tag(reading)
        elif char == "&":
            reading.say(_reference(reading))
        else:
            reading.say(reading.take(PLAIN))
    if reading.opened:
        raise cant_parse(f'Can\'t find end tag corresponding to start tag "{reading.opened[-1].tag}"')
    text = "".join(reading.pieces)
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise cant_parse(
            "Text contains invalid Unicode characters after decoding HTML entities, check for unmatched surrogate code "
            "units"
        )
    order = sorted(reading.entities, key=lambda entity: (entity["offset"], -entity["length"]))
    return text, [_shown(entity) for entity in order]


def _shown(entity: Entity) -> Entity:
    hidden = ("language",) if entity["type"] == "code" else ()
    return {name: value for name, value in entity.items() if value != "" and name not in hidden}


def _reference(reading: _Reading) -> str:
    match = REFERENCE.match(reading.source, reading.place)
    char = _decoded(match) if match else ""
    reading.place = match.end() if match and char else reading.place + 1
    return char or "&"


def _decoded(match: re.Match[str]) -> str:
    if match["name"]:
        return NAMED.get(match["name"], "")
    if len(match[0].removesuffix(";")) >= 10:
        return ""
    code = int(match["hex"], 16) if match["hex"] else int(match["number"])
    return "" if code == 0 or code >= 0x10FFFF else chr(code)


def _start_tag(reading: _Reading) -> None:
    begins = reading.place
    reading.place += 1
    tag = reading.take(NAME).lower()
    if not reading.next():
        raise reading.refuse("Unclosed start tag", begins)
    if tag not in TAGS:
        raise reading.refuse(f'Unsupported start tag "{tag}"', begins)
    attributes: dict[str, str] = {}
    while (found := _attribute(reading, tag, begins)) is not None:
        attributes |= dict([found])
    reading.place += 1
    if tag == "span" and attributes.get("class") != "tg-spoiler":
        raise reading.refuse('Tag "span" must have class "tg-spoiler"', begins)
    reading.opened.append(_Open(tag, attributes, reading.offset, len(reading.pieces)))


def _attribute(reading: _Reading, tag: str, begins: int) -> tuple[str, str] | None:
    """Read the next attribute; None is the tag's end."""
    reading.take(SPACE)
    if reading.next() == ">":
        return None
    name = reading.take(ATTRIBUTE)
    if not name:
        raise reading.refuse(f'Empty attribute name in the tag "{tag}"', begins)
    reading.take(SPACE)
    if reading.next() == "=":
        reading.place += 1
        reading.take(SPACE)
        value = _value(reading, begins) if reading.next() else ""
    else:
        value = "1"
    if not reading.next():
        raise reading.refuse("Unclosed start tag" if value != "1" else f'Unclosed start tag "{tag}"', begins)
    return name, value


def _value(reading: _Reading, begins: int) -> str:
    quote = reading.next()
    if quote not in ("'", '"'):
        place = reading.place
        value = reading.take(TOKEN).lower()
        if reading.next() and not reading.next().isspace() and reading.next() != ">":
            raise reading.refuse("Unexpected end of name token", place)
        return value
    reading.place += 1
    value = ""
    while (char := reading.next()) and char != quote:
        if char == "&":
            value += _reference(reading)
        else:
            value += char
            reading.place += 1
    if not char:
        raise reading.refuse("Unclosed start tag", begins)
    reading.place += 1
    return value


def _end_tag(reading: _Reading) -> None:
    begins = reading.place
    if not reading.opened:
        raise reading.refuse("Unexpected end tag", begins)
    reading.place += 2
    tag = reading.take(NAME).lower()
    reading.take(SPACE)
    if reading.next() != ">":
        raise reading.refuse("Unclosed end tag", begins)
    reading.place += 1
    opened = reading.opened.pop()
    if tag not in ("", opened.tag):
        place = bytes_before(reading.source, begins)
        raise cant_parse(f'Unmatched end tag at byte offset {place}, expected "</{opened.tag}>", found "</{tag}>"')
    if reading.offset > opened.offset:
        _entity(reading, opened)


def _entity(reading: _Reading, opened: _Open) -> None:
    kind, said = TAGS[opened.tag], opened.attributes
    entity: Entity = {"type": kind, "offset": opened.offset, "length": reading.offset - opened.offset}
    last = reading.entities[-1] if reading.entities else {}
    same = last.get("offset") == entity["offset"] and last.get("length") == entity["length"]
    if kind == "pre" and same and last["type"] == "code":
        entity["language"] = reading.entities.pop()["language"]
    elif kind == "code":
        entity["language"] = _language(said)  # for a <pre> around it; on its own it means nothing
        if same and last["type"] == "pre":
            entity["type"] = reading.entities.pop()["type"]
    elif kind == "text_link":
        more = linked(said.get("href", "") or "".join(reading.pieces[opened.begins :]))
        entity = {} if more is None else entity | more
    elif kind == "custom_emoji":
        if not EMOJI_ID.fullmatch(said.get("emoji-id", "")):
            raise cant_parse("Invalid custom emoji identifier specified")
        entity["custom_emoji_id"] = said["emoji-id"]
    elif kind == "date_time":
        unix = said.get("unix", "")
        entity = (
            entity | {"unix_time": int(unix), "date_time_format": said.get("format", "")}
            if UNIX.fullmatch(unix)
            else {}
        )
    elif kind == "blockquote" and "expandable" in said:
        entity["type"] = "expandable_blockquote"
    if entity:
        reading.entities.append(entity)


def _language(attributes: dict[str, str]) -> str:
    named = attributes.get("class", "")
    return named.removeprefix("language-") if named.startswith("language-") else ""


def linked(url: str) -> Entity | None:
    """Return what a link adds to its entity: an address, or the person it names; None drops the link without a word."""
    if match := USER.fullmatch(url):
        return {"type": "text_mention", "user": {"id": int(match[1])}}
    checked = link(url)
    return {"url": checked} if checked else None


def link(url: str) -> str:
    """Return a link's address as the platform keeps it, '' if it is none."""
    if not url.strip() or any(char.isspace() for char in url.strip()):
        return ""
    scheme, colon, rest = url.strip().partition("://")
    if not colon:
        scheme, rest = "http", url.strip()
    host = rest.partition("/")[0].partition("?")[0]
    if scheme.lower() not in ("http", "https", "ftp", "tg", "ton", "tonsite"):
        return ""
    if scheme.lower() in ("http", "https") and "." not in host and host.partition(":")[0] != "localhost":
        return ""
    return f"{scheme.lower()}://{rest}" + ("/" if rest == host and scheme.lower() in ("http", "https") else "")
