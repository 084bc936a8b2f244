"""A thousand readers of one session, and readers that never read: all others get everything, and memory is bounded."""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from halo_kernel.testing.openai_server import Received, Script, ScriptedOpenAI

from .readers import Deaf, Reader
from .served import Served

READERS, TURNS = 1_000, 3
READER_BYTES = 200_000  # of the server, for each reader
STUCK, LONG, MANY = 5, 100_000, 40  # readers that do not read, characters of an answer, and how many of these
STUCK_BYTES = 120_000_000  # more than before, after 40 answers of 100,000 characters that five readers did not read

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")


def memory(pid: int) -> int:
    """Return the resident bytes of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


class Room:
    """A server with one session, to which somebody speaks."""

    def __init__(self, served: Served, path: str) -> None:
        self.served = served
        self.path = path

    async def say(self, text: str) -> None:
        status, answer = await asyncio.to_thread(
            self.served.call, "POST", f"{self.path}/messages", {"text": text}, timeout=60.0
        )
        assert status == 202, answer


@asynccontextmanager
async def room(folder: Path, answer: Script) -> AsyncGenerator[Room]:
    """Run a server whose model always says the same."""

    def respond(_: Received) -> Script:
        return answer

    async with ScriptedOpenAI(responder=respond) as model:
        env = {"OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": "sk-test", "OPENAI_MODEL": "scripted"}
        served = Served(folder / "home", {**env, "HALO_PLUGINS": "api,openai,workspace"})
        await asyncio.to_thread(served.start)
        try:
            (folder / "w").mkdir()
            _, workspace = served.call("POST", "/api/workspaces", {"path": str(folder / "w")})
            base = f"/api/workspaces/{workspace['id']}/sessions"
            _, session = served.call("POST", base, {})
            yield Room(served, f"{base}/{session['id']}")
        finally:
            await asyncio.to_thread(served.end)


@pytest.mark.timeout(120)
async def test_a_thousand_readers(tmp_path: Path) -> None:
    """Each of a thousand streams of one session has every event once, in order, at a bounded cost in memory."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 3 * READERS:
        pytest.skip(f"a process may open {hard} files here, and this takes {3 * READERS}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 3 * READERS), hard))
    async with room(tmp_path, Script(text="a word " * 20, pieces=20)) as here:
        before = memory(here.served.pid)
        readers = [Reader(here.served, f"{here.path}/stream") for _ in range(READERS)]
        tasks = [asyncio.create_task(reader.run()) for reader in readers]
        for turn in range(1, TURNS + 1):
            await here.say("go on")
            await asyncio.gather(*(reader.turns(turn) for reader in readers))
        grown = memory(here.served.pid) - before
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert await asyncio.to_thread(here.served.stop) == 0
    print(f"{READERS} readers: {grown / READERS / 1e3:.0f} kB each")
    last = max(readers[0].seen)
    assert {tuple(reader.seen) for reader in readers} == {tuple(range(1, last + 1))}
    assert grown < READERS * READER_BYTES


@pytest.mark.timeout(120)
async def test_readers_that_never_read(tmp_path: Path) -> None:
    """Streams that nobody reads delay no turn and no other reader, cost bounded memory, and hold up no end."""
    async with room(tmp_path, Script(text="0123456789" * (LONG // 10), pieces=10)) as here:
        reader = Reader(here.served, f"{here.path}/stream")
        task = asyncio.create_task(reader.run())
        await here.say("go on")
        await reader.turns(1)
        deaf = [Deaf(here.served, f"{here.path}/stream") for _ in range(STUCK)]
        before, began = memory(here.served.pid), time.monotonic()
        for turn in range(2, MANY + 2):
            await here.say("go on")
            await asyncio.wait_for(reader.turns(turn), 10)
        took, grown = time.monotonic() - began, memory(here.served.pid) - before
        print(f"{MANY} turns beside {STUCK} that never read: {took:.1f} s, {grown / 1e6:.0f} MB more")
        began = time.monotonic()
        assert await asyncio.to_thread(here.served.stop) == 0
        assert time.monotonic() - began < 12
        await asyncio.gather(task, return_exceptions=True)
        for each in deaf:
            each.close()
    assert reader.seen == list(range(1, len(reader.seen) + 1))
    assert grown < STUCK_BYTES
