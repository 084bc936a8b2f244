"""Run a program in a process group of its own, with bounded time and output; when cut, nothing of it stays."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Literal, cast

Ended = Literal["exited", "timeout", "limit", "stopped"]

OUTPUT_LIMIT = 5 * 1024 * 1024
TIMEOUT = 120.0
GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL to the group."""

SETTLE = 0.2
"""Seconds that output may still come in after the program has ended, for as long as children hold the pipes."""

_CHUNK = 1 << 16
_LOOK = 0.02
_killing: set[asyncio.Task[None]] = set()


@dataclass(frozen=True)
class Identity:
    """The user and group that a process of root runs as."""

    user: int
    group: int


@dataclass(frozen=True)
class Finished:
    """What came of a program: `code` as in `subprocess` (negative: the signal), `ended` why it ended.

    `timeout`, `limit` (too much output) and `stopped` mean that it was killed; the output up to then is there.
    """

    code: int
    out: bytes
    err: bytes
    ended: Ended = "exited"

    @property
    def stdout(self) -> str:
        return self.out.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        return self.err.decode("utf-8", "replace")


@dataclass
class _Output:
    """The bytes of both streams, within one limit."""

    limit: int
    told: Callable[[bytes], None] | None
    parts: dict[str, bytearray] = field(default_factory=lambda: {"out": bytearray(), "err": bytearray()})
    full: asyncio.Event = field(default_factory=asyncio.Event)

    async def open(self, name: str) -> tuple[int, asyncio.Task[None]]:
        """Return the end of a pipe for the program, and the task that reads the other end.

        The pipes are ours and not asyncio's, so that the program's end does not wait for children that hold them.
        """
        ours, theirs = os.pipe()
        stream = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(ours, "rb", 0)
        )
        return theirs, asyncio.create_task(self._read(name, stream, transport))

    async def _read(self, name: str, stream: asyncio.StreamReader, transport: asyncio.ReadTransport) -> None:
        """Read a stream to its end; bytes past the limit are thrown away."""
        try:
            while chunk := await stream.read(_CHUNK):
                room = self.limit - sum(map(len, self.parts.values()))
                self.parts[name] += chunk[:room]
                if self.told is not None:
                    self.told(chunk)
                if len(chunk) > room:
                    self.full.set()
        finally:
            transport.close()


async def run(
    argv: Sequence[str],
    *,
    cwd: str | os.PathLike[str],
    env: Mapping[str, str],
    timeout: float = TIMEOUT,
    limit: int = OUTPUT_LIMIT,
    stop: Callable[[], Awaitable[None]] | None = None,
    on_output: Callable[[bytes], None] | None = None,
    identity: Identity | None = None,
    feed: bytes = b"",
) -> Finished:
    """Run a program to its end and return its output.

    After `timeout` seconds, more than `limit` bytes of output, or when `stop()` returns, its process group gets
    SIGTERM, two seconds later SIGKILL. Cancelling does the same. A child that the program left running when it ended
    by itself lives on; one that moved to a session of its own is never reached. `feed` is what it reads from stdin.
    Raises `OSError` when it cannot be started.
    """
    output = _Output(limit, on_output)
    pipes = (await output.open("out"), await output.open("err"))
    readers = [reader for _, reader in pipes]
    try:
        process = await _start(argv, (pipes[0][0], pipes[1][0]), feed, cwd=str(cwd), env=env, identity=identity)
    except BaseException:
        _cancel(readers)
        raise
    finally:
        for end, _ in pipes:
            os.close(end)
    exited = asyncio.ensure_future(process.wait())
    try:
        ended = await _await_end(exited, output, timeout, stop)
        if ended != "exited":
            await kill_group(process.pid)
        await asyncio.wait({exited, *readers}, timeout=SETTLE)
    except asyncio.CancelledError:
        await _kill_despite_cancel(process.pid)
        await asyncio.wait({exited}, timeout=SETTLE)
        raise
    finally:
        _cancel((exited, *readers))
    return _finished(process.returncode, output, ended)


async def kill_group(group: int) -> None:
    """End a process group: SIGTERM, up to two seconds, SIGKILL. When cancelled, SIGKILL at once."""
    try:
        for number, patience in ((signal.SIGTERM, GRACE), (signal.SIGKILL, SETTLE)):
            if not _signal(group, number):
                return
            for _ in range(round(patience / _LOOK)):
                await asyncio.sleep(_LOOK)
                if not _signal(group, 0):
                    return
    except asyncio.CancelledError:
        _signal(group, signal.SIGKILL)
        raise


def _signal(group: int, number: int) -> bool:
    """Send a signal to a group (0: only look) and tell whether there is somebody in it."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):  # macOS: a group of zombies is not permitted
        return False
    return True


async def _kill_despite_cancel(group: int) -> None:
    """Kill in a task that a second cancel of the caller does not touch."""
    task = asyncio.create_task(kill_group(group))
    _killing.add(task)
    task.add_done_callback(_killing.discard)
    await asyncio.shield(task)


def _cancel(tasks: Iterable[asyncio.Future[Any]]) -> None:
    for task in tasks:
        task.cancel()


async def _start(
    argv: Sequence[str],
    ends: tuple[int, int],
    feed: bytes,
    *,
    cwd: str,
    env: Mapping[str, str],
    identity: Identity | None,
) -> asyncio.subprocess.Process:
    with _spool(feed) as given:
        return await asyncio.create_subprocess_exec(
            *argv,
            stdin=given,
            stdout=ends[0],
            stderr=ends[1],
            cwd=cwd,
            env=dict(env),
            start_new_session=True,
            user=identity.user if identity else None,
            group=identity.group if identity else None,
            extra_groups=[] if identity else None,
        )


def _spool(feed: bytes) -> BinaryIO:
    """Return a file that a program reads `feed` from, without anybody who must write it in time."""
    file = tempfile.TemporaryFile() if feed else open(os.devnull, "r+b")  # noqa: SIM115
    file.write(feed)
    file.seek(0)
    return cast("BinaryIO", file)


async def _await_end(
    exited: asyncio.Future[int], output: _Output, timeout: float, stop: Callable[[], Awaitable[None]] | None
) -> Ended:
    """Wait for whatever ends the program."""
    ways: dict[asyncio.Future[Any], Ended] = {exited: "exited", asyncio.ensure_future(output.full.wait()): "limit"}
    if stop is not None:
        ways[asyncio.ensure_future(stop())] = "stopped"
    try:
        done, _ = await asyncio.wait(ways, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        _cancel(way for way in ways if way is not exited)
    for way in ways:
        if way in done:
            return ways[way]
    return "timeout"


def _finished(code: int | None, output: _Output, ended: Ended) -> Finished:
    if ended == "exited" and output.full.is_set():
        ended = "limit"
    return Finished(
        -signal.SIGKILL if code is None else code, bytes(output.parts["out"]), bytes(output.parts["err"]), ended
    )
