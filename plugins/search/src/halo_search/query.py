"""What somebody asks for, read from one line of text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from halo_kernel import BadInput

from .cutter import Item, cut, shortened, tokens

LONGEST = 200
_SHORTEST_BEGINNING = 2
_PART = re.compile(r"(?P<without>-?)(?:\"(?P<quoted>[^\"]*)\"|“(?P<curly>[^”]*)”|(?P<bare>\S+))")


@dataclass(frozen=True, kw_only=True)
class Phrase:
    """Items that follow one another. With `beginning`, the last one, a word, is only how one begins."""

    items: Sequence[Item]
    beginning: bool = False

    def expression(self, owner: int) -> str:
        """Return the phrase as FTS5 looks for it in one owner's texts."""
        is_open = self.beginning or self.items[-1].lone
        found = shortened(self.items) if is_open else tokens(self.items)
        return '"' + " ".join(f"{owner}_{token}" for token in found) + '"' + ("*" if is_open else "")

    def spans(self, items: Sequence[Item]) -> Iterator[tuple[int, int]]:
        """Yield where the phrase is in the text that was cut into `items`."""
        count = len(self.items)
        for at in range(len(items) - count + 1):
            if all(self._fits(number, items[at + number]) for number in range(count)):
                yield items[at].start, items[at + count - 1].end

    def _fits(self, number: int, item: Item) -> bool:
        mine = self.items[number]
        if number == len(self.items) - 1 and self.beginning:
            return item.text.startswith(mine.text) and not item.lone
        return item.text == mine.text and (number == 0 or item.glued == mine.glued)


@dataclass(frozen=True, kw_only=True)
class Query:
    """Phrases that a text must all have, and those of which it must have none."""

    wanted: Sequence[Phrase]
    unwanted: Sequence[Phrase]

    def expression(self, owner: int) -> str:
        """Return the query as FTS5 looks for it in one owner's texts."""
        wanted = " AND ".join(phrase.expression(owner) for phrase in self.wanted)
        unwanted = " OR ".join(phrase.expression(owner) for phrase in self.unwanted)
        return f"({wanted}) NOT ({unwanted})" if unwanted else wanted


def parse_query(text: str) -> Query:
    """Read a query: words, "phrases", and -words that must not be there; the last word may be only begun.

    Raises `BadInput` for one that is too long or names nothing to look for.
    """
    if not text.strip():
        raise BadInput("q must not be empty", field="q", advice="name a word to look for")
    if len(text) > LONGEST:
        raise BadInput(f"q must have at most {LONGEST} characters, not {len(text)}", field="q")
    parts = list(_PART.finditer(text))
    read = [(bool(part["without"]), _phrase(part, last=part is parts[-1])) for part in parts]
    known = [(without, phrase) for without, phrase in read if phrase]
    wanted = [phrase for without, phrase in known if not without]
    if not known:
        raise BadInput("q must have a letter, a digit or an emoji: signs are not looked for", field="q")
    if not wanted:
        raise BadInput("q must name a word to find beside those that it leaves out", field="q")
    return Query(wanted=wanted, unwanted=[phrase for without, phrase in known if without])


def _phrase(part: re.Match[str], *, last: bool) -> Phrase | None:
    items = cut(part["bare"] or part["quoted"] or part["curly"] or "")
    if not items:
        return None
    is_word = bool(part["bare"]) and not part["without"] and not items[-1].lone
    return Phrase(items=items, beginning=last and is_word and len(items[-1].text) >= _SHORTEST_BEGINNING)
