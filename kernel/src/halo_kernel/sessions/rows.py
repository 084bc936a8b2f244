"""The row of a session: made, read and listed, always for a principal."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec.structs import replace

from .. import records, tables
from ..contracts import Tx, Value
from ..errors import BadInput, Conflict, NotFound
from ..inbox import check_open, gave_way, input_of, prepared, waiting
from ..journal import append, journal_of
from ..outbox import owe_replies
from ..questions import supersede
from ..records.storable import is_storable
from ..reports import is_quiescent, settle
from ..settings import SessionSettings

MAX_TITLE = 200
_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,119}")
_OWNED = ("id", "root", "parent", "agent", "access", "principal", "principal_kind", "origin")
NEW = (*_OWNED, "title", "directory", "created_at", "updated_at")
_RUN = "SELECT CASE waiting WHEN 0 THEN 'running' ELSE 'waiting' END FROM runs WHERE session = sessions.id"
_COLUMNS = {
    **{name: f"{name}_at IS NOT NULL" for name in ("stopped", "archived", "deleted")},
    **dict.fromkeys(("workspace", "folder"), "?"),
    "state": f"coalesce(({_RUN}), 'idle')",
    "marks": """CASE marks WHEN '' THEN '[]' ELSE '["' || replace(marks, ' ', '","') || '"]' END""",
}
_END = 1 << 62
Halt = Literal["stopped", "archived", "deleted"]
_Events = tuple[records.Event, ...]


def check_id(session: str) -> str:
    """Return `session` if it can name a session. Raises `BadInput`."""
    if not _ID.fullmatch(session):
        rule = "1 to 120 letters, digits, '_', '-', '.' or ':'; first a letter, digit or '_'"
        raise BadInput(f"a session id has {rule}", field="session")
    return session


def insert(tx: Tx, info: records.SessionInfo, *, journal: str, limits: SessionSettings) -> tuple[records.Event, ...]:
    """Make a session with its first event; an id that is taken gives no event. Raises `Conflict` beyond the limits."""
    if info.parent is not None:
        _check_family(tx, info.root, info.parent, limits)
    values = {**{name: getattr(info, name) for name in NEW}, "journal": journal}
    if not tables.insert(tx, "sessions", values, more="ON CONFLICT(id) DO NOTHING RETURNING id"):
        return ()
    body = records.SessionCreated(
        agent=info.agent, access=info.access, principal=info.principal, title=info.title, parent=info.parent
    )
    return append(tx, info.id, [body], at=info.created_at)


def rename(tx: Tx, session: str, title: str, *, at: int) -> tuple[records.Event, ...]:
    """Give a session a title that no message replaces. Raises `BadInput`."""
    title = " ".join(title.split())
    if not 1 <= len(title) <= MAX_TITLE or not is_storable(title):
        raise BadInput(f"title must be 1 to {MAX_TITLE} characters of text", field="title")
    tx.execute("UPDATE sessions SET title = ? WHERE id = ?", (title, session))
    return append(tx, session, [records.SessionTitled(title=title)], at=at)


def _check_family(tx: Tx, root: str, parent: str, limits: SessionSettings) -> None:
    """Raise `SessionClosed` when `parent` is archived, `Conflict` when its tree has no room for one more below it."""
    check_open(tx, parent)
    up = (
        "WITH RECURSIVE up(id) AS (SELECT ? UNION ALL SELECT s.parent FROM sessions s JOIN up ON s.id = up.id)"
        " SELECT count(id) FROM up"
    )
    alive = "archived_at IS NULL AND deleted_at IS NULL"
    below = f"SELECT count(*) FROM sessions WHERE root = ? AND parent IS NOT NULL AND {alive}"
    checks = (
        (limits.max_nesting_depth, up, parent, "Maximum nesting depth ({}) reached"),
        (limits.max_children, f"SELECT count(*) FROM sessions WHERE parent = ? AND {alive}", parent, "{} sessions"),
        (limits.max_descendants, below, root, "{} sessions below its root"),
    )
    for most, sql, of, what in checks:
        (count,) = tx.one(sql, (of,)) or (0,)
        if count >= most:
            raise Conflict(f"session {parent} can start no other: {what.format(most)}", advice="archive one first")


def move(tx: Tx, session: str, directory: str, *, at: int) -> tuple[records.Event, ...]:
    """Re-point a session to another directory of its workspace. Raises `Conflict` while it runs."""
    if tx.one("SELECT 1 FROM runs WHERE session = ?", (session,)) is not None:
        raise Conflict(f"session {session} is running", advice="wait until it rests, then move it")
    set_it = "UPDATE sessions SET directory = ? WHERE id = ? AND directory <> ? RETURNING id"
    if tx.one(set_it, (directory, session, directory)) is None:
        return ()
    return append(tx, session, [records.SessionMoved(directory=directory)], at=at)


def check_directory(workspace: records.WorkspaceInfo, directory: str) -> str:
    """Return `directory` relative to the workspace, '' for all of it. Raises `BadInput` unless it is a folder in it."""
    if not is_storable(directory):
        raise BadInput(f"{directory!r} has a name that is no text", field="directory")
    root = os.path.realpath(workspace.path)
    real = os.path.realpath(os.path.join(root, os.path.expanduser(directory)))
    if real != root and not real.startswith(root.rstrip(os.sep) + os.sep):
        raise BadInput(f"{directory} is outside the workspace {root}", field="directory")
    if not os.path.isdir(real):
        raise BadInput(f"{directory} is not a folder in the workspace {root}", field="directory")
    return "" if real == root else os.path.relpath(real, root)


def load(
    tx: Tx, session: str, *, workspace: records.WorkspaceInfo, principal: records.Principal | None = None
) -> records.SessionInfo:
    """Return a session, of `principal` if one is given. Raises `NotFound`, for a foreign one too."""
    for info in _found(tx, workspace, "id = ? AND deleted_at IS NULL", session):
        if principal is None or is_owner(principal, info):
            return info
    raise NotFound(f"there is no session {session} in this workspace")


def is_owner(principal: records.Principal, info: records.SessionInfo) -> bool:
    """Tell whether a session is a principal's."""
    return (principal.name, principal.kind) == (info.principal, info.principal_kind)


def newest(
    tx: Tx, *, workspace: records.WorkspaceInfo, principal: records.Principal, before: int | None, limit: int
) -> Sequence[records.SessionInfo]:
    """Return root sessions of `principal`, the last changed first; beyond `limit` those changed as late as the last.

    So that the next page, of what changed before that, begins where this one ends.
    """
    owner = (principal.name, principal.kind)
    roots = "principal = ? AND principal_kind = ? AND parent IS NULL AND deleted_at IS NULL"
    order = "ORDER BY updated_at DESC, id DESC LIMIT ?"
    until = _END if before is None else before
    found = _found(tx, workspace, f"{roots} AND updated_at < ? {order}", *owner, until, limit)
    if len(found) == limit:
        last = (found[-1].updated_at, found[-1].id)
        found += _found(tx, workspace, f"{roots} AND updated_at = ? AND id < ? {order}", *owner, *last, _END)
    return found


def children(tx: Tx, parent: records.SessionInfo, *, working: bool) -> Sequence[records.SessionInfo]:
    """Return the sessions right below one, oldest first; with `working` those that have not come to rest."""
    workspace = records.WorkspaceInfo(id=parent.workspace, path=parent.folder)
    found = _found(tx, workspace, "parent = ? AND deleted_at IS NULL ORDER BY created_at, id", parent.id)
    return [info for info in found if not (working and is_quiescent(tx, info.id))]


def changed(tx: Tx, workspace: records.WorkspaceInfo, since: int, after: str, limit: int) -> list[records.SessionInfo]:
    """Return sessions of all principals that changed since then, those whose ids come after `after`, by id."""
    news = "updated_at >= ? OR archived_at >= ? OR deleted_at >= ?"
    return _found(tx, workspace, f"id > ? AND ({news}) ORDER BY id LIMIT ?", after, since, since, since, limit)


def tree(tx: Tx, session: str) -> list[str]:
    """Return a session and all below it, parents first."""
    found = [session]
    for each in found:
        found += [str(name) for (name,) in tx.execute("SELECT id FROM sessions WHERE parent = ? ORDER BY id", (each,))]
    return found


def halt(tx: Tx, session: str, how: Halt, *, at: int) -> tuple[records.Event, ...]:
    """Stop, archive or delete a session; return what was journaled. Its active run is not touched.

    What waits goes into the history unanswered when it is stopped, else it is dropped, and what gave way to it is
    answered no more; a paused turn will end as cancelled. One that is deleted is found no more; its rows go later.
    """
    if how == "deleted":  # a turn that nobody runs has nobody to end it
        tx.execute("DELETE FROM runs WHERE session = ? AND (landed = 1 OR waiting > 0)", (session,))
    events = end_pause(tx, session, why=f"the session was {how}", at=at)
    tx.execute(f"UPDATE sessions SET {how}_at = coalesce({how}_at, ?) WHERE id = ?", (at, session))
    left = [input_of(row, prepared(row)) for row in waiting(tx, session)] if how == "stopped" else []
    state = "stopped" if how == "stopped" else "dropped"
    tx.execute("UPDATE inbox SET state = ? WHERE session = ? AND state IN ('waiting', 'held')", (state, session))
    for turn in gave_way(tx, session):
        tx.execute("UPDATE inbox SET state = ? WHERE session = ? AND turn = ?", (state, session, turn))
    reason: records.Settlement = "deleted" if how == "deleted" else "cancelled"
    owe_replies(tx, session, text=f"The session was {how}.", reason=reason, at=at)
    settle(tx, session, at=at)
    return events + (append(tx, session, left, at=at) if left else ())


def end_pause(tx: Tx, session: str, *, at: int, why: str = "the turn was cancelled") -> tuple[records.Event, ...]:
    """Settle what keeps a session's turn waiting, so that it ends as cancelled, whichever process has it."""
    tx.execute("UPDATE runs SET waiting = 2 WHERE session = ?", (session,))
    return supersede(tx, session, at=at, why=why)


def mark(tx: Tx, session: str, name: str) -> None:
    """Add a mark to a session. Raises `BadInput`."""
    if not re.fullmatch(r"[a-z0-9_.:-]{1,60}", name):
        raise BadInput("a mark has 1 to 60 of a-z, 0-9, '_', '.', ':' and '-'", field="name")
    row = tx.one("SELECT marks FROM sessions WHERE id = ?", (session,))
    names = sorted({*str(row[0] if row else "").split(), name})
    tx.execute("UPDATE sessions SET marks = ? WHERE id = ?", (" ".join(names), session))


def add(tx: Tx, session: str, event: records.Foreign, expect: int | None, state: str | None, *, at: int) -> _Events:
    """Add an event of a plugin, with what that knows about the session, as JSON. Raises `BadInput`, `Conflict`."""
    if not records.is_foreign(event.kind):
        raise BadInput(f"a plugin appends only kinds of its own, <plugin>.<noun>, not {event.kind!r}", field="kind")
    if expect not in (None, journal_of(tx, session)[1]):
        raise Conflict(f"the journal of {session} has gone on since event {expect}")
    if state is not None:
        values = {"session": session, "plugin": event.kind.partition(".")[0], "value": state}
        replaced = "ON CONFLICT(session, plugin) DO UPDATE SET value = excluded.value"
        tables.insert(tx, "plugin_state", values, more=replaced)
    return append(tx, session, [event], at=at)


def state_of(tx: Tx, session: str, plugin: str) -> object:
    """Return what `add` stored, None before."""
    row = tx.one("SELECT value FROM plugin_state WHERE session = ? AND plugin = ?", (session, plugin))
    return None if row is None else msgspec.json.decode(row[0])


def after(info: records.SessionInfo, event: records.Event) -> records.SessionInfo:
    """Return what lists show after `event`."""
    match event.body:
        case records.SessionTitled(title=title):
            info = replace(info, title=title)
        case records.SessionMoved(directory=directory):
            info = replace(info, directory=directory)
        case records.UsageRecorded(model=model, purpose="turn"):
            info = replace(info, model=model)
        case records.TurnStarted():
            info = replace(info, stopped=False, parked=False)
        case _:
            pass
    return replace(info, head=event.seq, updated_at=event.at)


def _found(tx: Tx, workspace: records.WorkspaceInfo, where: str, *args: Value) -> list[records.SessionInfo]:
    given = (workspace.id, workspace.path, *args)
    return tables.select(tx, records.SessionInfo, f"sessions WHERE {where}", given, json=("marks",), **_COLUMNS)
