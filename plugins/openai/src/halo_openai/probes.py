"""What servers on this machine serve: asked together, briefly, and remembered for a moment."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from halo_kernel import BadInput, Clock, ModelError
from halo_lib_wire.loose import items, mapping, number, text
from halo_lib_wire.vendors import Transport, Vendor

_SECONDS = 0.5
_FRESH_SECONDS = 10.0
_KNOWN_SECONDS = 60.0
_NO_CHAT = ("embed", "rerank", "whisper", "tts")


@dataclass(frozen=True, kw_only=True)
class Served:
    """A model that a server lists; 0 tokens of context when it does not say."""

    id: str
    context_window: int = 0


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a probe found. `models` is None when the server answers but lists none in a way we know."""

    answers: bool
    models: tuple[Served, ...] | None = None


class Probes:
    """Asks every local vendor at once, at most every ten seconds, whichever of them is asked about.

    Nobody waits twice within a minute for a server that accepts connections and says nothing: after a slow round the
    next one is made behind the back of who asks, who is told what the last one found.
    """

    def __init__(self, vendors: Sequence[Vendor], transport: Transport, clock: Clock) -> None:
        self._vendors = vendors
        self._transport = transport
        self._clock = clock
        self._at = float("-inf")
        self._slow = False
        self._asking: asyncio.Task[None] | None = None
        self._found: dict[str, Found] = {}

    async def of(self, vendor: Vendor) -> Found:
        """Return what is known about a local vendor's server: ten seconds old at most, after a slow round a minute."""
        age, mark = self._clock.monotonic() - self._at, _mark(vendor)
        if age > _FRESH_SECONDS or mark not in self._found:
            # One round serves everybody who asks meanwhile, and outlives an asker that is cancelled.
            self._asking = asking = self._asking or asyncio.create_task(self._ask_all())
            if not (self._slow and age < _KNOWN_SECONDS and mark in self._found):
                await asyncio.shield(asking)
        return self._found.get(mark, Found(answers=False))

    async def close(self) -> None:
        """End a round that still runs."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait({self._asking})

    async def _ask_all(self) -> None:
        try:
            start = self._clock.monotonic()
            local = [vendor for vendor in self._vendors if _is_local(vendor)]
            marks = list(map(_mark, local))
            found = await asyncio.gather(*map(self._ask, local))
            self._at = self._clock.monotonic()
            self._slow = self._at - start >= _SECONDS
            self._found = dict(zip(marks, found, strict=True))
        finally:
            self._asking = None

    async def _ask(self, vendor: Vendor) -> Found:
        _, host, port = vendor.endpoint.origin
        if not await _listens(host, port):
            return Found(answers=False)
        try:
            key = vendor.key if vendor.follows_base_url else None
            headers = vendor.family.wire.headers({}, key.secret.reveal() if key else "")
            status, body = await self._transport.get(vendor.endpoint, "models", headers=headers, seconds=_SECONDS)
        except ModelError:
            return Found(answers=False)
        return Found(answers=True, models=_listed(body) if status == 200 else None)


async def _listens(host: str, port: int) -> bool:
    """Tell whether something accepts connections: mostly nothing does, and then no HTTP client need be imported."""
    try:
        async with asyncio.timeout(_SECONDS):
            _, writer = await asyncio.open_connection(host, port)
    except OSError:  # TimeoutError is one
        return False
    writer.close()
    return True


def _listed(body: bytes) -> tuple[Served, ...] | None:
    try:
        data: object = mapping(msgspec.json.decode(body)).get("data")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    models = [mapping(each) for each in items(data)]
    if data != [] and not models:
        return None
    return tuple(
        Served(id=id, context_window=number(model.get("max_model_len")))
        for model in models
        if (id := text(model.get("id"))) and not any(word in id.lower() for word in _NO_CHAT)
    )


def _is_local(vendor: Vendor) -> bool:
    if vendor.follows_base_url and not vendor.settings.base_url:
        return False
    try:
        return vendor.is_local
    except BadInput:
        return False


def _mark(vendor: Vendor) -> str:
    return f"{vendor.manifest.id} {vendor.endpoint.url}"
