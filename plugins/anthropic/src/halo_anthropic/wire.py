"""The Messages API as a wire of model vendors."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from halo_kernel import ModelRequest
from halo_lib_wire import MessagesDecoder, MessagesDialect, encode_messages
from halo_lib_wire.vendors import Endpoint, Exchange


class MessagesWire:
    """`POST <base URL>/v1/messages`; `max_tokens` tells the bound of an answer that nobody else bounds."""

    api = "messages"
    path = "v1/messages"
    tails: tuple[str, ...] = ("/v1/messages", "/v1")
    example = "https://api.anthropic.com"
    hint = "Check the base URL: what follows it is /v1/messages."

    def __init__(self, max_tokens: Callable[[], int]) -> None:
        self._max_tokens = max_tokens

    def check(self, fields: Mapping[str, object]) -> None:
        """See `Wire`."""
        self.dialect(fields)

    def dialect(self, fields: Mapping[str, object]) -> MessagesDialect:
        """Return the dialect in a manifest's `wire`. Raises `msgspec.ValidationError` for a field nobody knows."""
        return msgspec.convert(fields, MessagesDialect)

    def headers(self, fields: Mapping[str, object], key: str) -> Mapping[str, str]:
        """See `Wire`."""
        return self.dialect(fields).headers(key)

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
        if request.max_tokens is None:
            request = msgspec.structs.replace(request, max_tokens=self._max_tokens())
        # Signatures mean something to the server that made them, not to every one behind this provider's name.
        issuer = ":".join(map(str, endpoint.origin[1:]))
        dialect = self.dialect(fields)
        return Exchange(
            headers=dialect.headers(key),
            body=encode_messages(request, dialect, issuer=issuer),
            decoder=MessagesDecoder(new_id=new_id, issuer=issuer),
        )
