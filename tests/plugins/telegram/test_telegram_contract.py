"""What every channel, dispatcher and plugin has to hold to, before a platform that speaks the Bot API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from tests.platforms.telegram import Stage, TelegramServer

from halo_kernel import Account
from halo_kernel.testing import ChannelContract, DispatcherContract, Posted, Workbench, check_plugin
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
