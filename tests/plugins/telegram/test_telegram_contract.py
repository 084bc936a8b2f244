"""What every channel, dispatcher and plugin has to hold to, before a platform that speaks the Bot API."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace
from tests.platforms.telegram import Stage, TelegramServer
from tests.platforms.telegram.bots import Webhook

from halo_kernel import Account, serving
from halo_kernel.testing import ChannelContract, DispatcherContract, Posted, Workbench, check_plugin, front, until
from halo_lib_text import plain, utf16_length
from halo_telegram.rendering import LIMIT


class Far:
    """Two forums with two topics each; chats and threads go by their numbers."""

    def __init__(self, server: TelegramServer) -> None:
        self._server, self._stage = server, server.stage
        self._ann = self._stage.user("Ann")
        self.chats = [str(self._stage.group("Lamps", [self._ann], forum=True)) for _ in range(2)]
        for chat in self.chats:
            self._stage.say(self._ann, "Hello, all", chat=int(chat))  # a topic never has the number 1
        topics = [[str(self._stage.topic(int(chat), name)) for name in ("t1", "t2")] for chat in self.chats]
        assert topics[0] == topics[1]
        self.threads = topics[0]
        self._updates: dict[str, list[int]] = {}

    async def send(self, key: str, text: str, *, chat: str, thread: str = "") -> None:
        """Have Ann write to the bot, or the platform tell the same again."""
        if key in self._updates:
            self._stage.repeat(self._updates[key][0])
            self._updates[key].append(len(self._stage.calls("getUpdates")))
            return
        self._stage.say(self._ann, f"@halo_bot {text}", chat=int(chat), thread=int(thread or 0))
        self._updates[key] = [self._stage.updates()[-1]["update_id"]]

    def acknowledged(self, key: str) -> int:
        """Return how often the message was confirmed: by a later poll than the one that brought it."""
        number, *repeats = self._updates.get(key, [0])
        waiting = [each["update_id"] for each in self._stage.pending()]
        if not number or number in waiting:
            return 0
        again = [each["update_id"] for each in self._server.world.bot(0).updates.again]
        polls = len(self._stage.calls("getUpdates"))
        return 1 + sum(polls > each for each in repeats if number not in again)

    def posts(self) -> Sequence[Posted]:
        """Return what the groups got to see."""
        shown = [(chat, each) for chat in self.chats for each in self._stage.shown(chat=int(chat))]
        return [Posted(chat=chat, text=each["text"], thread=str(each["thread"] or "")) for chat, each in shown]

    async def cut(self) -> None:
        """Break every connection."""
        self._stage.hang_up()

    async def silence(self) -> None:
        """It says nothing until somebody writes: polls are long."""


class TestTelegram(ChannelContract):
    """The kit's tests of a channel."""

    channel_type = "telegram"
    limit = LIMIT

    def length(self, text: str) -> int:
        """Telegram counts UTF-16 code units of what people see."""
        return utf16_length(plain(text))

    @pytest.fixture
    def channel_env(self, telegram_env: Mapping[str, str]) -> Mapping[str, str]:
        """The environment of its plugin."""
        return telegram_env

    @pytest.fixture
    def platform(self, platform_server: TelegramServer) -> Far:
        """The platform."""
        far = Far(platform_server)
        self.chats, self.threads = far.chats, far.threads
        return far


class Pushing(Far):
    """The same people, of a platform that pushes."""

    def acknowledged(self, key: str) -> int:
        """Return how often a push of the message was answered with 200."""
        number = self._updates.get(key, [0])[0]
        return sum(each["update_id"] == number and each["status"] == 200 for each in self._stage.pushes())

    async def send(self, key: str, text: str, *, chat: str, thread: str = "") -> None:
        """Have Ann write once the platform knows where to push, and what failed before be pushed at once."""
        await until(lambda: self._server.world.bot(0).webhook.url, what="a webhook")
        await super().send(key, text, chat=chat, thread=thread)
        self._stage.hurry()

    async def cut(self) -> None:
        """A push is a request of its own; what failed is given up, for the platform would wait to push it again."""
        self._server.world.bot(0).updates.clear()
        self._stage.hurry()


class TestPushed(TestTelegram):
    """The kit's tests of a channel, where the platform pushes to a server that hands on to the kernel of the test."""

    is_called = True

    @pytest.fixture(autouse=True)
    async def address(self, halo: Workbench, platform_server: TelegramServer) -> AsyncGenerator[None]:
        """A server."""

        async def app(scope: Any, receive: Any, send: Any) -> None:
            async def once(event: Any) -> None:
                """Answer, and close the connection: what stays open would be the platform's."""
                if event["type"] == "http.response.start":
                    event["headers"] = [*event["headers"], (b"connection", b"close")]
                await send(event)

            assert halo.kernel
            await front(halo.kernel, url=self.url).app(scope, receive, once)

        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{sock.getsockname()[1]}"
            async with serving(app, sock, stopping=asyncio.Event()):
                yield
                platform_server.world.bot(0).webhook = Webhook()

    def account(self, workspace: str) -> Account:
        """The account is pushed to."""
        return replace(super().account(workspace), config={"webhook_url": self.url})

    @pytest.fixture
    def platform(self, platform_server: TelegramServer) -> Pushing:
        """The platform."""
        far = Pushing(platform_server)
        self.chats, self.threads = far.chats, far.threads
        return far


class TestOutgoing(DispatcherContract):
    """The kit's tests of a dispatcher, whose target is a person's chat."""

    dispatcher_kind = "telegram"
    limit = LIMIT
    can_hang = True

    @pytest.fixture(autouse=True)
    def chat(self, stage: Stage) -> int:
        """A person who has started the bot."""
        self._stage = stage
        self._ann = stage.user("Ann", started=[0])
        stage.say(self._ann, "/start")
        self.target = f"telegram:bot:{self._ann}"
        self.missing = "telegram:bot:12345"
        return self._ann

    @pytest.fixture
    def dispatcher_env(self, telegram_env: Mapping[str, str]) -> Mapping[str, str]:
        """The environment of its plugin."""
        return telegram_env

    async def prepare(self, halo: Workbench) -> None:
        """Make the account that the target names."""
        assert halo.kernel
        halo.folder.mkdir(exist_ok=True)
        await halo.kernel.host.accounts.put(Account(type="telegram", id="bot", workspace=str(halo.folder)))

    def hang_next(self) -> None:
        """Have the platform say nothing."""
        self._stage.fault("delay", method="sendMessage", seconds=3600)

    async def arrived(self, halo: Workbench) -> Sequence[str]:
        """Return what the person sees."""
        return self._stage.texts(self._ann)


def test_the_rules_are_kept() -> None:
    """The plugin is packed and declared as the kernel wants it."""
    assert check_plugin("halo_telegram") == []
