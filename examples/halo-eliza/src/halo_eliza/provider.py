"""The provider `eliza`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from halo_kernel import Chunk, Egress, ModelError, ModelRequest, Offer, Settings, Stop

from .server import CREDENTIAL, Servers, Target
from .settings import ElizaSettings
from .wire import read_chunk, write_request


class Eliza:
    """Models of one Eliza server, and of the servers that agents name instead."""

    name = "eliza"

    def __init__(self, settings: Settings, egress: Egress) -> None:
        self._settings = settings
        self._servers = Servers(egress)

    async def offers(self) -> Sequence[Offer]:
        """Offer each model: with a key as it is, without one if the server answers."""
        values = self._settings.of(ElizaSettings)
        ready, reason = await self._state(values)
        return [
            Offer(
                model=f"{self.name}/{model}",
                ready=ready,
                reason=reason,
                rank=10 if values.api_key else 20,
                context_window=values.context_window,
                credential=CREDENTIAL if values.api_key else "",
            )
            for model in values.models
        ]

    async def _state(self, values: ElizaSettings) -> tuple[bool, str]:
        """Tell whether the operator's server can be asked, and why."""
        if not values.base_url:
            return False, "set eliza.base_url to where an Eliza server is"
        if values.api_key:
            return True, "eliza.api_key is set"
        if await self._servers.answers(Target(url=values.base_url, own=True)):
            return True, f"{values.base_url} answers"
        return False, f"{values.base_url} does not answer: start the server"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Yield what the server says; one that ends without a `Stop` was cut, which the kernel sees."""
        values = self._settings.of(ElizaSettings)
        talk = self._servers.talk(_target(values, request), write_request(request), seconds=values.timeout)
        async with aclosing(talk) as lines:
            async for line in lines:
                chunk = read_chunk(line)
                yield chunk
                if isinstance(chunk, Stop):
                    return

    async def close(self) -> None:
        """Give connections back; the kernel does this at its end, and when the plugin is reloaded."""
        await self._servers.close()


def _target(values: ElizaSettings, request: ModelRequest) -> Target:
    """Return whom to ask. An agent's file, which may be a stranger's, can name another server: it gets no key."""
    own = values.base_url
    if request.endpoint and request.endpoint.rstrip("/") != own.rstrip("/"):
        return Target(url=request.endpoint, own=False)
    if not own:
        raise ModelError("eliza.base_url is not set", kind="refused")
    return Target(url=own, own=True, key=values.api_key)
