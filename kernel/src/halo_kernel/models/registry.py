"""The registered model providers, the choice among what they offer, and who is asked when one fails."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

import msgspec

from .. import contracts, hookspecs
from ..contracts import ModelProvider
from ..errors import ModelError
from ..hooks import Hooks
from ..log import logger
from ..records import ModelChoice, Offer
from ..records.storable import storable_text
from ..settings import ModelSettings
from ..supervisor import bounded
from .call import hung_up

_PROBE_SECONDS = 3.0
_CLOSE_SECONDS = 5.0
_FRESH_SECONDS = 2.0
_COOLED = {"throttle", "server", "account"}
_PASSED_ON = _COOLED | {"network", "timeout", "empty"}
_COOL_SECONDS = 60.0
_LONGEST_COOL_SECONDS = 3600.0
_ADVICE = "set OPENAI_API_KEY or ANTHROPIC_API_KEY, start a local server such as Ollama, or install halo-offline"
_INSTALL = "`pip install halo-openai` for hosted and local models, `pip install halo-offline` for rules without one"


class Models:
    """Every provider by name, in `providers`, and what is wished of them."""

    def __init__(self, wish: ModelSettings) -> None:
        self._wish = wish
        self.provide([])
        self._cooling: dict[tuple[str, str], float] = {}  # until when, by model and the name of the key that failed

    def provide(self, providers: Sequence[tuple[str, ModelProvider]]) -> None:
        """Have these providers, given with their plugin's name, and no others."""
        self.providers = {provider.name: provider for _, provider in providers}
        self._known: dict[str, Sequence[Offer]] = {}
        self._asked: dict[str, float] = {}

    def provider(self, model: str) -> ModelProvider:
        """Return the provider of `<provider>/<id>`. Raises `ModelError` of kind `none`."""
        name = model.partition("/")[0]
        if name not in self.providers:
            known = ", ".join(sorted(self.providers)) or "none"
            raise ModelError(f"no provider {name!r} is installed (installed: {known})", kind="none", advice=_ADVICE)
        return self.providers[name]

    async def offers(self) -> list[Offer]:
        """Return all providers' offers, best first; a provider that fails or hangs offers nothing that is ready."""
        found = await self._offered(self.providers)
        return sorted(found, key=lambda offer: (not offer.ready, offer.rank))

    async def _offered(self, names: Collection[str]) -> list[Offer]:
        """Return what these providers offer; their last word holds for two seconds, and while one turn asks again."""
        now = asyncio.get_running_loop().time()
        stale = [name for name in names if name not in self._known or now - self._asked[name] > _FRESH_SECONDS]
        if stale:
            self._asked.update(dict.fromkeys(stale, now))
            self._known.update(zip(stale, await asyncio.gather(*map(self._probe, stale)), strict=True))
        return [offer for name in names for offer in self._known[name]]

    async def _probe(self, name: str) -> Sequence[Offer]:
        try:
            asking = self.providers[name].offers()
            offers = await bounded(asking, name=f"offers of {name}", seconds=_PROBE_SECONDS)
            return [msgspec.convert(msgspec.to_builtins(offer), Offer) for offer in offers]
        except TimeoutError:
            reason = "did not say in time what it offers"
        except Exception as error:
            reason = f"failed: {error}"
        return [Offer(model=f"{name}/", ready=False, reason=f"{name} {reason}")]

    async def choose(self) -> tuple[Offer, str]:
        """Return the model for agents that name none, and why: the setting's, else the best that is ready.

        Raises `ModelError` of kind `none` when there is none, with what to do about it.
        """
        if self._wish.default:
            return (await self._named([self._wish.default]))[0], "the setting model.default names it"
        offers = await self.offers()
        if offers and offers[0].ready:
            return offers[0], offers[0].reason
        raise ModelError("no model can answer here", kind="none", advice=_ADVICE if self.providers else _INSTALL)

    async def line(self, session: contracts.Session, hooks: Hooks, first: str = "") -> list[Offer]:
        """Return the models to ask in order: `first`, the agent's own, or the chosen one; then its fallbacks, or all's.

        Raises `ModelError` of kind `none` when there is no first; a fallback without a provider is left out.
        """
        wish, names = session.agent.model or ModelChoice(model=""), list[str]()
        own = first or wish.model or (await self.choose())[0].model
        others = self._wish.fallbacks if wish.fallbacks is None else wish.fallbacks
        for name in (own, *others):
            found = await hooks.first(hookspecs.resolve_model, name=name, session=session)
            names.append(storable_text(found or name))
            if len(names) > 1 and names[-1].partition("/")[0] not in self.providers:
                logger("models").warning("this fallback is not asked: no such provider", model=names.pop())
        return await self._named(list(dict.fromkeys(names)))

    async def _named(self, names: Sequence[str]) -> list[Offer]:
        offers = await self._offered({self.provider(name).name for name in names})
        known = {offer.model: offer for offer in offers}
        return [known.get(name) or Offer(model=name, ready=True, reason="named explicitly") for name in names]

    def next_of(self, line: list[Offer], now: float) -> Offer:
        """Return whom to ask at `now`; models that are cooling down leave the front of `line`, but for its last."""
        cooling = {key for key, until in self._cooling.items() if now < until}
        while len(line) > 1 and any(
            line[0].model == model and line[0].credential in ("", key) for model, key in cooling
        ):
            del line[0]
        return line[0]

    def failed(self, line: list[Offer], error: ModelError, now: float) -> None:
        """Take the first of `line`, which has failed, away, so that the next one is asked.

        Raises `error` where no other model is left, or none would do better.
        """
        if error.kind in _COOLED:
            wait = _COOL_SECONDS if error.retry_after is None else min(error.retry_after, _LONGEST_COOL_SECONDS)
            self._cooling[line[0].model, error.credential or line[0].credential] = now + wait
        if len(line) == 1 or error.kind not in _PASSED_ON:
            raise error
        del line[0]

    async def close(self, names: Collection[str] | None = None) -> None:
        """Close every provider, or those of `names`; a failing one does not keep the others open."""
        closings = [
            bounded(_closed(provider), name=f"close of {name}", seconds=_CLOSE_SECONDS)
            for name, provider in self.providers.items()
            if names is None or name in names
        ]
        await asyncio.gather(*closings, return_exceptions=True)


async def _closed(provider: ModelProvider) -> None:
    await provider.close()
    await hung_up(provider)
