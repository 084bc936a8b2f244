"""What differs between the vendors of the Messages wire, as data that a manifest can hold."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

_BINDING_BETA = "thinking-binding-controls-2026-08-01"


class MessagesDialect(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """How one vendor, or one model of it, speaks the Messages API. In files the names are in camel case.

    thinking: how a wish to think is put. `adaptive`: the model decides, guided by the effort; `manual`: a budget of
        tokens; `either`: a budget if the agent names one, else adaptive; `bare`: adaptive without any more words;
        `never`: not at all.
    binding: whether the model's thinking is bound to everything before it, so that an altered history, such as a
        compacted one, is refused. The server is then asked to drop what no longer fits
        (platform.claude.com, "Preserved thinking").
    cache: whether prompt caching is asked for with breakpoints, `ttl` whether these may name an hour.
    version: the header `anthropic-version`, '' for none.
    auth: the header that carries the key.
    """

    thinking: Literal["adaptive", "manual", "either", "bare", "never"] = "either"
    binding: bool = False
    cache: bool = True
    ttl: bool = True
    version: str = "2023-06-01"
    auth: Literal["x-api-key", "bearer"] = "x-api-key"

    def headers(self, key: str) -> dict[str, str]:
        """Return the headers of a call; an empty `key` is not sent."""
        sent = {"anthropic-version": self.version, "anthropic-beta": _BINDING_BETA if self.binding else ""}
        if key:
            sent |= {"x-api-key": key} if self.auth == "x-api-key" else {"authorization": f"Bearer {key}"}
        return {name: value for name, value in sent.items() if value}
