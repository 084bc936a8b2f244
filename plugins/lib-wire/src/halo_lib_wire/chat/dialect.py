"""What differs between the vendors of one wire, as data that a manifest can hold."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Dialect(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """How one vendor, or one model of it, speaks chat completions. In files the names are in camel case.

    max_tokens_field: the field that bounds the answer.
    thinking: when the object `thinking {type}` is sent. `asked`: `enabled`, if the agent enables thinking; `always`:
        also when it does not, and `disabled` for the effort `disabled`; `off`: only `disabled`, only for that effort.
    effort: when `reasoning_effort` is sent. `asked`: the agent's effort, if it enables thinking; `max`: `max` then.
    effort_with_tools: the `reasoning_effort` of a request with tools, '' for no other one: OpenAI refuses tools beside
        any effort but `none` on this wire since GPT-5.4.
    reasoning_field: the assistant's field in which its reasoning goes back to the vendor, '' for not at all.
    reasoning_required: whether a message with tool calls must carry that field; one without reasoning gets a dot.
    stream_usage: whether `stream_options {include_usage}` is sent.
    cache_key: whether the session's id is sent as `prompt_cache_key`.
    think_tags: whether an answer that begins with `<think>…</think>` begins with reasoning.
    """

    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    thinking: Literal["never", "asked", "always", "off"] = "never"
    effort: Literal["never", "asked", "max"] = "never"
    effort_with_tools: str = ""
    reasoning_field: str = ""
    reasoning_required: bool = False
    stream_usage: bool = True
    cache_key: bool = False
    think_tags: bool = False
