"""Another process with a database open: one JSON command a line in, one JSON answer a line out."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import threading
from pathlib import Path
from typing import Any

from halo_kernel import Bell, Database, HaloError, Lease, Migration, Place, Tx
from halo_kernel.sqlite import SqliteStorage

MIGRATIONS = [Migration(version=1, sql="CREATE TABLE kv(key TEXT PRIMARY KEY, value TEXT)")]


def put(key: str, value: str, lease: Lease | None = None) -> Any:
    """Return a function that writes one row, guarded by a lease when there is one."""

    def write(tx: Tx) -> str:
        if lease is not None:
            lease.check(tx)
        tx.execute(
            "INSERT INTO kv(key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            (key, value),
        )
        return key

    return write


class Peer:
    """The commands."""

    database: Database
    lease: Lease
    bell: Bell

    async def open(self, folder: str, name: str = "halo", alone: bool | None = None) -> None:
        storage = SqliteStorage(alone=alone)
        self.database = await storage.open(Place(name=name, scope="workspace", directory=Path(folder)), MIGRATIONS)

    async def take(self, lease: str) -> int:
        self.lease = await self.database.lease(lease)
        return self.lease.epoch

    async def release(self) -> None:
        await self.lease.release()

    async def guarded(self, key: str) -> None:
        await self.database.write(put(key, "guarded", self.lease))

    async def put(self, key: str, value: str = "") -> str:
        return await self.database.write(put(key, value))

    async def keys(self) -> list[str]:
        return await self.database.read(lambda tx: [row[0] for row in tx.execute("SELECT key FROM kv ORDER BY key")])

    async def listen(self, topic: str) -> None:
        self.bell = self.database.listen(topic)

    async def ring(self) -> None:
        await asyncio.wait_for(self.bell.wait(), 10)

    async def close(self) -> None:
        await self.database.close()

    async def pour(self, count: int) -> None:
        """Write rows for ever, `count` at a time, and name each on a line of its own once it is acknowledged."""

        async def one(caller: int) -> None:
            number = 0
            while True:
                key = await self.database.write(put(f"{caller}.{number}", "x" * 500))
                os.write(1, f'"{key}"\n'.encode())
                number += 1

        await asyncio.gather(*(one(caller) for caller in range(count)))

    async def overfill(self, rows: int, size: int, room: int) -> dict[str, Any]:
        """Write `rows` rows in one batch while files may grow by `room` bytes only; return what was acknowledged."""
        go = threading.Event()
        waiting = asyncio.ensure_future(self.database.write(lambda _: go.wait(10)))
        await asyncio.sleep(0.05)
        writes = [asyncio.ensure_future(self.database.write(put(f"row{row:03}", "x" * size))) for row in range(rows)]
        await asyncio.sleep(0.05)
        path: Path = self.database.path  # type: ignore[attr-defined]
        wal = path.with_name(f"{path.name}-wal")
        size_now = max(path.stat().st_size, wal.stat().st_size if wal.exists() else 0)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size_now + room, hard))
        go.set()
        ended = await asyncio.gather(*writes, return_exceptions=True)
        await waiting
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        return {
            "written": [key for key in ended if isinstance(key, str)],
            "errors": sorted({type(error).__name__ for error in ended if isinstance(error, BaseException)}),
        }


async def serve() -> None:
    """Answer commands until the input ends."""
    peer = Peer()
    while line := await asyncio.to_thread(sys.stdin.readline):
        command = json.loads(line)
        try:
            answer = {"ok": await getattr(peer, command.pop("do"))(**command)}
        except HaloError as error:
            answer = {"error": type(error).__name__, "message": error.message}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    asyncio.run(serve())
