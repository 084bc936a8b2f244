"""Leases: who may write what. A row in the database that it guards, held by a member that lives as long as its lock.

A member is one open database of one process. Its lock is an `flock` on a file of its own, so death frees at once and
slowness frees nothing. The epoch of a lease grows with every holder and is compared inside each guarded write.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from .contracts import Clock, Database, Tx
from .errors import LeaseHeld, LeaseLost, StorageUnavailable

TABLES = """
CREATE TABLE IF NOT EXISTS members(
    id TEXT PRIMARY KEY, host TEXT NOT NULL, pid INTEGER NOT NULL, started INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS leases(name TEXT PRIMARY KEY, member TEXT, epoch INTEGER NOT NULL);
"""
_held: set[int] = set()  # the descriptors of this process's locks


class MemberLock:
    """The lock file of one member, held until `leave`. Nobody knows its name before: `join` makes it, a claim tells."""

    def __init__(self, folder: Path, member: str) -> None:
        import fcntl  # absent on Windows, where databases are opened alone and no member needs a lock

        self.path = folder / member
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, folder.stat().st_mode & 0o666)
        _held.add(self._descriptor)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def leave(self) -> None:
        """Remove the file and give the lock back."""
        with suppress(OSError):
            self.path.unlink()
        if self._descriptor in _held:
            _held.remove(self._descriptor)
            os.close(self._descriptor)


def _drop_locks() -> None:
    """Close all in a forked child, which would keep them beyond its parent's death."""
    while _held:
        os.close(_held.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drop_locks)


def is_alive(path: Path) -> bool:
    """Tell whether a living process holds the member's lock file; a dead one's file is removed."""
    import fcntl

    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: many may look at once
    except OSError as error:
        return not isinstance(error, FileNotFoundError)  # locked, or not ours to look at and so not ours to judge
    with suppress(OSError):
        path.unlink()
    return False


class Member(NamedTuple):
    """One open database of one process, as the others see it."""

    id: str
    host: str
    pid: int
    started: int


@dataclass(frozen=True, kw_only=True)
class HeldLease:
    """A lease that was taken; two of the same member and epoch are equal, and releasing one releases both."""

    name: str
    epoch: int
    member: str
    database: Database = field(compare=False, repr=False)

    def check(self, tx: Tx) -> None:
        """Raise `LeaseLost` unless the lease is still ours."""
        row = tx.one("SELECT member, epoch FROM leases WHERE name = ?", (self.name,))
        if row != (self.member, self.epoch):
            raise LeaseLost(f"The lease {self.name!r} was taken over by another process; nothing was written.")

    async def release(self) -> None:
        """Give it back; harmless when it is lost already."""
        await self.database.write(self._free)

    def _free(self, tx: Tx) -> None:
        tx.execute(
            "UPDATE leases SET member = NULL WHERE name = ? AND member = ? AND epoch = ?",
            (self.name, self.member, self.epoch),
        )


def describe(tx: Tx, member: str) -> str:
    """Return who a member is, for people."""
    row = tx.one("SELECT pid, host FROM members WHERE id = ?", (member,))
    return f"process {row[0]} on {row[1]}" if row else "an unknown process"


def forget(tx: Tx, member: str) -> None:
    """Free what a member holds and remove it. A dead one stays dead: no id is used twice."""
    tx.execute("UPDATE leases SET member = NULL WHERE member = ?", (member,))
    tx.execute("DELETE FROM members WHERE id = ?", (member,))


class Leases:
    """Takes leases for one open database. `alone`: no other process can have it open, so every other member is dead."""

    def __init__(self, database: Database, folder: Path, *, clock: Clock, alone: bool) -> None:
        self._database = database
        self._folder = folder
        self._clock = clock
        self._alone = alone
        self._lock: MemberLock | None = None
        self._member: Member | None = None

    def _join(self) -> Member:
        """Return our member, made and locked if we have none. Within writes, so that nobody leaves meanwhile."""
        if self._member is not None:
            return self._member
        member = Member(self._clock.new_id(128), socket.gethostname(), os.getpid(), self._clock.now())
        if not self._alone:
            try:
                self._folder.mkdir(mode=self._folder.parent.stat().st_mode & 0o777, exist_ok=True)
                self._lock = MemberLock(self._folder, member.id)
            except OSError as error:
                raise StorageUnavailable(f"No lock can be held in {self._folder}: {error.strerror}.") from error
        self._member = member
        return member

    async def take(self, name: str) -> HeldLease:
        """Take a lease, or raise `LeaseHeld` when a living member holds it."""
        while True:
            holder, epoch, is_ours = await self._database.write(partial(self._claim, name=name))
            if is_ours:
                return HeldLease(name=name, epoch=epoch, member=holder, database=self._database)
            if not self._alone and is_alive(self._folder / holder):
                who = await self._database.read(partial(describe, member=holder))
                raise LeaseHeld(f"The lease {name!r} is held by {who}.", holder=who)
            await self._database.write(partial(forget, member=holder))

    def _claim(self, tx: Tx, name: str) -> tuple[str, int, bool]:
        """Take the lease when it is free; return its holder and epoch, and whether that is us."""
        member = self._join()
        holder, epoch = tx.one("SELECT member, epoch FROM leases WHERE name = ?", (name,)) or (None, 0)
        if holder is not None:
            return holder, epoch, holder == member.id
        tx.execute(
            "INSERT INTO members(id, host, pid, started) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO NOTHING", member
        )
        tx.execute(
            "INSERT INTO leases(name, member, epoch) VALUES (?, ?, ?)"
            " ON CONFLICT (name) DO UPDATE SET member = excluded.member, epoch = excluded.epoch",
            (name, member.id, epoch + 1),
        )
        return member.id, epoch + 1, True

    def are_free(self, tx: Tx) -> bool:
        """Tell whether we hold none."""
        member = self._member
        return member is None or tx.one("SELECT 1 FROM leases WHERE member = ?", (member.id,)) is None

    def resign(self, tx: Tx) -> None:
        """Free what we hold, as the last write."""
        if self._member is not None:
            forget(tx, self._member.id)

    def leave(self) -> None:
        """Give the lock back, once the database is closed. Whoever takes a lease later is a new member."""
        if self._lock is not None:
            self._lock.leave()
        self._lock = self._member = None
