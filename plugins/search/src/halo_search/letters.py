"""Letters as they are compared: without case, width and composition, and which of them stand alone.

A text is folded letter by letter (a character with the marks on it), so that every folded character knows its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal
from unicodedata import category, decomposition, normalize

Kind = Literal["word", "lone", "sign"]

_MARKS = "\u0300-\u036f\u0483-\u0487\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\u3099\u309a\ufe20-\ufe2f"
_JAMO = "\u1100-\u11ff\ua960-\ua97f\ud7b0-\ud7ff"
# At most eight marks make a letter: what puts them in order takes the square of their number.
_LETTER = re.compile(
    rf"(?P<word>[A-Za-z0-9]+(?![{_MARKS}]))"
    rf"|(?P<lone>[\u3041-\u3096\u30a1-\u30fa\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3]+(?![{_MARKS}\uff9e\uff9f]))"
    r"|[\u1100-\u115f][\u1160-\u11a7][\u11a8-\u11ff]?"
    rf"|[\s\S][{_MARKS}\uff9e\uff9f]{{0,8}}"
)
# Marks that no letter took, parts of Hangul that make no syllable, and what is never seen.
_NOTHING = re.compile(
    rf"[{_MARKS}{_JAMO}\u00ad\u034f\u061c\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# Scripts without spaces between words, Hangul, whose words change at their ends, and emoji but for what colours them.
_LONE = re.compile(
    "[\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u303b\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff"
    "\u3105-\u312f\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua48c\uac00-\ud7a3\uf900-\ufaff"
    "\U00016fe0-\U00018cff\U0001aff0-\U0001b2ff\U00020000-\U0003ffff"
    "\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001f3fa\U0001f400-\U0001faff"
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u0edc-\u0edf\u1000-\u103f\u104c-\u109d\u1780-\u17d3]"
)
_NARROW = {
    code: chr(int(decomposition(chr(code)).split()[1], 16))
    for code in range(0xFFA1, 0xFFDD)
    if decomposition(chr(code))
}


def fold(text: str) -> Iterator[tuple[str, int, int, Kind | None]]:
    """Yield the letters of a text as they are compared, each with where it begins and ends, and its kind if all are it.

    A letter may fold to several characters, or to none. Those that change in nothing but case come several at once.
    """
    for found in _LETTER.finditer(text):
        letter, start, end = found[0], found.start(), found.end()
        match found.lastgroup:
            case "word":
                yield letter.lower(), start, end, "word"
            case "lone":
                yield letter, start, end, "lone"
            case _:
                yield _folded(letter), start, end, None


@lru_cache(maxsize=1 << 14)
def _folded(letter: str) -> str:
    if "\u3131" <= (wide := letter.translate(_NARROW)) <= "\u318e":  # a jamo on its own, which NFKC would take apart
        return _NOTHING.sub("", wide)
    for _ in range(2):
        letter = normalize("NFKC", letter).casefold()
    return _NOTHING.sub("", normalize("NFKC", letter))


@lru_cache(maxsize=1 << 14)
def kind_of(character: str) -> Kind:
    """Tell whether a folded character is part of a word, stands alone as those of Chinese do, or is a sign between."""
    if _LONE.fullmatch(character):
        return "lone"
    return "word" if category(character)[0] in "LMN" else "sign"
