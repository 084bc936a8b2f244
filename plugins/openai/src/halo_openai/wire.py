"""Chat completions as a wire of model vendors."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from halo_kernel import ModelRequest
from halo_lib_wire import ChatDecoder, Dialect, encode_chat
from halo_lib_wire.vendors import Endpoint, Exchange


class ChatWire:
    """`POST <base URL>/chat/completions`, with the key as a bearer token."""

    api = "chat"
    path = "chat/completions"
    tails: tuple[str, ...] = ("/chat/completions",)
    example = "http://127.0.0.1:8000/v1"
    hint = "Check the base URL: a chat-completions server's usually ends in /v1."

    def check(self, fields: Mapping[str, object]) -> None:
        """See `Wire`."""
        self.dialect(fields)

    def dialect(self, fields: Mapping[str, object]) -> Dialect:
        """Return the dialect in a manifest's `wire`. Raises `msgspec.ValidationError` for a field nobody knows."""
        return msgspec.convert(fields, Dialect)

    def headers(self, fields: Mapping[str, object], key: str) -> Mapping[str, str]:
        """See `Wire`."""
        return {"authorization": f"Bearer {key}"} if key else {}

    def exchange(
        self,
        request: ModelRequest,
        *,
        fields: Mapping[str, object],
        endpoint: Endpoint,
        key: str,
        new_id: Callable[[], str],
    ) -> Exchange:
        """See `Wire`."""
        dialect = self.dialect(fields)
        return Exchange(
            headers=self.headers(fields, key),
            body=encode_chat(request, dialect),
            decoder=ChatDecoder(new_id=new_id, think_tags=dialect.think_tags),
        )
