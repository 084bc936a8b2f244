"""What every model provider has to hold to, as tests that a plugin's own tests inherit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import TypeVar

import pytest

from ..contracts import ModelProvider
from ..errors import ModelError, ModelErrorKind
from ..records import Chunk, Message, ModelRequest, Offer, Stop, Text, TextDelta, ThinkingDelta, ToolCall, Usage
from .leaks import LeakGuard
from .workbench import Workbench

T = TypeVar("T")
_OFFER_SECONDS = 2.0
_END_SECONDS = 1.0
_ANSWER_SECONDS = 30.0


class ModelContract:
    """Tests for one provider, made by its plugin's hook in a real kernel.

    A subclass names the provider; the plugin comes from the fixture `halo_plugins`, and the fixture `provider_env`
    gives the variables that it is configured with::

        class TestRules(ModelContract):
            provider_name = "offline"

    `faults` are the kinds of failure that `fail_next` can bring about; with `can_hang`, `hang_next` makes the next
    answer begin and never end. Both speak to the server that the provider asks, which the subclass runs.
    """

    provider_name: str
    faults: Sequence[ModelErrorKind] = ()
    can_hang: bool = False

    @pytest.fixture
    def provider_env(self) -> Mapping[str, str]:
        """The environment that the provider reads its settings from."""
        return {}

    def fail_next(self, kind: ModelErrorKind) -> None:
        """Make the next answer fail in the way that this kind of error stands for."""
        raise NotImplementedError(f"say how the next answer fails with {kind}")

    def hang_next(self) -> None:
        """Make the next answer begin and never end."""
        raise NotImplementedError("say how the next answer hangs")

    async def provider(self, halo: Workbench, env: Mapping[str, str]) -> ModelProvider:
        """Return the provider, which the workbench closes."""
        await halo.start(env=env)
        return await halo.provider(self.provider_name)

    async def request(self, provider: ModelProvider, text: str = "Hello!") -> ModelRequest:
        """Return a question to the first model that is ready."""
        offers = await provider.offers()
        model = next((offer.model.partition("/")[2] for offer in offers if offer.ready), None)
        assert model, f"{provider.name} offers no model that is ready: {[offer.reason for offer in offers]}"
        return ModelRequest(model=model, system="Be brief.", messages=(Message("user", (Text(text),)),))

    @pytest.mark.asyncio
    async def test_offers_are_quick_and_honest(self, provider_env: Mapping[str, str], halo: Workbench) -> None:
        """Offers come within two seconds, under the provider's own name, each with a reason that a person can read."""
        provider = await self.provider(halo, provider_env)
        offers = await _within(_OFFER_SECONDS, provider.offers(), "offers()")
        assert offers, f"{provider.name} offers nothing, not even a model with the reason why it is not ready"
        for offer in offers:
            assert isinstance(offer, Offer), f"{offer!r} is no Offer"
            assert offer.model.startswith(f"{provider.name}/"), f"{offer.model} does not begin with {provider.name}/"
            assert offer.reason.strip(), f"{offer.model} gives no reason why it is {'' if offer.ready else 'not '}ready"
        names = [offer.model for offer in offers]
        assert len(names) == len(set(names)), f"{provider.name} offers a model twice: {names}"

    @pytest.mark.asyncio
    async def test_an_answer_is_whole(self, provider_env: Mapping[str, str], halo: Workbench) -> None:
        """What is offered as ready answers, in chunks, and the last one is the one `Stop`."""
        provider = await self.provider(halo, provider_env)
        _assert_whole(await self._answer(provider))

    @pytest.mark.asyncio
    async def test_two_answers_at_once_are_apart(self, provider_env: Mapping[str, str], halo: Workbench) -> None:
        """Calls at the same time each get a whole answer of their own."""
        provider = await self.provider(halo, provider_env)
        for chunks in await asyncio.gather(self._answer(provider, "one"), self._answer(provider, "two")):
            _assert_whole(chunks)

    @pytest.mark.asyncio
    async def test_failures_have_their_kind(self, provider_env: Mapping[str, str], halo: Workbench) -> None:
        """Each fault is a `ModelError` of its kind with a sentence, and the next call answers again."""
        if not self.faults:
            pytest.skip("no fault can be brought about: `faults` is empty")
        provider = await self.provider(halo, provider_env)
        for kind in self.faults:
            self.fail_next(kind)
            try:
                chunks = await self._answer(provider)
            except ModelError as error:
                assert error.kind == kind, f"{kind} was raised as {error.kind}: {error.message}"
                assert error.message.strip(), f"the error of kind {kind} says nothing"
            except Exception as error:
                raise AssertionError(f"{kind} was raised as {error!r}, not as a ModelError") from error
            else:
                raise AssertionError(f"{kind} was answered as if nothing had happened: {chunks}")
            _assert_whole(await self._answer(provider))

    @pytest.mark.asyncio
    async def test_a_cancelled_call_lets_go(self, provider_env: Mapping[str, str], halo: Workbench) -> None:
        """A call that is cancelled while the model is silent ends within a second, with its connection."""
        if not self.can_hang:
            pytest.skip("no answer can be made to hang: `can_hang` is not set")
        provider = await self.provider(halo, provider_env)
        await self._answer(provider)  # whatever is made at the first call is there now
        guard = LeakGuard()
        self.hang_next()
        asking = asyncio.ensure_future(_whole(provider, await self.request(provider)))
        await asyncio.sleep(0.5)
        assert not asking.done(), "the answer that should hang ended by itself"
        asking.cancel()
        await asyncio.wait({asking}, timeout=_END_SECONDS)
        assert asking.done(), f"the call ignored its cancel for {_END_SECONDS:g} s"
        assert asking.cancelled(), f"the call turned its cancel into {asking.exception()!r}"
        left = await guard.left()
        assert not left, "the cancelled call left behind: " + "; ".join(left)

    @pytest.mark.asyncio
    async def test_an_answer_may_be_left_early(self, provider_env: Mapping[str, str], halo: Workbench) -> None:
        """Closing a stream after its first chunk takes less than a second, and the provider answers again."""
        provider = await self.provider(halo, provider_env)
        stream = provider.stream(await self.request(provider))
        await _within(_ANSWER_SECONDS, anext(stream), "the first chunk")
        await _within(_END_SECONDS, stream.aclose(), "aclose()")
        _assert_whole(await self._answer(provider))

    @pytest.mark.asyncio
    async def test_closing_twice_does_no_harm(self, provider_env: Mapping[str, str], halo: Workbench) -> None:
        """`close` gives everything back, used or not, and once more is harmless."""
        provider = await self.provider(halo, provider_env)
        await self._answer(provider)
        await _within(_END_SECONDS, provider.close(), "close()")
        await _within(_END_SECONDS, provider.close(), "the second close()")

    async def _answer(self, provider: ModelProvider, text: str = "Hello!") -> list[Chunk]:
        return await _within(_ANSWER_SECONDS, _whole(provider, await self.request(provider, text)), "an answer")


async def _whole(provider: ModelProvider, request: ModelRequest) -> list[Chunk]:
    return [chunk async for chunk in provider.stream(request)]


def _assert_whole(chunks: Sequence[object]) -> None:
    kinds = (TextDelta, ThinkingDelta, ToolCall, Usage, Stop)
    odd = [chunk for chunk in chunks if not isinstance(chunk, kinds)]
    assert not odd, f"these are no chunks: {odd}"
    stops = [chunk for chunk in chunks if isinstance(chunk, Stop)]
    assert len(stops) == 1, f"an answer has one Stop, and this one {len(stops)}"
    assert isinstance(chunks[-1], Stop), f"the Stop comes last, and here {chunks[-1]!r} came after it"
    assert len([chunk for chunk in chunks if isinstance(chunk, Usage)]) <= 1, "usage is told once"
    said = any(isinstance(chunk, TextDelta) and chunk.text.strip() for chunk in chunks)
    calls = [chunk for chunk in chunks if isinstance(chunk, ToolCall)]
    assert said or calls, "the answer has neither text nor a tool call"
    assert bool(calls) == (stops[0].reason == "tools"), f"{len(calls)} tool calls and the stop {stops[0].reason!r}"
    assert len({call.id for call in calls}) == len(calls), "two tool calls have one id"


async def _within(seconds: float, work: Awaitable[T], what: str) -> T:
    """Return what `work` gives, or fail when it takes too long; one that is deaf to its cancel is not waited for."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=seconds)
        assert task.done(), f"{what} took longer than {seconds:g} s"
    finally:
        task.cancel()
    return task.result()
