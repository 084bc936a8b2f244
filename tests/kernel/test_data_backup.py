"""Backups of databases by their place, open or not."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

from halo_kernel import Migration, Place, newest_schema
from halo_kernel.testing import running_kernel

NOTES = [Migration(version=1, sql="CREATE TABLE notes(text TEXT NOT NULL)")]


def notes(path: Path) -> list[tuple[str]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute("SELECT text FROM notes").fetchall()
    finally:
        connection.close()


async def test_a_place_is_copied_whether_it_is_open_or_not(tmp_path: Path) -> None:
    """`backup` copies by place what this kernel has open and what it has not, and `places` names the former alone."""
    place = Place(name="notes", scope="global", directory=tmp_path / "home" / "global")
    told: list[tuple[int, int]] = []
    tell: Callable[[int, int], None] = lambda done, total: told.append((done, total))  # noqa: E731
    async with running_kernel(tmp_path / "home") as kernel:
        database = await kernel.host.data.open("notes", "global", NOTES)
        await database.write(lambda tx: tx.one("INSERT INTO notes VALUES ('one')"))
        assert place in kernel.host.data.places()
        await kernel.host.data.backup(place, tmp_path / "open.db", progress=tell)
    async with running_kernel(tmp_path / "home") as kernel:
        assert place not in kernel.host.data.places()
        await kernel.host.data.backup(place, tmp_path / "closed.db")
    assert notes(tmp_path / "open.db") == notes(tmp_path / "closed.db") == [("one",)]


def test_the_kernel_knows_its_own_schemas() -> None:
    """`newest_schema` has a version for the kernel's databases and none for a plugin's."""
    assert [bool(newest_schema(name)) for name in ("halo", "kernel", "channels", "notes")] == [True, True, True, False]
