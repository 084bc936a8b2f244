"""Bells: who listens is woken, once for many rings, on any loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from halo_kernel import Place, StorageUnavailable
from halo_kernel.sqlite import SqliteStorage


async def _open(folder: Path, **options: Any) -> Any:
    return await SqliteStorage(**options).open(Place(name="halo", scope="global", directory=folder), [])


@pytest.fixture(params=[False, True], ids=["shared", "alone"])
async def database(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Any]:
    """An open database."""
    database = await _open(tmp_path, alone=request.param)
    yield database
    await database.close()


async def _rings(bell: Any, seconds: float = 0.05) -> bool:
    try:
        await asyncio.wait_for(bell.wait(), seconds)
    except TimeoutError:
        return False
    return True


async def test_a_bell_rings_for_its_topic_alone(database: Any) -> None:
    """A ring wakes every bell of the topic and none of another."""
    first, second, other = database.listen("a"), database.listen("a"), database.listen("b")
    database.notify("a")
    assert await _rings(first)
    assert await _rings(second)
    assert not await _rings(other)


async def test_rings_are_kept_and_merged(database: Any) -> None:
    """Rings before a wait are not lost, and many of them are one."""
    bell = database.listen("a")
    for _ in range(3):
        database.notify("a")
    assert await _rings(bell)
    assert not await _rings(bell)
    database.notify("a")
    assert await _rings(bell)


async def test_rings_from_another_thread(database: Any) -> None:
    """Any thread may notify; the bell rings on its own loop."""
    bell = database.listen("a")
    waiting = asyncio.ensure_future(_rings(bell, 5))
    await asyncio.to_thread(database.notify, "a")
    assert await waiting

    def elsewhere() -> bool:
        async def listen() -> bool:
            theirs = database.listen("a")
            database.notify("a")
            rang = await _rings(theirs, 5)
            theirs.close()
            return rang

        return asyncio.run(listen())

    assert await asyncio.to_thread(elsewhere)
    database.notify("a")
    assert await _rings(bell)


async def test_closing_wakes_who_waits(database: Any) -> None:
    """Closing a bell or the database ends every wait, and a later wait says so instead of spinning."""
    bell, other = database.listen("a"), database.listen("b")
    waits = [asyncio.ensure_future(one.wait()) for one in (bell, other)]
    await asyncio.sleep(0)
    bell.close()
    bell.close()
    await asyncio.wait_for(waits[0], 5)
    await database.close()
    await asyncio.wait_for(waits[1], 5)
    for one in (bell, other):
        with pytest.raises(StorageUnavailable):
            await one.wait()
    database.notify("a")


async def test_our_own_commits_do_not_ring(database: Any) -> None:
    """Who wrote knows it: a commit of this database rings nothing by itself."""
    bell = database.listen("a")
    await database.write(lambda tx: tx.execute("CREATE TABLE t(x)"))
    assert not await _rings(bell, 0.6)


async def test_commits_before_listening_ring_at_most_once(tmp_path: Path) -> None:
    """What another one committed between listening and the first look is not missed."""
    ours, theirs = await _open(tmp_path), await _open(tmp_path)
    await theirs.write(lambda tx: tx.execute("CREATE TABLE t(x)"))
    bell = ours.listen("a")
    assert await _rings(bell, 5)
    assert not await _rings(bell, 0.6)
    await theirs.write(lambda tx: tx.execute("INSERT INTO t VALUES (1)"))
    assert await _rings(bell, 5)
    await ours.close()
    await theirs.close()


async def test_bells_ring_under_load(tmp_path: Path) -> None:
    """A writer that never rests still looks for others' commits."""
    ours, theirs = await _open(tmp_path), await _open(tmp_path)
    await ours.write(lambda tx: tx.execute("CREATE TABLE t(x)"))
    bell = ours.listen("a")
    busy = True

    async def load() -> None:
        while busy:
            await ours.write(lambda tx: tx.execute("INSERT INTO t VALUES (1)"))

    loads = [asyncio.ensure_future(load()) for _ in range(5)]
    await asyncio.sleep(0.3)
    while await _rings(bell, 0.3):
        pass
    await theirs.write(lambda tx: tx.execute("INSERT INTO t VALUES (2)"))
    assert await _rings(bell, 5)
    busy = False
    await asyncio.gather(*loads)
    await ours.close()
    await theirs.close()
