"""Where databases lie, who may read them, and which files nobody else may open."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apsw
import pytest

from halo_kernel import BadInput, Place, StorageUnavailable
from halo_kernel.sqlite import SqliteStorage, files, is_own_file


async def _open(folder: Path, *, name: str = "halo", scope: Any = "workspace", **options: Any) -> Any:
    return await SqliteStorage(**options).open(Place(name=name, scope=scope, directory=folder), [])


@pytest.fixture
async def folder(tmp_path: Path) -> AsyncIterator[Path]:
    """A folder with an open database that was written to."""
    home = tmp_path / "home"
    database = await _open(home)
    await database.write(lambda tx: tx.execute("CREATE TABLE t(x)"))
    yield home
    await database.close()


async def test_a_wal_without_its_database_is_kept(tmp_path: Path) -> None:
    """Where a database is gone but its -wal is there, which SQLite would empty, both stay as they are."""
    (tmp_path / "halo.db-wal").write_bytes(b"commits")
    with pytest.raises(StorageUnavailable, match="is gone, but not its -wal") as raised:
        await _open(tmp_path)
    assert "halo backup restore" in raised.value.advice
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("halo.db-wal", b"commits")]


NAMES = ["halo.db", "halo.db-wal", "halo.db-shm"]


@pytest.mark.parametrize("name", NAMES)
async def test_own_files_under_any_name(folder: Path, tmp_path: Path, name: str, monkeypatch: Any) -> None:
    """A database's files are known by path, relative path, both kinds of link, and open descriptor."""
    path = folder / name
    assert path.exists()
    symbolic, hard, through = tmp_path / "symbolic", tmp_path / "hard", tmp_path / "through"
    symbolic.symlink_to(path)
    os.link(path, hard)
    through.symlink_to(folder)
    monkeypatch.chdir(folder)
    for other in (path, str(path), name, f"../home/./{name}", symbolic, hard, through / name):
        assert is_own_file(other), other
    if name != "halo.db":  # closing a descriptor of the file itself would drop our locks
        descriptor = os.open(path, os.O_RDONLY)
        assert is_own_file(descriptor)
        os.close(descriptor)


async def test_a_descriptor_of_the_file_itself(tmp_path: Path) -> None:
    """A descriptor that leads to an open database is known."""
    (tmp_path / "halo.db").touch()
    descriptor = os.open(tmp_path / "halo.db", os.O_RDONLY)
    assert not is_own_file(descriptor)
    database = await _open(tmp_path)
    assert is_own_file(descriptor)
    await database.close()
    assert not is_own_file(descriptor)
    os.close(descriptor)


async def test_names_that_do_not_exist_yet(folder: Path, tmp_path: Path) -> None:
    """A name that SQLite may create later is ours already, also through a dangling link."""
    for path in (folder / "halo.db-journal", str(folder / "HALO.DB-JOURNAL")):
        assert not os.path.exists(path)
        assert is_own_file(path)
    (tmp_path / "dangling").symlink_to(folder / "halo.db-journal")
    assert is_own_file(tmp_path / "dangling")
    assert not is_own_file(tmp_path / "halo.db-journal")


async def test_files_that_come_later(tmp_path: Path) -> None:
    """The -wal and -shm are made anew at each opening; the new ones are known."""
    database = await _open(tmp_path)
    await database.close()
    assert not any(is_own_file(tmp_path / name) for name in NAMES)
    first, second = await _open(tmp_path), await _open(tmp_path)
    await first.close()
    assert all(is_own_file(tmp_path / name) for name in NAMES), "open twice, closed once"
    await second.close()


async def test_other_files_are_not_ours(folder: Path) -> None:
    """What is no file of a database is nobody's business, and odd questions get an answer."""
    (folder / "notes.db").write_text("mine")
    for other in (folder / "notes.db", folder, folder / "missing" / "halo.db", "", "a\0b", -1, 999_999, 0):
        assert not is_own_file(other)
    assert SqliteStorage().owns(str(folder / "halo.db"))


async def test_secret_databases_are_private(tmp_path: Path) -> None:
    """A secret database is 0600 in a folder of 0700, whatever the umask and whatever was there."""
    folder = tmp_path / "secrets" / "users"
    before = os.umask(0)
    try:
        folder.mkdir(parents=True, mode=0o777)
        (folder / "users.db").touch(0o666)
        database = await _open(folder, name="users", scope="secret")
        await database.lease("tree:1")
        await database.write(lambda tx: tx.execute("CREATE TABLE t(x)"))
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir() if path.is_file()}
        assert len(modes) == 3
        assert set(modes.values()) == {0o600}
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE((folder / "users.db.members").stat().st_mode) == 0o700
        await database.close()
    finally:
        os.umask(before)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../a", ".hidden", "a\0", "a b"])
async def test_names_of_databases(tmp_path: Path, name: str) -> None:
    """A name that could lead elsewhere is refused."""
    with pytest.raises(BadInput) as refused:
        await _open(tmp_path, name=name)
    assert refused.value.field == "name"
    assert list(tmp_path.iterdir()) == []


async def test_links_are_not_followed(tmp_path: Path) -> None:
    """A database that is a symbolic link, which a cloned folder may hold, is not opened."""
    (tmp_path / "halo.db").symlink_to(tmp_path / "elsewhere.db")
    with pytest.raises(StorageUnavailable, match="link"):
        await _open(tmp_path)
    assert not (tmp_path / "elsewhere.db").exists()


@pytest.fixture
def ordinary_user() -> Iterator[None]:
    """Be nobody for a while when root runs the tests, who may write everywhere."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    yield
    if root:
        os.seteuid(0)


async def test_what_cannot_be_written(ordinary_user: None) -> None:
    """A folder or a file without write permission is named when it is opened, and nothing is made."""
    folder = Path(tempfile.mkdtemp(prefix="halo-files-"))
    await (await _open(folder)).close()
    (folder / "halo.db").chmod(0o400)
    with pytest.raises(StorageUnavailable, match=r"halo\.db is not writable"):
        await _open(folder)
    (folder / "halo.db").unlink()
    folder.chmod(0o500)
    with pytest.raises(StorageUnavailable, match=r"halo\.db"):
        await _open(folder)
    with pytest.raises(StorageUnavailable, match=r"halo\.db cannot be used"):
        await _open(folder / "below")
    folder.chmod(0o700)
    assert [path.name for path in folder.iterdir() if path.stat().st_size and path.suffix == ".db"] == []
    shutil.rmtree(folder)


@pytest.mark.skipif(sys.platform != "linux", reason="asks GNU stat for the type")
async def test_network_file_systems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kind of the file system decides: on one of a network there is no -shm, and reads still work."""
    database = await _open(tmp_path)
    assert (tmp_path / "halo.db-shm").exists(), "this test needs a local temporary folder"
    await database.close()
    stat_call = partial(subprocess.check_output, ["stat", "-f", "-c", "%t", tmp_path])
    kind = int(await asyncio.to_thread(stat_call), 16)
    assert not files.is_network(tmp_path)
    assert not files.is_network(tmp_path / "missing")
    monkeypatch.setattr(files, "NETWORK_TYPES", {kind: "ours"})
    assert files.is_network(tmp_path)
    database = await _open(tmp_path)
    await database.write(lambda tx: tx.execute("CREATE TABLE t(x)"))
    assert not (tmp_path / "halo.db-shm").exists()
    assert not (tmp_path / "halo.db-wal").exists()
    assert await database.read(lambda tx: tx.one("SELECT count(*) FROM t")) == (0,)
    lease = await database.lease("tree:1")
    assert lease == await database.lease("tree:1")
    assert not (tmp_path / "halo.db.members").exists(), "no lock file is needed where nobody else can be"
    await database.close()
    database = await _open(tmp_path)
    assert (await database.lease("tree:1")).epoch == 2
    await database.close()


async def test_asking_is_cheap(folder: Path) -> None:
    """The question is asked before every file that a tool opens: a millisecond would be far too long."""
    (folder / "notes").touch()
    began = time.perf_counter()
    for _ in range(1000):
        is_own_file(folder / "notes")
    assert time.perf_counter() - began < 1


@pytest.mark.parametrize(("free", "sentence"), [(0, "the disk is full"), (1 << 30, "the disk reported an error")])
def test_a_disk_without_room_is_said_to_be_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, sentence: str
) -> None:
    """SQLite tells no room for a -shm as a disk that fails; where there is no room, a person reads that."""
    monkeypatch.setattr(files, "disk_usage", lambda path: SimpleNamespace(free=free))
    error = files.unavailable(tmp_path / "halo.db", apsw.IOError("disk I/O error"))
    assert sentence in error.message
    assert bool(error.advice) == (free == 0)
