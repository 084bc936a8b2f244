"""What every channel and its dispatcher have to hold to, as tests that a plugin's own tests inherit."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, cast, get_args

import pytest

from ..contracts import Channel, Dispatcher, Door
from ..errors import HaloError, StorageUnavailable
from ..records import Account, Arrival, Guarantee, ModelRequest, Receipt, Text
from .leaks import LeakGuard
from .model import Answer, Step
from .sessions import soon, unless
from .workbench import Workbench

_SECONDS = 10.0
_FLOOD_SECONDS = 30.0
_FLOOD = 100
_END_SECONDS = 2.0
_QUIET_SECONDS = 0.4
_WRONG_SECONDS = 0.4  # in which what should not happen would
_STEP = 0.01
_SLUG = re.compile(r"[a-z][a-z0-9_-]{0,31}")


@dataclass(frozen=True, kw_only=True)
class Posted:
    """A message that the users of a chat got to see; `thread` is '' outside of threads."""

    chat: str
    text: str
    thread: str = ""


class Platform(Protocol):
    """The far end of a channel, as a suite holds it: what users write, and what they get to see."""

    async def send(self, key: str, text: str, *, chat: str, thread: str = "") -> None:
        """Have a user write, waiting for the channel where it must; return when the message is on its way.

        A key that was sent before is the same message once more, as of a platform that missed the acknowledgement.
        """

    def acknowledged(self, key: str) -> int:
        """Return how often the channel has said that it took this message in."""
        ...

    def posts(self) -> Sequence[Posted]:
        """Return what users got to see, in order."""
        ...

    async def cut(self) -> None:
        """Break every connection with the channel, and hold none of its own until the next message."""

    async def silence(self) -> None:
        """Tell the channel nothing, not even that there is nothing new, until the next message."""


@dataclass
class _Door:
    """A door that notes what arrives, and lets it in when the test does."""

    arrivals: list[Arrival] = field(default_factory=list[Arrival])
    heards: int = 0
    troubles: list[str] = field(default_factory=list[str])
    error: HaloError | None = None
    refuses: bool = False
    delay: float = 0.0
    open: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.open.set()

    async def arrive(self, arrival: Arrival) -> Receipt | None:
        """Note it; return, or raise, as soon as the door is open."""
        self.heard()
        self.arrivals.append(arrival)
        await asyncio.sleep(self.delay)
        await self.open.wait()
        if self.error is not None:
            raise self.error
        number = len(self.arrivals)
        return None if self.refuses else Receipt(session="s", row=number, key=arrival.key, at=number, cursor="")

    def heard(self) -> None:
        """Count it."""
        self.heards += 1

    def failed(self, why: str) -> None:
        """Note it."""
        self.troubles.append(why)


class ChannelContract:
    """Tests for one channel with its dispatcher, before a platform that the subclass plays.

    A subclass names the type and gives the platform; the plugin comes from the fixture `halo_plugins`, which may ask
    for the platform to know where it is. The fixture `channel_env` gives the variables that the plugin is configured
    with, the method `account` the account that it works for::

        class TestPigeons(ChannelContract):
            channel_type = "pigeon"
            limit = 200

            @pytest.fixture
            def platform(self) -> Platform:
                return Loft()

    `limit` is the longest message that the platform takes, as `length` counts it. `chats` and `threads` are names that
    the platform could give, `threads` empty where it has none. `is_called` marks a channel that hears nothing of its
    platform but messages; so does one whose `silence` is None.
    """

    channel_type: str
    limit: int
    chats: Sequence[str] = ("c1", "c2")
    threads: Sequence[str] = ("t1", "t2")
    is_called: bool = False

    @pytest.fixture
    def platform(self) -> Platform:
        """The far end; a subclass overrides it."""
        raise NotImplementedError("give the platform that your channel talks to")

    @pytest.fixture
    def channel_env(self) -> Mapping[str, str]:
        """The environment that the plugin reads its settings from."""
        return {}

    def account(self, workspace: str) -> Account:
        """Return the account to work for."""
        return Account(type=self.channel_type, id="contract", workspace=workspace, access="workspace")

    def length(self, text: str) -> int:
        """Return how long the platform counts a text to be."""
        return len(text)

    async def given(self, halo: Workbench, env: Mapping[str, str]) -> tuple[Channel, Dispatcher]:
        """Return the channel and its dispatcher from a kernel that runs neither."""
        kernel = await halo.start(env=env)
        found = [kernel.host.lookup(kind, self.channel_type) for kind in ("channel", "dispatcher")]
        names = ", ".join(kernel.accounts.channels) or "none"
        assert found[0], f"the plugins provide no channel {self.channel_type}; they provide: {names}"
        assert found[1], f"no dispatcher is of the kind {self.channel_type}, so nothing carries the channel's answers"
        return cast("tuple[Channel, Dispatcher]", tuple(found))

    @asynccontextmanager
    async def receiving(
        self, halo: Workbench, channel: Channel, platform: Platform, door: Door
    ) -> AsyncGenerator[None]:
        """Run the channel on a door of the test's, again whenever it fails, as the kernel does."""
        task = asyncio.create_task(_kept(channel, self.account(str(halo.folder)), door))
        try:
            yield
            assert not task.done(), f"{self.channel_type}: run returned, though nobody had cancelled it"
        finally:
            task.cancel()
            await asyncio.wait({task}, timeout=_END_SECONDS)
            await platform.cut()

    @asynccontextmanager
    async def serving(self, halo: Workbench, env: Mapping[str, str], platform: Platform) -> AsyncGenerator[None]:
        """Run a server's kernel with the account, whose model repeats the last word that it was told."""
        halo.model.responder = _repeat
        kernel = await halo.start(env=env)
        await kernel.host.accounts.put(self.account(str(halo.folder)))
        await kernel.work()
        try:
            yield
        finally:
            await platform.cut()
            await halo.close()

    @pytest.mark.asyncio
    async def test_its_type_is_its_dispatchers_kind(self, channel_env: Mapping[str, str], halo: Workbench) -> None:
        """The type is a slug, the dispatcher of that kind says what it promises, and silence has an end."""
        channel, dispatcher = await self.given(halo, channel_env)
        assert _SLUG.fullmatch(channel.type), f"{channel.type!r} is no type: a-z first, then a-z, 0-9, '_' and '-'"
        assert channel.type == dispatcher.kind, f"channel {channel.type} has a dispatcher of the kind {dispatcher.kind}"
        assert dispatcher.guarantee in get_args(Guarantee), f"{dispatcher.guarantee!r} is no guarantee"
        seconds = channel.silence
        assert seconds is None or seconds > 0, f"{channel.type}: silence is a number of seconds, not {seconds!r}"

    @pytest.mark.asyncio
    @pytest.mark.parametrize("refuses", [False, True], ids=["allowed", "not_allowed"])
    async def test_it_acknowledges_what_was_taken_in(
        self, platform: Platform, channel_env: Mapping[str, str], halo: Workbench, refuses: bool
    ) -> None:
        """A message is acknowledged when `door.arrive` has returned, not before; one whose user was not allowed too."""
        channel, _ = await self.given(halo, channel_env)
        door = _Door(refuses=refuses)
        door.open.clear()
        async with self.receiving(halo, channel, platform, door):
            await _send(platform, "m1", "hello", chat=self.chats[0])
            await _soon(lambda: door.arrivals, "a message never came to `door.arrive`")
            await unless(lambda: platform.acknowledged("m1"), _WRONG_SECONDS)
            assert not platform.acknowledged("m1"), "a message was acknowledged before `door.arrive` had returned"
            door.open.set()
            await _soon(lambda: platform.acknowledged("m1"), "`door.arrive` returned, and nothing was acknowledged")
            assert "hello" in door.arrivals[0].text, f"what was sent as 'hello' arrived as {door.arrivals[0].text!r}"

    @pytest.mark.asyncio
    async def test_it_does_not_acknowledge_what_was_not_taken_in(
        self, platform: Platform, channel_env: Mapping[str, str], halo: Workbench
    ) -> None:
        """When `door.arrive` raises, the platform is not told that the message arrived; sent again, it does."""
        channel, _ = await self.given(halo, channel_env)
        door = _Door(error=StorageUnavailable("the disk is full"))
        async with self.receiving(halo, channel, platform, door):
            await _send(platform, "m1", "hello", chat=self.chats[0])
            await _soon(lambda: door.arrivals, "a message never came to `door.arrive`")
            await unless(lambda: platform.acknowledged("m1"), _WRONG_SECONDS)
            assert not platform.acknowledged("m1"), "a message was acknowledged though `door.arrive` raised"
            door.error = None
            await _send(platform, "m1", "hello", chat=self.chats[0])
            await _soon(lambda: platform.acknowledged("m1"), "after a refusal, the message was not taken in any more")
            keys = {arrival.key for arrival in door.arrivals}
            assert len(keys) == 1, f"one message arrived under the keys {', '.join(sorted(keys))}"

    @pytest.mark.asyncio
    async def test_a_repeat_is_acknowledged_and_not_answered_again(
        self, platform: Platform, channel_env: Mapping[str, str], halo: Workbench
    ) -> None:
        """A message that comes twice, at once or after its answer, is acknowledged each time and answered once."""
        async with self.serving(halo, channel_env, platform):
            for _ in range(2):
                await _send(platform, "m1", "say hello", chat=self.chats[0])
            await _soon(lambda: platform.acknowledged("m1") >= 2, "a repeat was not acknowledged")
            await _soon(platform.posts, "a message was never answered")
            await _send(platform, "m1", "say hello", chat=self.chats[0])
            await _soon(lambda: platform.acknowledged("m1") >= 3, "a repeat was not acknowledged after the answer")
            await unless(lambda: len(platform.posts()) > 1, _WRONG_SECONDS)
            count = len(platform.posts())
            assert count == 1, f"one message that came three times was answered {count} times"

    @pytest.mark.asyncio
    async def test_one_message_has_one_answer_in_its_place(
        self, platform: Platform, channel_env: Mapping[str, str], halo: Workbench
    ) -> None:
        """Each message is answered once, in the chat that it came from, and there in its thread."""
        places = [(chat, thread) for chat in self.chats for thread in ("", *self.threads)]
        async with self.serving(halo, channel_env, platform):
            for number, (chat, thread) in enumerate(places):
                await _send(platform, f"m{number}", f"say word{number}x", chat=chat, thread=thread)
            for number, place in enumerate(places):
                answered = partial(_found, platform, f"word{number}x")
                await _soon(answered, f"what was said in {place} (chat, thread) was never answered")
            await asyncio.sleep(_QUIET_SECONDS)
            for number, place in enumerate(places):
                found = [(post.chat, post.thread) for post in _found(platform, f"word{number}x")]
                assert found == [place], f"the answer to {place} (chat, thread) came to {found}"

    @pytest.mark.asyncio
    async def test_a_long_answer_comes_whole_and_in_order(
        self, platform: Platform, channel_env: Mapping[str, str], halo: Workbench
    ) -> None:
        """An answer over the limit comes in parts within it, in order, without a gap and nothing twice."""
        words = [f"w{number:06}" for number in range(3 * self.limit // 8 + 1)]
        halo.model.then(Answer(" ".join(words)))
        async with self.serving(halo, channel_env, platform):
            await _send(platform, "m1", "tell me", chat=self.chats[0])
            await _soon(lambda: words[-1] in _joined(platform), "the end of a long answer never came")
            lengths = [self.length(post.text) for post in platform.posts()]
            assert max(lengths) <= self.limit, f"the parts are {lengths} long, and the platform takes {self.limit}"
            told = re.findall(r"w\d{6}", _joined(platform))
            assert told == words, f"of {len(words)} words {len(told)} came, or in another order"

    @pytest.mark.asyncio
    @pytest.mark.parametrize("piece", ["a", "漢", "😀", "word ", "line\n", "**b** ", "e\u0301"])
    async def test_parts_fit_and_lose_nothing(
        self, channel_env: Mapping[str, str], halo: Workbench, piece: str
    ) -> None:
        """Any text is cut into parts within the limit, none of them empty, which are all of it."""
        _, dispatcher = await self.given(halo, channel_env)
        text = piece * (2 * self.limit // len(piece) + 3)
        parts = list(dispatcher.split(text))
        lengths = [self.length(part) for part in parts]
        assert max(lengths) <= self.limit, f"parts of {piece!r} are {lengths} long, and the platform takes {self.limit}"
        assert all(part.strip() for part in parts), f"a part of {piece!r} is empty"
        assert "".join("".join(parts).split()) == "".join(text.split()), f"something of {piece!r} is lost in its parts"

    @pytest.mark.asyncio
    @pytest.mark.parametrize("busy", [False, True], ids=["idle", "busy"])
    async def test_a_cancel_ends_it_and_leaves_nothing(
        self, platform: Platform, channel_env: Mapping[str, str], halo: Workbench, busy: bool
    ) -> None:
        """A cancelled `run` has ended within two seconds, with every task and socket, even while a message comes in.

        What it opens once and keeps, such as its database, it may have after its first run.
        """
        channel, _ = await self.given(halo, channel_env)
        await self.cancelled(channel, platform, str(halo.folder), busy=False, key="first")
        guard = LeakGuard()
        await self.cancelled(channel, platform, str(halo.folder), busy=busy, key="second")
        left = await guard.left()
        assert not left, f"{self.channel_type}: run has ended and left behind: " + "; ".join(left)

    async def cancelled(self, channel: Channel, platform: Platform, folder: str, *, busy: bool, key: str) -> None:
        """Run a channel until it has taken a message in, or is taking one in when it is `busy`, and cancel it."""
        door = _Door()
        task = asyncio.create_task(channel.run(self.account(folder), door))
        try:
            await _send(platform, key, "hello", chat=self.chats[0])
            await _soon(lambda: platform.acknowledged(key) or task.done(), "a message was never acknowledged")
            if busy:
                door.open.clear()
                await _send(platform, f"{key} too", "hello", chat=self.chats[0])
                await _soon(lambda: len(door.arrivals) > 1, "a message never came to `door.arrive`")
            assert not task.done(), f"{self.channel_type}: run ended by itself: {task!r}"
        finally:
            task.cancel()
            await asyncio.wait({task}, timeout=_END_SECONDS)
            await platform.cut()
        assert task.done(), f"{self.channel_type}: run went on for {_END_SECONDS:g} s after its cancel"

    @pytest.mark.asyncio
    async def test_it_receives_again_after_a_failure(
        self, platform: Platform, channel_env: Mapping[str, str], halo: Workbench
    ) -> None:
        """After a broken connection, and when it is run anew, the channel takes messages in as before."""
        channel, _ = await self.given(halo, channel_env)
        door = _Door()
        async with self.receiving(halo, channel, platform, door):
            await _send(platform, "m1", "hello", chat=self.chats[0])
            await _soon(lambda: platform.acknowledged("m1"), "a message was never acknowledged")
            await platform.cut()
            await _send(platform, "m2", "hello", chat=self.chats[0])
            await _soon(lambda: platform.acknowledged("m2"), "after its connection broke, the channel took nothing in")
        async with self.receiving(halo, channel, platform, door):
            await _send(platform, "m3", "hello", chat=self.chats[0])
            await _soon(lambda: platform.acknowledged("m3"), "run for the second time, the channel took nothing in")

    @pytest.mark.asyncio
    async def test_what_is_heard_is_the_platform(
        self, platform: Platform, channel_env: Mapping[str, str], halo: Workbench
    ) -> None:
        """`door.heard` is called when the platform answers, without a message too, and not while it says nothing."""
        channel, _ = await self.given(halo, channel_env)
        door = _Door()
        async with self.receiving(halo, channel, platform, door):
            if not self.is_called and channel.silence is not None:
                await _soon(lambda: door.heards, "the platform answers, and `door.heard` was never called")
            await _send(platform, "m1", "hello", chat=self.chats[0])
            await _soon(lambda: platform.acknowledged("m1"), "a message was never acknowledged")
            await platform.silence()
            await asyncio.sleep(_QUIET_SECONDS)
            before = door.heards
            await unless(lambda: door.heards > before, 3 * _WRONG_SECONDS)
            more = door.heards - before
            assert not more, f"`door.heard` was called {more} times while the platform said nothing"

    @pytest.mark.asyncio
    async def test_a_flood_is_taken_in_whole(
        self, platform: Platform, channel_env: Mapping[str, str], halo: Workbench
    ) -> None:
        """A hundred messages at once all arrive, those of a chat in their order, and all are acknowledged."""
        channel, _ = await self.given(halo, channel_env)
        door = _Door(delay=0.005)
        sent = [(f"m{number:03}", self.chats[number % len(self.chats)]) for number in range(_FLOOD)]
        async with self.receiving(halo, channel, platform, door):
            for key, chat in sent:
                await _send(platform, key, f"text of {key}", chat=chat)

            def lost() -> list[str]:
                return [key for key, _ in sent if not platform.acknowledged(key)]

            await _soon(
                lambda: not lost(), lambda: f"of {_FLOOD} messages {lost()} were not taken in", seconds=_FLOOD_SECONDS
            )
            for chat in self.chats:
                texts = dict.fromkeys(arrival.text for arrival in door.arrivals if arrival.chat == chat)
                keys = [found[0] for text in texts if (found := re.findall(r"m\d{3}", text))]
                assert keys == [key for key, where in sent if where == chat], f"chat {chat} arrived as {keys}"


async def _kept(channel: Channel, account: Account, door: Door) -> None:
    while True:
        try:
            return await channel.run(account, door)
        except Exception:
            await asyncio.sleep(_STEP)


async def _send(platform: Platform, key: str, text: str, *, chat: str, thread: str = "") -> None:
    try:
        async with asyncio.timeout(_SECONDS):
            await platform.send(key, text, chat=chat, thread=thread)
    except TimeoutError:
        raise AssertionError(f"message {key} could not be sent: the channel did not receive") from None


async def _soon(
    condition: Callable[[], object], complaint: str | Callable[[], str], *, seconds: float | None = None
) -> None:
    """Return when `condition` is true, or raise `AssertionError`."""
    await soon(condition, complaint, seconds or _SECONDS)


def _repeat(request: ModelRequest) -> Step:
    texts = [block.text for message in request.messages for block in message.content if isinstance(block, Text)]
    return Answer(f"answer: {texts[-1].split()[-1]}")


def _found(platform: Platform, word: str) -> list[Posted]:
    return [post for post in platform.posts() if word in post.text]


def _joined(platform: Platform) -> str:
    """Return all that users saw as one text without white space, for a part may end within a word."""
    return "".join("".join(post.text for post in platform.posts()).split())
