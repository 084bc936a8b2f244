"""Letters as people see them: where a text may be cut, and how long and how wide it is."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

_HAN = "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
CJK = re.compile(f"[{_HAN}\uac00-\ud7a3]")

_LONGEST = 64  # code points in what is kept together; longer ones are somebody's mischief
_JOINER = "\u200d"
_JOINING = ("Mn", "Me", "Mc")
_PLAIN = re.compile(r"[\x20-\x7e\n]")
_CLOSING = "、。，．！？：；）」』】》〉”’…ー"
_STOP = re.compile(
    r"(?<=[.!?…])\s+|(?<=[.!?…][\"'’”)\]])\s+"
    r"|[。！？；](?![。！？；”’」』）】》])|(?<=[。！？；])[”’」』）】》]"
)
_GAP = re.compile(rf"\s+|[{_HAN}，、：](?![{_CLOSING}\s])")


def utf16_length(text: str) -> int:
    """Count the UTF-16 code units of a text, which is what Telegram's limits and offsets count."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def utf8_length(text: str) -> int:
    """Count the bytes of a text in UTF-8."""
    return len(text.encode("utf-8", "surrogatepass"))


def width(text: str) -> int:
    """Count the columns that a text takes in a font of fixed width."""
    if text.isascii():
        return len(text)
    return sum(_columns(each) for each in text)


def _columns(letter: str) -> int:
    if letter == _JOINER or unicodedata.category(letter) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def sentences(source: str, start: int, end: int) -> Iterator[int]:
    """Yield the places between `start` and `end` where a sentence has ended."""
    return _after(_STOP, source, start, end)


def words(source: str, start: int, end: int) -> Iterator[int]:
    """Yield the places between `start` and `end` where a line may end: after spaces, between Chinese letters."""
    return _after(_GAP, source, start, end)


def _after(pattern: re.Pattern[str], source: str, start: int, end: int) -> Iterator[int]:
    for match in pattern.finditer(source, start, end):
        if start < match.end() < end and is_boundary(source, match.end()):
            yield match.end()


def boundaries(source: str, start: int, end: int, step: int) -> Iterator[int]:
    """Yield places between `start` and `end` where a letter ends, each at least `step` characters after the last."""
    at = start + step
    while at < end:
        last = min(at + _LONGEST, end)
        while at < last and not is_boundary(source, at):
            at += 1
        if splits_pair(source, at):
            at += 1
        if at >= end:
            return
        yield at
        at += step


def is_boundary(source: str, at: int) -> bool:
    """Say whether a cut at `at` keeps combined letters, emoji, flags, surrogate pairs and CR LF whole."""
    if at <= 0 or at >= len(source):
        return True
    before, after = source[at - 1], source[at]
    if _PLAIN.match(after):
        return before != _JOINER and (before, after) != ("\r", "\n")
    return not (
        before == _JOINER
        or _extends(after)
        or splits_pair(source, at)
        or (_is_flag(before) and _is_flag(after) and _flags_before(source, at) % 2 == 1)
        or (_is_korean(before) and _is_jamo(after))
        or (unicodedata.combining(before) == 9 and unicodedata.category(after) == "Lo")  # an Indic conjunct
    )


def _extends(letter: str) -> bool:
    return (
        letter == _JOINER
        or unicodedata.category(letter) in _JOINING
        or "\U0001f3fb" <= letter <= "\U0001f3ff"  # the colour of a skin
        or "\U000e0020" <= letter <= "\U000e007f"  # tags, in the flags of regions
        or letter in "\u0e33\u0eb3\uff9e\uff9f"
    )


def splits_pair(source: str, at: int) -> bool:
    """Say whether the halves of a surrogate pair, which some texts have, lie around a place."""
    return 0 < at < len(source) and "\ud800" <= source[at - 1] <= "\udbff" and "\udc00" <= source[at] <= "\udfff"


def _is_flag(letter: str) -> bool:
    return "\U0001f1e6" <= letter <= "\U0001f1ff"


def _flags_before(source: str, at: int) -> int:
    """Count the letters of flags before a place, no further back than anybody means."""
    count = 0
    while count < min(at, 2 * _LONGEST) and _is_flag(source[at - 1 - count]):
        count += 1
    return count


def _is_korean(letter: str) -> bool:
    return _is_jamo(letter) or "\uac00" <= letter <= "\ud7a3"


def _is_jamo(letter: str) -> bool:
    return "\u1100" <= letter <= "\u11ff" or "\ua960" <= letter <= "\ua97c" or "\ud7b0" <= letter <= "\ud7fb"
