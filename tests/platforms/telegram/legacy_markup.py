"""The platform's first Markdown: four marks, not nested, escaped only outside of them."""

from __future__ import annotations

import re

from .html_markup import linked
from .markdown_markup import LANGUAGE
from .refusals import cant_parse
from .units import Entity, bytes_before, length

PLAIN = re.compile(r"(?:\\[_*`\[]|[^_*`\[])+")
ADDRESS = re.compile(r"\(([^)]*)\)?")
KINDS = {"*": "bold", "_": "italic", "`": "code", "```": "pre", "[": "text_link"}


def parse_legacy(source: str) -> tuple[str, list[Entity]]:
    """Return the text and the entities of a text with marks."""
    text, entities, place = "", list[Entity](), 0
    while place < len(source):
        if match := PLAIN.match(source, place):
            text += re.sub(r"\\([_*`\[])", r"\1", match[0])
            place = match.end()
            continue
        mark = "```" if source.startswith("```", place) else source[place]
        head = LANGUAGE.match(source, place) if mark == "```" else None
        begins = head.end() if head else place + 1
        ends = source.find("]" if mark == "[" else mark, begins)
        if ends < 0:
            raise cant_parse(f"Can't find end of the entity starting at byte offset {bytes_before(source, place)}")
        inside, place = source[begins:ends], ends + len(mark)
        more: Entity | None = {"language": head[1]} if head and head[1] else {}
        if mark == "[":
            address = ADDRESS.match(source, place)
            place = address.end() if address else place
            more = linked(address[1] if address else inside)
        if inside and more is not None:
            entities.append({"type": KINDS[mark], "offset": length(text), "length": length(inside)} | more)
        text += inside
    return text, entities
