"""Leases: who may write what. A row in the database that it guards, held by a member that lives as long as its lock.

A member is one open database of one process. Its lock is an `flock` on a file of its own, so death frees at once and
slowness frees nothing. The epoch of a lease grows with every holder and is compared inside each guarded write.
"""

from __future__ import annotations

import os
import socket
import threading
import weakref
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from .contracts import Clock, Database, Tx
from .errors import LeaseHeld, LeaseLost, StorageUnavailable

TABLES = """
CREATE TABLE IF NOT EXISTS members(
    id TEXT PRIMARY KEY, host TEXT NOT NULL, pid INTEGER NOT NULL, started INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS leases(name TEXT PRIMARY KEY, member TEXT, epoch INTEGER NOT NULL);
"""


def _lock(descriptor: int, *, shared: bool) -> bool:
    """Lock an open file: shared at once or not at all, exclusive with waiting. Returns whether it is locked."""
    import fcntl  # absent on Windows, where databases are opened alone and no member needs a lock

    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB if shared else fcntl.LOCK_EX)
    except BlockingIOError:
        return False
    return True


class MemberLock:
    """The lock file of one member, held until `leave`. Who may read the folder may look whether it is held."""

    def __init__(self, folder: Path, member: str) -> None:
        self.path = folder / member
        self._mode = folder.stat().st_mode & 0o666
        self._descriptor = self._join(folder / f".{member}")
        _locks.add(self)

    def _join(self, draft: Path) -> int:
        """Lock under a draft name and rename: a file that others can find under a member's name is always locked."""
        while True:
            descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, self._mode)
            try:
                if _lock(descriptor, shared=False):
                    os.rename(draft, self.path)
                    return descriptor
            except FileNotFoundError:
                pass  # somebody took the draft, not locked yet, for a dead member's
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)

    def leave(self) -> None:
        """Remove the file and give the lock back."""
        _locks.discard(self)
        with suppress(OSError):
            self.path.unlink()
        self.forget()

    def forget(self) -> None:
        """Close the descriptor: in a forked child, which would keep the lock beyond its parent's death."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


_locks: weakref.WeakSet[MemberLock] = weakref.WeakSet()


def _after_fork() -> None:
    for lock in list(_locks):
        lock.forget()
    _locks.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def is_alive(path: Path) -> bool:
    """Tell whether a living process holds the member's lock file; a dead one's file is removed."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return True  # not ours to look at, so not ours to judge
    try:
        if not _lock(descriptor, shared=True):
            return True
        with suppress(OSError):
            path.unlink()
        return False
    finally:
        os.close(descriptor)


@dataclass(frozen=True, kw_only=True)
class Member:
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


def claim(tx: Tx, *, name: str, member: Member, dead: tuple[str, int] | None) -> tuple[str, int]:
    """Take the lease when it is free, ours already, or still `dead`'s; return its holder and epoch."""
    holder, epoch = tx.one("SELECT member, epoch FROM leases WHERE name = ?", (name,)) or (None, 0)
    if holder is not None and (holder == member.id or (holder, epoch) != dead):
        return holder, epoch
    tx.execute(
        "INSERT INTO members(id, host, pid, started) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
        (member.id, member.host, member.pid, member.started),
    )
    tx.execute(
        "INSERT INTO leases(name, member, epoch) VALUES (?, ?, ?)"
        " ON CONFLICT (name) DO UPDATE SET member = excluded.member, epoch = excluded.epoch",
        (name, member.id, epoch + 1),
    )
    return member.id, epoch + 1


def describe(tx: Tx, member: str) -> str:
    """Return who a member is, for people."""
    row = tx.one("SELECT pid, host FROM members WHERE id = ?", (member,))
    return f"process {row[0]} on {row[1]}" if row else "an unknown process"


def forget(tx: Tx, members: Collection[str]) -> None:
    """Free what these members hold and remove them."""
    for member in members:
        tx.execute("UPDATE leases SET member = NULL WHERE member = ?", (member,))
        tx.execute("DELETE FROM members WHERE id = ?", (member,))


class Leases:
    """Takes leases for one open database. `alone`: no other process can have it open, so every other member is dead."""

    def __init__(self, database: Database, folder: Path, *, clock: Clock, alone: bool) -> None:
        self._database = database
        self._folder = folder
        self._alone = alone
        self._clock = clock
        self._lock: MemberLock | None = None
        self._joining = threading.Lock()
        self._over = False
        self.member: Member | None = None

    async def take(self, name: str) -> HeldLease:
        """Take a lease, or raise `LeaseHeld` when a living member holds it."""
        member = self.member or await self._join()
        dead: tuple[str, int] | None = None
        while True:
            holder, epoch = await self._database.write(partial(claim, name=name, member=member, dead=dead))
            if holder == member.id:
                return HeldLease(name=name, epoch=epoch, member=holder, database=self._database)
            if self._lives(holder):
                who = await self._database.read(partial(describe, member=holder))
                raise LeaseHeld(f"The lease {name!r} is held by {who}.", holder=who)
            dead = (holder, epoch)

    def _lives(self, member: str) -> bool:
        return not self._alone and is_alive(self._folder / member)

    async def _join(self) -> Member:
        with self._joining:
            joined = self.member or self._enter()
        others: list[str] = await self._database.read(
            lambda tx: [row[0] for row in tx.execute("SELECT id FROM members")]
        )
        dead = [other for other in others if other != joined.id and not self._lives(other)]
        if dead:
            await self._database.write(partial(forget, members=dead))
        return joined

    def _enter(self) -> Member:
        if self._over:
            raise StorageUnavailable(f"No lease can be taken: the database of {self._folder} is closed.")
        member = Member(
            id=self._clock.new_id(128), host=socket.gethostname(), pid=os.getpid(), started=self._clock.now()
        )
        if not self._alone:
            try:
                self._folder.mkdir(mode=self._folder.parent.stat().st_mode & 0o777, exist_ok=True)
                self._lock = MemberLock(self._folder, member.id)
            except OSError as error:
                raise StorageUnavailable(f"No lock can be held in {self._folder}: {error.strerror}.") from error
        self.member = member
        return member

    def leave(self) -> None:
        """Give the lock back, after the database is closed; nobody joins any more."""
        with self._joining:
            self._over = True
            self.member = None
            lock, self._lock = self._lock, None
        if lock is not None:
            lock.leave()
