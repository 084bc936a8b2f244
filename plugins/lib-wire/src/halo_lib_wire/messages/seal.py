"""How the blocks of an answer lay, kept in the opaque signature of its thinking, so that they can go back as they came.

An answer may hold several signed or redacted thinking blocks, between texts, and calls with ids of the server's own.
The kernel's records hold one thinking, one text and its own ids; the server wants its blocks back complete and
unmodified.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct


class Signed(Struct, frozen=True, tag="thinking", tag_field="type"):
    """The next `chars` characters of the thinking, and the server's signature of them."""

    chars: int
    signature: str


class Redacted(Struct, frozen=True, tag="redacted_thinking", tag_field="type"):
    """Thinking that only the server can read."""

    data: str


class Said(Struct, frozen=True, tag="text", tag_field="type"):
    """The next `chars` characters of the text."""

    chars: int


class Called(Struct, frozen=True, tag="tool_use", tag_field="type"):
    """The next call, and the server's id of it."""

    id: str


Part = Signed | Redacted | Said | Called


class Seal(Struct, frozen=True):
    """The blocks of one answer in order. `issuer` is who gave it: nobody else can make use of its signatures."""

    issuer: str
    parts: tuple[Part, ...]

    def text(self) -> str:
        """Return the seal as a signature."""
        return msgspec.json.encode(self).decode()

    @property
    def calls(self) -> Sequence[str]:
        """The server's ids of the calls."""
        return [part.id for part in self.parts if isinstance(part, Called)]

    def fits(self, thinking: str, text: str) -> bool:
        """Tell whether the answer still has the length that it came with; one that was altered cannot go back."""
        return len(thinking) == sum(part.chars for part in self.parts if isinstance(part, Signed)) and len(text) == sum(
            part.chars for part in self.parts if isinstance(part, Said)
        )

    def blocks(self, thinking: str, text: str) -> Iterator[dict[str, object]]:
        """Yield the thinking and text blocks as the server sent them, without what it refuses: unsigned, blank."""
        thought = said = 0
        for part in self.parts:
            match part:
                case Signed(chars, signature):
                    piece, thought = thinking[thought : thought + chars], thought + chars
                    if signature:
                        yield {"type": "thinking", "thinking": piece, "signature": signature}
                case Redacted(data):
                    yield {"type": "redacted_thinking", "data": data}
                case Said(chars):
                    piece, said = text[said : said + chars], said + chars
                    if piece.strip():
                        yield {"type": "text", "text": piece}
                case Called():
                    pass


def read_seal(signature: str | None, *, issuer: str) -> Seal | None:
    """Return the seal in a signature; None for one of another issuer, or of another wire."""
    try:
        seal = msgspec.json.decode(signature or "", type=Seal)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    return seal if seal.issuer == issuer else None
