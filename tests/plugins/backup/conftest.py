"""A home with a workspace that has something of everything, and what tests do with backups of it."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

import halo_backup
from halo_backup.archive import Archive
from halo_backup.create import Made, Progress, Wish, create, prepare
from halo_backup.restore import Aim, Restored, restore
from halo_kernel import OPERATOR, Incoming, Kernel, Migration
from halo_kernel.testing import a_session, running_kernel

SERVING = Path(__file__).with_name("serving.py")
NOTES = [Migration(version=3, sql="CREATE TABLE notes(text TEXT NOT NULL)")]


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a passphrase cost little: what it costs is in the manifest, and all else is the same."""
    monkeypatch.setattr("halo_backup.sealed.COST", 1 << 10)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home, where commands find it too."""
    monkeypatch.setenv("HALO_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
async def kernel(home: Path, tmp_path: Path) -> AsyncIterator[Kernel]:
    """A kernel on a home with a workspace: a session of two turns, a blob, files, a link; secrets and settings."""
    async with running_kernel(home, extra={"backup": halo_backup}) as kernel:
        await fill(kernel, tmp_path / "w")
        yield kernel


async def fill(kernel: Kernel, folder: Path) -> None:
    """Put something of everything into a home and a workspace."""
    session = await a_session(kernel, folder)
    blob = await kernel.host.blobs.put(session.info.workspace, b"large " * 5000, media_type="text/plain")
    for text in ("first", f"second, see {blob.uri}"):
        await session.prompt(Incoming(text=text)).result
    (folder / ".halo" / "skills").mkdir(exist_ok=True)
    (folder / ".halo" / "skills" / "server.json").write_text("{}")
    (folder / ".halo" / "skills" / "uv.lock").write_text("locked")
    (folder / ".halo" / "skills" / "run.sh").write_text("#!/bin/sh\n")
    (folder / ".halo" / "skills" / "run.sh").chmod(0o755)
    (folder / ".halo" / "skills" / "again.json").symlink_to("server.json")
    (folder / "mine.txt").write_text("not Halo's")
    (kernel.home / "global" / "agents").mkdir(exist_ok=True)
    (kernel.home / "global" / "agents" / "me.yaml").write_text("id: me\n")
    (kernel.home / "secrets" / "backup.secrets").write_text('{"key": "s3cr3t-of-the-home"}')
    (kernel.home / "secrets" / "settings.yaml").write_text("server:\n  port: 1234\n")
    notes = await kernel.host.data.open("notes", "global", NOTES)
    await notes.write(lambda tx: tx.one("INSERT INTO notes VALUES ('noted')"))


async def _make(kernel: Kernel, path: Path, **wish: str) -> Made:
    wanted = Wish(path=path, **wish)
    return await create(kernel.host, wanted, await prepare(kernel.host, wanted), Progress())


@pytest.fixture
def make() -> Callable[..., Awaitable[Made]]:
    """Make a backup of a kernel's home, at a path."""
    return _make


def _put_back(path: Path, home: Path, **aim: Any) -> Restored:
    with Archive(path, lambda what, done, total: None) as archive:
        return restore(archive, Aim(home=home, **aim), lambda what, done, total: None)


@pytest.fixture
def put_back() -> Callable[..., Restored]:
    """Restore a backup into a home."""
    return _put_back


@pytest.fixture
async def saved(home: Path, tmp_path: Path) -> Path:
    """A backup, with secrets under `correct horse`, of a home that nobody serves any more."""
    async with running_kernel(home) as kernel:
        await fill(kernel, tmp_path / "w")
        await _make(kernel, tmp_path / "saved.backup", passphrase="correct horse")
    return tmp_path / "saved.backup"


@pytest.fixture
def said() -> Callable[[Path, Path], Awaitable[list[str]]]:
    """Return what people said in a workspace, by all its sessions, in a home that is opened for it."""

    async def look(home: Path, folder: Path) -> list[str]:
        async with running_kernel(home) as kernel:
            workspace = (await kernel.host.workspaces.open(folder)).id
            found: list[str] = []
            for info in await kernel.host.sessions.list(workspace=workspace, principal=OPERATOR, limit=500):
                view, _ = await kernel.host.sessions.view(info.id, workspace=workspace, principal=OPERATOR)
                found += [item.text for item in view.items.values() if item.kind == "user"]
            return found

    return look


@pytest.fixture
def tree() -> Callable[[Path], dict[str, object]]:
    """Return all that is below a folder: contents, targets of links, but for what belongs to a process alone."""

    def look(root: Path) -> dict[str, object]:
        return {
            path.relative_to(root).as_posix(): os.readlink(path) if path.is_symlink() else path.read_bytes()
            for path in sorted(root.rglob("*"))
            if (path.is_file() or path.is_symlink()) and path.suffix != ".lock"
        }

    return look


class Server:
    """A real server process of a home, with a scripted model, that takes messages at `/api/say`."""

    def __init__(self, home: Path) -> None:
        ready, told = os.pipe()
        command = [sys.executable, str(SERVING), str(home), str(told)]
        self.process = subprocess.Popen(command, pass_fds=(told,), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(told)
        with os.fdopen(ready, "rb") as pipe:
            readable, _, _ = select.select([pipe], [], [], 40)
            self.url = pipe.readline().decode().strip() if readable else ""
        assert self.url, "the server did not start"
        self.token = json.loads((home / "secrets" / "server.json").read_text())["token"]

    def say(self, folder: Path, key: str) -> Any:
        """Send a message and return its receipt: it is durable then."""
        return self.post("/api/say", {"folder": str(folder), "text": key, "key": key})

    def post(self, path: str, body: object) -> Any:
        request = Request(self.url + path, json.dumps(body).encode(), {"Authorization": f"Bearer {self.token}"})
        request.add_header("Content-Type", "application/json")
        with urlopen(request, timeout=20) as answer:
            return json.loads(answer.read())

    def end(self, number: int = signal.SIGTERM) -> None:
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.process.wait(20)


@pytest.fixture
def serve(home: Path) -> Iterator[Callable[[], Server]]:
    """Start a real server process of the home."""
    servers: list[Server] = []

    def start() -> Server:
        servers.append(Server(home))
        return servers[-1]

    yield start
    for server in servers:
        server.end(signal.SIGKILL)


@pytest.fixture
def run() -> Callable[..., Awaitable[int]]:
    """Run a command of ours beside the loop of the test."""
    from halo_backup.command import command

    async def call(*words: object) -> int:
        return await asyncio.to_thread(command, [str(word) for word in words])

    return call
