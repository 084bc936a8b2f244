"""A disk that is full at any write: nothing acknowledged is missing, nothing unacknowledged shows, all opens again."""

from __future__ import annotations

import asyncio
import itertools
import os
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

from halo_kernel import (
    OPERATOR,
    AssistantMessage,
    Body,
    Event,
    History,
    Incoming,
    InputAdded,
    Migration,
    Place,
    Receipt,
    SessionInfo,
    SessionSettings,
    StorageUnavailable,
    Text,
    TurnEnded,
    TurnStarted,
    Tx,
)
from halo_kernel.inbox import accept, consume, input_of, prepared, waiting
from halo_kernel.journal import append, read
from halo_kernel.schema import WORKSPACE
from halo_kernel.sessions import rows as session_rows
from halo_kernel.sqlite import SqliteStorage
from halo_kernel.sqlite.connection import Connection
from halo_kernel.testing import ScriptedModel, journal, running_kernel

AT = 1_800_000_000_000


class Disk(apsw.VFS):
    """The real file system, which counts writes; the writes whose number `is_full` says are refused.

    What SQLite asks to be on disk is not waited for: no test here pulls a plug, and each would take minutes.
    """

    def __init__(self) -> None:
        self.base = apsw.vfs_names()[0]
        self.writes = 0
        self.refused = 0
        self.is_full: Callable[[int], bool] = lambda number: False
        super().__init__("full disk", self.base, makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite names it
        return DiskFile(self, name, flags)

    def fill(self, is_full: Callable[[int], bool]) -> None:
        """Count anew, and be full at the writes that `is_full` names, from 1."""
        self.writes = self.refused = 0
        self.is_full = is_full

    def free(self) -> bool:
        """Have room again; tell whether a write was refused meanwhile."""
        self.is_full = lambda number: False
        return self.refused > 0


class DiskFile(apsw.VFSFile):
    """One file on it: a database, a -wal, a -journal or a copy."""

    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        self._disk = disk
        super().__init__(disk.base, name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._disk.writes += 1
        if self._disk.is_full(self._disk.writes):
            self._disk.refused += 1
            raise apsw.FullError("no space left")
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802
        """Done."""


@pytest.fixture
def disk() -> Iterator[Disk]:
    """A disk on which all databases of this process lie."""
    disk = Disk()
    yield disk
    disk.unregister()
    apsw.set_default_vfs(disk.base)


def once(full: int) -> Callable[[int], bool]:
    """Be full at one write alone."""
    return lambda number: number == full


def ever_since(full: int) -> Callable[[int], bool]:
    """Be full from one write on."""
    return lambda number: number >= full


@pytest.fixture(params=[once, ever_since])
def fullness(request: pytest.FixtureRequest) -> Callable[[int], Callable[[int], bool]]:
    """How the disk is full."""
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(params=[False, True], ids=["shared", "alone"])
def alone(request: pytest.FixtureRequest) -> bool:
    """Whether databases are opened as on a network file system."""
    return bool(request.param)


async def _open(folder: Path, steps: Any, **options: Any) -> Any:
    return await SqliteStorage(**options).open(Place(name="halo", scope="workspace", directory=folder), steps)


async def attempt(work: Awaitable[Any]) -> Any:
    """Return what was acknowledged, None where the storage refused it."""
    try:
        return await work
    except StorageUnavailable:
        return None


class Life:
    """One session on a real journal and inbox, and what of it was acknowledged."""

    def __init__(self, database: Any) -> None:
        self.database = database
        self.receipts: list[Receipt] = []
        self.events: list[Event] = []
        self.consumed: set[int] = set()

    async def begin(self) -> None:
        place = {"id": "s", "root": "s", "workspace": "w", "folder": "/w", "agent": "default"}
        info = SessionInfo(**place, access="full", principal=OPERATOR.name, created_at=AT, updated_at=AT)
        await self.database.write(partial(session_rows.insert, info=info, journal="j", limits=SessionSettings()))
        self.events = await self.database.read(partial(read, session="s"))

    async def send(self, key: str, text: str) -> None:
        message = Incoming(text=text, key=key)
        wanted = partial(accept, session="s", message=message, key=key, at=AT, access="full", cap=1000)
        if (done := await attempt(self.database.write(wanted))) is not None:
            self.receipts.append(done[0])

    async def turn(self, turn: str, answer: str) -> None:
        """Take what waits and answer it, in two transactions as a turn does."""
        if started := await attempt(self.database.write(partial(_start, turn=turn))):
            events, rows = started
            self.events += events
            self.consumed |= rows
            said = AssistantMessage(content=(Text(answer),), reply=turn, stop="end", model="m/1")
            await self.write([said, TurnEnded(outcome="succeeded")], turn)

    async def write(self, bodies: list[Body], turn: str) -> None:
        done = await attempt(self.database.write(partial(append, session="s", bodies=bodies, at=AT, turn=turn)))
        self.events += done or ()

    async def live(self) -> None:
        """Receive and answer, some of it at once, so that transactions hold several functions."""
        for number in range(2):
            texts = ("short", "long " * 1500)
            await asyncio.gather(*(self.send(f"{number}.{each}", text) for each, text in enumerate(texts)))
            await self.turn(f"t{number}", "answer " * 200)

    async def check(self, database: Any) -> bool:
        """Compare what is there with what was acknowledged."""
        assert await database.read(lambda tx: tx.one("PRAGMA integrity_check")) == ("ok",)
        inbox = await database.read(lambda tx: list(tx.execute("SELECT id, key, state FROM inbox ORDER BY id")))
        assert [row[:2] for row in inbox] == sorted((receipt.row, receipt.key) for receipt in self.receipts)
        assert {row[0] for row in inbox if row[2] == "consumed"} == self.consumed
        events = await database.read(partial(read, session="s"))
        assert sorted(self.events, key=lambda event: event.seq) == events
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert await database.read(lambda tx: tx.one("SELECT head FROM sessions")) == (len(events),)
        history = History()
        for event in events:
            history.apply(event)
        return True


def _start(tx: Tx, turn: str) -> tuple[tuple[Event, ...], set[int]]:
    taken = waiting(tx, "s")
    if not taken or not consume(tx, taken, turn):
        return (), set()
    numbers = tuple(row.row for row in taken)
    started = TurnStarted(rows=numbers, cause="message", access="full")
    bodies = [started, *(input_of(row, prepared(row)) for row in taken)]
    return append(tx, "s", bodies, at=AT, turn=turn), set(numbers)


@pytest.fixture(params=["", "PRAGMA cache_size=5"], ids=["", "spilling"])
def spilling(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether transactions are larger than the cache, so that they are written before they end."""
    journal_mode = Connection.journal

    def patched(connection: Connection) -> None:
        journal_mode(connection)
        if request.param:
            connection.command(request.param)

    monkeypatch.setattr(Connection, "journal", patched)


@pytest.mark.usefixtures("spilling")
async def test_a_disk_that_is_full_at_any_write(
    tmp_path: Path, disk: Disk, fullness: Callable[[int], Callable[[int], bool]], alone: bool
) -> None:
    """Whichever write is refused, alone or with all after it: what was acknowledged is there, and nothing else is.

    So it is at once, after more work with room again, and after closing over a full disk.
    """
    for full in itertools.count(1):
        folder = tmp_path / str(full)
        database = await _open(folder, WORKSPACE, alone=alone)
        life = Life(database)
        await life.begin()
        disk.fill(fullness(full))
        await life.live()
        was_full = disk.refused > 0
        if await attempt(life.check(database)) is None:
            assert alone, "there a rollback writes, and until it can nothing is read"
            disk.free()
            await life.check(database)
        if full % 2:  # with room again it goes on, else it closes without
            disk.free()
            await life.send("after", "again")
            assert life.receipts[-1].key == "after"
            await life.turn("after", "again")
            await life.check(database)
        await database.close()
        was_full = disk.free() or was_full
        database = await _open(folder, WORKSPACE, alone=alone)
        await life.check(database)
        await database.close()
        if not was_full:
            break
    assert full > 30, "the script writes more than this"


FIRST = Migration(version=1, sql="CREATE TABLE a(x INTEGER PRIMARY KEY, y)")
SECOND = Migration(version=2, sql="ALTER TABLE a ADD COLUMN z; UPDATE a SET z = 'new'; CREATE INDEX i ON a(y)")


async def test_a_disk_that_is_full_while_a_database_is_made(
    tmp_path: Path, disk: Disk, fullness: Callable[[int], Callable[[int], bool]], alone: bool
) -> None:
    """A new database whose making is refused at any write says so, and is made when there is room."""
    for full in itertools.count(1):
        disk.fill(fullness(full))
        database = await attempt(_open(tmp_path / str(full), [FIRST], alone=alone))
        assert (database is None) == (disk.refused > 0)
        was_full = disk.free()
        database = database or await _open(tmp_path / str(full), [FIRST], alone=alone)
        await database.write(lambda tx: tx.execute("INSERT INTO a(y) VALUES ('y')"))
        assert await database.read(lambda tx: tx.one("SELECT count(*) FROM a")) == (1,)
        await database.close()
        assert not list(tmp_path.rglob("*backup*"))
        if not was_full:
            break
    assert full > 5


async def test_a_disk_that_is_full_during_an_update(
    tmp_path: Path, disk: Disk, fullness: Callable[[int], Callable[[int], bool]], alone: bool
) -> None:
    """Whichever write of an update is refused, its copy's included: it says so, nothing is changed, no half a copy is
    left, and with room again it succeeds."""
    filled = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40)"
    content = await _old(tmp_path / "old", f"{filled} INSERT INTO a SELECT i, hex(randomblob(500)) FROM n", alone)
    said: set[str] = set()
    for full in itertools.count(1):
        folder = tmp_path / str(full)
        folder.mkdir()
        (folder / "halo.db").write_bytes(content)
        disk.fill(fullness(full))
        try:
            database = await _open(folder, [FIRST, SECOND], alone=alone)
        except StorageUnavailable as error:
            database = None
            said.add("copied" if "was not updated" in error.message else "updated")
            assert "the disk is full" in error.message
            assert _raw(folder / "halo.db", "SELECT version FROM schema") == [(1,)]
            if "was not updated" in error.message:
                assert (folder / "halo.db").read_bytes() == content
                assert [path.name for path in folder.iterdir()] == ["halo.db"]
        was_full = disk.free()
        database = database or await _open(folder, [FIRST, SECOND], alone=alone)
        assert await database.read(lambda tx: tx.one("SELECT count(*), max(z) FROM a")) == (40, "new")
        await database.close()
        for copy in folder.glob("halo.db.backup-*"):
            assert _raw(copy, "SELECT count(*) FROM a") == [(40,)]
        if not was_full:
            break
    assert said == {"copied", "updated"}


async def _old(folder: Path, sql: str, alone: bool) -> bytes:
    database = await _open(folder, [FIRST], alone=alone)
    await database.write(lambda tx: tx.execute(sql))
    await database.close()
    return (folder / "halo.db").read_bytes()


def _raw(path: Path, sql: str) -> list[Any]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


async def test_a_disk_that_is_full_during_a_backup(tmp_path: Path, disk: Disk, alone: bool) -> None:
    """Whichever write of a copy is refused: it says so, the older copy stays whole, and the database goes on."""
    database = await _open(tmp_path / "home", [FIRST], alone=alone)
    for number in range(40):
        await database.write(lambda tx: tx.execute("INSERT INTO a(y) VALUES (hex(randomblob(500)))"))
        if number == 19:
            await database.backup(tmp_path / "copy.db")
    for full in itertools.count(1):
        disk.fill(once(full))
        try:
            await database.backup(tmp_path / "copy.db")
        except StorageUnavailable as error:
            assert "copy.db" in error.message and "the disk is full" in error.message
            assert _raw(tmp_path / "copy.db", "SELECT count(*) FROM a") == [(20,)]
        assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.db", "home"]
        if not disk.free():
            break
        await database.write(lambda tx: tx.execute("UPDATE a SET y = y"))
    assert full > 10
    assert _raw(tmp_path / "copy.db", "SELECT count(*) FROM a") == [(40,)]
    await database.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of one megabyte."""
    folder = tmp_path / "small"
    folder.mkdir()
    try:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        why = f"a file system of one megabyte cannot be mounted here: {getattr(error, 'stderr', None) or error!r}"
        if os.environ.get("HALO_CI"):
            pytest.fail(why, pytrace=False)
        pytest.skip(why)
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.skipif(sys.platform != "linux", reason="mounts a tmpfs")
async def test_a_real_disk_that_fills_up(tmp_path: Path, small_disk: Path) -> None:
    """A workspace on a disk that fills up refuses messages and keeps what it took; with room again all is answered."""
    (small_disk / "ballast").write_bytes(b"x" * 300_000)
    model = ScriptedModel()
    receipts: list[Receipt] = []
    refused: list[str] = []
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        workspace = await kernel.host.workspaces.open(small_disk)
        session = await kernel.host.sessions.create(workspace=workspace.id, principal=OPERATOR)
        for number in range(100):
            try:
                receipts.append(await session.submit(Incoming(text=f"{number} " * 3000, key=f"key {number}")))
            except StorageUnavailable as error:
                assert "the disk is full" in error.message
                refused.append(f"key {number}")
            if len(refused) > 5:
                break
        assert receipts and refused
        (small_disk / "ballast").unlink()
        last = session.prompt(Incoming(text="now?", key="last"))
        assert (await asyncio.wait_for(last.result, 30)).outcome == "succeeded"
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        workspace = await kernel.host.workspaces.open(small_disk)
        session = await kernel.host.sessions.open(session.info.id, workspace=workspace.id, principal=OPERATOR)
        inputs = [
            event.body.key
            for event in await journal(session)
            if isinstance(event.body, InputAdded) and event.body.cause == "message"
        ]
        assert inputs == [*(receipt.key for receipt in receipts), "last"]
        assert not set(refused) & set(inputs)
        database = kernel.workspaces.seats[workspace.id].database
        assert await database.read(lambda tx: tx.one("PRAGMA integrity_check")) == ("ok",)
        assert await database.read(lambda tx: tx.one("SELECT count(*) FROM inbox WHERE state = 'waiting'")) == (0,)
