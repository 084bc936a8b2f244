"""A model request as the JSON body of `POST /chat/completions`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from halo_kernel import Message, ModelRequest, Text, Thinking, ToolCall, ToolResult, ToolSpec

from ..options import option
from .dialect import Dialect

Body = dict[str, Any]


def encode_chat(request: ModelRequest, dialect: Dialect) -> Body:
    """Return the body of a streamed chat completion; equal requests give equal bodies.

    Of `request.options`, `thinking` (`enabled`, `effort`) is translated and the fields of `extra_body` are added as
    they are. Raises `ModelError` of kind `refused` when either is not a mapping.
    """
    body: Body = {"model": request.model, "messages": list(_messages(request, dialect)), "stream": True}
    if dialect.stream_usage:
        body["stream_options"] = {"include_usage": True}
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    if request.max_tokens is not None:
        body[dialect.max_tokens_field] = request.max_tokens
    if dialect.cache_key and request.session:
        body["prompt_cache_key"] = request.session
    body |= _thinking(option(request, "thinking"), dialect)
    if request.tools and dialect.effort_with_tools:
        body["reasoning_effort"] = dialect.effort_with_tools
    return body | dict(option(request, "extra_body"))


def _tool(tool: ToolSpec) -> Body:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _thinking(wish: Mapping[str, object], dialect: Dialect) -> Body:
    enabled, effort = bool(wish.get("enabled")), str(wish.get("effort") or "")
    body: Body = {}
    if effort == "disabled":
        if dialect.thinking in ("always", "off"):
            body["thinking"] = {"type": "disabled"}
        return body
    if dialect.thinking == "always" or (enabled and dialect.thinking == "asked"):
        body["thinking"] = {"type": "enabled"}
    if enabled and dialect.effort == "max":
        body["reasoning_effort"] = "max"
    elif enabled and effort and dialect.effort == "asked":
        body["reasoning_effort"] = effort
    return body


def _messages(request: ModelRequest, dialect: Dialect) -> Iterable[Body]:
    if request.system:
        yield {"role": "system", "content": request.system}
    for message in request.messages:
        yield from _from_user(message) if message.role == "user" else _from_assistant(message, dialect)


def _from_user(message: Message) -> Iterable[Body]:
    """Tool results come first, each a message of its own: they must follow the calls directly."""
    for block in message.content:
        if isinstance(block, ToolResult):
            yield {"role": "tool", "tool_call_id": block.call, "content": _result(block)}
    text = _text(message)
    if text:
        yield {"role": "user", "content": text}


def _result(result: ToolResult) -> str:
    """The wire has no mark for a failure, and some vendors refuse an empty content."""
    if not result.error:
        return result.text or "(no output)"
    return result.text if result.text.lower().startswith("error") else f"Error: {result.text}"


def _from_assistant(message: Message, dialect: Dialect) -> Iterable[Body]:
    calls = [_call(block) for block in message.content if isinstance(block, ToolCall)]
    text = _text(message)
    if not calls and not text:
        return
    # Not null beside calls: LM Studio and Ollama have refused that, and nobody refuses an empty string.
    body: Body = {"role": "assistant", "content": text}
    if calls:
        body["tool_calls"] = calls
    if dialect.reasoning_field:
        reasoning = "".join(block.text for block in message.content if isinstance(block, Thinking))
        if reasoning or (calls and dialect.reasoning_required):
            body[dialect.reasoning_field] = reasoning or "."
    yield body


def _call(call: ToolCall) -> Body:
    arguments = json.dumps(call.arguments, ensure_ascii=False, separators=(",", ":"))
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _text(message: Message) -> str:
    return "\n\n".join(block.text for block in message.content if isinstance(block, Text) and block.text)
