"""Leases within one process: two open databases are two members."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from halo_kernel import LeaseHeld, LeaseLost, Place, StorageUnavailable
from halo_kernel.sqlite import SqliteStorage


async def _open(folder: Path) -> Any:
    return await SqliteStorage().open(Place(name="halo", scope="workspace", directory=folder), [])


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[tuple[Any, Any]]:
    """The same database, opened twice."""
    databases = await _open(tmp_path), await _open(tmp_path)
    yield databases
    for database in databases:
        await database.close()


async def test_taking_again_gives_an_equal_lease(two: tuple[Any, Any]) -> None:
    """Who holds a lease may take it again, at once from many tasks, and gets an equal one."""
    ours, _ = two
    leases = await asyncio.gather(*(ours.lease("tree:1") for _ in range(20)))
    assert {(lease.name, lease.epoch) for lease in leases} == {("tree:1", 1)}
    assert all(lease == leases[0] for lease in leases)
    assert (await ours.lease("tree:2")) != leases[0]
    for lease in leases:
        await ours.write(lease.check)


async def test_a_held_lease_is_refused(two: tuple[Any, Any]) -> None:
    """Another member is refused with who holds it, and other names are free."""
    ours, theirs = two
    await ours.lease("tree:1")
    with pytest.raises(LeaseHeld, match="tree:1") as held:
        await theirs.lease("tree:1")
    assert str(os.getpid()) in held.value.holder
    assert (await theirs.lease("tree:2")).epoch == 1


async def test_epochs_grow_with_every_holder(two: tuple[Any, Any]) -> None:
    """After a release anybody may take it, with a larger epoch; older leases are lost then, harmlessly."""
    ours, theirs = two
    first = await ours.lease("tree:1")
    await first.release()
    with pytest.raises(LeaseLost):
        await ours.write(first.check)
    second = await theirs.lease("tree:1")
    await first.release()
    await theirs.write(second.check)
    await second.release()
    third = await ours.lease("tree:1")
    assert [first.epoch, second.epoch, third.epoch] == [1, 2, 3]
    with pytest.raises(LeaseLost):
        await ours.write(first.check)


async def test_a_lost_lease_writes_nothing(two: tuple[Any, Any]) -> None:
    """A function that checks a lost lease is rolled back, also what it wrote before the check."""
    ours, _ = two
    await ours.write(lambda tx: tx.execute("CREATE TABLE t(x)"))
    lease = await ours.lease("tree:1")
    await lease.release()

    def late(tx: Any) -> None:
        tx.execute("INSERT INTO t VALUES (1)")
        lease.check(tx)

    with pytest.raises(LeaseLost):
        await ours.write(late)
    assert await ours.read(lambda tx: tx.one("SELECT count(*) FROM t")) == (0,)


async def test_two_want_one(two: tuple[Any, Any]) -> None:
    """When both ask at once, one gets it."""
    for number in range(10):
        answers = await asyncio.gather(*(one.lease(f"tree:{number}") for one in two), return_exceptions=True)
        assert sorted(type(answer).__name__ for answer in answers) == ["HeldLease", "LeaseHeld"]


async def test_a_copied_folder_holds_nothing(two: tuple[Any, Any], tmp_path: Path) -> None:
    """The lock files that a copy of a folder brings along are nobody's, and are cleaned up."""
    ours, _ = two
    members = tmp_path / "halo.db.members"
    members.mkdir()
    (members / ("0" * 32)).touch()

    def strangers(tx: Any) -> None:
        tx.execute(
            "INSERT INTO leases(name, member, epoch) VALUES ('tree:1', ?, 7), ('tree:2', 'gone', 3)", ("0" * 32,)
        )

    await ours.write(strangers)
    assert (await ours.lease("tree:1")).epoch == 8
    assert (await ours.lease("tree:2")).epoch == 4
    assert len(list(members.iterdir())) == 1


async def test_closing_frees_and_forgets(tmp_path: Path) -> None:
    """Closing frees the leases and the lock file of a member."""
    ours, theirs = await _open(tmp_path), await _open(tmp_path)
    await ours.lease("tree:1")
    await theirs.lease("tree:2")
    await ours.close()
    assert (await theirs.lease("tree:1")).epoch == 2
    assert len(list((tmp_path / "halo.db.members").iterdir())) == 1
    await theirs.close()
    assert list((tmp_path / "halo.db.members").iterdir()) == []


async def test_no_lock_no_lease(tmp_path: Path) -> None:
    """Where the folder of locks cannot be made, taking a lease says so and the database goes on."""
    database = await _open(tmp_path)
    (tmp_path / "halo.db.members").write_text("in the way")
    with pytest.raises(StorageUnavailable, match="members"):
        await database.lease("tree:1")
    assert await database.read(lambda tx: tx.one("SELECT count(*) FROM leases")) == (0,)
    await database.close()
