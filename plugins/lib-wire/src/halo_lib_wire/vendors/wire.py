"""What tells one wire from another for whoever calls a model over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from halo_kernel import Chunk, ModelRequest

from .endpoint import Endpoint

Fields = Mapping[str, object]


class Decoder(Protocol):
    """Understands one streamed answer, event by event; `done` once the server has said its last word."""

    done: bool

    def feed(self, data: str, *, tail: bool = False) -> list[Chunk]:
        """Take one event's data and return what it adds. Raises `ModelError`."""
        ...

    def finish(self) -> list[Chunk]:
        """Return what is left, `Stop` last. Raises `ModelError`, of kind `network` when the answer was cut."""
        ...


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """One call: what is sent, and who understands the answer."""

    headers: Mapping[str, str]
    body: Mapping[str, object]
    decoder: Decoder


class Wire(Protocol):
    """A protocol between us and model servers.

    `api` is its name in manifests, `path` that of a call below the base URL, `tails` what people may have written at
    the end of a base URL. `example` is a base URL, `hint` says what to check about one.
    """

    api: str
    path: str
    tails: tuple[str, ...]
    example: str
    hint: str

    def check(self, fields: Fields) -> None:
        """Raise `msgspec.ValidationError` for fields of a manifest's `wire` that mean nothing."""
        ...

    def headers(self, fields: Fields, key: str) -> Mapping[str, str]:
        """Return the headers that carry `key`, '' for none."""
        ...

    def exchange(
        self, request: ModelRequest, *, fields: Fields, endpoint: Endpoint, key: str, new_id: Callable[[], str]
    ) -> Exchange:
        """Return the call of `request` to `endpoint`. Raises `ModelError` of kind `refused` for a wrong option."""
        ...
