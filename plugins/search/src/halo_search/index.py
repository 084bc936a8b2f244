"""The index of one workspace, in a database of its own: never truth, and made anew at any time.

It is FTS5 of SQLite, which keeps and ranks the tokens that `cutter` makes; it holds no text but titles.

What is written compares how far the session was indexed before, so that two processes that are at it do nothing twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pkgutil import get_data

from halo_kernel import Database, Host, Migration, SessionInfo, Tx, Value

from .cutter import EDITION
from .entries import Entry, Portion, title_entry

NAME = "search"
_MIGRATIONS = (Migration(version=1, sql=(get_data(__name__, "tables_1.sql") or b"").decode()),)


@dataclass(frozen=True, kw_only=True)
class Position:
    """How far a session is indexed, its title there, and whether it is there as archived."""

    seq: int
    title: str
    archived: bool


@dataclass(frozen=True, kw_only=True)
class Mark:
    """Up to when the index knows of all changes, and how often it was emptied."""

    since: int
    emptied: int


class Index:
    """What is kept of a workspace's sessions."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @classmethod
    async def open(cls, host: Host, workspace: str) -> Index:
        """Open a workspace's index, empty if another edition of the cutter made it."""
        database = await host.data.open(NAME, "workspace", _MIGRATIONS, workspace=workspace)
        await database.write(_set_up)
        return cls(database)

    async def positions(self, sessions: Sequence[SessionInfo]) -> Mapping[str, Position]:
        """Return how far sessions, which are in order of their ids, are indexed; those that are not are missing."""
        first, last = sessions[0].id, sessions[-1].id
        return await self.database.read(lambda tx: _positions(tx, first, last))

    async def enter(self, info: SessionInfo) -> int:
        """Know a session, its title, and whether it is archived; return how far it is indexed."""
        title = title_entry(info)
        return await self.database.write(lambda tx: _enter(tx, info, title))

    async def store(self, session: str, before: int, portion: Portion) -> bool:
        """Add a portion behind event `before`; false, and nothing is added, when that is not where the session is."""
        return await self.database.write(lambda tx: _store(tx, session, before, portion))

    async def remove(self, session: str) -> None:
        """Forget a session; its rows are gone from the files after `scrub`."""
        await self.database.write(lambda tx: _remove(tx, session))

    async def mark(self) -> Mark:
        """Return up to when all is known."""
        return await self.database.read(lambda tx: Mark(since=_progress(tx, "since"), emptied=_progress(tx, "emptied")))

    async def advance(self, mark: Mark, since: int) -> None:
        """All changes until then are known, unless the index was emptied since `mark`."""

        def write(tx: Tx) -> None:
            if _progress(tx, "emptied") == mark.emptied:
                _note(tx, "since", since)

        await self.database.write(write)

    async def empty(self) -> None:
        """Forget everything."""
        await self.database.write(_empty)

    async def scrub(self) -> None:
        """See that what was taken out is nowhere in the files, if anything was since the last time."""
        removed, scrubbed = await self.database.read(lambda tx: (_progress(tx, "removed"), _progress(tx, "scrubbed")))
        if removed == scrubbed:
            return
        await self.database.write(_merge)
        await self.database.scrub()
        await self.database.write(lambda tx: _note(tx, "scrubbed", removed))


def _progress(tx: Tx, name: str) -> int:
    row = tx.one("SELECT value FROM progress WHERE name = ?", (name,))
    return int(row[0]) if row else 0


def _note(tx: Tx, name: str, value: int) -> None:
    tx.execute(
        "INSERT INTO progress(name, value) VALUES (?, ?) ON CONFLICT(name) DO UPDATE SET value = excluded.value",
        (name, value),
    )


def _count(tx: Tx, name: str) -> None:
    _note(tx, name, _progress(tx, name) + 1)


def _set_up(tx: Tx) -> None:
    edition = _progress(tx, "edition")
    if edition not in (0, EDITION):
        _empty(tx)
    if edition != EDITION:
        _note(tx, "edition", EDITION)


def _empty(tx: Tx) -> None:
    tx.execute("INSERT INTO words(words) VALUES ('delete-all')")
    for table in ("entries", "sessions", "owners"):
        tx.execute(f"DELETE FROM {table}")
    _note(tx, "since", 0)
    _count(tx, "emptied")
    _count(tx, "removed")


def _merge(tx: Tx) -> None:
    """Write the tokens anew without those of entries that were taken out, which FTS5 only marks as gone."""
    tx.execute("INSERT INTO words(words) VALUES ('optimize')")


def _positions(tx: Tx, first: str, last: str) -> Mapping[str, Position]:
    rows = tx.execute("SELECT id, seq, title, archived FROM sessions WHERE id BETWEEN ? AND ?", (first, last))
    return {name: Position(seq=seq, title=title, archived=bool(flag)) for name, seq, title, flag in rows}


def _enter(tx: Tx, info: SessionInfo, title: Entry) -> int:
    owner = (info.principal, info.principal_kind)
    tx.execute("INSERT INTO owners(principal, kind) VALUES (?, ?) ON CONFLICT DO NOTHING", owner)
    row = tx.one(
        "INSERT INTO sessions(id, owner, title, archived)"
        " SELECT ?, number, ?, ? FROM owners WHERE principal = ? AND kind = ?"
        " ON CONFLICT(id) DO UPDATE SET title = excluded.title, archived = excluded.archived"
        " RETURNING number, owner, seq",
        (info.id, info.title, int(info.archived), *owner),
    )
    number, owned, seq = row or (0, 0, 0)
    _take_out(tx, "session = ? AND seq = 0", number)
    if title.tokens:
        _add(tx, owned, number, title)
    return int(seq)


def _store(tx: Tx, session: str, before: int, portion: Portion) -> bool:
    row = tx.one(
        "UPDATE sessions SET seq = ? WHERE id = ? AND seq = ? RETURNING number, owner", (portion.upto, session, before)
    )
    if row is None:
        return False
    number, owner = int(row[0]), int(row[1])
    for entry in portion.entries:
        _add(tx, owner, number, entry)
    for start, end in portion.gone:
        _take_out(tx, "session = ? AND seq BETWEEN ? AND ?", number, start, end)
        _count(tx, "removed")
    return True


def _add(tx: Tx, owner: int, session: int, entry: Entry) -> None:
    place = (session, entry.seq)
    tx.execute("INSERT INTO entries(session, seq, at, kind) VALUES (?, ?, ?, ?)", (*place, entry.at, entry.kind))
    tx.execute(
        "INSERT INTO words(rowid, tokens) SELECT number, ? FROM entries WHERE session = ? AND seq = ?",
        (" ".join(f"{owner}_{token}" for token in entry.tokens), *place),
    )


def _take_out(tx: Tx, where: str, *args: Value) -> None:
    tx.execute(f"DELETE FROM words WHERE rowid IN (SELECT number FROM entries WHERE {where})", args)
    tx.execute(f"DELETE FROM entries WHERE {where}", args)


def _remove(tx: Tx, session: str) -> None:
    row = tx.one("DELETE FROM sessions WHERE id = ? RETURNING number", (session,))
    if row is not None:
        _take_out(tx, "session = ?", int(row[0]))
        _count(tx, "removed")
