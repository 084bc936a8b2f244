"""A database that nobody uses: its file is closed, its threads end, and the next use does not notice."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from halo_kernel import LeaseHeld, LeaseLost, Migration, NewerData, Place, Storage, StorageUnavailable, Tx
from halo_kernel.hookspecs import hook
from halo_kernel.sqlite import SqliteStorage, is_own_file
from halo_kernel.testing import running_kernel, until

SCHEMA = [Migration(version=1, sql="CREATE TABLE kv(key TEXT PRIMARY KEY, value)")]
IDLE = 0.15


async def _open(folder: Path, migrations: Sequence[Migration] = SCHEMA, **options: Any) -> Any:
    options = {"idle": IDLE, **options}
    return await SqliteStorage(**options).open(Place(name="halo", scope="global", directory=folder), migrations)


def held() -> tuple[int, int]:
    """Return how many threads there are, and how many descriptors."""
    return threading.active_count(), len(os.listdir("/dev/fd"))


@pytest.fixture
async def before() -> tuple[int, int]:
    """What the process held before, the loop included."""
    gc.collect()
    return held()


@pytest.fixture(params=[False, True], ids=["shared", "alone"])
async def database(tmp_path: Path, before: tuple[int, int], request: pytest.FixtureRequest) -> AsyncIterator[Any]:
    """A database that closes itself soon."""
    database = await _open(tmp_path, alone=request.param)
    yield database
    await database.close()


def put(tx: Tx, key: str) -> None:
    tx.execute("INSERT INTO kv(key) VALUES (?)", (key,))


def keys(tx: Tx) -> list[str]:
    return [row[0] for row in tx.execute("SELECT key FROM kv ORDER BY key")]


async def stays_open(before: tuple[int, int]) -> bool:
    """Tell whether the database is still open after several times as long as it would take."""
    for _ in range(20):
        await asyncio.sleep(IDLE / 4)
        if held() <= before:
            return False
    return True


async def test_an_idle_database_holds_nothing_and_works_again(
    database: Any, before: tuple[int, int], tmp_path: Path
) -> None:
    """After a while without use neither thread nor descriptor is left; each next use is as ever, again and again."""
    for number in range(3):
        await database.write(lambda tx, number=number: put(tx, str(number)))
        assert len(await asyncio.gather(*(database.read(keys) for _ in range(4)))) == 4
        assert held() > before
        await until(lambda: held() == before)
        assert not (tmp_path / "halo.db-wal").exists(), "all is in the one file"
        assert await database.read(keys) == [str(each) for each in range(number + 1)]
        await until(lambda: held() == before)


async def test_use_keeps_it_open(database: Any, before: tuple[int, int]) -> None:
    """Reads alone are use, as writes are: the time begins anew with each."""
    for call in (database.read, database.write):
        looks = 0
        while looks < 8:
            used = time.monotonic()
            await call(keys)
            await asyncio.sleep(IDLE / 3)
            is_open = held() > before
            if time.monotonic() - used < IDLE:  # else this machine was too slow to tell
                assert is_open
                looks += 1


async def test_a_held_lease_keeps_it_open(database: Any, before: tuple[int, int], tmp_path: Path) -> None:
    """While a lease is held nothing is closed, so that nobody else takes it; once it is released all goes away."""
    lease = await database.lease("tree:1")
    assert await stays_open(before)
    await database.write(lease.check)
    other = await database.lease("tree:2")
    await lease.release()
    assert await stays_open(before)
    await other.release()
    await until(lambda: held() == before)
    assert list(tmp_path.glob("halo.db.members/*")) == []
    with pytest.raises(LeaseLost):
        await database.write(lease.check)
    assert (await database.lease("tree:1")).epoch == 2


async def test_a_bell_keeps_it_open(database: Any, before: tuple[int, int], tmp_path: Path) -> None:
    """While somebody listens it stays open and rings; without a bell it goes away."""
    bell = database.listen("topic")
    assert await stays_open(before)
    database.notify("topic")
    await asyncio.wait_for(bell.wait(), 5)
    bell.close()
    await until(lambda: held() == before)
    database.notify("topic")


async def test_listening_opens_it(tmp_path: Path, before: tuple[int, int]) -> None:
    """Who begins to listen while it is closed misses no commit of another process from then on."""
    database = await _open(tmp_path)
    await until(lambda: held() == before)
    for number in range(5):
        bell = database.listen("topic")
        other = sqlite3.connect(tmp_path / "halo.db", timeout=10)
        other.execute("INSERT INTO kv(key) VALUES (?)", (str(number),))
        other.commit()
        other.close()
        await asyncio.wait_for(bell.wait(), 5)
        bell.close()
        await until(lambda: held() == before)
    await database.close()


async def test_its_files_stay_ours(database: Any, before: tuple[int, int], tmp_path: Path) -> None:
    """A file that is closed for a while is still refused to tools, since it may be opened again at any moment."""
    await until(lambda: held() == before)
    assert all(is_own_file(tmp_path / f"halo.db{suffix}") for suffix in ("", "-wal", "-shm", "-journal"))
    await database.close()
    assert not is_own_file(tmp_path / "halo.db")


async def test_closing_while_it_is_closed(database: Any, before: tuple[int, int], tmp_path: Path) -> None:
    """Closing for good opens nothing, and is harmless twice."""
    await until(lambda: held() == before)
    (tmp_path / "halo.db").chmod(0o400)
    await asyncio.gather(database.close(), database.close())
    assert held() == before
    with pytest.raises(StorageUnavailable, match="closed"):
        await database.write(lambda _: None)
    with pytest.raises(StorageUnavailable, match="closed"):
        database.listen("topic")


async def test_a_file_that_goes_away_meanwhile(database: Any, before: tuple[int, int], tmp_path: Path) -> None:
    """No new file is made, and no write acknowledged, where the file was moved away or replaced."""
    await until(lambda: held() == before)
    (tmp_path / "halo.db").rename(tmp_path / "elsewhere")
    for _ in range(2):
        with pytest.raises(StorageUnavailable, match="moved or removed"):
            await database.write(lambda tx: put(tx, "a"))
        assert not (tmp_path / "halo.db").exists()
    (tmp_path / "halo.db").touch()
    calls = [asyncio.ensure_future(call(keys)) for call in (database.read, database.write) for _ in range(5)]
    ended = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 10)
    assert {type(each) for each in ended} == {StorageUnavailable}, "each caller is told"
    (tmp_path / "elsewhere").rename(tmp_path / "halo.db")
    await database.write(lambda tx: put(tx, "a"))


async def test_a_newer_version_that_came_meanwhile(database: Any, before: tuple[int, int], tmp_path: Path) -> None:
    """An update by a newer version while it was closed is noticed: it is refused and not changed."""
    await until(lambda: held() == before)
    newer = [*SCHEMA, Migration(version=2, sql="ALTER TABLE kv ADD COLUMN more", min_reader=2)]
    await (await _open(tmp_path, newer)).close()
    content = (tmp_path / "halo.db").read_bytes()
    with pytest.raises(NewerData):
        await database.write(lambda tx: put(tx, "a"))
    assert (tmp_path / "halo.db").read_bytes() == content


async def test_alone_it_is_free_for_others_meanwhile(tmp_path: Path, before: tuple[int, int]) -> None:
    """On a network file system another process may have it while nobody uses it here, and is told apart after."""
    ours = await _open(tmp_path, alone=True)
    await until(lambda: held() == before)
    theirs = await _open(tmp_path, alone=True, idle=60)
    await theirs.write(lambda tx: put(tx, "theirs"))
    with pytest.raises(StorageUnavailable, match="in use"):
        await ours.write(lambda tx: put(tx, "ours"))
    await theirs.close()
    await ours.write(lambda tx: put(tx, "ours"))
    assert await ours.read(keys) == ["ours", "theirs"]
    await ours.close()


async def test_a_lease_taken_by_another_meanwhile(tmp_path: Path, before: tuple[int, int]) -> None:
    """What was released before the pause another process may take; after it we are a new member."""
    ours = await _open(tmp_path)
    await (await ours.lease("tree:1")).release()
    await until(lambda: held() == before)
    theirs = await _open(tmp_path, idle=60)
    assert (await theirs.lease("tree:1")).epoch == 2
    with pytest.raises(LeaseHeld):
        await ours.lease("tree:1")
    await theirs.close()
    assert (await ours.lease("tree:1")).epoch == 3
    await ours.close()


@pytest.mark.parametrize("seed", range(6))
async def test_use_at_any_moment_of_closing(tmp_path: Path, seed: int) -> None:
    """Whenever calls come, before, while and after it closes itself: each is answered, and nothing is lost."""
    rnd = random.Random(seed)
    database = await _open(tmp_path, alone=bool(seed % 2), idle=0.004)
    written: list[str] = []

    async def caller(name: int) -> None:
        for number in range(25):
            await asyncio.sleep(rnd.random() * 0.016)
            match rnd.randrange(5):
                case 0:
                    await database.read(keys)
                case 1:
                    lease = await database.lease(f"tree:{name}")
                    await asyncio.sleep(rnd.random() * 0.01)
                    await database.write(lease.check)
                    await lease.release()
                case 2:
                    bell = database.listen(f"topic {name}")
                    database.notify(f"topic {name}")
                    await bell.wait()
                    bell.close()
                case _:
                    await database.write(lambda tx, key=f"{name}.{number}": put(tx, key))
                    written.append(f"{name}.{number}")

    await asyncio.wait_for(asyncio.gather(*(caller(name) for name in range(3))), 60)
    assert await database.read(keys) == sorted(written)
    await asyncio.wait_for(database.close(), 20)
    assert not is_own_file(tmp_path / "halo.db")


class Quick:
    """A plugin whose databases close themselves soon."""

    @hook
    def provide_storage(self) -> Sequence[Storage]:
        storage = SqliteStorage(idle=IDLE)
        storage.schemes = ("quick",)
        return [storage]


async def test_a_plugins_database_closes_and_opens(tmp_path: Path) -> None:
    """A plugin's handle stays good while the database behind it comes and goes."""
    async with running_kernel(tmp_path / "home", extra={"quick": Quick()}) as kernel:
        database = await kernel.host.data.open("plugin", "global", SCHEMA)

        def is_open() -> bool:
            return any(thread.name == "halo-write-plugin" for thread in threading.enumerate())

        for number in range(2):
            await database.write(lambda tx, number=number: put(tx, str(number)))
            assert is_open()
            await until(lambda: not is_open())
        assert await database.read(keys) == ["0", "1"]
        assert await kernel.host.data.open("plugin", "global", SCHEMA) is database
