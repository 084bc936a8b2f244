"""The same commands give the same answers, whichever way a person asks."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import httpx
import pytest

import halo_api
import halo_workspace
from halo_cli import run
from halo_kernel import Account, CommandFinished, Incoming, Kernel, Presence
from halo_kernel.testing import Front, LineChannel, a_session, journal, listening, running_kernel
from halo_lib_client import Client

Ask = Callable[[str], Awaitable[str]]

SAID = (
    "/help",
    "/help session",
    "/session",
    "/session list",
    "/s i",
    "/session rename Herons at dawn",
    "/session new",
    "/sl",
    "/session switch herons",
    "/session context",
    "/session interrupt",
    "/session compact",
    "/session fork A copy",
    "/session delete nowhere",
    "/session archive",
    "/session stop",
    "/agent ls",
    "/agent desc",
    "/as nobody",
    "/agent delete default",
    "/session fly",
    "/nothing at all",
)


def alike(text: str) -> str:
    """Return an answer without what is another one each time: ids, times and the names of folders."""
    text = re.sub(r"\b(?:sid|cli|line)_[0-9a-z_]+", "ID", text)
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", "TIME", text)
    return re.sub(r"/\S+/way-\w+", "FOLDER", text).strip()


@asynccontextmanager
async def over_line(kernel: Kernel, front: Front, folder: Path, channel: LineChannel) -> AsyncIterator[Ask]:
    """Ask in a chat."""
    await kernel.host.accounts.put(Account(type="line", id="bot", workspace=str(folder), access="full"))
    await kernel.work()
    await asyncio.wait_for(channel.ready.wait(), 5)
    reader, writer = await asyncio.open_connection("127.0.0.1", channel.port)

    async def ask(text: str) -> str:
        line = {"id": text, "chat": "c", "user": "ann", "text": text}
        writer.write(json.dumps(line).encode() + b"\n")
        told: dict[str, str] = {}
        while "part" not in told:
            told = json.loads(await asyncio.wait_for(reader.readline(), 10))
        return told["text"]

    yield ask
    writer.close()


@asynccontextmanager
async def over_http(kernel: Kernel, front: Front, folder: Path, channel: LineChannel) -> AsyncIterator[Ask]:
    """Ask by a program that speaks HTTP, and go on where the answer says."""
    async with httpx.AsyncClient(base_url=front.url, headers=front.headers) as client:
        workspace = (await client.post("/api/workspaces", json={"path": str(folder)})).json()["id"]
        base = f"/api/workspaces/{workspace}/sessions"
        place = [(await client.post(base, json={})).json()["id"]]

        async def ask(text: str) -> str:
            path = f"{base}/{place[-1]}"
            receipt = (await client.post(f"{path}/messages", json={"text": text})).json()
            events = (await client.get(f"{path}/events", params={"after": receipt["cursor"]})).json()["events"]
            (body,) = [each["body"] for each in events if each["kind"] == "command.finished"]
            place.extend(filter(None, [body.get("session")]))
            return str(body["text"])

        yield ask


@asynccontextmanager
async def over_cli(kernel: Kernel, front: Front, folder: Path, channel: LineChannel) -> AsyncIterator[Ask]:
    """Ask by `halo run`, which finds out itself where it goes on."""
    client = Client(folder.parent / "home")
    client.own = Presence(url=front.url, token=front.token, pid=0, version="", started=0)

    @contextmanager
    def reach(*, local: bool) -> Iterator[Client]:
        yield client

    async def ask(text: str) -> str:
        found: list[str] = []
        options = run._options(["-w", str(folder), "--format", "json"])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(run, "reach", reach)
            patch.setattr(run, "answer", found.append)
            code = await asyncio.to_thread(run._run, options, text)
        told = json.loads(found[0])
        assert code == (1 if told["error"] else 0)
        return str(told["error"] or told["text"])

    yield ask


@pytest.mark.parametrize("way", [over_line, over_http, over_cli])
async def test_commands_are_the_same_whichever_way(tmp_path: Path, way: Callable[..., object]) -> None:
    """A chat, HTTP and the command line answer each command as the kernel does, and go on in the same kind of place."""
    channel = LineChannel(limit=10_000)
    extra = {"api": halo_api, "workspace": halo_workspace, "line": channel}
    folder, other = tmp_path / "way-a", tmp_path / "way-b"
    folder.mkdir()
    async with running_kernel(tmp_path / "home", extra=extra) as kernel, listening(kernel) as front:
        session = await a_session(kernel, other)
        async with way(kernel, front, folder, channel) as ask:  # type: ignore[attr-defined]
            for text in SAID:
                await session.submit(Incoming(text=text))
                expected = [each.body for each in await journal(session) if isinstance(each.body, CommandFinished)][-1]
                assert (text, alike(await ask(text))) == (text, alike(expected.text))
                if expected.session:
                    where = session.info.workspace
                    session = await kernel.host.sessions.open(
                        expected.session, workspace=where, principal=Incoming(text="").principal
                    )
