"""Copies of a database: on request while it is in use, and by itself before an update."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import sqlite3
import stat
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from halo_kernel import BadInput, Migration, NewerData, Place, StorageUnavailable, Tx
from halo_kernel.sqlite import SqliteStorage

FIRST = Migration(version=1, sql="CREATE TABLE a(x INTEGER PRIMARY KEY, y); CREATE TABLE b(x INTEGER PRIMARY KEY, y)")
SECOND = Migration(version=2, sql="ALTER TABLE a ADD COLUMN z; UPDATE a SET z = 'second'")
BROKEN = Migration(version=3, sql="UPDATE a SET z = 'third'; INSERT INTO nowhere VALUES (1)")
MANY = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 6000)"


async def _open(folder: Path, migrations: list[Migration], **options: Any) -> Any:
    return await SqliteStorage(**options).open(Place(name="halo", scope="global", directory=folder), migrations)


@pytest.fixture(params=[False, True], ids=["shared", "alone"])
def alone(request: pytest.FixtureRequest) -> bool:
    """Whether databases are opened as on a network file system."""
    return bool(request.param)


@pytest.fixture
async def database(tmp_path: Path, alone: bool) -> AsyncIterator[Any]:
    """An open database of some megabytes, most of them in the -wal where there is one."""
    database = await _open(tmp_path / "home", [FIRST], alone=alone)
    await database.write(lambda tx: tx.execute(f"{MANY} INSERT INTO a SELECT i, hex(randomblob(400)) FROM n"))
    await database.write(lambda tx: tx.execute("INSERT INTO b SELECT x, y FROM a"))
    yield database
    await database.close()


def rows(path: Path, sql: str) -> list[Any]:
    """Read a file as any other program would."""
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def backups(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if "backup" in path.name)


def both(number: int) -> Callable[[Tx], None]:
    """Return a function that writes the same to both tables."""

    def write(tx: Tx) -> None:
        for table in ("a", "b"):
            tx.execute(f"INSERT INTO {table} VALUES (?, 'new')", (number,))

    return write


async def test_a_backup_is_one_complete_private_file(database: Any, tmp_path: Path) -> None:
    """A copy holds what was acknowledged before, is sound, needs no file beside it and is its owner's alone."""
    before = os.umask(0)
    try:
        await database.backup(tmp_path / "copy.db")
    finally:
        os.umask(before)
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["copy.db"]
    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600
    (tmp_path / "elsewhere").mkdir()
    shutil.copyfile(tmp_path / "copy.db", tmp_path / "elsewhere" / "halo.db")
    assert rows(tmp_path / "elsewhere" / "halo.db", "PRAGMA integrity_check") == [("ok",)]
    copy = await _open(tmp_path / "elsewhere", [FIRST])
    everything = "SELECT count(*), sum(length(y)) FROM (SELECT * FROM a UNION ALL SELECT * FROM b)"
    assert await copy.read(lambda tx: tx.one(everything)) == await database.read(lambda tx: tx.one(everything))
    await copy.close()


async def test_writes_go_on_during_a_backup(database: Any, tmp_path: Path) -> None:
    """While a copy is made writes return at once; in the copy each transaction is whole or not there."""
    copying = asyncio.ensure_future(database.backup(tmp_path / "copy.db"))
    slowest, number = 0.0, 10_000
    while not copying.done():
        began = time.monotonic()
        await database.write(both(number))
        slowest, number = max(slowest, time.monotonic() - began), number + 1
        await database.read(lambda tx: tx.one("SELECT max(x) FROM b"))
    await copying
    assert number > 10_001, "the copy is made in many steps"
    assert slowest < 1
    (ours,), (theirs,) = (rows(tmp_path / "copy.db", f"SELECT count(*), max(x) FROM {table}") for table in "ab")
    assert ours == theirs and 6000 <= ours[0] <= 6000 + number - 10_000
    assert rows(tmp_path / "copy.db", "PRAGMA integrity_check") == [("ok",)]


async def test_a_writer_that_never_rests_does_not_hold_a_backup_up(database: Any, tmp_path: Path) -> None:
    """A copy is not begun anew for what others write meanwhile."""
    busy = True

    async def load(first: int) -> None:
        while busy:
            first += 10
            await database.write(both(first))

    loads = [asyncio.ensure_future(load(100_000 + number)) for number in range(10)]
    await asyncio.wait_for(database.backup(tmp_path / "copy.db"), 30)
    busy = False
    await asyncio.gather(*loads)
    assert rows(tmp_path / "copy.db", "SELECT count(*) FROM a") == rows(tmp_path / "copy.db", "SELECT count(*) FROM b")


async def test_progress_is_told_on_the_callers_loop(database: Any, tmp_path: Path) -> None:
    """Progress grows towards all, and may touch what belongs to the loop."""
    told: list[tuple[int, int]] = []
    loop = asyncio.get_running_loop()

    def progress(done: int, total: int) -> None:
        assert asyncio.get_running_loop() is loop
        told.append((done, total))

    await database.backup(tmp_path / "copy.db", progress=progress)
    assert len(told) > 3
    assert told == sorted(told)
    assert all(0 < done < total for done, total in told)


@pytest.mark.parametrize("name", ["halo.db", "halo.db-wal", "halo.db-journal", "link", "", "missing/copy.db"])
async def test_paths_that_take_no_backup(database: Any, tmp_path: Path, name: str) -> None:
    """An open database's own file, by any name, a folder and a missing folder are refused, and nothing is changed."""
    home = tmp_path / "home"
    (home / "link").symlink_to(home / "halo.db")
    before = {path.name: path.stat().st_ino for path in home.iterdir()}
    with pytest.raises(BadInput) as refused:
        await database.backup(home / name)
    assert refused.value.field == "path"
    assert {path.name: path.stat().st_ino for path in home.iterdir()} == before
    await database.write(both(10_000))


async def test_another_open_database_is_not_overwritten(database: Any, tmp_path: Path) -> None:
    """A file of any database that this process has open is refused."""
    other = await _open(tmp_path / "other", [FIRST])
    with pytest.raises(BadInput):
        await database.backup(tmp_path / "other" / "halo.db")
    await other.write(both(1))
    await other.close()


async def test_a_backup_that_fails_leaves_what_was_there(database: Any, tmp_path: Path) -> None:
    """Where the folder takes no file, the older copy stays, the sentence names the path, and the database goes on."""
    if os.geteuid() == 0:
        target = Path("/proc/self/copy.db")  # where not even root makes a file
    else:
        target = tmp_path / "closed" / "copy.db"
        target.parent.mkdir(mode=0o500)
    with pytest.raises(StorageUnavailable, match=r"copy\.db"):
        await database.backup(target)
    await database.write(both(10_000))
    await database.backup(tmp_path / "copy.db")
    assert rows(tmp_path / "copy.db", "SELECT max(x) FROM a") == [(10_000,)]
    await database.write(both(10_001))
    await database.backup(tmp_path / "copy.db")
    assert rows(tmp_path / "copy.db", "SELECT max(x) FROM a") == [(10_001,)], "the newer one is in its place"


async def _cancelled(database: Any, target: Path, steps: int) -> bool:
    """Cancel a backup once it has told of some steps; tell whether that came before its end."""
    told: list[int] = []

    def progress(done: int, _: int) -> None:
        told.append(done)
        if len(told) == steps:
            task.cancel()

    task = asyncio.ensure_future(database.backup(target, progress=progress))
    await asyncio.sleep(0)
    if not steps:
        task.cancel()
    (ended,) = await asyncio.gather(task, return_exceptions=True)
    return isinstance(ended, asyncio.CancelledError)


@pytest.mark.parametrize("steps", [0, 1, 3])
async def test_a_cancelled_backup_leaves_no_file(database: Any, tmp_path: Path, steps: int) -> None:
    """Whoever stops waiting ends the copy, and what it had written is removed; the database goes on."""
    while not await _cancelled(database, tmp_path / "copy.db", steps):  # until that is quicker than the copy
        (tmp_path / "copy.db").unlink()
    await database.write(lambda _: None)
    await database.write(lambda _: None)
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


async def test_closing_finishes_a_backup(tmp_path: Path, alone: bool) -> None:
    """A copy that was begun is accepted work: closing waits for it."""
    database = await _open(tmp_path / "home", [FIRST], alone=alone)
    await database.write(lambda tx: tx.execute(f"{MANY} INSERT INTO a SELECT i, hex(randomblob(400)) FROM n"))
    copying = asyncio.ensure_future(database.backup(tmp_path / "copy.db"))
    await asyncio.sleep(0)
    await database.close()
    await copying
    assert rows(tmp_path / "copy.db", "SELECT count(*) FROM a") == [(6000,)]
    with pytest.raises(StorageUnavailable, match="closed"):
        await database.backup(tmp_path / "copy.db")


OTHER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=1)
connection.execute("INSERT INTO a VALUES (20000, 'theirs')")
connection.commit()
connection.close()
"""


@pytest.mark.parametrize("alone", [False], indirect=True, ids=["shared"])
async def test_a_backup_leaves_the_locks_alone(database: Any, tmp_path: Path) -> None:
    """After a copy our locks hold: another process that closes the database last but us does not take its -wal away."""
    await database.backup(tmp_path / "copy.db")
    wal = tmp_path / "home" / "halo.db-wal"
    before = wal.stat().st_ino
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", OTHER, tmp_path / "home" / "halo.db")
    assert await process.wait() == 0
    assert wal.stat().st_ino == before, "it took itself for the last one"
    await database.write(both(20_001))
    assert await database.read(lambda tx: tx.one("SELECT count(*) FROM a WHERE x >= 20000")) == (2,)


async def test_a_new_database_is_not_backed_up(tmp_path: Path, alone: bool) -> None:
    """Where nothing was, there is nothing to copy; nor where no step is missing."""
    for _ in range(2):
        await (await _open(tmp_path, [FIRST, SECOND], alone=alone)).close()
        assert backups(tmp_path) == []


async def test_an_update_is_backed_up_and_said(tmp_path: Path, alone: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Before its first step an older database is copied beside itself; one line says from, to and where."""
    database = await _open(tmp_path, [FIRST], alone=alone)
    await database.write(both(1))
    await database.close()
    with caplog.at_level(logging.INFO, "halo.storage"):
        database = await _open(tmp_path, [FIRST, SECOND], alone=alone)
    assert await database.read(lambda tx: tx.one("SELECT z FROM a")) == ("second",)
    (line,) = [record.msg for record in caplog.records if record.name == "halo.storage"]
    copy = tmp_path / "halo.db.backup-1"
    assert isinstance(line, dict)
    assert (line["from"], line["to"], line["path"], line["backup"]) == (1, 2, str(tmp_path / "halo.db"), str(copy))
    assert backups(tmp_path) == [copy.name]
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert rows(copy, "SELECT * FROM a") == [(1, "new")], "as it was before"
    assert rows(copy, "SELECT max(version) FROM schema") == [(1,)]
    await database.close()


async def test_an_update_on_another_kind_of_disk(tmp_path: Path, alone: bool) -> None:
    """A database that lay on the other kind of file system, or that another program made, is copied and updated."""
    database = await _open(tmp_path / "moved", [FIRST], alone=not alone)
    await database.write(both(1))
    await database.close()
    (tmp_path / "foreign").mkdir()
    connection = sqlite3.connect(tmp_path / "foreign" / "halo.db")
    connection.executescript(f"{FIRST.sql}; INSERT INTO a VALUES (1, 'new')")
    connection.close()
    for folder, steps in (("moved", [FIRST, SECOND]), ("foreign", [SECOND])):
        database = await _open(tmp_path / folder, steps, alone=alone)
        assert await database.read(lambda tx: tx.one("SELECT x, z FROM a")) == (1, "second")
        await database.close()
        assert rows(tmp_path / folder / "halo.db.backup-1", "SELECT * FROM a") == [(1, "new")]


async def test_a_backup_goes_back_in_place(tmp_path: Path, alone: bool) -> None:
    """Put where the database was, a copy is the older version's again, and updates again."""
    for migrations in ([FIRST], [FIRST, SECOND]):
        await (await _open(tmp_path, migrations, alone=alone)).close()
    (tmp_path / "halo.db").write_bytes((tmp_path / "halo.db.backup-1").read_bytes())
    database = await _open(tmp_path, [FIRST], alone=alone)
    await database.write(both(7))
    await database.close()
    database = await _open(tmp_path, [FIRST, SECOND], alone=alone)
    assert await database.read(lambda tx: tx.one("SELECT x, z FROM a")) == (7, "second")
    await database.close()


async def test_what_a_crash_left_in_the_wal_is_in_the_backup(tmp_path: Path, alone: bool) -> None:
    """The copy before an update holds what was acknowledged last, though it had not reached the file itself."""
    living = await _open(tmp_path / "living", [FIRST], alone=False)
    await living.write(both(1))
    (tmp_path / "crashed").mkdir()
    for name in ("halo.db", "halo.db-wal"):  # what `kill -9` leaves; nobody writes meanwhile
        shutil.copyfile(tmp_path / "living" / name, tmp_path / "crashed" / name)
    await living.close()
    assert rows(tmp_path / "crashed" / "halo.db", "SELECT count(*) FROM a") == [(1,)]
    await (await _open(tmp_path / "crashed", [FIRST, SECOND], alone=alone)).close()
    assert rows(tmp_path / "crashed" / "halo.db.backup-1", "SELECT * FROM b") == [(1, "new")]


async def test_the_last_three_are_kept(tmp_path: Path, alone: bool) -> None:
    """Numbers go up, beyond nine too, and the three highest stay; other files beside the database are nobody's."""
    (tmp_path / "halo.db.backup-notes").write_text("mine")
    (tmp_path / "halo.db.backup-8").write_text("old")
    steps = [Migration(version=1, sql="CREATE TABLE t1(x)")]
    for version in range(2, 7):
        await (await _open(tmp_path, steps, alone=alone)).close()
        steps.append(Migration(version=version, sql=f"CREATE TABLE t{version}(x)"))
    await (await _open(tmp_path, steps, alone=alone)).close()
    assert backups(tmp_path) == [f"halo.db.backup-{name}" for name in ("11", "12", "13", "notes")]
    for number, version in ((11, 3), (12, 4), (13, 5)):
        assert rows(tmp_path / f"halo.db.backup-{number}", "SELECT max(version) FROM schema") == [(version,)]


async def test_a_failing_update_keeps_its_backup(tmp_path: Path, alone: bool) -> None:
    """When a step fails nothing of it is there, and the copy that was made first remains."""
    database = await _open(tmp_path, [FIRST, SECOND], alone=alone)
    await database.write(lambda tx: tx.execute("INSERT INTO a VALUES (1, 'y', 'z')"))
    await database.close()
    before = (tmp_path / "halo.db").read_bytes()
    with pytest.raises(StorageUnavailable, match="Migration 3"):
        await _open(tmp_path, [FIRST, SECOND, BROKEN], alone=alone)
    assert (tmp_path / "halo.db").read_bytes() == before
    assert rows(tmp_path / "halo.db.backup-1", "SELECT * FROM a") == [(1, "y", "z")]
    database = await _open(tmp_path, [FIRST, SECOND], alone=alone)
    assert await database.read(lambda tx: tx.one("SELECT z FROM a")) == ("z",)
    await database.close()


async def test_old_backups_that_cannot_be_removed(tmp_path: Path, alone: bool) -> None:
    """What stands in the way of clearing old copies away does not keep a database closed."""
    for number in range(1, 5):
        (tmp_path / f"halo.db.backup-{number}" / "full").mkdir(parents=True)
    (tmp_path / ".halo.db.backup-4.d" / "full").mkdir(parents=True)
    for migrations in ([FIRST], [FIRST, SECOND]):
        await (await _open(tmp_path, migrations, alone=alone)).close()
    assert rows(tmp_path / "halo.db.backup-5", "SELECT max(version) FROM schema") == [(1,)]


async def test_newer_data_is_not_backed_up(tmp_path: Path, alone: bool) -> None:
    """A database that is refused gets no copy either."""
    newest = Migration(version=9, sql="CREATE TABLE c(x)", min_reader=9)
    await (await _open(tmp_path, [FIRST, newest], alone=alone)).close()
    with pytest.raises(NewerData):
        await _open(tmp_path, [FIRST, SECOND], alone=alone)
    assert backups(tmp_path) == []


async def test_what_was_killed_over_a_backup_is_cleared_away(tmp_path: Path, alone: bool) -> None:
    """A half-made copy of a process that was killed is gone after the next update."""
    await (await _open(tmp_path, [FIRST], alone=alone)).close()
    (tmp_path / ".halo.db.backup-1.a8s9d7").write_bytes(b"half a copy")
    await (await _open(tmp_path, [FIRST, SECOND], alone=alone)).close()
    assert backups(tmp_path) == ["halo.db.backup-1"]


OPENER = """
import asyncio, json, sys
from pathlib import Path
from halo_kernel import Migration, Place
from halo_kernel.sqlite import SqliteStorage

async def main():
    steps = [Migration(version=number + 1, sql=sql) for number, sql in enumerate(json.loads(sys.argv[2]))]
    print("ready", flush=True)
    sys.stdin.readline()
    place = Place(name="halo", scope="global", directory=Path(sys.argv[1]))
    database = await SqliteStorage().open(place, steps)
    print(*await database.read(lambda tx: tx.one("SELECT count(*), sum(z) FROM a")), flush=True)
    await database.close()

asyncio.run(main())
"""


async def test_processes_that_update_at_once(tmp_path: Path) -> None:
    """Of several that open an old database at the same instant one copies and updates; the others wait for it."""
    database = await _open(tmp_path, [FIRST])
    await database.write(lambda tx: tx.execute(f"{MANY} INSERT INTO a SELECT i, hex(randomblob(900)) FROM n"))
    await database.close()
    steps = json.dumps([FIRST.sql, "ALTER TABLE a ADD COLUMN z DEFAULT 0; UPDATE a SET z = z + 1"])
    pipe = asyncio.subprocess.PIPE
    others = [
        await asyncio.create_subprocess_exec(sys.executable, "-c", OPENER, tmp_path, steps, stdin=pipe, stdout=pipe)
        for _ in range(4)
    ]
    for other in others:
        assert other.stdout and await other.stdout.readline() == b"ready\n"
    answers = await asyncio.gather(*(other.communicate(b"go\n") for other in others))
    assert [said for said, _ in answers] == [b"6000 6000\n"] * 4
    assert backups(tmp_path) == ["halo.db.backup-1"]
    assert rows(tmp_path / "halo.db.backup-1", "SELECT count(*) FROM a") == [(6000,)]


async def test_an_update_under_a_running_older_version(tmp_path: Path) -> None:
    """What another process of the older version committed last is in the copy, and it goes on."""
    older = await _open(tmp_path, [FIRST])
    await older.write(both(1))
    newer = await _open(tmp_path, [FIRST, SECOND])
    assert rows(tmp_path / "halo.db.backup-1", "SELECT * FROM a") == [(1, "new")]
    assert await older.read(lambda tx: tx.one("SELECT z FROM a")) == ("second",)
    await older.write(lambda tx: tx.execute("INSERT INTO b VALUES (2, 'old')"))
    await newer.close()
    await older.close()


async def test_a_database_that_is_not_open_is_copied(tmp_path: Path, alone: bool) -> None:
    """`copy` writes all of a closed database, what is in its -wal too, changes nothing, and takes any schema."""
    database = await _open(tmp_path, [FIRST], alone=alone)
    await database.write(lambda tx: tx.execute("INSERT INTO a(y) VALUES ('kept')"))
    await database.close()
    before = (tmp_path / "halo.db").read_bytes()
    place = Place(name="halo", scope="global", directory=tmp_path)
    await SqliteStorage(alone=alone).copy(place, tmp_path / "copy.db")
    assert rows(tmp_path / "copy.db", "SELECT y FROM a") == [("kept",)]
    assert (tmp_path / "halo.db").read_bytes() == before
    assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600


async def test_a_file_that_is_no_database_is_not_copied(tmp_path: Path) -> None:
    """What cannot be read as a database, or is not there, is an error, and leaves no copy."""
    (tmp_path / "halo.db").write_bytes(b"no database at all" * 100)
    for name in ("halo", "nothing"):
        with pytest.raises(StorageUnavailable):
            await SqliteStorage().copy(Place(name=name, scope="global", directory=tmp_path), tmp_path / "copy.db")
    assert [path.name for path in tmp_path.iterdir()] == ["halo.db"]
