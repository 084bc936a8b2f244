"""The contract suite for channels: the line channel passes, and each rule that a broken channel breaks is named."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from halo_kernel import Account, DeliveryFailed, Part, hook
from halo_kernel.contracts import Door
from halo_kernel.testing import ChannelContract, LineChannel, Posted, Workbench


class LineClient:
    """The far end of a line: one connection, made when a message is to be sent."""

    def __init__(self, channel: LineChannel) -> None:
        self._channel = channel
        self._acks: list[str] = []
        self._posts: list[Posted] = []
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None

    async def send(self, key: str, text: str, *, chat: str, thread: str = "") -> None:
        await self._channel.ready.wait()
        if self._reading is None or self._reading.done():
            reader, self._writer = await asyncio.open_connection("127.0.0.1", self._channel.port)
            self._reading = asyncio.create_task(self._read(reader))
        assert self._writer
        message = {"id": key, "chat": chat, "thread": thread, "user": "ann", "text": text}
        self._writer.write(json.dumps(message).encode() + b"\n")
        await self._writer.drain()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        with suppress(ConnectionError):
            while line := await reader.readline():
                told = json.loads(line)
                self._acks += [told[name] for name in ("ack", "refused") if name in told]
                if "part" in told:
                    self._posts.append(Posted(chat=told["chat"], thread=told["thread"], text=told["text"]))

    def acknowledged(self, key: str) -> int:
        return self._acks.count(key)

    def posts(self) -> Sequence[Posted]:
        return self._posts

    async def cut(self) -> None:
        if self._writer is not None and self._reading is not None:
            self._writer.close()
            self._reading.cancel()
            await asyncio.wait({self._reading})
            self._writer = self._reading = None

    async def silence(self) -> None:
        """It never says anything but messages."""


class LineContract(ChannelContract):
    channel_type = "line"
    limit = 200


class TestLine(LineContract):
    @pytest.fixture
    def line(self) -> LineChannel:
        return LineChannel()

    @pytest.fixture
    def halo_plugins(self, line: LineChannel) -> Iterable[object]:
        return [line]

    @pytest.fixture
    def platform(self, line: LineChannel) -> LineClient:
        return LineClient(line)


async def broken(tmp_path: Path, channel: LineChannel, test: str, *more: Any) -> str:
    """Run one test of the contract on a channel and return why it fails."""
    halo, client = Workbench(tmp_path, plugins=[channel]), LineClient(channel)
    halo.folder.mkdir()
    about: tuple[Any, ...] = (client,)
    if test in ("test_its_type_is_its_dispatchers_kind", "test_parts_fit_and_lose_nothing"):
        about = ()
    try:
        with pytest.raises(AssertionError) as caught:
            await getattr(LineContract(), test)(*about, {}, halo, *more)
    finally:
        await client.cut()
        await halo.close()
    return str(caught.value)


class Telling(LineChannel):
    """A line whose way of taking a message in a test changes."""

    async def take(self, door: Door, told: dict[str, Any]) -> bytes:
        return await LineChannel._taken(self, door, json.dumps(told).encode())

    async def _taken(self, door: Door, line: bytes) -> bytes:
        return await self.take(door, json.loads(line))


def ack(key: str) -> bytes:
    return json.dumps({"ack": key}).encode() + b"\n"


class Hasty(Telling):
    """Acknowledges, and then takes in."""

    _later: asyncio.Task[bytes] | None = None

    async def take(self, door: Door, told: dict[str, Any]) -> bytes:
        self._later = asyncio.create_task(super().take(door, dict(told)))
        return ack(told["id"])


class Rosy(Telling):
    """Acknowledges what was not taken in."""

    async def take(self, door: Door, told: dict[str, Any]) -> bytes:
        await super().take(door, dict(told))
        return ack(told["id"])


class Stubborn(Telling):
    """Never acknowledges a user who is not allowed."""

    async def take(self, door: Door, told: dict[str, Any]) -> bytes:
        line = await super().take(door, told)
        return b"\n" if b"refused" in line else line


class Renaming(Telling):
    """Gives each coming of a message a key of its own."""

    count = 0

    async def take(self, door: Door, told: dict[str, Any]) -> bytes:
        key, self.count = told["id"], self.count + 1
        line = await super().take(door, {**told, "id": f"{key}-{self.count}"})
        return ack(key) if b"ack" in line.partition(b":")[0] and b"nack" not in line else line


class Quiet(Telling):
    """Knows a message again, and says nothing to a repeat."""

    seen: set[str]

    async def take(self, door: Door, told: dict[str, Any]) -> bytes:
        self.seen = getattr(self, "seen", set())
        if told["id"] in self.seen:
            return b"{}\n"
        self.seen.add(told["id"])
        return await super().take(door, told)


class Sieve(Telling):
    """Loses every tenth message of a flood, and lets nobody know."""

    async def take(self, door: Door, told: dict[str, Any]) -> bytes:
        return b"{}\n" if told["id"].endswith("9") else await super().take(door, told)


class Stacked(Telling):
    """Takes the last of a flood in first."""

    async def take(self, door: Door, told: dict[str, Any]) -> bytes:
        if told["id"] == "m000":
            told["text"] = "text of m999"
        return await super().take(door, told)


class Threadless(LineChannel):
    """Answers in the chat, whatever the thread."""

    async def deliver(self, part: Part) -> str:
        segments = part.target.split(":")
        return await super().deliver(type(part)(**{**_fields(part), "target": ":".join(segments[:3])}))


class Twofold(LineChannel):
    """Delivers everything twice."""

    async def deliver(self, part: Part) -> str:
        await super().deliver(type(part)(**{**_fields(part), "key": f"{part.key}-copy"}))
        return await super().deliver(part)


class Tall(LineChannel):
    """Does not cut."""

    def split(self, text: str) -> Sequence[str]:
        return [text]


class Lossy(LineChannel):
    """Loses a character where it cuts."""

    def split(self, text: str) -> Sequence[str]:
        return [part[1:] for part in super().split(text)]


class Gone(LineChannel):
    """Delivers nothing."""

    async def deliver(self, part: Part) -> str:
        raise DeliveryFailed("not today", permanent=True)


class Deaf(LineChannel):
    """Ignores its cancel for a while."""

    async def run(self, account: Account, door: Door) -> None:
        try:
            await super().run(account, door)
        except asyncio.CancelledError:
            await asyncio.sleep(2.5)


class Littering(LineChannel):
    """Leaves a task behind."""

    left: asyncio.Task[None]

    async def run(self, account: Account, door: Door) -> None:
        self.left = asyncio.create_task(asyncio.sleep(5), name="litter")
        await super().run(account, door)


class Once(LineChannel):
    """Runs once."""

    ran = False

    async def run(self, account: Account, door: Door) -> None:
        if self.ran:
            raise RuntimeError("the port is taken")
        self.ran = True
        await super().run(account, door)


class Ticking(LineChannel):
    """Says by the clock that its platform was heard."""

    async def run(self, account: Account, door: Door) -> None:
        async def tick() -> None:
            while True:
                door.heard()
                await asyncio.sleep(0.1)

        ticking = asyncio.create_task(tick())
        try:
            await super().run(account, door)
        finally:
            ticking.cancel()


class Mute(LineChannel):
    """Never says that its platform was heard."""

    async def run(self, account: Account, door: Door) -> None:
        class Half:
            arrive = door.arrive

            def heard(self) -> None: ...

        await super().run(account, Half())


class Alone(LineChannel):
    """Has no dispatcher."""

    @hook
    def provide_dispatchers(self) -> Sequence[LineChannel]:
        return []


def _fields(part: Part) -> dict[str, Any]:
    return {name: getattr(part, name) for name in part.__struct_fields__}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("channel", "test", "more", "message"),
    [
        (Hasty, "test_it_acknowledges_what_was_taken_in", (False,), "acknowledged before `door.arrive` had returned"),
        (Stubborn, "test_it_acknowledges_what_was_taken_in", (True,), "returned, and nothing was acknowledged"),
        (Rosy, "test_it_does_not_acknowledge_what_was_not_taken_in", (), "acknowledged though `door.arrive` raised"),
        (Renaming, "test_it_does_not_acknowledge_what_was_not_taken_in", (), "under the keys m1-1, m1-2"),
        (Renaming, "test_a_repeat_is_acknowledged_and_not_answered_again", (), "was answered 2 times"),
        (Quiet, "test_a_repeat_is_acknowledged_and_not_answered_again", (), "a repeat was not acknowledged"),
        (Threadless, "test_one_message_has_one_answer_in_its_place", (), "the answer to ('c1', 't1') (chat, thread)"),
        (Twofold, "test_one_message_has_one_answer_in_its_place", (), "came to [('c1', ''), ('c1', '')]"),
        (Gone, "test_one_message_has_one_answer_in_its_place", (), "was never answered"),
        (Tall, "test_a_long_answer_comes_whole_and_in_order", (), "and the platform takes 200"),
        (Twofold, "test_a_long_answer_comes_whole_and_in_order", (), "or in another order"),
        (Tall, "test_parts_fit_and_lose_nothing", ("a",), "and the platform takes 200"),
        (Lossy, "test_parts_fit_and_lose_nothing", ("漢",), "is lost in its parts"),
        (Deaf, "test_a_cancel_ends_it_and_leaves_nothing", (False,), "run went on for 2 s after its cancel"),
        (Littering, "test_a_cancel_ends_it_and_leaves_nothing", (False,), "left behind: task 'litter'"),
        (Once, "test_it_receives_again_after_a_failure", (), "message m3 could not be sent"),
        (Ticking, "test_what_is_heard_is_the_platform", (), "while the platform said nothing"),
        (Mute, "test_what_is_heard_is_the_platform", (), "`door.heard` was never called"),
        (Sieve, "test_a_flood_is_taken_in_whole", (), "m009"),
        (Stacked, "test_a_flood_is_taken_in_whole", (), "chat c1 arrived as"),
        (Alone, "test_its_type_is_its_dispatchers_kind", (), "no dispatcher is of the kind line"),
    ],
)
async def test_a_broken_channel_is_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    channel: Callable[[], LineChannel],
    test: str,
    more: tuple[Any, ...],
    message: str,
) -> None:
    """A channel that breaks a rule fails that rule's test, with a sentence that says what it does."""
    for name, seconds in (("_SECONDS", 1.5), ("_FLOOD_SECONDS", 1.5), ("_QUIET_SECONDS", 0.2), ("_WRONG_SECONDS", 2.0)):
        monkeypatch.setattr(f"halo_kernel.testing.channel_contract.{name}", seconds)
    assert message in await broken(tmp_path, channel(), test, *more)


async def test_a_channel_that_listens_need_hear_nothing(tmp_path: Path) -> None:
    """Where `silence` is None, nothing but messages says that the platform is there."""
    channel = Mute(silence=None)
    halo, client = Workbench(tmp_path, plugins=[channel]), LineClient(channel)
    halo.folder.mkdir()
    try:
        await LineContract().test_what_is_heard_is_the_platform(client, {}, halo)
    finally:
        await client.cut()
        await halo.close()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"type": "Line", "kind": "Line"}, "'Line' is no type"),
        ({"guarantee": "maybe"}, "'maybe' is no guarantee"),
        ({"silence": 0.0}, "silence is a number of seconds"),
    ],
)
async def test_a_wrong_declaration_is_told(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    """A type that is no slug, and promises that are none, are told."""
    halo = Workbench(tmp_path, plugins=[replace(LineChannel(), **change)])
    contract = LineContract()
    contract.channel_type = change.get("type", "line")
    try:
        with pytest.raises(AssertionError, match=message):
            await contract.test_its_type_is_its_dispatchers_kind({}, halo)
    finally:
        await halo.close()
