"""The registered model providers and the choice among what they offer."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

import msgspec

from ..contracts import ModelProvider
from ..errors import ModelError
from ..records import AgentSpec, Offer
from ..supervisor import contained, end_task
from .call import hung_up

_PROBE_SECONDS = 3.0
_CLOSE_SECONDS = 5.0
_FRESH_SECONDS = 2.0
_NEVER = float("-inf")
_ADVICE = "set OPENAI_API_KEY or ANTHROPIC_API_KEY, start a local server such as Ollama, or install halo-offline"
_INSTALL = "`pip install halo-openai` for hosted and local models, `pip install halo-offline` for rules without one"


class Models:
    """Every provider by name; `default` is the model from the settings, '' for the automatic choice."""

    def __init__(self, providers: Sequence[tuple[str, ModelProvider]], *, default: str = "") -> None:
        self._providers = {provider.name: provider for _, provider in providers}
        self._default = default
        self._known: dict[str, Sequence[Offer]] = {}
        self._asked: dict[str, float] = {}

    def provider(self, model: str) -> ModelProvider:
        """Return the provider of `<provider>/<id>`. Raises `ModelError` of kind `none`."""
        name = model.partition("/")[0]
        if name not in self._providers:
            known = ", ".join(sorted(self._providers)) or "none"
            raise ModelError(f"no provider {name!r} is installed (installed: {known})", kind="none", advice=_ADVICE)
        return self._providers[name]

    def find(self, name: str) -> ModelProvider | None:
        """Return the provider called `name`."""
        return self._providers.get(name)

    async def offers(self) -> list[Offer]:
        """Return all providers' offers, best first; a provider that fails or hangs offers nothing that is ready."""
        found = await self._offered(self._providers)
        return sorted(found, key=lambda offer: (not offer.ready, offer.rank))

    async def _offered(self, names: Collection[str]) -> list[Offer]:
        """Return what these providers offer; for two seconds their last word holds, so that turns do not ask again."""
        now = asyncio.get_running_loop().time()
        stale = [name for name in names if now - self._asked.get(name, _NEVER) > _FRESH_SECONDS]
        if stale:
            self._known.update(zip(stale, await asyncio.gather(*map(self._probe, stale)), strict=True))
            self._asked.update(dict.fromkeys(stale, now))
        return [offer for name in names for offer in self._known[name]]

    async def _probe(self, name: str) -> Sequence[Offer]:
        task = asyncio.ensure_future(contained(_offers(self._providers[name])))
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
        raise ModelError("no model can answer here", kind="none", advice=_ADVICE if self._providers else _INSTALL)

    async def _named(self, model: str) -> Offer:
        for offer in await self._offered([self.provider(model).name]):
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
    await hung_up(provider)
