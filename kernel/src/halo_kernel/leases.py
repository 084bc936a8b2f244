"""Leases: who may write what. A row in the database that it guards, held by a member that lives as long as its lock.

A member is one open database of one process. Its lock is an `flock` on a file of its own, which says who it is, so
death frees at once and slowness frees nothing. The epoch of a lease grows with every holder and is compared inside
each guarded write.
"""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from .contracts import Clock, Database, Tx
from .errors import LeaseHeld, LeaseLost, StorageUnavailable
from .locks import is_locked, locked

TABLES = "CREATE TABLE IF NOT EXISTS leases(name TEXT PRIMARY KEY, member TEXT, epoch INTEGER NOT NULL);"


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
        free = "UPDATE leases SET member = NULL WHERE name = ? AND member = ? AND epoch = ?"
        await self.database.write(lambda tx: tx.execute(free, (self.name, self.member, self.epoch)))


def forget(tx: Tx, member: str | None) -> None:
    """Free what a member holds. A dead one stays dead: no id is used twice."""
    tx.execute("UPDATE leases SET member = NULL WHERE member = ?", (member,))


class Leases:
    """Takes leases for one open database. `alone`: no other process can have it open, so every other member is dead."""

    def __init__(self, database: Database, folder: Path, *, clock: Clock, alone: bool) -> None:
        self._database = database
        self._folder = folder
        self._clock = clock
        self._alone = alone
        self._lock = ExitStack()
        self._member: str | None = None

    async def take(self, name: str) -> HeldLease:
        """Take a lease, or raise `LeaseHeld` when a living member holds it."""
        while True:
            lease = await self._database.write(partial(self._claim, name=name))
            if lease.member == self._member:
                return lease
            if who := self._living(lease.member):
                raise LeaseHeld(f"The lease {name!r} is held by {who}.", holder=who)
            await self._database.write(partial(forget, member=lease.member))
            with suppress(OSError):
                (self._folder / lease.member).unlink()

    def _claim(self, tx: Tx, name: str) -> HeldLease:
        """Take the lease when it is free; return it as its holder has it."""
        member = self._join()
        holder, epoch = tx.one("SELECT member, epoch FROM leases WHERE name = ?", (name,)) or (None, 0)
        if holder is None:
            holder, epoch = member, epoch + 1
            tx.execute(
                "INSERT INTO leases(name, member, epoch) VALUES (?, ?, ?)"
                " ON CONFLICT (name) DO UPDATE SET member = excluded.member, epoch = excluded.epoch",
                (name, member, epoch),
            )
        return HeldLease(name=name, epoch=epoch, member=holder, database=self._database)

    def _join(self) -> str:
        """Return our member, made and locked if we have none. Within writes, so that nobody leaves meanwhile."""
        if self._member is None:
            member = self._clock.new_id(128)
            if not self._alone:
                try:
                    self._folder.mkdir(mode=self._folder.parent.stat().st_mode & 0o777, exist_ok=True)
                    self._lock.enter_context(locked(self._folder / member))  # nobody knows it before a claim tells it
                    self._lock.callback((self._folder / member).unlink)
                    (self._folder / member).write_text(f"process {os.getpid()} on {socket.gethostname()}")
                except OSError as error:
                    raise StorageUnavailable(f"No lock can be held in {self._folder}: {error.strerror}.") from error
            self._member = member
        return self._member

    def _living(self, member: str) -> str:
        """Return who a member is, for people; '' for a dead one."""
        path = self._folder / member
        try:
            return path.read_text() if not self._alone and is_locked(path) else ""
        except OSError as error:
            return "" if isinstance(error, FileNotFoundError) else "another process"  # not ours to look at, or to judge

    def resign(self, tx: Tx) -> None:
        """Free what we hold, as the last write."""
        forget(tx, self._member)

    def leave(self) -> None:
        """Give the lock back, once the database is closed."""
        with suppress(OSError):
            self._lock.close()
