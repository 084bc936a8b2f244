"""The platform's MarkdownV2: every reserved character is markup or escaped, else the text is refused."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from .html_markup import linked
from .refusals import Refused, cant_parse
from .units import Entity, bytes_before, length

ESCAPED = re.compile(r"\\([\x01-\x7e])", re.DOTALL)
PLAIN = re.compile(r"[^\\_*\[\]()~`>#+\-=|{}.!\n]+")
PLAIN_CODE = re.compile(r"[^\\`]+")
LANGUAGE = re.compile(r"```(?:([^\s`]+)(?=\s))?(?:\r\n|\n\r|\n|\r)?")
ADDRESS = re.compile(r"\(((?:\\[\x01-\x7e]|[^)])*)(\)?)", re.DOTALL)
EMOJI = re.compile(r"tg://emoji\?id=([0-9]{1,19})")
TIME = re.compile(r"tg://time\?unix=([0-9]{1,10})(?:&format=(\w+))?")

MARKS = {"*": "Bold", "_": "Italic", "__": "Underline", "~": "Strikethrough", "||": "Spoiler", "`": "Code"}
MARKS |= {"```": "Pre", "[": "TextUrl", "![": "CustomEmoji"}
ENDS = {kind: mark for mark, kind in MARKS.items()} | {"PreCode": "```", "TextUrl": "]", "CustomEmoji": "]"}
KINDS = {"TextUrl": "text_link", "CustomEmoji": "custom_emoji", "PreCode": "pre"}


@dataclass(frozen=True)
class _Open:
    kind: str
    place: int
    offset: int
    begins: int
    language: str = ""


@dataclass
class _Reading:
    source: str
    place: int = 0
    pieces: list[str] = field(default_factory=list)
    offset: int = 0
    opened: list[_Open] = field(default_factory=list)
    entities: list[Entity] = field(default_factory=list)
    quoted: bool = False
    line_begins: bool = True

    @property
    def kind(self) -> str:
        return self.opened[-1].kind if self.opened else ""

    def starts(self, mark: str) -> bool:
        return self.source.startswith(mark, self.place)

    def say(self, text: str) -> None:
        self.pieces.append(text)
        self.offset += length(text)
        self.line_begins = text.endswith("\n")

    def open(self, kind: str, mark: int, language: str = "") -> None:
        self.opened.append(_Open(kind, self.place, self.offset, len(self.pieces), language))
        self.place += mark

    def close(self, kind: str, opened: _Open, more: Entity | None = None) -> None:
        if self.offset > opened.offset:
            entity = {"type": kind, "offset": opened.offset, "length": self.offset - opened.offset}
            self.entities.append(entity | (more or {}))

    def unended(self) -> Refused:
        place = bytes_before(self.source, self.opened[-1].place)
        return cant_parse(f"Can't find end of {self.kind} entity at byte offset {place}")


def parse_markdown(source: str) -> tuple[str, list[Entity]]:
    """Return the text and the entities of a text with marks."""
    reading = _Reading(source)
    while reading.place < len(source):
        _step(reading)
    if reading.quoted:
        _end_quote(reading)
    if reading.opened:
        raise reading.unended()
    return "".join(reading.pieces), sorted(reading.entities, key=lambda each: (each["offset"], -each["length"]))


def _step(reading: _Reading) -> None:
    code = reading.kind in ("Code", "Pre", "PreCode")
    if match := ESCAPED.match(reading.source, reading.place):
        reading.say(match[1])
        reading.place = match.end()
    elif match := (PLAIN_CODE if code else PLAIN).match(reading.source, reading.place):
        reading.say(match[0])
        reading.place = match.end()
    elif reading.starts("\\"):
        reading.say("\\")
        reading.place += 1
    elif _ends(reading):
        _end(reading)
    else:
        _begin(reading)


def _ends(reading: _Reading) -> bool:
    if reading.kind in ("", "BlockQuote"):
        return False
    if reading.kind == "Italic" and reading.starts("__"):
        return False
    return reading.starts(ENDS[reading.kind])


def _begin(reading: _Reading) -> None:
    if reading.starts("\n"):
        return _line(reading)
    if reading.starts(">"):
        return _quote(reading)
    mark = next((mark for mark in ("```", "__", "||", "![", *MARKS) if reading.starts(mark)), "")
    if not mark:
        raise _reserved(reading)
    if mark != "```":
        return reading.open(MARKS[mark], len(mark))
    match = LANGUAGE.match(reading.source, reading.place)
    assert match is not None
    return reading.open("PreCode" if match[1] else "Pre", len(match[0]), match[1] or "")


def _reserved(reading: _Reading) -> Refused:
    char = reading.source[reading.place]
    return cant_parse(f"Character '{char}' is reserved and must be escaped with the preceding '\\'")


def _line(reading: _Reading) -> None:
    goes_on = reading.source.startswith(">", reading.place + 1)
    if reading.quoted and not goes_on:
        _end_quote(reading, newline="\n")
    else:
        reading.say("\n")
    reading.place += 1


def _quote(reading: _Reading) -> None:
    if not reading.line_begins:
        raise _reserved(reading)
    if reading.quoted:
        reading.place += 1
    else:
        reading.quoted = True
        reading.open("BlockQuote", 1)


def _end_quote(reading: _Reading, newline: str = "") -> None:
    kind = "blockquote"
    if reading.kind == "Spoiler" and reading.opened[-1].place == reading.place - 2:  # `||` at its end folds a quote
        reading.opened.pop()
        kind = "expandable_blockquote"
    if reading.kind != "BlockQuote":
        raise reading.unended()
    if newline:
        reading.say(newline)
    reading.close(kind, reading.opened.pop())
    reading.quoted = False


def _end(reading: _Reading) -> None:
    opened = reading.opened.pop()
    reading.place += len(ENDS[opened.kind])
    if opened.kind == "TextUrl":
        address = _address(reading) if reading.starts("(") else "".join(reading.pieces[opened.begins :])
        if (more := linked(address)) is not None:
            reading.close("text_link", opened, more)
    elif opened.kind == "CustomEmoji":
        if not reading.starts("("):
            raise cant_parse("The entity must contain a tg://emoji or tg://time URL")
        _special(reading, opened, _address(reading))
    else:
        language = {"language": opened.language} if opened.language else {}
        reading.close(KINDS.get(opened.kind, opened.kind.lower()), opened, language)


def _special(reading: _Reading, opened: _Open, address: str) -> None:
    if match := EMOJI.fullmatch(address):
        reading.close("custom_emoji", opened, {"custom_emoji_id": match[1]})
    elif match := TIME.fullmatch(address):
        shown = {"date_time_format": match[2]} if match[2] else {}
        reading.close("date_time", opened, {"unix_time": int(match[1])} | shown)
    else:
        raise cant_parse("Invalid tg://emoji or tg://time URL specified")


def _address(reading: _Reading) -> str:
    match = ADDRESS.match(reading.source, reading.place)
    assert match is not None
    if not match[2]:
        raise cant_parse(f"Can't find end of a URL at byte offset {bytes_before(reading.source, reading.place + 1)}")
    reading.place = match.end()
    return ESCAPED.sub(r"\1", match[1])
