"""Cutting text into what can be looked for: words, and the characters of scripts that have no spaces."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple
from unicodedata import unidata_version

from .letters import fold, kind_of

# Of what a text is cut into: an index that another edition made is made anew.
EDITION = 1_000_000 + int(unidata_version.replace(".", ""))
LONGEST_TOKEN = 64
_ASCII = re.compile("[A-Za-z0-9]+")


class Item(NamedTuple):
    """A word, or a character that stands alone, folded, with where it was in the text.

    `glued` is one that follows another such character with nothing between them.
    """

    text: str
    start: int
    end: int
    lone: bool = False
    glued: bool = False


class _Cutting:
    """The items so far, and the word that has begun."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self._word: list[str] = []
        self._start = self._end = 0
        self._glued = False  # whether a lone character that comes now follows another one

    def add(self, letters: str, start: int, end: int) -> None:
        """Go on a word."""
        if not self._word:
            self._start = start
        self._word.append(letters)
        self._end = end
        self._glued = False

    def stand(self, characters: str, start: int, end: int) -> None:
        """Take a character that stands alone, or several, each in its place."""
        self.pause(glued=self._glued)
        step = len(characters) == end - start
        for at, character in enumerate(characters):
            place = (start + at, start + at + 1) if step else (start, end)
            self.items.append(Item(character, *place, True, self._glued))
            self._glued = True

    def pause(self, *, glued: bool = False) -> None:
        """End the word that has begun."""
        if self._word:
            self.items.append(Item("".join(self._word), self._start, self._end))
            self._word = []
        self._glued = glued


def cut(text: str) -> list[Item]:
    """Return the items of a text, in order."""
    if text.isascii():  # which most is, and is twice as fast so
        return [Item(word[0].lower(), word.start(), word.end()) for word in _ASCII.finditer(text)]
    cutting = _Cutting()
    for letters, start, end, kind in fold(text):
        for part in (letters,) if kind else letters:
            match kind or kind_of(part):
                case "word":
                    cutting.add(part, start, end)
                case "lone":
                    cutting.stand(part, start, end)
                case "sign":
                    cutting.pause()
    cutting.pause()
    return cutting.items


def tokens(items: Sequence[Item]) -> list[str]:
    """Return what an index holds of items, in order: words, and of characters that stand alone each with its next.

    The last of a row of such characters is there by itself, so every one of them begins a token.
    """
    return [
        item.text + follower.text if follower and follower.glued else item.text[:LONGEST_TOKEN]
        for item, follower in zip(items, [*items[1:], None], strict=False)
    ]


def shortened(items: Sequence[Item]) -> list[str]:
    """Return the tokens that tell of items in a text in which more may follow: the last one is how a token begins.

    A last character that stands alone, behind another one, is left to the token of the two: that is rarer.
    """
    found = tokens(items)
    return found[:-1] if items[-1].glued else found
