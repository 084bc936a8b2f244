"""Model providers, one a vendor, over whichever wire its family speaks."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Protocol

import msgspec

from halo_kernel import BadInput, Chunk, Clock, ModelError, ModelRequest, Offer, TextDelta

from ..faults import model_error
from ..sse import SseParser
from .endpoint import Endpoint
from .transport import Transport, drain, read_error
from .vendor import Key, Vendor
from .wire import Decoder

if TYPE_CHECKING:
    import aiohttp

_PULSE_SECONDS = 5.0


class Offering(Protocol):
    """Says what one vendor can answer with now."""

    async def now(self) -> Sequence[Offer]:
        """Return the offers, the default model first."""
        ...

    async def close(self) -> None:
        """End what still asks."""
        ...


class VendorProvider:
    """Answers model calls for one vendor; `offering` says which it can answer."""

    def __init__(self, vendor: Vendor, *, offering: Offering, transport: Transport, clock: Clock) -> None:
        self.name = vendor.manifest.id
        self._vendor = vendor
        self._wire = vendor.family.wire
        self._offering = offering
        self._transport = transport
        self._clock = clock

    async def offers(self) -> Sequence[Offer]:
        """Return the vendor's models with whether each can answer now; only servers on this machine are asked."""
        return await self._offering.now()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Yield the answer as it comes; an empty `TextDelta` at times while only parts of a tool call arrive.

        Raises `ModelError`; its `credential` names the key that was used.
        """
        key, failure = self._vendor.key, None
        try:
            endpoint = self._vendor.endpoint_for(request.endpoint)
            async with aclosing(self._answer(request, endpoint, key)) as chunks:
                async for chunk in chunks:
                    yield chunk
        except BadInput as error:
            failure = ModelError(error.message, kind="refused", advice=error.advice)
        except ModelError as error:
            failure = _named(error, key)
        if failure is not None:
            # Outside the handlers, so that nothing that may hold the key hangs on it as its context.
            raise failure

    async def close(self) -> None:
        """Give connections back."""
        await self._offering.close()
        await self._transport.close()

    async def _answer(self, request: ModelRequest, endpoint: Endpoint, key: Key | None) -> AsyncGenerator[Chunk, None]:
        manifest, wire = self._vendor.manifest, self._wire
        if request.max_tokens is None:
            request = msgspec.structs.replace(request, max_tokens=manifest.model(request.model).max_output_tokens)
        call = wire.exchange(
            request,
            fields=manifest.fields(request.model),
            endpoint=endpoint,
            key=key.secret.reveal() if key else "",
            new_id=lambda: f"call_{self._clock.new_id(64)}",
        )
        body = msgspec.json.encode(call.body)
        post = self._transport.post(endpoint, wire.path, body=body, headers=call.headers, service=manifest.label)
        async with post as response, aclosing(self._read(response, call.decoder)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def _read(self, response: aiohttp.ClientResponse, decoder: Decoder) -> AsyncGenerator[Chunk, None]:
        if response.status != 200:
            raise await self._refusal(response)
        kind = response.content_type
        if kind == "text/html":
            said = f"{self._vendor.manifest.label} answered with a web page"
            raise ModelError(said, kind="refused", advice=self._wire.hint)
        if kind == "application/json":
            for chunk in decoder.feed((await response.read()).decode("utf-8", "replace")):
                yield chunk
        else:
            async with aclosing(self._events(response, decoder)) as chunks:
                async for chunk in chunks:
                    yield chunk
        for chunk in decoder.finish():
            yield chunk
        await drain(response)

    async def _events(self, response: aiohttp.ClientResponse, decoder: Decoder) -> AsyncGenerator[Chunk, None]:
        parser, last = SseParser(), self._clock.monotonic()
        async for data in response.content.iter_any():
            try:
                events = parser.feed(data)
            except ValueError as error:
                raise ModelError(str(error), kind="refused") from None
            chunks = [chunk for event in events if not decoder.done for chunk in decoder.feed(event.data)]
            now = self._clock.monotonic()
            if not chunks and now - last > _PULSE_SECONDS:
                # Who waits may bound the time without a chunk, and long arguments come out only when they are whole.
                chunks = [TextDelta("")]
            if chunks:
                last = now
            for chunk in chunks:
                yield chunk
            if decoder.done:
                return
        for event in parser.close():
            for chunk in decoder.feed(event.data, tail=True):
                yield chunk

    async def _refusal(self, response: aiohttp.ClientResponse) -> ModelError:
        headers = {name.lower(): value for name, value in response.headers.items()}
        body, now = await read_error(response), time.time()
        service = self._vendor.manifest.label
        return model_error(status=response.status, headers=headers, body=body, now=now, service=service)


class BrokenProvider:
    """Stands for a person's manifest that cannot be used, and says why."""

    def __init__(self, id: str, error: str) -> None:
        self.name = id
        self._error = error

    async def offers(self) -> Sequence[Offer]:
        """Return one offer that is not ready."""
        return [Offer(model=f"{self.name}/", ready=False, reason=self._error)]

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Raise `ModelError` of kind `refused`."""
        nothing: tuple[Chunk, ...] = ()
        for chunk in nothing:
            yield chunk
        raise ModelError(self._error, kind="refused", advice="Correct that file and start the server again.")

    async def close(self) -> None:
        """There is nothing to give back."""


def _named(error: ModelError, key: Key | None) -> ModelError:
    """Return the error with the name of the key and without its value, should the server have repeated it."""
    secret = key.secret.reveal() if key else ""
    return ModelError(
        error.message.replace(secret, "…") if secret else error.message,
        kind=error.kind,
        retry_after=error.retry_after,
        credential=key.source if key else "",
        advice="No key was sent: set one." if error.kind == "account" and not key else error.advice,
    )
