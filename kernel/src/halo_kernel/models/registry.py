"""The registered model providers and the choice among what they offer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from ..contracts import ModelProvider
from ..errors import ModelError
from ..records import AgentSpec, Offer
from ..supervisor import contained, end_task

_PROBE_SECONDS = 3.0
_CLOSE_SECONDS = 5.0
_FRESH_SECONDS = 2.0
_ADVICE = "set OPENAI_API_KEY, start a local server such as Ollama, or install halo-offline"


class Models:
    """Every provider by name; `default` is the model from the settings, '' for the automatic choice."""

    def __init__(self, providers: Sequence[tuple[str, ModelProvider]], *, default: str = "") -> None:
        self._providers = {provider.name: provider for _, provider in providers}
        self._default = default
        self._known: dict[str, tuple[float, Sequence[Offer]]] = {}

    def provider(self, model: str) -> ModelProvider:
        """Return the provider of `<provider>/<id>`. Raises `ModelError` of kind `none`."""
        name = model.partition("/")[0]
        if name not in self._providers:
            known = ", ".join(sorted(self._providers)) or "none"
            raise ModelError(f"no provider {name!r} is installed (installed: {known})", kind="none", advice=_ADVICE)
        return self._providers[name]

    async def offers(self) -> list[Offer]:
        """Return all providers' offers, best first; a provider that fails or hangs offers nothing that is ready."""
        found = await asyncio.gather(*(self._ask(name, provider) for name, provider in self._providers.items()))
        offers = [offer for part in found for offer in part]
        return sorted(offers, key=lambda offer: (not offer.ready, offer.rank))

    async def _ask(self, name: str, provider: ModelProvider) -> Sequence[Offer]:
        """Return what a provider offers; for two seconds its last word holds, so that turns do not ask again."""
        now = asyncio.get_running_loop().time()
        asked, offers = self._known.get(name, (0.0, ()))
        if not asked or now - asked > _FRESH_SECONDS:
            offers = await self._probe(name, provider)
            self._known[name] = (now, offers)
        return offers

    async def _probe(self, name: str, provider: ModelProvider) -> Sequence[Offer]:
        task = asyncio.ensure_future(contained(_offers(provider)))
        try:
            await asyncio.wait({task}, timeout=_PROBE_SECONDS)
            if not task.done():
                return [Offer(model=f"{name}/", ready=False, reason=f"{name} did not say in time what it offers")]
            if task.cancelled():
                return [Offer(model=f"{name}/", ready=False, reason=f"{name} gave up saying what it offers")]
            if (failure := task.exception()) is not None:
                return [Offer(model=f"{name}/", ready=False, reason=f"{name} failed: {failure}")]
            return task.result()
        finally:
            await end_task(task, name=f"offers of {name}", within=0.1)

    async def choose(self, agent: AgentSpec | None = None) -> tuple[Offer, str]:
        """Return the model for a new turn and why: the agent's own, the setting's, else the best that is ready.

        Raises `ModelError` of kind `none` when there is none, with what to do about it.
        """
        if agent is not None and agent.model is not None:
            return await self._named(agent.model.model), f"agent {agent.id} asks for it"
        if self._default:
            return await self._named(self._default), "the setting model.default names it"
        offers = await self.offers()
        if offers and offers[0].ready:
            return offers[0], offers[0].reason
        raise ModelError("no model can answer here", kind="none", advice=_ADVICE)

    async def _named(self, model: str) -> Offer:
        provider = self.provider(model)
        for offer in await self._ask(provider.name, provider):
            if offer.model == model:
                return offer
        return Offer(model=model, ready=True, reason="named explicitly")

    async def close(self) -> None:
        """Close every provider; a failing one does not keep the others open."""
        closers = {
            asyncio.ensure_future(contained(_closed(provider))): name for name, provider in self._providers.items()
        }
        if closers:
            await asyncio.wait(closers, timeout=_CLOSE_SECONDS)
        for closer, name in closers.items():
            await end_task(closer, name=f"close of {name}", within=0.1)


async def _offers(provider: ModelProvider) -> Sequence[Offer]:
    return [msgspec.convert(msgspec.to_builtins(offer), Offer) for offer in await provider.offers()]


async def _closed(provider: ModelProvider) -> None:
    await provider.close()
