"""Scrubbing a database: what was deleted is in none of its files, and nobody is held up for it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from halo_kernel import Database, Migration, Place, Tx
from halo_kernel.sqlite import SqliteStorage

STEPS = [Migration(version=1, sql="CREATE TABLE notes(id INTEGER PRIMARY KEY, text TEXT NOT NULL)")]


def place(folder: Path) -> Place:
    return Place(name="halo", scope="workspace", directory=folder)


async def fill(database: Database, count: int, filler: int) -> None:
    """Write `count` rows with a word of their own, in an order and with changes that split pages."""
    for start in range(0, count, 50):

        def write(tx: Tx, start: int = start) -> None:
            for number in range(start, start + 50):
                spread = number * 7919 % count
                tx.execute("INSERT INTO notes VALUES (?, ?)", (spread, f"word-{spread:05}-" + "z" * (spread % filler)))
            for number in range(0, start, 3):
                tx.execute("UPDATE notes SET text = text || '+' WHERE id = ?", (number * 7919 % count,))

        await database.write(write)


def words(folder: Path) -> set[int]:
    """Return the words that stand anywhere in the database's files."""
    raw = b"".join(path.read_bytes() for path in folder.iterdir() if ".db" in path.name)
    return {int(piece[:5]) for piece in raw.split(b"word-")[1:] if piece[:5].isdigit()}


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("filler", [7, 900])
async def test_nothing_that_was_deleted_is_in_the_files(tmp_path: Path, alone: bool, filler: int) -> None:
    """Neither in freed space, nor in what a page left behind when it was split, nor in the log; the rest is there."""
    database = await SqliteStorage(alone=alone).open(place(tmp_path), STEPS)
    await fill(database, 1000, filler)
    await database.write(lambda tx: tx.execute("DELETE FROM notes WHERE id % 4 = 0") and None)
    await database.write(lambda tx: tx.execute("UPDATE notes SET text = '' WHERE id % 4 = 1") and None)
    assert len(words(tmp_path)) > 600, "else this test shows nothing"
    await database.scrub()
    assert words(tmp_path) == {number for number in range(1000) if number % 4 > 1}
    assert await database.read(lambda tx: tx.one("SELECT count(*) FROM notes")) == (750,)
    await database.close()


READER = """
import sqlite3, sys
raw = sqlite3.connect(sys.argv[1], isolation_level=None)
raw.execute("BEGIN")
raw.execute("SELECT count(*) FROM notes").fetchall()
print("reading", flush=True)
sys.stdin.readline()
raw.execute("ROLLBACK")
raw.close()
"""


@asynccontextmanager
async def read_elsewhere(folder: Path) -> AsyncIterator[None]:
    """Hold a read transaction in another process."""
    reader = await asyncio.create_subprocess_exec(
        sys.executable, "-c", READER, folder / "halo.db", stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert reader.stdout is not None and await reader.stdout.readline() == b"reading\n"
    yield
    await reader.communicate(b"\n")


async def test_a_reader_elsewhere_is_waited_for_and_writes_go_on(tmp_path: Path) -> None:
    """While another process reads what is to go, writes are answered; the scrub is done when it has read."""
    database = await SqliteStorage().open(place(tmp_path), STEPS)
    await fill(database, 50, 7)
    await database.write(lambda tx: tx.execute("DELETE FROM notes WHERE id < 25") and None)
    async with read_elsewhere(tmp_path):
        scrub = asyncio.create_task(database.scrub())
        for number in range(100, 103):
            row = (number, "later")
            write = database.write(lambda tx, row=row: tx.execute("INSERT INTO notes VALUES (?, ?)", row) and None)
            await asyncio.wait_for(write, 5)
        assert not scrub.done()
    await asyncio.wait_for(scrub, 10)
    assert words(tmp_path) == set(range(25, 50))
    await database.close()


async def test_a_backup_goes_on_beside_it(tmp_path: Path) -> None:
    """A copy that is being made is of its moment, and the scrub ends after it."""
    database = await SqliteStorage().open(place(tmp_path), STEPS)
    large = "INSERT INTO notes VALUES (?, ?)"
    for number in range(20):
        row = (number, f"word-{number:05}-" + "z" * 500_000)
        await database.write(lambda tx, row=row: tx.execute(large, row) and None)
    begun = asyncio.Event()
    backup = asyncio.create_task(database.backup(tmp_path / "copy", progress=lambda done, whole: begun.set()))
    await asyncio.wait_for(begun.wait(), 5)
    await database.write(lambda tx: tx.execute("DELETE FROM notes") and None)
    await asyncio.wait_for(asyncio.gather(backup, database.scrub()), 30)
    assert words(tmp_path) == set()
    copied = (tmp_path / "copy").read_bytes()
    assert all(f"word-{number:05}".encode() in copied for number in range(20))
    await database.close()


async def test_closing_does_not_wait_for_a_reader(tmp_path: Path) -> None:
    """A scrub that cannot end yet ends with the database."""
    database = await SqliteStorage().open(place(tmp_path), STEPS)
    await fill(database, 50, 7)
    await database.write(lambda tx: tx.execute("DELETE FROM notes") and None)
    async with read_elsewhere(tmp_path):
        scrub = asyncio.create_task(database.scrub())
        await asyncio.sleep(0.3)
        assert not scrub.done()
        await asyncio.wait_for(database.close(), 5)
        await scrub
