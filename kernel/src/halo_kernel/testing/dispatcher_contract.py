"""What every dispatcher has to hold to, as tests that a plugin's own tests inherit."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import cast, get_args

import pytest

from ..contracts import Dispatcher
from ..errors import DeliveryFailed
from ..records import Delivery, Guarantee, Owed, Part
from .blocking import LoopWatch
from .workbench import Workbench

_ANSWER_SECONDS = 30.0
_END_SECONDS = 1.0
_TEXTS = (
    "Hello!",
    "One line.\n\nAnother paragraph, a bit longer than the first.\n",
    " ".join(f"word{number}" for number in range(3000)),
    "\n".join(f"line {number} of many" for number in range(2000)),
    "x" * 20_000,
    "你好世界" * 4000,
    "🙂" * 3000,
)


class DispatcherContract:
    """Tests for one dispatcher, made by its plugin's hook in a real kernel.

    A subclass names its kind and a target that exists, and tells what came through there; the plugin comes from the
    fixture `halo_plugins`, and the fixture `dispatcher_env` gives the variables that it is configured with::

        class TestPost(DispatcherContract):
            dispatcher_kind = "post"
            target = "post:me:here"

            async def arrived(self, halo):
                return server.texts

    `missing` is a target that does not exist, `limit` the most characters that a message there has. With `can_hang`,
    `hang_next` makes the next delivery begin and never end.
    """

    dispatcher_kind: str
    target: str
    missing: str = ""
    limit: int | None = None
    can_hang: bool = False

    @pytest.fixture
    def dispatcher_env(self) -> Mapping[str, str]:
        """The environment that the dispatcher's plugin reads its settings from."""
        return {}

    async def arrived(self, halo: Workbench) -> Sequence[str]:
        """Return the texts that came through to the target, oldest first."""
        raise NotImplementedError("say what came through")

    async def prepare(self, halo: Workbench) -> None:
        """Make the target, where it does not exist by itself."""

    def hang_next(self) -> None:
        """Make the next delivery begin and never end."""
        raise NotImplementedError("say how the next delivery hangs")

    async def dispatcher(self, halo: Workbench, env: Mapping[str, str]) -> Dispatcher:
        """Return the dispatcher of a new kernel."""
        kernel = await halo.start(env=env)
        found = kernel.host.lookup("dispatcher", self.dispatcher_kind)
        assert found is not None, f"the plugins provide no dispatcher {self.dispatcher_kind} (see the log)"
        await self.prepare(halo)
        return cast("Dispatcher", found)

    def part(self, key: str, text: str = "Hello!", *, target: str = "") -> Part:
        """Return a part of one word; the same `key` is the same part."""
        return Part(
            delivery=1,
            number=1,
            key=f"outbox:contract:{key}#1",
            target=target or self.target,
            text=text,
            attempt=1,
            debt="reply",
            reason="answered",
            session="",
            at=0,
        )

    async def deliver(self, dispatcher: Dispatcher, part: Part) -> str:
        """Deliver a part that nothing keeps from arriving, and return its id."""
        async with asyncio.timeout(_ANSWER_SECONDS):
            sent_id: object = await dispatcher.deliver(part)
        assert isinstance(sent_id, str), f"deliver() returned {sent_id!r}, not the id as text"
        assert sent_id, "deliver() returned an empty id"
        return sent_id

    @pytest.mark.asyncio
    async def test_it_says_what_it_is(self, dispatcher_env: Mapping[str, str], halo: Workbench) -> None:
        """Its kind is a slug without a colon, which routes begin with; its guarantee is a known word."""
        dispatcher = await self.dispatcher(halo, dispatcher_env)
        kind = dispatcher.kind
        assert re.fullmatch(r"[a-z0-9][a-z0-9_-]*", kind), f"kind {kind!r} has more than a-z, 0-9, '_' and '-'"
        said, words = dispatcher.guarantee, get_args(Guarantee)
        assert said in words, f"guarantee must be one of {', '.join(words)}, not {said!r}"

    @pytest.mark.asyncio
    async def test_a_text_is_split_and_kept(self, dispatcher_env: Mapping[str, str], halo: Workbench) -> None:
        """Each part has a text, within the limit, and together they say all that the text said, in its order."""
        dispatcher = await self.dispatcher(halo, dispatcher_env)
        for text in _TEXTS:
            told: object = dispatcher.split(text)
            what = f"split({text[:20]!r}…, {len(text)} characters)"
            assert isinstance(told, Iterable), f"{what} returned {type(told).__name__}, not a sequence of texts"
            assert not isinstance(told, str), f"{what} returned one text, not a sequence of texts"
            parts = cast("list[object]", list(told))
            texts = [part for part in parts if isinstance(part, str)]
            assert texts, f"{what} returned no part"
            assert len(texts) == len(parts), f"{what} returned parts that are no text"
            assert all(part.strip() for part in texts), f"{what} returned a part without text"
            longest = max(map(len, texts))
            assert self.limit is None or longest <= self.limit, f"{what} returned a part of {longest} characters"
            lost = _lost(text, texts)
            assert not lost, f"{what} lost what begins with {lost[:20]!r}"

    @pytest.mark.asyncio
    async def test_a_part_arrives(self, dispatcher_env: Mapping[str, str], halo: Workbench) -> None:
        """A part comes through to its target, and has an id."""
        dispatcher = await self.dispatcher(halo, dispatcher_env)
        before = len(await self.arrived(halo))
        await self.deliver(dispatcher, self.part("a", "Good morning"))
        (text,) = (await self.arrived(halo))[before:]
        assert "Good morning" in text, f"what came through is {text!r}, not 'Good morning'"

    @pytest.mark.asyncio
    async def test_a_long_text_arrives_in_order(self, dispatcher_env: Mapping[str, str], halo: Workbench) -> None:
        """What the kernel owes comes through whole, part after part."""
        await self.dispatcher(halo, dispatcher_env)
        text = " ".join(f"word{number}" for number in range(3 * (self.limit or 100) // 4))
        before = len(await self.arrived(halo))
        delivery = await self.owed(halo, text, self.target)
        states = [part.state for part in delivery.parts]
        assert set(states) == {"sent"}, f"the parts are {', '.join(states)}: {delivery.parts[0].error}"
        texts = (await self.arrived(halo))[before:]
        assert len(texts) == len(states), f"{len(texts)} messages came through, of {len(states)}"
        lost = _lost(text, texts)
        assert not lost, f"what begins with {lost[:20]!r} came out of order, or not at all"

    async def owed(self, halo: Workbench, text: str, target: str) -> Delivery:
        """Owe a text through the kernel and return its delivery once that is settled."""
        session = await halo.session()
        assert halo.kernel is not None
        outbox, workspace = halo.kernel.host.outbox, session.info.workspace
        owed = Owed(key="contract", dispatcher=self.dispatcher_kind, target=target, text=text)
        await outbox.owe(owed, workspace=workspace)
        for _ in range(int(_ANSWER_SECONDS * 20)):
            if not await outbox.list(workspace=workspace, unsettled=True):
                return (await outbox.list(workspace=workspace))[0]
            await asyncio.sleep(0.05)
        raise AssertionError(f"{text[:20]!r} is not delivered after {_ANSWER_SECONDS:g} s")

    @pytest.mark.asyncio
    async def test_a_key_arrives_once(self, dispatcher_env: Mapping[str, str], halo: Workbench) -> None:
        """The same part delivered again, now and after a restart, comes through once, where the guarantee says so."""
        dispatcher = await self.dispatcher(halo, dispatcher_env)
        if dispatcher.guarantee not in ("keyed", "local"):
            pytest.skip(f"its guarantee is {dispatcher.guarantee}")
        before = len(await self.arrived(halo))
        for _ in range(2):
            await self.deliver(dispatcher, self.part("twice"))
        dispatcher = await self.dispatcher(halo, dispatcher_env)
        await self.deliver(dispatcher, self.part("twice"))
        count = len((await self.arrived(halo))[before:])
        assert count == 1, f"one part came through {count} times; it is {dispatcher.guarantee}: use part.key"
        await self.deliver(dispatcher, self.part("another"))
        count = len((await self.arrived(halo))[before:])
        assert count == 2, "a part of another key did not come through"

    @pytest.mark.asyncio
    async def test_what_arrived_is_found(self, dispatcher_env: Mapping[str, str], halo: Workbench) -> None:
        """One that is `queryable` finds a part that came through, under the id that it gave, and no other."""
        dispatcher = await self.dispatcher(halo, dispatcher_env)
        if dispatcher.guarantee != "queryable":
            pytest.skip(f"its guarantee is {dispatcher.guarantee}")
        part = self.part("found")
        assert await dispatcher.find(part) is None, "find() found a part that nobody has sent"
        sent_id = await self.deliver(dispatcher, part)
        dispatcher = await self.dispatcher(halo, dispatcher_env)
        found = await dispatcher.find(part)
        assert found == sent_id, f"deliver() returned {sent_id!r}, and find() {found!r}"

    @pytest.mark.asyncio
    async def test_a_target_that_is_not_there(self, dispatcher_env: Mapping[str, str], halo: Workbench) -> None:
        """A part for a target that does not exist is refused for good, and the kernel says so."""
        if not self.missing:
            pytest.skip("no target is known that does not exist: `missing` is not set")
        dispatcher = await self.dispatcher(halo, dispatcher_env)
        refused: DeliveryFailed | None = None
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                await dispatcher.deliver(self.part("lost", target=self.missing))
        except DeliveryFailed as error:
            refused = error
        assert refused is not None, f"a part for {self.missing} must be refused with DeliveryFailed"
        assert refused.permanent, f"no other attempt will do better: raise DeliveryFailed(…, permanent=True): {refused}"
        delivery = await self.owed(halo, "Hello!", self.missing)
        assert [part.state for part in delivery.parts] == ["failed"]

    @pytest.mark.asyncio
    async def test_it_ends_when_it_is_cancelled(self, dispatcher_env: Mapping[str, str], halo: Workbench) -> None:
        """A delivery that hangs ends within a second of its cancel."""
        if not self.can_hang:
            pytest.skip("no delivery is known to hang: `can_hang` is not set")
        dispatcher = await self.dispatcher(halo, dispatcher_env)
        self.hang_next()
        task = asyncio.ensure_future(dispatcher.deliver(self.part("hangs")))
        await asyncio.sleep(0.2)
        assert not task.done(), "the delivery was to hang"
        task.cancel()
        _, late = await asyncio.wait({task}, timeout=_END_SECONDS)
        assert not late, f"deliver() went on for more than {_END_SECONDS:g} s after its cancel"

    @pytest.mark.asyncio
    async def test_it_does_not_block_the_loop(self, dispatcher_env: Mapping[str, str], halo: Workbench) -> None:
        """While it splits and delivers, others run: no step of it takes longer than a quarter of a second."""
        dispatcher = await self.dispatcher(halo, dispatcher_env)
        with LoopWatch() as watch:
            for text in _TEXTS:
                dispatcher.split(text)
                await asyncio.sleep(0)
            await self.deliver(dispatcher, self.part("quick"))
        assert not watch.blocks, "\n".join(map(str, watch.blocks))


def _lost(text: str, parts: Iterable[str]) -> str:
    """Return what of a text, from its first character that is missing on, the parts do not have in its order."""
    characters = iter("".join(parts))
    wanted = "".join(text.split())
    for at, character in enumerate(wanted):
        if character not in characters:  # this reads on, up to the first that is equal
            return wanted[at:]
    return ""
