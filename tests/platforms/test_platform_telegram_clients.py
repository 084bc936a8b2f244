"""python-telegram-bot and aiogram run on the platform unchanged, and live through its faults."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec

import pytest

from .pictures import PNG
from .telegram import Stage, TelegramServer, as_process

if (find_spec("telegram") is None or find_spec("aiogram") is None) and not os.environ.get("HALO_CI"):
    pytest.skip("python-telegram-bot or aiogram is not installed here", allow_module_level=True)
from .telegram.aiogram_bot import aiogram
from .telegram.ptb_bot import SECRET, ptb

Running = Callable[[str, str], AbstractAsyncContextManager[None]]


def pushed(url: str, token: str) -> AbstractAsyncContextManager[None]:
    """Run python-telegram-bot by a webhook."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return ptb(url, token, webhook=port)


POLLING = [pytest.param(ptb, id="ptb-polling"), pytest.param(aiogram, id="aiogram-polling")]
EVERY = [*POLLING, pytest.param(pushed, id="ptb-webhook")]


@dataclass
class Scene:
    """A platform with one bot and one person."""

    server: TelegramServer
    token: str
    ann: int

    @property
    def stage(self) -> Stage:
        return self.server.stage

    async def said(self, count: int = 1, *, chat: int = 0) -> list[str]:
        """Wait until the person sees so many messages of the bot."""
        await self.server.world.until(lambda: len(self.stage.texts(self.ann, chat=chat)) >= count, 40)
        return self.stage.texts(self.ann, chat=chat)


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    """A platform for one test."""
    async with TelegramServer() as server:
        token = server.stage.bot()["token"]
        yield Scene(server, token, server.stage.user("Ann"))


@pytest.mark.parametrize("client", EVERY)
async def test_a_text_is_answered(scene: Scene, client: Running) -> None:
    """A person's text reaches the bot, and its answer the person."""
    async with client(scene.server.url, scene.token):
        scene.stage.say(scene.ann, "höi 👋")
        assert await scene.said() == ["echo: höi 👋"]


@pytest.mark.parametrize("client", EVERY)
async def test_what_was_said_before_the_start_is_answered(scene: Scene, client: Running) -> None:
    """What waits when the bot starts is delivered, in order and once."""
    for number in range(3):
        scene.stage.say(scene.ann, f"{number}")
    async with client(scene.server.url, scene.token):
        assert await scene.said(3) == ["echo: 0", "echo: 1", "echo: 2"]


@pytest.mark.parametrize("client", EVERY)
async def test_a_photo_comes_back(scene: Scene, client: Running) -> None:
    """A photo is fetched by its path and sent anew, with its caption."""
    scene.stage.send(scene.ann, "photo", PNG, caption="a dot")
    async with client(scene.server.url, scene.token):
        assert await scene.said() == ["a dot"]
    (shown,) = scene.stage.shown(scene.ann)
    assert shown["media"] == "photo"
    assert scene.stage.content(shown["file"]["file_id"]) == PNG


@pytest.mark.parametrize("client", EVERY)
async def test_a_document_comes_back(scene: Scene, client: Running) -> None:
    """A document keeps its bytes and its name."""
    scene.stage.send(scene.ann, "document", b"one\r\n--two", filename="bericht ü.txt", mime="text/plain")
    async with client(scene.server.url, scene.token):
        await scene.said()
    (shown,) = scene.stage.shown(scene.ann)
    assert (shown["media"], shown["file"]["file_name"]) == ("document", "bericht ü.txt")
    assert scene.stage.content(shown["file"]["file_id"]) == b"one\r\n--two"


@pytest.mark.parametrize("client", EVERY)
async def test_an_edit_arrives_as_one(scene: Scene, client: Running) -> None:
    """An edited message is an update of its own kind."""
    message = scene.stage.say(scene.ann, "frist")
    scene.stage.edit(scene.ann, message, "first")
    async with client(scene.server.url, scene.token):
        assert await scene.said(2) == ["echo: frist", "edited: first"]


@pytest.mark.parametrize("client", EVERY)
async def test_a_button_is_pressed_and_answered(scene: Scene, client: Running) -> None:
    """A pressed button ends its wait, and the message with it changes."""
    async with client(scene.server.url, scene.token):
        scene.stage.say(scene.ann, "/start")
        assert await scene.said() == ["Ready?"]
        (asked,) = scene.stage.shown(scene.ann)
        assert asked["entities"] == [{"type": "bold", "offset": 0, "length": 5}]
        scene.stage.press(scene.ann, asked["message_id"], "yes")
        await scene.server.world.until(lambda: scene.stage.texts(scene.ann) == ["pressed: yes"], 40)
    assert [popup["text"] for popup in scene.stage.popups()] == ["thanks"]
    assert scene.stage.shown(scene.ann)[0]["buttons"] == []


@pytest.mark.parametrize("client", EVERY)
async def test_a_topic_is_answered_in_itself(scene: Scene, client: Running) -> None:
    """An answer goes to the topic that its question came from."""
    forum = scene.stage.group("Team", [scene.ann], forum=True, admin=True)
    topic = scene.stage.topic(forum, "Plans")
    async with client(scene.server.url, scene.token):
        scene.stage.say(scene.ann, "here", chat=forum, thread=topic)
        scene.stage.say(scene.ann, "general", chat=forum)
        await scene.said(2, chat=forum)
    assert scene.stage.texts(chat=forum, thread=topic) == ["echo: here"]
    assert scene.stage.texts(chat=forum, thread=0) == ["echo: general"]


@pytest.mark.parametrize("client", EVERY)
async def test_commands_are_registered(scene: Scene, client: Running) -> None:
    """The list of commands is what the bot registered."""
    async with client(scene.server.url, scene.token):
        pass
    (listed,) = scene.stage.commands()
    assert listed["commands"] == [{"command": "start", "description": "Begin"}]


@pytest.mark.parametrize("client", POLLING)
@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "error", "status": 502, "description": "Bad Gateway"},
        {"kind": "flood", "retry_after": 1},
        {"kind": "lost_request"},
        {"kind": "lost_answer"},
        {"kind": "half_answer"},
        {"kind": "cut_poll"},
        {"kind": "conflict"},
    ],
    ids=lambda fault: str(fault["kind"]),
)
async def test_polling_goes_on_after_a_fault(scene: Scene, client: Running, fault: dict[str, object]) -> None:
    """A getUpdates that fails loses nothing: the same updates come with the next."""
    scene.stage.fault(method="getUpdates", skip=1, **fault)  # type: ignore[arg-type]  # each has its kind
    async with client(scene.server.url, scene.token):
        scene.stage.say(scene.ann, "one")
        await scene.said(1)
        scene.stage.say(scene.ann, "two")
        assert await scene.said(2) == ["echo: one", "echo: two"]
    assert [each["fired"] for each in scene.stage.faults()] == [1]


@pytest.mark.parametrize("client", EVERY)
async def test_a_flood_wait_is_kept(scene: Scene, client: Running) -> None:
    """A send that is refused with `retry_after` is made once more, and is seen once."""
    scene.stage.fault("flood", method="sendMessage", retry_after=1)
    async with client(scene.server.url, scene.token):
        scene.stage.say(scene.ann, "hello")
        assert await scene.said() == ["echo: hello"]
    refused, sent = scene.stage.calls("sendMessage")
    assert refused["outcome"] == "flood: 429 Too Many Requests: retry after 1"
    assert sent["at"] - refused["at"] >= 1


async def test_a_webhook_gets_the_secret_and_every_update_once(scene: Scene) -> None:
    """A push that the bot's server does not take is made again, in order."""
    scene.stage.rules(webhook_backoff=0.01)
    async with pushed(scene.server.url, scene.token):
        hook = scene.server.world.bot(0).webhook
        right, hook.secret = hook.secret, "wrong"
        for number in range(3):
            scene.stage.say(scene.ann, f"{number}")
        await scene.server.world.until(lambda: len(scene.stage.pushes()) >= 3, 40)
        hook.secret = right
        assert await scene.said(3) == ["echo: 0", "echo: 1", "echo: 2"]
    assert right == SECRET
    assert scene.stage.pushes()[0]["error"].startswith("Wrong response from the webhook: 403 ")


@contextmanager
def killed(url: str, token: str) -> Iterator[None]:
    """Run an echo as a process, and kill it."""
    command = [sys.executable, "-m", "tests.platforms.telegram.ptb_bot", url, token]
    with subprocess.Popen(command) as process:
        try:
            yield
        finally:
            process.kill()


def test_a_killed_bot_finds_what_it_had_not_confirmed() -> None:
    """The platform outlives a bot that is killed, and gives the next one what was not confirmed."""
    with as_process() as telegram:
        token, ann = telegram.stage.bot()["token"], telegram.stage.user("Ann")
        with killed(telegram.url, token):
            telegram.stage.say(ann, "one")
            telegram.until(lambda stage: "echo: one" in stage.texts(ann), timeout=60)
        telegram.stage.say(ann, "two")
        with killed(telegram.url, token):
            telegram.until(lambda stage: "echo: two" in stage.texts(ann), timeout=60)
        assert set(telegram.stage.texts(ann)) == {"echo: one", "echo: two"}
