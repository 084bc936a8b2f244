"""Requests on the chat-completions wire."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from halo_kernel import Message, ModelError, ModelRequest, Text, Thinking, ToolCall, ToolResult, ToolSpec
from halo_lib_wire import Dialect, encode_chat

READ = ToolSpec(name="file_read", description="Read a file.", parameters={"type": "object", "properties": {}})
HISTORY = (
    Message("user", (Text("look"), Text("please"))),
    Message("assistant", (Thinking("hm", "signature"), ToolCall("1", "file_read", {"path": "ä"}), Text("I look."))),
    Message("user", (Text("and then?"), ToolResult("1", "content"))),
    Message("assistant", (ToolCall("2", "file_read", {}), ToolCall("3", "file_read", {}))),
    Message("user", (ToolResult("2", "no such file", True), ToolResult("3", ""))),
    Message("assistant", (Thinking("only"),)),
)


def request(**changes: Any) -> ModelRequest:
    return ModelRequest(**{"model": "m", "system": "You help.", "messages": HISTORY, **changes})


def thinking(**wish: object) -> dict[str, object]:
    return {"options": {"thinking": wish}}


def test_messages_follow_the_wire() -> None:
    """System first; each tool result a message of its own before the user's text; thinking alone is left out."""
    call = {"name": "file_read", "arguments": "{}"}
    assert encode_chat(request(), Dialect())["messages"] == [
        {"role": "system", "content": "You help."},
        {"role": "user", "content": "look\n\nplease"},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "file_read", "arguments": '{"path":"ä"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "1", "content": "content"},
        {"role": "user", "content": "and then?"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {"id": "2", "type": "function", "function": call},
                {"id": "3", "type": "function", "function": call},
            ],
        },
        {"role": "tool", "tool_call_id": "2", "content": "Error: no such file"},
        {"role": "tool", "tool_call_id": "3", "content": "(no output)"},
    ]


def test_reasoning_goes_back_where_the_vendor_wants_it() -> None:
    """Reasoning is replayed in the vendor's field, and a call without any gets a dot where one is required."""
    dialect = Dialect(reasoning_field="reasoning_content", reasoning_required=True)
    assistants = [each for each in encode_chat(request(), dialect)["messages"] if each["role"] == "assistant"]
    assert [each["reasoning_content"] for each in assistants] == ["hm", "."]
    relaxed = encode_chat(request(), Dialect(reasoning_field="reasoning"))["messages"]
    assert [each.get("reasoning") for each in relaxed if each["role"] == "assistant"] == ["hm", None]


def test_tools_limits_and_usage() -> None:
    """Tools, the answer's bound under the vendor's name, the cache key and the wish for usage are sent."""
    dialect = Dialect(max_tokens_field="max_completion_tokens", cache_key=True)
    body = encode_chat(request(tools=(READ,), max_tokens=99, session="s1"), dialect)
    function = {"name": "file_read", "description": "Read a file.", "parameters": READ.parameters}
    assert body["tools"] == [{"type": "function", "function": function}]
    assert (body["max_completion_tokens"], body["prompt_cache_key"]) == (99, "s1")
    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})


def test_a_plain_dialect_sends_nothing_more() -> None:
    """Without wishes and marks only model, messages and stream are sent."""
    body = encode_chat(request(session="s1"), Dialect(stream_usage=False))
    assert set(body) == {"model", "messages", "stream"}


@pytest.mark.parametrize(
    ("dialect", "wish", "sent"),
    [
        (Dialect(), {"enabled": True, "effort": "high"}, {}),
        (Dialect(effort="asked"), {"enabled": True, "effort": "high"}, {"reasoning_effort": "high"}),
        (Dialect(effort="asked"), {"enabled": False, "effort": "high"}, {}),
        (Dialect(effort="asked"), {"enabled": True}, {}),
        (Dialect(effort="max"), {"enabled": True, "effort": "low"}, {"reasoning_effort": "max"}),
        (Dialect(effort="max"), {}, {}),
        (Dialect(thinking="off"), {"enabled": True, "effort": "high"}, {}),
        (Dialect(thinking="off"), {"enabled": True, "effort": "disabled"}, {"thinking": {"type": "disabled"}}),
        (Dialect(thinking="always"), {}, {"thinking": {"type": "enabled"}}),
        (Dialect(thinking="always"), {"effort": "disabled"}, {"thinking": {"type": "disabled"}}),
        (Dialect(thinking="asked"), {"enabled": True}, {"thinking": {"type": "enabled"}}),
        (Dialect(thinking="asked"), {"enabled": False}, {}),
    ],
)
def test_thinking_in_each_dialect(dialect: Dialect, wish: dict[str, object], sent: dict[str, object]) -> None:
    """The agent's wish to think is put in the vendor's words."""
    body = encode_chat(request(**thinking(**wish)), dialect)
    assert {name: body[name] for name in ("thinking", "reasoning_effort") if name in body} == sent


def test_effort_beside_tools() -> None:
    """Where a vendor refuses tools beside reasoning, a request with tools asks for none of it; others are unchanged."""
    dialect = Dialect(effort="asked", effort_with_tools="none")
    wish = thinking(enabled=True, effort="high")
    assert encode_chat(request(tools=(READ,), **wish), dialect)["reasoning_effort"] == "none"
    assert encode_chat(request(**wish), dialect)["reasoning_effort"] == "high"


def test_extra_body_is_added_as_it_is() -> None:
    """An agent may send any field that its server knows."""
    body = encode_chat(request(options={"extra_body": {"temperature": 0.1, "top_k": 5}}), Dialect())
    assert (body["temperature"], body["top_k"]) == (0.1, 5)


@pytest.mark.parametrize("name", ["thinking", "extra_body"])
def test_an_option_that_is_no_mapping_is_refused(name: str) -> None:
    """A wrong option is a `refused` that names it."""
    with pytest.raises(ModelError, match=name) as failure:
        encode_chat(request(options={name: "high"}), Dialect())
    assert failure.value.kind == "refused"


def test_bodies_are_equal_for_equal_requests() -> None:
    """The same request gives the same bytes, so that a vendor's prompt cache holds."""
    once, twice = (msgspec.json.encode(encode_chat(request(tools=(READ,)), Dialect())) for _ in range(2))
    assert once == twice
    assert json.loads(once)["model"] == "m"
