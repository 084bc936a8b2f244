"""The contract suite for dispatchers: good ones of each guarantee pass, and each rule that one breaks is named."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import pytest

from halo_kernel import DeliveryFailed, Guarantee, Part
from halo_kernel.testing import DispatcherContract, Postbox, Refused, Workbench

HERE = "post:me:here"


def postbox(guarantee: Guarantee = "keyed", limit: int = 400) -> Postbox:
    return Postbox(guarantee=guarantee, limit=limit, targets=[HERE])


class PostContract(DispatcherContract):
    """The contract for a postbox, which the workbench's plugin is."""

    dispatcher_kind = "post"
    target = HERE
    missing = "post:me:nowhere"
    limit = 400
    can_hang = True

    @pytest.fixture
    def post(self) -> Postbox:
        return postbox()

    @pytest.fixture
    def halo_plugins(self, post: Postbox) -> Sequence[object]:
        self.__class__.box = post
        return [post]

    box: Postbox

    async def arrived(self, halo: Workbench) -> Sequence[str]:
        return [part.text for part in self.box.arrived]

    def hang_next(self) -> None:
        self.box.before = lambda part: asyncio.Event().wait()


class TestKeyed(PostContract):
    pass


class TestQueryable(PostContract):
    @pytest.fixture
    def post(self) -> Postbox:
        return postbox("queryable")


class TestLocal(PostContract):
    @pytest.fixture
    def post(self) -> Postbox:
        return postbox("local", limit=37)


class TestNone(PostContract):
    @pytest.fixture
    def post(self) -> Postbox:
        return postbox("none")


async def broken(halo: Workbench, post: Postbox, test: str, **changes: object) -> str:
    """Run one test of the contract on a dispatcher and return why it fails."""
    contract = PostContract()
    contract.box = post  # type: ignore[misc]
    for name, value in changes.items():
        setattr(contract, name, value)
    halo.plugins = {"post": post}
    with pytest.raises(AssertionError) as caught:
        await getattr(contract, test)({}, halo)
    return str(caught.value)


async def test_one_that_is_not_there_is_told(halo: Workbench) -> None:
    """A plugin that provides no dispatcher of the kind is told so."""
    assert "no dispatcher fax" in await broken(halo, postbox(), "test_a_part_arrives", dispatcher_kind="fax")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("kind", "Post:Box", "has more than a-z, 0-9, '_' and '-'"),
        ("guarantee", "exactly-once", "guarantee must be one of keyed, queryable, local, none, not 'exactly-once'"),
    ],
)
async def test_words_that_nobody_knows_are_told(halo: Workbench, field: str, value: str, message: str) -> None:
    """A kind that is no slug, and a guarantee that the kernel does not know, are told."""
    post = postbox()
    setattr(post, field, value)
    told = await broken(halo, post, "test_it_says_what_it_is", dispatcher_kind=post.kind)
    assert message in told


@pytest.mark.parametrize(
    ("split", "message"),
    [
        (lambda text: None, "returned NoneType, not a sequence of texts"),
        (lambda text: text, "returned one text"),
        (lambda text: [], "returned no part"),
        (lambda text: [text, 5], "returned parts that are no text"),
        (lambda text: [text, " "], "returned a part without text"),
        (lambda text: [text], "returned a part of"),
        (lambda text: [text[:300]], "lost what begins with"),
        (lambda text: [text[at : at + 300] for at in range(0, len(text), 301)], "lost what begins with"),
    ],
)
async def test_a_bad_splitter_is_told(halo: Workbench, split: Callable[[str], object], message: str) -> None:
    """Parts that are none, too long, or not all of the text are told."""
    post = postbox()
    post.split = split  # type: ignore[method-assign, assignment]
    assert message in await broken(halo, post, "test_a_text_is_split_and_kept")


@pytest.mark.parametrize(("given", "message"), [(None, "returned None, not the id as text"), ("", "an empty id")])
async def test_an_id_that_is_none_is_told(halo: Workbench, given: object, message: str) -> None:
    """A delivery without an id is told."""

    class Mute(Postbox):
        async def deliver(self, part: Part) -> str:
            await super().deliver(part)
            return given  # type: ignore[return-value]

    assert message in await broken(halo, Mute(targets=[HERE]), "test_a_part_arrives")


async def test_a_text_that_is_changed_is_told(halo: Workbench) -> None:
    """What comes through has to say what was sent."""

    class Mangling(Postbox):
        async def deliver(self, part: Part) -> str:
            sent = await super().deliver(part)
            self._arrived[-1] = Part(**{name: getattr(part, name) for name in part.__struct_fields__} | {"text": "?"})
            return sent

    assert "is '?', not 'Good morning'" in await broken(halo, Mangling(targets=[HERE]), "test_a_part_arrives")


async def test_parts_that_do_not_get_through_are_told(halo: Workbench) -> None:
    """A long text of which a part is refused is told with the reason."""
    post = Postbox(limit=400, fates=[Refused(permanent=True)])
    assert "refused by the test" in await broken(halo, post, "test_a_long_text_arrives_in_order")


async def test_a_key_that_arrives_twice_is_told(halo: Workbench) -> None:
    """One that promises to be keyed and is not is told, with how often the part came through."""

    class Forgetful(Postbox):
        def _take(self, part: Part) -> None:
            self._arrived.append(part)

    assert "came through 3 times; it is keyed" in await broken(
        halo, Forgetful(targets=[HERE]), "test_a_key_arrives_once"
    )


async def test_a_key_that_swallows_others_is_told(halo: Workbench) -> None:
    """One that takes different parts for the same is told."""

    class Greedy(Postbox):
        def _take(self, part: Part) -> None:
            if not self._arrived:
                super()._take(part)

    assert "another key did not come through" in await broken(halo, Greedy(targets=[HERE]), "test_a_key_arrives_once")


@pytest.mark.parametrize(
    ("answer", "message"),
    [("always", "found a part that nobody has sent"), (None, "and find() None"), ("other", "and find() 'other'")],
)
async def test_a_look_up_that_is_wrong_is_told(halo: Workbench, answer: str | None, message: str) -> None:
    """One that finds what was not sent, or not what was, is told."""

    class Blind(Postbox):
        async def find(self, part: Part) -> str | None:
            return answer if self.arrived or answer == "always" else None

    post = Blind(guarantee="queryable", targets=[HERE])
    assert message in await broken(halo, post, "test_what_arrived_is_found")


async def test_a_target_that_takes_anything_is_told(halo: Workbench) -> None:
    """A part for nobody that is accepted, or refused for now only, is told."""

    class Wavering(Postbox):
        async def deliver(self, part: Part) -> str:
            raise DeliveryFailed("not now")

    test = "test_a_target_that_is_not_there"
    assert "must be refused with DeliveryFailed" in await broken(halo, Postbox(), test)
    assert "raise DeliveryFailed(…, permanent=True): not now" in await broken(halo, Wavering(), test)


async def test_one_that_is_deaf_is_told(halo: Workbench) -> None:
    """A delivery that ignores its cancel is told."""

    class Deaf(Postbox):
        async def deliver(self, part: Part) -> str:
            end = time.monotonic() + 1.6
            while time.monotonic() < end:
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(0.05)
            return "late"

    told = await broken(halo, Deaf(), "test_it_ends_when_it_is_cancelled")
    assert "went on for more than 1 s after its cancel" in told


async def test_one_that_does_not_hang_is_told(halo: Workbench) -> None:
    """A delivery that was to hang, and did not, shows nothing."""
    post = postbox()
    assert "was to hang" in await broken(halo, post, "test_it_ends_when_it_is_cancelled", hang_next=lambda: None)


@pytest.mark.halo_may_block
async def test_one_that_blocks_is_told(halo: Workbench) -> None:
    """A step that blocks the loop is told by its line."""

    class Blocking(Postbox):
        async def deliver(self, part: Part) -> str:
            time.sleep(0.4)  # noqa: ASYNC251
            return await super().deliver(part)

    assert "time.sleep" in await broken(halo, Blocking(targets=[HERE]), "test_it_does_not_block_the_loop")
