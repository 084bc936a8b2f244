"""What every storage engine has to hold to of its files: whose they are, copies of them, and what is left in them."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from ..contracts import Database, Migration, Place, Storage, Tx
from ..errors import BadInput, StorageUnavailable

FIRST = Migration(
    version=1,
    sql="""
CREATE TABLE notes(key TEXT PRIMARY KEY, value TEXT, number INTEGER, share REAL);
CREATE TABLE tasks(id INTEGER PRIMARY KEY, name TEXT NOT NULL, state TEXT NOT NULL);
CREATE UNIQUE INDEX tasks_open ON tasks(name) WHERE state = 'open';
CREATE TABLE parts(
    task INTEGER REFERENCES tasks(id), later INTEGER REFERENCES tasks(id) DEFERRABLE INITIALLY DEFERRED,
    size INTEGER CHECK (size > 0)
);
""",
)


def put(key: str, value: str | None = None) -> Callable[[Tx], str]:
    """Return a function that writes one note and returns its key."""

    def write(tx: Tx) -> str:
        tx.execute("INSERT INTO notes(key, value) VALUES (?, ?)", (key, value))
        return key

    return write


def keys(tx: Tx) -> list[str]:
    """Return the keys of all notes, in order."""
    return [str(row[0]) for row in tx.execute("SELECT key FROM notes ORDER BY key")]


class FilesContract:
    """Tests of an engine's files, a part of `StorageContract`."""

    @asynccontextmanager
    async def opened(
        self, storage: Storage, place: Place, migrations: Sequence[Migration] = (FIRST,)
    ) -> AsyncGenerator[Database]:
        """Open the place for a while."""
        database = await storage.open(place, migrations)
        try:
            yield database
        finally:
            await database.close()

    @pytest.mark.asyncio
    async def test_it_knows_its_own_files(self, storage: Storage, place: Place, tmp_path: Path) -> None:
        """`owns` says yes for every file of an open database that this process holds open, and no for others."""
        (tmp_path / "notes.txt").write_text("mine")
        async with self.opened(storage, place) as database:
            await database.write(put("a"))
            for other in (
                str(tmp_path / "notes.txt"),
                str(tmp_path / "missing" / "file"),
                str(tmp_path),
                "",
                "a\0b",
                -1,
            ):
                assert storage.owns(other) is False, f"{other!r} is no file of the engine's"
            for path in _held_open(place.directory):
                assert storage.owns(path), f"{path} is open here: closing a second descriptor of it drops its locks"

    @pytest.mark.asyncio
    async def test_a_backup_is_a_private_file(self, storage: Storage, place: Place, tmp_path: Path) -> None:
        """A backup is one file of its owner's alone, in the place of what was there, of a closed database too."""
        target, told = tmp_path / "copy", list[tuple[int, int]]()
        target.write_text("older")
        async with self.opened(storage, place) as database:
            for number in range(200):
                await database.write(put(f"{number:03}", "x" * 20_000))
            await database.backup(target, progress=lambda done, total: told.append((done, total)))
            await asyncio.sleep(0)
            assert target.stat().st_size > 1000, "the backup is empty, or the older file is still there"
            assert stat.S_IMODE(target.stat().st_mode) == 0o600 or os.name != "posix", "a backup is 0600"
            assert all(0 <= done <= total for done, total in told), f"progress is how much of how much: {told}"
            assert {path.name for path in tmp_path.iterdir() if path.is_file()} == {"copy"}, "nothing is left beside it"
            await database.write(put("after"))
        await storage.copy(place, target)
        assert target.stat().st_size > 200 * 20_000, "a database that is not open is copied whole"

    @pytest.mark.asyncio
    async def test_what_was_scrubbed_is_in_no_backup(self, storage: Storage, place: Place, tmp_path: Path) -> None:
        """After `scrub` nothing of what was deleted or overwritten can be found in what the database leaves behind."""
        path = tmp_path / "copy.db"
        async with self.opened(storage, place) as database:
            for number in range(200):
                await database.write(put(f"key{number}", f"a word that is gone {number}"))
            await database.write(lambda tx: tx.one("UPDATE notes SET value = 'another' WHERE key < 'key5'"))
            await database.write(lambda tx: tx.one("DELETE FROM notes WHERE key >= 'key5'"))
            await database.scrub()
            await database.backup(path)
            assert b"a word that is gone" not in path.read_bytes(), "what was deleted and scrubbed lies in a backup"
            assert len(await database.read(keys)) > 0, "what was not deleted is gone"

    @pytest.mark.asyncio
    async def test_a_backup_over_its_own_files_is_refused(self, storage: Storage, place: Place) -> None:
        """A path that is one of the engine's own is `BadInput` of the field `path`, and nothing is changed."""
        async with self.opened(storage, place) as database:
            await database.write(put("a"))
            for path in _held_open(place.directory):
                with pytest.raises(BadInput) as refused:
                    await database.backup(Path(path))
                assert refused.value.field == "path", f"the error names the field `path`, not {refused.value.field!r}"
            with pytest.raises((BadInput, StorageUnavailable)):
                await database.backup(place.directory / "no such folder" / "copy")
            assert await database.read(keys) == ["a"], "a backup that was refused changed the database"


def _held_open(folder: Path) -> list[str]:
    """Return the files below a folder that this process has open; none where the system does not tell."""
    found: set[str] = set()
    for name in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else ():
        with suppress(OSError):
            found.add(os.readlink(f"/proc/self/fd/{name}"))
    return sorted(path for path in found if Path(path).is_relative_to(folder.resolve()) and os.path.isfile(path))
