"""Telegram pushes to the server, and nobody else does."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import httpx
import pytest
from tests.platforms.telegram import Stage

from halo_kernel import Account, Kernel
from halo_kernel.testing import Workbench, listening, until

from .conftest import Serve

PATH = "/api/telegram/hook/updates"


@pytest.fixture
async def pushed(serve: Serve, halo: Workbench) -> AsyncGenerator[str]:
    """A server that is pushed to; its address."""
    kernel = await serve(enabled=False)
    async with listening(kernel) as front:
        config: dict[str, object] = {"webhook_url": front.url}
        account = Account(type="telegram", id="hook", workspace=str(halo.folder), config=config)
        await kernel.host.accounts.put(account)
        await until(lambda: is_ready(kernel), what="the webhook")
        yield front.url


async def is_ready(kernel: Kernel) -> bool:
    """Tell whether Telegram was told where to push."""
    return (await kernel.host.accounts.readiness("telegram", "hook")).silence is not None


async def test_what_is_pushed_is_answered(stage: Stage, pushed: str) -> None:
    """A message comes in by the webhook, and its answer goes out as ever, without a poll."""
    ann = stage.user("Ann")
    stage.say(ann, "hello")
    await until(lambda: stage.texts(ann) == ["You said: hello"], what="the answer")
    assert [each["status"] for each in stage.pushes()] == [200]
    assert stage.calls("getUpdates") == []
    (told,) = [each["arguments"] for each in stage.calls("setWebhook")]
    assert (told["url"], told["max_connections"]) == (f"{pushed}{PATH}", "1")


async def test_a_repeat_is_taken_once(stage: Stage, pushed: str) -> None:
    """An update that is pushed twice is taken twice and answered once."""
    ann = stage.user("Ann")
    stage.say(ann, "hello")
    stage.repeat(stage.updates()[0]["update_id"])
    await until(lambda: stage.texts(ann), what="an answer")
    stage.say(ann, "bye")
    await until(lambda: len(stage.texts(ann)) == 2, what="the answers")
    assert [each["status"] for each in stage.pushes()] == [200, 200, 200]
    assert stage.texts(ann) == ["You said: hello", "You said: bye"]


@pytest.mark.parametrize("secret", [None, "", "wrong", "ü"])
async def test_a_push_without_the_secret_is_refused(stage: Stage, pushed: str, secret: str | None) -> None:
    """Who does not know the secret is refused, and nothing of what they say is heard."""
    ann = stage.user("Ann")
    stage.say(ann, "hello")
    await until(lambda: stage.texts(ann), what="the answer")
    headers = {} if secret is None else {"X-Telegram-Bot-Api-Secret-Token": secret.encode()}
    async with httpx.AsyncClient(trust_env=False) as client:
        forged = {**stage.updates()[0], "update_id": 1}
        reply = await client.post(f"{pushed}{PATH}", json=forged, headers=headers)
        other = await client.post(f"{pushed}/api/telegram/nobody/updates", json=forged, headers=headers)
    assert (reply.status_code, other.status_code) == (401, 401)
    assert len(stage.texts(ann)) == 1


async def test_what_is_no_json_is_refused(stage: Stage, pushed: str) -> None:
    """Bad JSON with the right secret is a client's error, and the next update is taken."""
    (told,) = [each["arguments"] for each in stage.calls("setWebhook")]
    headers = {"X-Telegram-Bot-Api-Secret-Token": told["secret_token"]}
    async with httpx.AsyncClient(trust_env=False) as client:
        for body in (b"{", b"[]", b'{"update_id": "x"}', b"\xff"):
            reply = await client.post(f"{pushed}{PATH}", content=body, headers=headers)
            assert reply.status_code == 400, (body, reply.text)
    ann = stage.user("Ann")
    stage.say(ann, "hello")
    await until(lambda: stage.texts(ann), what="the answer")


async def test_a_webhook_ends_where_polls_begin(stage: Stage, serve: Serve, pushed: str) -> None:
    """An account that polls takes the webhook of before away, and gets what was not pushed."""
    ann = stage.user("Ann")
    await serve()
    stage.say(ann, "hello")
    await until(lambda: "You said: hello" in stage.texts(ann), what="the answer")
    assert stage.calls("deleteWebhook")
