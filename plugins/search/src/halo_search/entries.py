"""What of a session's events can be found: what people see of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from halo_kernel import ContextErased, Event, ExchangeDeleted, Item, SessionInfo, View

from .cutter import cut, tokens

TITLE = "title"
_LONGEST = 100_000
_SHORT = 200
_PORTION = 200_000


def said(event: Event) -> tuple[str, str]:
    """Return what people see of an event, and as what: user, assistant, tool or notice; nothing is ''.

    Of a tool's call it is the name and short arguments, of its result nothing; of a long text its beginning.
    """
    view = View()
    view.apply(event)
    shown = [(item.kind, text) for item in view.items.values() if (text := _shown(item))]
    kind = next((kind for kind, _ in shown if kind != "tool"), "tool")
    return "\n".join(text for _, text in shown)[:_LONGEST], kind


def _shown(item: Item) -> str:
    if item.kind != "tool":
        return item.text
    short = [value for value in item.arguments.values() if isinstance(value, str) and len(value) <= _SHORT]
    return " ".join([item.name, *short]).strip()


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What is found as one: an event, or, as event 0, a session's title."""

    seq: int
    at: int
    kind: str
    tokens: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Portion:
    """What a stretch of a session's events up to `upto` adds to the index, and ranges that it takes out."""

    entries: Sequence[Entry]
    gone: Sequence[tuple[int, int]]
    upto: int


def title_entry(info: SessionInfo) -> Entry:
    """Return a session's title as it is found."""
    return Entry(seq=0, at=info.created_at, kind=TITLE, tokens=tokens(cut(info.title)))


def portions(events: Sequence[Event]) -> Iterator[Portion]:
    """Yield events as what they add, in portions of at most so much text, but for a single one."""
    entries: list[Entry] = []
    gone: list[tuple[int, int]] = []
    size = 0
    for event in events:
        text, kind = said(event)
        if isinstance(event.body, ContextErased | ExchangeDeleted):
            gone.append((event.body.start, event.body.end))
        if found := tokens(cut(text)):
            entries.append(Entry(seq=event.seq, at=event.at, kind=kind, tokens=found))
        size += len(text)
        if size >= _PORTION or event is events[-1]:
            yield Portion(entries=entries, gone=gone, upto=event.seq)
            entries, gone, size = [], [], 0
