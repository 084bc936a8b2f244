"""What a person wants, clause by clause, in English and Chinese."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from . import chinese, english
from .clause import Kind

Language = Literal["en", "zh"]


@dataclass(frozen=True)
class Wish:
    """One thing to do. `targets` are files, folders or, for a search, texts; none means the folder itself."""

    kind: Kind
    targets: tuple[str, ...] = ()
    within: str = ""
    recursive: bool = False


# Names and quoted texts are swapped for a private-use character each before a sentence is taken apart.
_FIRST, _LAST = 0xE000, 0xF8FF
_TOKEN = r"[\ue000-\uf8ff]"
_QUOTED = re.compile(
    r"\"([^\"\n]+)\"|`([^`\n]+)`|“([^”\n]+)”|‘([^’\n]+)’|「([^」\n]+)」|『([^』\n]+)』|《([^》\n]+)》"
    r"|(?<![\w'])'([^'\n]+)'(?!\w)"
)
_ENDS = re.compile(r"[?？!！;；。，\n]+|[.…](?=\s|$)")
_JOINED = re.compile(r"\s*(?:,|，|、|&|\band\b|\bor\b|以及|还有|和|与|跟|或)\s*")
_ONLY_NAMES = re.compile(rf"{_TOKEN}(?:(?:{_JOINED.pattern}|\s+){_TOKEN})*")
_LONGEST_CLAUSE = 400
_EDGES = " \t.,:：,、~()（）[]"
_CJK = re.compile(r"[\u3400-\u9fff]")
_LATIN_WORD = re.compile(r"[A-Za-z][A-Za-z']*")
_FILE_LIKE = re.compile(r"(?<![^\s\"'`“‘「，。：,])[^\s\"'`“”‘’「」，。：,?？]*\.[A-Za-z0-9]{1,8}(?![A-Za-z0-9])")
_SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,8}(?![A-Za-z0-9])")
_POLITE = re.compile(f"(?:{english.POLITE}|{chinese.POLITE})+", re.IGNORECASE)


@dataclass(frozen=True)
class Masked:
    """A text whose names are single characters; `names` holds them in that order."""

    text: str
    names: tuple[str, ...]

    def open(self, text: str) -> str:
        """Put the names back."""
        return "".join(
            self.names[ord(char) - _FIRST] if 0 <= ord(char) - _FIRST < len(self.names) else char for char in text
        )


def mask(text: str, known: Iterable[str] = ()) -> Masked:
    """Swap the known names and the quoted parts of `text` for single characters, longest names first."""
    names: list[str] = []

    def swap(name: str) -> str:
        names.append(name)
        return chr(_FIRST + len(names) - 1)

    masked = "".join(char for char in text if not _FIRST <= ord(char) <= _LAST)
    for flags in (re.NOFLAG, re.IGNORECASE):
        for name in sorted(filter(_is_distinct, known), key=len, reverse=True):
            pattern = _mention(name, flags)
            if pattern.search(masked) and len(names) < _LAST - _FIRST:
                masked = pattern.sub(swap(name), masked)
    quoted = _QUOTED.sub(lambda match: swap(next(filter(None, match.groups()))), masked)
    return Masked(quoted, _opened(names))


def find_wishes(masked: Masked) -> tuple[Wish, ...]:
    """Take a text apart into wishes; what asks for something else is a wish of kind `other`."""
    found: list[Wish] = []
    for clause in _clauses(masked.text):
        if _ONLY_NAMES.fullmatch(clause):
            kind = found[-1].kind if found and found[-1].kind in ("read", "search") else "about"
            wish: Wish | None = Wish(kind, _targets(masked, clause))
        else:
            wish = _understand(masked, clause)
        if wish and wish not in found:
            found.append(wish)
    return tuple(found)


def mentions_file(text: str) -> bool:
    """Tell whether something in `text` looks like a file's name."""
    return _SUFFIX.search(text) is not None


def language_of(masked: Masked) -> Language:
    """Return the language of what is not a name: Chinese when it has more Chinese signs than Latin words."""
    text = _FILE_LIKE.sub(" ", masked.text)
    return "zh" if len(_CJK.findall(text)) > len(_LATIN_WORD.findall(text)) else "en"


def split_names(target: str) -> tuple[str, ...]:
    """Split `a and b` and the like into its parts; a single name stays alone."""
    return tuple(part for part in _JOINED.split(target) if part)


def _is_distinct(name: str) -> bool:
    """Tell whether a name cannot be an ordinary word of the sentence."""
    return bool(re.search(r"[.\s_\-'\"/0-9]|[A-Z].*[A-Z]", name))


def _mention(name: str, flags: re.RegexFlag) -> re.Pattern[str]:
    before = r"(?<![A-Za-z0-9_./\\-])" if name[0].isascii() else ""
    after = r"(?![A-Za-z0-9_-]|\.[A-Za-z0-9])" if name[-1].isascii() else ""
    return re.compile(rf"{before}(?:\./)?{re.escape(name)}/?{after}", flags)


def _opened(names: Sequence[str]) -> tuple[str, ...]:
    """Open names inside quoted parts, which were swapped before the quotes around them were seen."""
    found: list[str] = []
    for name in names:
        found.append(Masked("", tuple(found)).open(name))
    return tuple(found)


def _clauses(text: str) -> Iterator[str]:
    for sentence in _ENDS.split(text):
        for part in _split_verbs(sentence):
            clause = part.strip(_EDGES)
            if polite := _POLITE.match(clause):
                clause = clause[polite.end() :].strip(_EDGES)
            if clause:
                yield clause


def _split_verbs(sentence: str) -> list[str]:
    parts = [part for piece in english.split(sentence, _TOKEN) for part in chinese.split(piece, _TOKEN)]
    return [part for part in parts if part.strip(_EDGES)]


def _understand(masked: Masked, clause: str) -> Wish | None:
    for rules in (english, chinese):
        if len(clause) > _LONGEST_CLAUSE:
            break
        if rules.FILLER.fullmatch(clause):
            return None
        for kind, pattern in rules.RULES:
            match = pattern.fullmatch(clause)
            if match:
                return _wish(masked, kind, match.groupdict(), clause)
    return Wish("other", (masked.open(clause),))


def _wish(masked: Masked, kind: Kind, groups: dict[str, str | None], clause: str) -> Wish | None:
    target, within = groups.get("t") or "", _place(groups.get("w") or "")
    if kind in ("other", "help"):
        return Wish(kind, (masked.open(clause),))
    if kind == "search":
        wish = Wish("search", _targets(masked, target.strip(_EDGES)), masked.open(within))
        return wish if wish.targets else Wish("other", (masked.open(clause),))
    recursive = bool(english.RECURSIVE.search(clause) or chinese.RECURSIVE.search(clause))
    place = within if kind == "list" else _place(target)
    return replace(Wish(kind, _targets(masked, place)), recursive=recursive and kind == "list")


def _place(text: str) -> str:
    """Return what a phrase such as `the folder src` names; empty for the workspace itself."""
    text = text.strip(_EDGES)
    for rules in (english, chinese):
        if rules.HERE.fullmatch(text):
            return ""
        text = rules.AROUND.sub("", text).strip(_EDGES)
    return text


def _targets(masked: Masked, text: str) -> tuple[str, ...]:
    if not text:
        return ()
    names: list[str] = re.findall(_TOKEN, text)
    if names and not mentions_file(re.sub(_TOKEN, " ", text)):
        return tuple(masked.open(name) for name in names)
    return (masked.open(text),)
