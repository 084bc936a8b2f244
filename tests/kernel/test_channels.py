"""Channels: what arrives is durable before it is acknowledged, goes to its conversation's session, and is answered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from halo_kernel import (
    Account,
    Arrival,
    BadInput,
    Exchange,
    Kernel,
    NotFound,
    Principal,
    Readiness,
    Route,
    WorkspaceUnusable,
    WrongCredentials,
    hook,
)
from halo_kernel.testing import Answer, LineChannel, ScriptedModel, listening, running_kernel, until


class Client:
    """A person's end of the line."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def send(self, key: str, text: str, *, chat: str = "c", user: str = "ann", **more: object) -> None:
        line = {"id": key, "chat": chat, "user": user, "text": text, **more}
        self._writer.write(json.dumps(line).encode() + b"\n")
        await self._writer.drain()

    async def next(self) -> dict[str, Any]:
        return json.loads(await asyncio.wait_for(self._reader.readline(), 10))

    async def until(self, key: str) -> dict[str, Any]:
        while key not in (told := await self.next()):
            pass
        return told


@asynccontextmanager
async def line(
    home: Path, folder: Path, *, model: ScriptedModel | None = None, **account: Any
) -> AsyncGenerator[tuple[Kernel, Client, LineChannel]]:
    """Run a server's kernel with one account of the line channel, and a client of it."""
    channel = LineChannel()
    folder.mkdir(exist_ok=True)
    async with running_kernel(home, model=model, extra={"line": channel}) as kernel:
        await kernel.host.accounts.put(Account(type="line", id="bot", workspace=str(folder), **account))
        await kernel.work()
        await asyncio.wait_for(channel.ready.wait(), 5)
        reader, writer = await asyncio.open_connection("127.0.0.1", channel.port)
        yield kernel, Client(reader, writer), channel
        writer.close()


async def test_a_message_is_acknowledged_when_durable_and_answered_in_its_chat(tmp_path: Path) -> None:
    """The acknowledgement follows the commit, the answer comes to the same chat in parts, each once."""
    model = ScriptedModel([Answer("y" * 450)])
    async with line(tmp_path / "home", tmp_path / "w", model=model, access="workspace") as (kernel, client, _):
        await client.send("1", "hello")
        assert await client.next() == {"ack": "1"}
        parts = [await client.next() for _ in range(3)]
        assert [each["chat"] for each in parts] == ["c"] * 3
        assert [len(each["text"]) for each in parts] == [200, 200, 50]
        workspace = (await kernel.host.workspaces.list())[0]
        (delivery,) = await kernel.host.outbox.list(workspace=workspace.id)
        assert delivery.target == "line:bot:c" and delivery.debt == "reply"
        seen = model.requests[0].messages[0].content[0]
        assert seen.text == "[channel: line | user: ann]\nhello"  # type: ignore[union-attr]


async def test_a_repeat_is_acknowledged_and_not_answered_again(tmp_path: Path) -> None:
    """The same id, sent twice at once or after a restart, is one message with one answer."""
    async with line(tmp_path / "home", tmp_path / "w") as (kernel, client, channel):
        await client.send("1", "hello")
        await client.send("1", "hello")
        await client.until("part")
        await client.send("1", "hello")
        await client.until("ack")
        workspace = (await kernel.host.workspaces.list())[0]
        assert len(await kernel.host.outbox.list(workspace=workspace.id)) == 1
        assert len(channel._sent) == 1
    async with line(tmp_path / "home", tmp_path / "w") as (kernel, client, channel):
        await client.send("1", "hello")
        assert await client.next() == {"ack": "1"}
        await asyncio.sleep(0.2)
        assert not channel._sent


async def test_a_chat_and_a_thread_have_a_session_each(tmp_path: Path) -> None:
    """Messages of one chat and thread share a session, others have their own; an archived one has a successor."""
    async with line(tmp_path / "home", tmp_path / "w") as (kernel, _client, _):
        receipts = {}
        account = (await kernel.host.accounts.list("line"))[0]
        door = kernel.host.accounts.door(account)
        for key, chat, thread in [("1", "a", ""), ("2", "a", ""), ("3", "a", "t"), ("4", "b", "")]:
            arrival = Arrival(key=key, chat=chat, thread=thread, user="ann", text=key)
            receipts[key] = await door.arrive(arrival)
        found = {key: receipt.session for key, receipt in receipts.items() if receipt}
        assert found["1"] == found["2"] and len(set(found.values())) == 3
        workspace = (await kernel.host.workspaces.list())[0]
        owner = Principal(name="line:bot:a:")
        session = await kernel.host.sessions.open(found["1"], workspace=workspace.id, principal=owner)
        await session.archive()
        again = await door.arrive(Arrival(key="5", chat="a", user="ann", text="5"))
        assert again is not None and again.session not in found.values()


async def test_two_first_messages_at_once_share_a_session(tmp_path: Path) -> None:
    """A conversation has one session, however many of its first messages come together."""
    async with line(tmp_path / "home", tmp_path / "w") as (kernel, _, _channel):
        door = kernel.host.accounts.door((await kernel.host.accounts.list())[0])
        arrivals = [Arrival(key=str(n), chat="c", user=f"u{n}", text="hi") for n in range(20)]
        receipts = await asyncio.gather(*map(door.arrive, arrivals))
        assert len({receipt.session for receipt in receipts if receipt}) == 1


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_who_is_not_allowed_is_told_so_once(tmp_path: Path, language: str) -> None:
    """A user who is not on the account's list starts nothing, and hears why in its language, once."""
    model = ScriptedModel()
    async with line(tmp_path / "home", tmp_path / "w", model=model, allowed=("ann",), language=language) as (
        _kernel,
        client,
        channel,
    ):
        await client.send("1", "let me in", user="eve")
        await client.send("2", "please", user="eve")
        said = await client.until("part")
        assert ("eve" in said["text"]) and (("allowed" in said["text"]) == (language == "en"))
        await client.send("3", "hi")
        assert (await client.until("part"))["text"].startswith("echo:")
        assert len(channel._sent) == 2 and len(model.requests) == 1


async def test_a_message_runs_at_the_accounts_level_of_now(tmp_path: Path) -> None:
    """A lowered level holds from the next message on; a raised one never lifts what the session began with."""
    async with line(tmp_path / "home", tmp_path / "w", access="workspace") as (kernel, _, _channel):
        account = (await kernel.host.accounts.list())[0]
        await kernel.host.accounts.door(account).arrive(Arrival(key="1", chat="c", user="ann", text="one"))
        levels = []
        for key, access in (("2", "readonly"), ("3", "full")):
            changed = Account(type="line", id="bot", workspace=account.workspace, access=access)  # type: ignore[arg-type]
            await kernel.host.accounts.put(changed)
            receipt = await kernel.host.accounts.door(changed).arrive(Arrival(key=key, chat="c", user="ann", text=key))
            assert receipt is not None
            workspace = (await kernel.host.workspaces.list())[0]
            database = kernel.workspaces.seats[workspace.id].database
            row = await database.read(lambda tx, n=receipt.row: tx.one("SELECT access FROM inbox WHERE id = ?", (n,)))
            levels.append(row[0] if row else None)
        assert levels == ["readonly", "workspace"]


async def test_accounts_are_checked_and_kept(tmp_path: Path) -> None:
    """An account names a usable workspace; types may share ids; a removed one and its token are gone."""
    async with running_kernel(tmp_path / "home") as kernel:
        accounts, folder = kernel.host.accounts, str(tmp_path)
        with pytest.raises(WorkspaceUnusable):
            await accounts.put(Account(type="line", id="a", workspace=str(tmp_path / "nowhere")))
        with pytest.raises(BadInput) as caught:
            await accounts.put(Account(type="line", id="a b", workspace=folder))
        assert caught.value.field == "id"
        wanted = [
            Account(type=each, id="a", workspace=folder, config={"x": [1]}, allowed=("u",)) for each in ("k", "l")
        ]
        for account in wanted:
            await accounts.put(account)
        assert list(await accounts.list()) == wanted and list(await accounts.list("k")) == wanted[:1]
        first, second = await accounts.issue_token("k", "a"), await accounts.issue_token("k", "a")
        assert (await kernel.accounts.authenticate("k", second)).name == "k:a"
        for type, token in (("k", first), ("l", second), ("k", "")):
            with pytest.raises(WrongCredentials):
                await kernel.accounts.authenticate(type, token)
        await accounts.remove("k", "a")
        with pytest.raises(WrongCredentials):
            await kernel.accounts.authenticate("k", second)
        with pytest.raises(NotFound):
            await accounts.issue_token("k", "a")


class Door:
    """A plugin with one route of the account scheme."""

    async def handle(self, exchange: Exchange) -> dict[str, str]:
        return {"who": exchange.principal.name}

    @hook
    def provide_routes(self) -> list[Route]:
        return [
            Route(method="GET", path="/api/line/me", handler=self.handle, summary="Say who it is", auth="account:line")
        ]


async def test_wrong_tokens_lock_an_address_out(tmp_path: Path) -> None:
    """A missing token is 401 and not counted; after five wrong ones even the right one is 429, whoever is forwarded."""
    async with running_kernel(tmp_path / "home", extra={"door": Door()}) as kernel:
        await kernel.host.accounts.put(Account(type="line", id="bot", workspace=str(tmp_path)))
        token = await kernel.host.accounts.issue_token("line", "bot")
        async with listening(kernel) as found, httpx.AsyncClient(base_url=found.url) as client:
            for _ in range(10):
                assert (await client.get("/api/line/me")).status_code == 401
            good = await client.get("/api/line/me", headers={"x-token": token})
            assert good.json() == {"who": "line:bot"}
            assert (await client.get("/api/line/me", params={"token": token})).status_code == 200
            for number in range(5):
                forged = {"x-token": "wrong", "x-forwarded-for": f"9.9.9.{number}"}
                assert (await client.get("/api/line/me", headers=forged)).status_code == 401
            locked = await client.get("/api/line/me", headers={"x-token": token})
            assert locked.status_code == 429 and int(locked.headers["retry-after"]) > 600


async def test_readiness_is_the_age_of_what_was_heard(tmp_path: Path) -> None:
    """What is heard makes an account ready; silence, trouble, a switch and a missing plugin make it not, and say so."""
    async with line(tmp_path / "home", tmp_path / "w") as (kernel, client, channel):
        accounts = kernel.host.accounts
        with pytest.raises(NotFound):
            await accounts.readiness("line", "other")
        now = await accounts.readiness("line", "bot")
        assert now.ready and now.reason == "" and now.silence is not None and now.silence < 5
        account = (await accounts.list())[0]
        door = accounts.door(account)
        door.failed("the token was revoked")
        assert (await accounts.readiness("line", "bot")).reason == "the token was revoked"
        await client.send("1", "hello")
        await client.until("ack")
        assert (await accounts.readiness("line", "bot")).ready
        channel.silence = 0.0
        assert (await accounts.readiness("line", "bot")).reason == "the platform has said nothing for 0 s"
        await accounts.put(Account(type="ghost", id="bot", workspace=account.workspace))
        assert (await accounts.readiness("ghost", "bot")).reason == "no plugin brings the channel ghost"
        await accounts.put(Account(type="line", id="bot", workspace=account.workspace, enabled=False))
        assert await accounts.readiness("line", "bot") == Readiness(ready=False, reason="it is disabled")


async def test_an_account_of_a_command_does_not_run(tmp_path: Path) -> None:
    """A kernel that does not serve says so of its accounts."""
    async with running_kernel(tmp_path / "home", extra={"line": LineChannel()}) as kernel:
        await kernel.host.accounts.put(Account(type="line", id="bot", workspace=str(tmp_path)))
        assert (await kernel.host.accounts.readiness("line", "bot")).reason == "it does not run here"


async def test_an_account_that_never_heard_anything_is_not_ready_in_time(tmp_path: Path) -> None:
    """A platform that never answers is silent from the start."""

    class Deaf(LineChannel):
        async def run(self, account: Account, door: Any) -> None:
            await asyncio.Event().wait()

    async with running_kernel(tmp_path / "home", extra={"line": Deaf(silence=0.2)}) as kernel:
        await kernel.host.accounts.put(Account(type="line", id="bot", workspace=str(tmp_path)))
        await kernel.work()
        await until(lambda: kernel.host.accounts.readiness("line", "bot"), what="the account")

        async def is_red() -> bool:
            return not (await kernel.host.accounts.readiness("line", "bot")).ready

        await until(is_red, what="silence")


class Breaking(LineChannel):
    """A line that breaks at its first two starts."""

    starts = 0

    async def run(self, account: Account, door: Any) -> None:
        self.starts += 1
        if self.starts < 3:
            raise ConnectionResetError("the platform hung up")
        await super().run(account, door)


async def test_a_channel_that_fails_is_run_again(tmp_path: Path) -> None:
    """A transport that breaks is started again after a wait, and the account goes on."""
    channel = Breaking()
    async with running_kernel(tmp_path / "home", extra={"line": channel}) as kernel:
        await kernel.host.accounts.put(Account(type="line", id="bot", workspace=str(tmp_path)))
        await kernel.work()
        await until(lambda: channel.starts)
        readiness = await kernel.host.accounts.readiness("line", "bot")
        assert readiness == Readiness(ready=False, reason="the platform hung up")
        await asyncio.wait_for(channel.ready.wait(), 10)
        assert channel.starts == 3
        assert (await kernel.host.accounts.readiness("line", "bot")).ready


async def test_an_accounts_secrets_are_its_own(tmp_path: Path) -> None:
    """They stay when the account changes, are in no list, and are masked once they were read; others have none."""
    async with line(tmp_path / "home", tmp_path / "w") as (kernel, _client, _):
        accounts = kernel.host.accounts
        (account,) = await accounts.list()
        await accounts.put(account, secrets={"token": "a-long-token-of-the-bot"})
        await accounts.put(replace(account, label="Bot"))
        assert "a-long-token" not in repr(await accounts.list())
        found = await accounts.secrets("line", "bot")
        assert {name: secret.reveal() for name, secret in found.items()} == {"token": "a-long-token-of-the-bot"}
        assert kernel.host.secrets.mask("with a-long-token-of-the-bot") == "with <secret line:bot:token>"
        await accounts.put(account, secrets={})
        assert await accounts.secrets("line", "bot") == {}
        with pytest.raises(NotFound):
            await accounts.secrets("line", "other")
