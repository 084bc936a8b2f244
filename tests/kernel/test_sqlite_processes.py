"""Several processes on one database: deaths, full disks, leases, bells, and who may open it at all."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from halo_kernel import LeaseHeld, LeaseLost, Migration, Place, StorageUnavailable, Tx
from halo_kernel.sqlite import SqliteStorage

MIGRATIONS = [Migration(version=1, sql="CREATE TABLE kv(key TEXT PRIMARY KEY, value TEXT)")]
PEER = Path(__file__).with_name("sqlite_peer.py")
Start = Callable[..., Awaitable["Peer"]]


class Peer:
    """A process that obeys."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def ask(self, do: str, **arguments: Any) -> Any:
        """Send a command and return its answer; an error comes back as `(class name, message)`."""
        self.send(do, **arguments)
        answer = json.loads(await self.line())
        return answer["ok"] if "ok" in answer else (answer["error"], answer["message"])

    def send(self, do: str, **arguments: Any) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")

    async def line(self) -> bytes:
        assert self.process.stdout
        return await asyncio.wait_for(self.process.stdout.readline(), 30)

    async def kill(self) -> bytes:
        """End it as `kill -9` does and return what it still had said."""
        if self.process.returncode is None:
            self.process.kill()
        assert self.process.stdout
        rest = await self.process.stdout.read()
        await self.process.wait()
        return rest


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    """Start processes that have the database of `tmp_path` open."""
    peers: list[Peer] = []

    async def begin(*, env: dict[str, str] | None = None, opened: bool = True, **options: Any) -> Peer:
        process = await asyncio.create_subprocess_exec(
            sys.executable, PEER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **(env or {})}
        )
        peers.append(Peer(process))
        if opened:
            assert await peers[-1].ask("open", folder=str(tmp_path), **options) is None
        return peers[-1]

    yield begin
    for peer in peers:
        await peer.kill()


async def _open(folder: Path, **options: Any) -> Any:
    place = Place(name="halo", scope="workspace", directory=folder)
    return await SqliteStorage(**options).open(place, MIGRATIONS)


def _keys(tx: Tx) -> set[str]:
    return {row[0] for row in tx.execute("SELECT key FROM kv")}


async def test_acknowledged_rows_survive_kill_9(tmp_path: Path, start: Start) -> None:
    """A row whose write returned is there after `kill -9`, and the file is sound."""
    acknowledged: set[str] = set()
    for round_ in range(4):
        peer = await start()
        peer.send("pour", count=[1, 8, 50, 300][round_])
        said = [await peer.line() for _ in range(20)]
        await asyncio.sleep(0.05 * round_)
        whole, _, _ = (b"".join(said) + await peer.kill()).rpartition(b"\n")
        acknowledged |= {json.loads(line) for line in whole.splitlines()}
        database = await _open(tmp_path)
        assert acknowledged <= await database.read(_keys)
        assert await database.read(lambda tx: tx.one("PRAGMA integrity_check")) == ("ok",)
        await database.close()
    assert len(acknowledged) >= 20


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("room", [0, 100_000, 3_000_000, 5_000_000])
async def test_full_disk(tmp_path: Path, start: Start, room: int, alone: bool) -> None:
    """When the disk is full in the middle of a batch, the rows there are exactly those whose writes returned."""
    peer = await start(alone=alone)
    await peer.ask("put", key="before")
    told = await peer.ask("overfill", rows=60, size=100_000, room=room)
    assert told["errors"] == ["StorageUnavailable"]
    assert set(await peer.ask("keys")) == {"before", *told["written"]}
    assert await peer.ask("put", key="after") == "after"
    await peer.kill()
    database = await _open(tmp_path)
    assert await database.read(_keys) == {"before", "after", *told["written"]}
    assert await database.read(lambda tx: tx.one("PRAGMA integrity_check")) == ("ok",)
    await database.close()


HOLDER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=10, isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
connection.execute("INSERT INTO kv(key) VALUES ('held')")
print("held", flush=True)
sys.stdin.readline()
connection.execute("COMMIT")
"""


@pytest.fixture
async def hold(tmp_path: Path) -> AsyncIterator[Callable[[], Awaitable[asyncio.subprocess.Process]]]:
    """Start a process that is in the middle of a write until it is told to go on."""
    holders: list[asyncio.subprocess.Process] = []

    async def begin() -> asyncio.subprocess.Process:
        pipe = subprocess.PIPE
        command = (sys.executable, "-c", HOLDER, tmp_path / "halo.db")
        holders.append(await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe))
        assert holders[-1].stdout and await holders[-1].stdout.readline() == b"held\n"
        return holders[-1]

    yield begin
    for holder in holders:
        if holder.returncode is None:
            holder.kill()
            await holder.wait()


def _put(key: str) -> Callable[[Tx], str]:
    def write(tx: Tx) -> str:
        tx.execute("INSERT INTO kv(key) VALUES (?)", (key,))
        return key

    return write


async def test_a_long_write_of_another_process_is_waited_for(tmp_path: Path, hold: Any) -> None:
    """While another process is in a long write ours wait for it, in order, and reads go on."""
    database = await _open(tmp_path)
    holder = await hold()
    writes = [asyncio.ensure_future(database.write(_put(str(number)))) for number in range(5)]
    for _ in range(10):
        assert await asyncio.wait_for(database.read(_keys), 0.5) == set()
        await asyncio.sleep(0.1)
    assert not any(write.done() for write in writes)
    await holder.communicate(b"go on\n")
    assert await asyncio.gather(*writes) == ["0", "1", "2", "3", "4"]
    assert await database.read(_keys) == {"held", "0", "1", "2", "3", "4"}
    await database.close()


async def test_a_write_that_is_too_long_fails_ours_whole(
    tmp_path: Path, hold: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond the limit each waiting write fails by name of the file, none of it is there, and later ones work."""
    monkeypatch.setattr("halo_kernel.sqlite.connection.BUSY_SECONDS", 0.4)
    database = await _open(tmp_path)
    holder = await hold()
    began = time.monotonic()
    writes = (database.write(_put(str(number))) for number in range(5))
    ended = await asyncio.gather(*writes, return_exceptions=True)
    assert 0.3 < time.monotonic() - began < 3
    assert {type(error) for error in ended} == {StorageUnavailable}
    assert all("halo.db is in use by another process" in str(error) for error in ended)
    with pytest.raises(StorageUnavailable, match="in use by another process"):
        await database.lease("tree:1")
    with pytest.raises(StorageUnavailable, match="in use by another process"):
        await _open(tmp_path)
    await holder.communicate(b"go on\n")
    assert await database.write(_put("after")) == "after"
    assert await database.read(_keys) == {"held", "after"}
    assert (await database.lease("tree:1")).epoch == 1
    await database.close()


@pytest.mark.parametrize("callers", [1, 50])
async def test_two_processes_that_never_rest(tmp_path: Path, start: Start, callers: int) -> None:
    """Of two processes that write without a pause neither keeps the other from writing."""
    peer = await start()
    database = await _open(tmp_path)
    peer.send("pour", count=callers)
    said = [await peer.line()]
    slowest = 0.0
    for number in range(40):
        began = time.monotonic()
        await asyncio.gather(*(database.write(_put(f"ours {number} {caller}")) for caller in range(callers)))
        slowest = max(slowest, time.monotonic() - began)
    assert slowest < 8, "well within the limit"
    said += [await peer.line() for _ in range(20)]
    whole, _, _ = (b"".join(said) + await peer.kill()).rpartition(b"\n")
    acknowledged = {json.loads(line) for line in whole.splitlines()}
    acknowledged |= {f"ours {number} {caller}" for number in range(40) for caller in range(callers)}
    assert acknowledged <= await database.read(_keys)
    await database.close()


async def test_a_long_write_of_ours_holds_nobody_up_for_good(tmp_path: Path, start: Start) -> None:
    """A function of ours that takes its time makes the other process wait, then both go on; ours keep their order."""
    peer = await start()
    database = await _open(tmp_path)

    def slow(tx: Tx) -> str:
        _put("slow")(tx)
        time.sleep(1)
        return "slow"

    ours = [asyncio.ensure_future(database.write(fn)) for fn in (slow, _put("next"))]
    await asyncio.sleep(0.2)
    assert await database.read(_keys) == set(), "a reader of ours does not wait"
    assert await peer.ask("put", key="theirs") == "theirs"
    assert await asyncio.gather(*ours) == ["slow", "next"]
    order = await database.read(lambda tx: [row[0] for row in tx.execute("SELECT key FROM kv ORDER BY rowid")])
    assert set(order) == {"slow", "next", "theirs"} and order.index("slow") < order.index("next")
    await database.close()


FAILING_SYNC = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
static int fails(void) {
    const char *flag = getenv("FAIL_SYNC");
    if (!flag || access(flag, F_OK)) return 0;
    unlink(flag);
    errno = EIO;
    return 1;
}
int fsync(int fd) { int (*real)(int) = dlsym(RTLD_NEXT, "fsync"); return fails() ? -1 : real(fd); }
int fdatasync(int fd) { int (*real)(int) = dlsym(RTLD_NEXT, "fdatasync"); return fails() ? -1 : real(fd); }
"""


@pytest.mark.skipif(sys.platform != "linux", reason="replaces fsync by the loader of Linux")
@pytest.mark.needs("cc")
async def test_failed_commit_never_comes_back(tmp_path: Path, start: Start) -> None:
    """A row whose COMMIT failed at the sync is not there after `kill -9`, though its frames had reached the -wal."""
    source, library, flag = tmp_path / "sync.c", tmp_path / "sync.so", tmp_path / "fail"
    source.write_text(FAILING_SYNC)
    compiler = await asyncio.create_subprocess_exec("cc", "-shared", "-fPIC", "-o", library, source, "-ldl")
    assert await compiler.wait() == 0
    peer = await start(env={"LD_PRELOAD": str(library), "FAIL_SYNC": str(flag)})
    await peer.ask("put", key="before")
    for key in ("failed", "failed again"):
        flag.touch()
        error, _ = await peer.ask("put", key=key)
        assert error == "StorageUnavailable"
        assert not flag.exists()
    await peer.kill()
    database = await _open(tmp_path)
    assert await database.read(_keys) == {"before"}
    await database.close()


async def test_lease_excludes_and_death_frees(tmp_path: Path, start: Start) -> None:
    """A lease that a living process holds is refused by name of the holder; its death frees it at once."""
    peer = await start()
    assert await peer.ask("take", lease="tree:1") == 1
    database = await _open(tmp_path)
    with pytest.raises(LeaseHeld) as held:
        await database.lease("tree:1")
    assert f"process {peer.process.pid} on " in held.value.holder
    await peer.kill()
    began = time.monotonic()
    lease = await database.lease("tree:1")
    assert time.monotonic() - began < 2
    assert lease.epoch == 2
    await database.write(lease.check)
    await database.close()
    assert not list((tmp_path / "halo.db.members").iterdir()), "a dead member's lock file is left"


async def test_epoch_fences_a_stale_holder(tmp_path: Path, start: Start) -> None:
    """A holder whose lock was lost and whose lease went on writes nothing and is told `LeaseLost`."""
    peer = await start()
    await peer.ask("take", lease="tree:1")
    assert await peer.ask("guarded", key="first") is None
    for lock in (tmp_path / "halo.db.members").iterdir():
        lock.unlink()  # what a careless clean-up does; the process goes on
    database = await _open(tmp_path)
    assert (await database.lease("tree:1")).epoch == 2
    error, _ = await peer.ask("guarded", key="second")
    assert error == LeaseLost.__name__
    assert await database.read(_keys) == {"first"}
    assert await peer.ask("release") is None, "releasing what is lost is harmless"
    assert (await database.lease("tree:1")).epoch == 2
    await database.close()


async def test_release_and_close_hand_over(tmp_path: Path, start: Start) -> None:
    """What a process releases, or holds when it closes its database, can be taken by others at once."""
    peer = await start()
    await peer.ask("take", lease="a")
    await peer.ask("release")
    await peer.ask("take", lease="b")
    database = await _open(tmp_path)
    assert (await database.lease("a")).epoch == 2
    await peer.ask("close")
    assert (await database.lease("b")).epoch == 2
    await database.close()


async def test_one_of_many_gets_a_dead_holders_lease(tmp_path: Path, start: Start) -> None:
    """Of several processes that want a dead one's lease at the same instant, exactly one gets it."""
    holder, *others = [await start() for _ in range(4)]
    await holder.ask("take", lease="tree:1")
    await holder.kill()
    answers = await asyncio.gather(*(other.ask("take", lease="tree:1") for other in others))
    assert [answer for answer in answers if isinstance(answer, int)] == [2]
    assert [answer[0] for answer in answers if not isinstance(answer, int)] == ["LeaseHeld", "LeaseHeld"]


async def test_commits_of_others_ring(tmp_path: Path, start: Start) -> None:
    """A commit of another process rings every bell here, and one of ours rings theirs."""
    peer = await start()
    database = await _open(tmp_path)
    bells = [database.listen("one"), database.listen("two")]
    await peer.ask("put", key="theirs")
    for bell in bells:
        await asyncio.wait_for(bell.wait(), 5)
    await peer.ask("listen", topic="three")
    await database.write(lambda tx: tx.execute("INSERT INTO kv(key) VALUES ('ours')"))
    assert await peer.ask("ring") is None
    await database.close()


@pytest.mark.parametrize(("first", "second"), [(True, True), (False, True)])
async def test_alone_means_alone(tmp_path: Path, start: Start, first: bool, second: bool) -> None:
    """A database that one process has for itself is refused to a second, and one that is shared is not taken alone."""
    peer = await start(alone=first)
    await peer.ask("put", key="first")
    with pytest.raises(StorageUnavailable, match=r"halo\.db"):
        await asyncio.wait_for(_open(tmp_path, alone=second), 15)
    assert await peer.ask("put", key="still here") == "still here"
    await peer.ask("close")
    database = await _open(tmp_path, alone=second)
    assert await database.read(_keys) == {"first", "still here"}
    await database.close()


async def test_many_open_a_new_database_at_once(tmp_path: Path, start: Start) -> None:
    """Processes that create the same database at the same instant all get it, migrated once."""
    peers = [await start(opened=False) for _ in range(4)]
    assert await asyncio.gather(*(peer.ask("open", folder=str(tmp_path)) for peer in peers)) == [None] * 4
    await asyncio.gather(*(peer.ask("put", key=str(number)) for number, peer in enumerate(peers)))
    assert await peers[0].ask("keys") == ["0", "1", "2", "3"]


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
async def test_forked_child_uses_nothing(tmp_path: Path) -> None:
    """A forked child is refused by the database of its parent and does not keep the parent's lock alive."""
    database = await _open(tmp_path)
    await database.lease("tree:1")
    (lock,) = (tmp_path / "halo.db.members").iterdir()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            asyncio.new_event_loop().run_until_complete(database.write(lambda _: None))
        except StorageUnavailable:
            open_here = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if _exists(fd)]
            os.write(writing, b"kept" if str(lock) in open_here else b"refused")
        finally:
            os._exit(0)
    os.close(writing)
    assert os.read(reading, 100) == b"refused"
    os.close(reading)
    await asyncio.to_thread(os.waitpid, child, 0)
    await database.close()


def _exists(descriptor: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{descriptor}")
