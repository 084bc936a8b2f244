"""Asking the index: what matches, of one principal only, best first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from halo_kernel import BadInput, Principal, Tx

from .query import Query

_RANKED = 50_000  # matches that are ranked, the last ones indexed: what bounds the time of a query
_DEEPEST = 10_000
_MONTH = 30 * 86_400_000.0
_CURSOR = re.compile(r"([0-9]{1,15})\.([0-9]{1,15})\.([0-9]{1,5})")
_WEIGHTS = {"title": 3.0, "user": 2.0, "assistant": 1.5}
# Of two equal matches what is new counts up to twice as much as what is old. Half of it is gone after a month.
_SELECT = f"""
SELECT s.id, e.seq, s.archived, s.title, e.kind, e.at
FROM (
    SELECT rowid AS number, -bm25(words) AS fit FROM words WHERE words MATCH ? AND rowid <= ?
    ORDER BY rowid DESC LIMIT {_RANKED}
) f
JOIN entries e ON e.number = f.number
JOIN sessions s ON s.number = e.session
ORDER BY f.fit * CASE e.kind {" ".join(f"WHEN '{kind}' THEN {weight}" for kind, weight in _WEIGHTS.items())} ELSE 1 END
    * (1 + 1 / (1 + max(0, ? - e.at) / {_MONTH})) DESC, e.at DESC, s.id DESC, e.seq DESC
LIMIT ? OFFSET ?"""


@dataclass(frozen=True, kw_only=True)
class Cursor:
    """Where a page begins: behind so many matches of the first `upto` entries, ranked as of `now`, UTC milliseconds."""

    now: int
    upto: int = 10**15 - 1
    behind: int = 0

    def __str__(self) -> str:
        return f"{self.now}.{self.upto}.{self.behind}"


def parse_cursor(text: str) -> Cursor:
    """Read a cursor. Raises `BadInput` for what this plugin did not give out."""
    found = _CURSOR.fullmatch(text)
    if found is None or int(found[3]) > _DEEPEST:
        raise BadInput(f"after must be the `next` of an answer, not {text[:80]!r}", field="after")
    return Cursor(now=int(found[1]), upto=int(found[2]), behind=int(found[3]))


@dataclass(frozen=True, kw_only=True)
class Match:
    """An event that matches."""

    session: str
    seq: int
    archived: bool
    title: str
    kind: str
    at: int


def find(
    tx: Tx, query: Query, principal: Principal, *, cursor: Cursor, limit: int
) -> tuple[Sequence[Match], Cursor | None]:
    """Return what of the principal's sessions matches, best first, and where the next page begins, None at the end."""
    owner = tx.one("SELECT number FROM owners WHERE principal = ? AND kind = ?", (principal.name, principal.kind))
    newest = tx.one("SELECT max(number) FROM entries")
    if owner is None or newest is None or newest[0] is None:
        return (), None
    upto, behind = min(cursor.upto, int(newest[0])), cursor.behind + limit
    rows = tx.execute(_SELECT, (query.expression(int(owner[0])), upto, cursor.now, limit + 1, cursor.behind))
    found = [
        Match(session=session, seq=seq, archived=bool(archived), title=title, kind=kind, at=at)
        for session, seq, archived, title, kind, at in rows
    ]
    is_more = len(found) > limit and behind <= _DEEPEST
    return found[:limit], Cursor(now=cursor.now, upto=upto, behind=behind) if is_more else None
