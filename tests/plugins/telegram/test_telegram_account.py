"""How an account is made: what is asked for, what Telegram says of it, and by settings alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import pytest
from tests.platforms.telegram import Stage, TelegramServer

from halo_kernel import Account, BadInput, DeliveryFailed, GuidedChannel
from halo_kernel.testing import Workbench, until
from halo_telegram.channel import Telegram

from .conftest import repeat


@pytest.fixture
async def channel(halo: Workbench, telegram_env: Mapping[str, str]) -> GuidedChannel:
    """The channel of a kernel."""
    kernel = await halo.start(env=telegram_env)
    return cast(Telegram, kernel.host.lookup("channel", "telegram"))


def account(halo: Workbench, **config: object) -> Account:
    """Return an account as a person begins it."""
    return Account(type="telegram", id="new", workspace=str(halo.folder), config=config)


async def test_a_probe_says_who_the_bot_is(channel: GuidedChannel, halo: Workbench, stage: Stage) -> None:
    """The account is named after the bot, and nothing is received."""
    token = stage.bot("Lamp_Bot")["token"]
    found = await channel.probe(account(halo, groups="all"), {"token": f" {token}\n"})
    assert (found.id, found.label, found.config["groups"]) == ("lamp_bot", "@Lamp_Bot", "all")
    assert [each["method"] for each in stage.calls()] == ["getMe"]
    assert [each.name for each in channel.fields] == ["token", "groups", "webhook_url"]


@pytest.mark.parametrize("token", ["", "987", "7000000001:wrong", "../getMe", "7000000001:AAE\n-halo_bot", "ü"])
async def test_a_token_that_is_none_is_refused(channel: GuidedChannel, halo: Workbench, token: str) -> None:
    """The error names the field, and what to do; it does not have the token."""
    with pytest.raises(BadInput) as refused:
        await channel.probe(account(halo), {"token": token})
    assert refused.value.field == "token"
    assert "BotFather" in refused.value.advice
    assert not token or token not in refused.value.message


@pytest.mark.parametrize("config", [{"groups": "some"}])
async def test_a_value_that_is_none_is_refused(
    channel: GuidedChannel, halo: Workbench, stage: Stage, config: dict[str, object]
) -> None:
    """Each value has its rule."""
    with pytest.raises(BadInput) as refused:
        await channel.probe(account(halo, **config), {"token": "1:a"})
    assert refused.value.field in config
    assert stage.calls() == []


async def test_a_webhook_is_https(halo: Workbench) -> None:
    """Telegram itself pushes to nothing else."""
    kernel = await halo.start(env={})
    channel = cast(Telegram, kernel.host.lookup("channel", "telegram"))
    with pytest.raises(BadInput) as refused:
        await channel.probe(account(halo, webhook_url="http://halo.example"), {"token": "1:a"})
    assert refused.value.field == "webhook_url"


async def test_a_platform_that_is_not_there_is_no_fault_of_the_token(
    channel: GuidedChannel, halo: Workbench, platform_server: TelegramServer
) -> None:
    """Where Telegram is not reached the error says so."""
    kernel = await halo.start(env={"HALO_TELEGRAM_BASE_URL": "http://127.0.0.1:9"})
    channel = cast(Telegram, kernel.host.lookup("channel", "telegram"))
    with pytest.raises(DeliveryFailed, match="was not reached"):
        await channel.probe(account(halo), {"token": "1:a"})


async def test_the_settings_make_an_account(halo: Workbench, telegram_env: Mapping[str, str], stage: Stage) -> None:
    """A workspace in the settings is enough; what else an operator has changed stays."""
    env = {**telegram_env, "HALO_TELEGRAM_WORKSPACE": str(halo.folder), "HALO_TELEGRAM_USERS": "5,@ann"}
    halo.folder.mkdir(exist_ok=True)
    kernel = await halo.start(env=env)
    await kernel.work()
    await until(lambda: kernel.host.accounts.list("telegram"), what="the account")
    (made,) = await kernel.host.accounts.list("telegram")
    assert (made.id, made.allowed, made.access) == ("main", ("5", "@ann"), "readonly")
    await until(stage.polling, what="a poll")


async def test_an_account_without_a_token_says_so(halo: Workbench, platform_server: TelegramServer) -> None:
    """It is not ready, with the reason."""
    halo.folder.mkdir(exist_ok=True)
    kernel = await halo.start(env={"HALO_TELEGRAM_BASE_URL": platform_server.url})
    await kernel.host.accounts.put(Account(type="telegram", id="bot", workspace=str(halo.folder)))
    await kernel.work()

    async def says_so() -> bool:
        return "has no token" in (await kernel.host.accounts.readiness("telegram", "bot")).reason

    await until(says_so, what="the reason")


async def test_a_token_of_its_own_goes_before_that_of_the_settings(
    halo: Workbench, telegram_env: Mapping[str, str], stage: Stage
) -> None:
    """Two accounts with two tokens are two bots, which answer each in its own chats."""
    other = stage.bot("other_bot")
    halo.folder.mkdir(exist_ok=True)
    halo.model.responder = repeat
    kernel = await halo.start(env=telegram_env)
    first = next(each for each in stage._world.bots.values() if each.id != other["id"])
    for name, secrets in (("one", None), ("two", {"token": other["token"]})):
        made = Account(type="telegram", id=name, workspace=str(halo.folder))
        await kernel.host.accounts.put(made, secrets=secrets)
    await kernel.work()
    ann = stage.user("Ann")
    stage.say(ann, "to the first", bot=first.id)
    stage.say(ann, "to the other", bot=other["id"])
    await until(lambda: stage.texts(ann, bot=first.id) == ["You said: to the first"], what="one answer")
    await until(lambda: stage.texts(ann, bot=other["id"]) == ["You said: to the other"], what="the other answer")
