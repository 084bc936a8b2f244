"""Requests on the Messages wire."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halo_kernel import (
    Block,
    Message,
    ModelError,
    ModelRequest,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    ToolSpec,
    repair_history,
)
from halo_kernel.testing.anthropic_rules import complaint, signed
from halo_lib_wire import MessagesDialect, encode_messages
from halo_lib_wire.messages.seal import Called, Redacted, Said, Seal, Signed

READ = ToolSpec(name="file_read", description="Read a file.", parameters={"properties": {}})
HISTORY = (
    Message("user", (Text("look"), Text("please"), Text(" "))),
    Message("assistant", (Thinking("hm"), Text("I look."), ToolCall("1", "file_read", {"path": "ä"}))),
    Message("user", (Text("and then?"), ToolResult("1", "content"))),
    Message("assistant", (ToolCall("2", "file_read", {}), ToolCall("3", "file_read", {}))),
    Message("user", (ToolResult("2", "no such file", True), ToolResult("3", " "))),
    Message("assistant", (Thinking("only"),)),
)


def request(**changes: Any) -> ModelRequest:
    return ModelRequest(**{"model": "m", "system": "You help.", "messages": HISTORY, **changes})


def encoded(dialect: MessagesDialect | None = None, **changes: Any) -> dict[str, Any]:
    return encode_messages(request(**changes), dialect or MessagesDialect(cache=False), issuer="here")


def thinking(**wish: object) -> dict[str, object]:
    return {"options": {"thinking": wish}}


def sealed(thought: str, *parts: Signed | Redacted | Said | Called, issuer: str = "here") -> Thinking:
    return Thinking(thought, Seal(issuer, parts).text())


def test_messages_follow_the_wire() -> None:
    """Results come first, errors are marked, blanks are left out, and so is thinking that nobody signed."""
    assert encoded()["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "text", "text": "please"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "1", "name": "file_read", "input": {"path": "ä"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "1", "content": "content"},
                {"type": "text", "text": "and then?"},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "2", "name": "file_read", "input": {}},
                {"type": "tool_use", "id": "3", "name": "file_read", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "2", "content": "no such file", "is_error": True},
                {"type": "tool_result", "tool_use_id": "3", "content": "(no output)"},
            ],
        },
    ]


def test_the_rest_of_the_body() -> None:
    """System and tools are blocks, an answer is always bounded, and an agent's own fields go above all."""
    body = encoded(tools=(READ,), options={"extra_body": {"temperature": 0.1, "top_k": 5}})
    schema = {"type": "object", "properties": {}}
    assert {name: body[name] for name in body if name != "messages"} == {
        "model": "m",
        "max_tokens": 8192,
        "stream": True,
        "system": [{"type": "text", "text": "You help."}],
        "tools": [{"name": "file_read", "description": "Read a file.", "input_schema": schema}],
        "temperature": 0.1,
        "top_k": 5,
    }
    assert "system" not in encoded(system=" ")


def test_blocks_go_back_in_their_order() -> None:
    """A seal puts several thinking blocks, redacted ones and texts back where they were, with the server's call ids."""
    thought = sealed(
        "onetwo", Signed(3, "s1"), Redacted("opaque"), Said(5), Signed(3, "s2"), Said(1), Called("t1"), Called("t2")
    )
    answer = Message("assistant", (thought, Text("text!!"), ToolCall("h1", "a", {}), ToolCall("h2", "b", {})))
    results = Message("user", (ToolResult("h2", "y"), ToolResult("h1", "x")))
    _, back, last = encoded(messages=(HISTORY[0], answer, results))["messages"]
    assert back["content"] == [
        {"type": "thinking", "thinking": "one", "signature": "s1"},
        {"type": "redacted_thinking", "data": "opaque"},
        {"type": "text", "text": "text!"},
        {"type": "thinking", "thinking": "two", "signature": "s2"},
        {"type": "text", "text": "!"},
        {"type": "tool_use", "id": "t1", "name": "a", "input": {}},
        {"type": "tool_use", "id": "t2", "name": "b", "input": {}},
    ]
    assert [block["tool_use_id"] for block in last["content"]] == ["t2", "t1"]


@pytest.mark.parametrize(
    "thought",
    [
        sealed("one", Signed(3, "s1"), Said(4), issuer="there"),
        sealed("one!", Signed(3, "s1"), Said(4)),
        sealed("one", Signed(3, "s1"), Said(5)),
        Thinking("one", "of another wire"),
        Thinking("one", '{"issuer": "here"}'),
        Thinking("one"),
    ],
)
def test_thinking_that_cannot_go_back(thought: Thinking) -> None:
    """Thinking of another server, or that no longer has the length that was signed, is left out and the rest stays."""
    (_, back) = encoded(messages=(HISTORY[0], Message("assistant", (thought, Text("text")))))["messages"]
    assert back["content"] == [{"type": "text", "text": "text"}]


def test_ids_that_a_server_gave_twice() -> None:
    """A server's call ids that are empty or not its own alone are replaced by ours, in calls and results alike."""
    content = [
        (sealed("", Signed(0, "s"), *map(Called, given)), *(ToolCall(id, "a", {}) for id in ids))
        for given, ids in ((["t", "t"], "ab"), (["t"], "c"), (["t"], "d"), ([""], "e"), (["u", "v"], "f"))
    ]
    rounds = [
        each
        for blocks in content
        for each in (
            Message("assistant", blocks),
            Message("user", tuple(ToolResult(block.id, "x") for block in blocks if isinstance(block, ToolCall))),
        )
    ]
    messages = encoded(messages=(HISTORY[0], *rounds))["messages"]
    blocks = [block for message in messages for block in message["content"]]
    assert [block["id"] for block in blocks if block["type"] == "tool_use"] == ["a", "b", "t", "d", "e", "f"]
    assert [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"] == [
        "a",
        "b",
        "t",
        "d",
        "e",
        "f",
    ]


@pytest.mark.parametrize(
    ("dialect", "wish", "sent"),
    [
        ("either", {}, {}),
        ("either", {"enabled": False, "effort": "high"}, {}),
        ("either", {"enabled": True}, {"thinking": {"type": "adaptive", "display": "summarized"}}),
        ("either", {"enabled": True, "budget_tokens": 2000}, {"thinking": {"type": "enabled", "budget_tokens": 2000}}),
        (
            "adaptive",
            {"enabled": True, "effort": "max", "budget_tokens": 2000},
            {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "max"}},
        ),
        ("manual", {"enabled": True}, {"thinking": {"type": "enabled", "budget_tokens": 8192}}),
        ("manual", {"enabled": True, "effort": "low"}, {"thinking": {"type": "enabled", "budget_tokens": 2048}}),
        ("manual", {"enabled": True, "effort": "max"}, {"thinking": {"type": "enabled", "budget_tokens": 10000}}),
        ("manual", {"enabled": True, "budget_tokens": 5}, {"thinking": {"type": "enabled", "budget_tokens": 1024}}),
        ("manual", {"effort": "disabled"}, {"thinking": {"type": "disabled"}}),
        ("bare", {"enabled": True, "effort": "low"}, {"thinking": {"type": "adaptive"}}),
        ("never", {"enabled": True}, {}),
        ("never", {"effort": "disabled"}, {}),
    ],
)
def test_thinking_in_each_dialect(dialect: Any, wish: dict[str, object], sent: dict[str, object]) -> None:
    """The agent's wish to think is put in the model's words; a budget is at most half of the answer."""
    body = encoded(MessagesDialect(thinking=dialect), messages=HISTORY[:1], max_tokens=20000, **thinking(**wish))
    assert {name: body[name] for name in ("thinking", "output_config") if name in body} == sent


def test_no_room_to_think() -> None:
    """An answer of no more than the least budget has none for thinking."""
    manual = MessagesDialect(thinking="manual")
    assert "thinking" not in encoded(manual, messages=HISTORY[:1], max_tokens=1024, **thinking(enabled=True))
    body = encoded(manual, messages=HISTORY[:1], max_tokens=1025, **thinking(enabled=True))
    assert body["thinking"]["budget_tokens"] == 1024


def test_manual_thinking_waits_for_the_end_of_a_round() -> None:
    """Calls that began without thinking are finished without; thinking that is there goes on."""
    manual = MessagesDialect(thinking="manual")
    assert "thinking" not in encoded(manual, messages=HISTORY[:3], **thinking(enabled=True))
    begun = Message("assistant", (sealed("hm", Signed(2, "s"), Called("t")), ToolCall("1", "file_read", {})))
    result = Message("user", (ToolResult("1", "x"),))
    assert "thinking" in encoded(manual, messages=(HISTORY[0], begun, result), **thinking(enabled=True))


def test_bound_thinking_may_be_dropped() -> None:
    """Where thinking is bound to its conversation, the server is asked to drop what was altered, unless it is off."""
    bound = MessagesDialect(thinking="adaptive", binding=True)
    block_binding = {"prefix_mismatch_behavior": "drop_block"}
    assert encoded(bound)["thinking"] == {"type": "adaptive", "block_binding": block_binding}
    asked = encoded(bound, **thinking(enabled=True, effort="low"))
    assert asked["thinking"] == {"type": "adaptive", "display": "summarized", "block_binding": block_binding}
    assert encoded(bound, **thinking(effort="disabled"))["thinking"] == {"type": "disabled"}
    assert bound.headers("")["anthropic-beta"] and "anthropic-beta" not in MessagesDialect().headers("k")


@pytest.mark.parametrize("name", ["thinking", "extra_body"])
def test_an_option_that_is_no_mapping_is_refused(name: str) -> None:
    """A wrong option is a `refused` that names it."""
    with pytest.raises(ModelError, match=name) as failure:
        encoded(options={name: "high"})
    assert failure.value.kind == "refused"


def test_bodies_are_equal_for_equal_requests() -> None:
    """The same request gives the same bytes, so that the prompt cache holds; what is given is not changed."""
    tools = (READ,)
    once, twice = (
        msgspec.json.encode(encode_messages(request(tools=tools), MessagesDialect(), issuer="here")) for _ in "ab"
    )
    assert once == twice
    assert "cache_control" not in json.dumps(msgspec.to_builtins((tools, HISTORY)))


WORDS = st.text(alphabet="ab é你😀\n\0", max_size=6)
IDS = st.sampled_from("123")
PARTS = st.one_of(
    st.builds(lambda text: sealed(text, Signed(len(text), signed(text))), WORDS),
    st.builds(Thinking, WORDS),
    st.builds(Text, WORDS),
    st.builds(ToolCall, IDS, st.just("file_read"), st.dictionaries(WORDS, WORDS, max_size=2)),
    st.builds(ToolResult, IDS, WORDS, st.booleans()),
)
MESSAGES = st.lists(
    st.builds(Message, st.sampled_from(("user", "assistant")), st.lists(PARTS, max_size=5).map(tuple[Block, ...])),
    max_size=8,
)


@settings(deadline=None)
@given(MESSAGES, st.sampled_from(("adaptive", "manual", "either")), WORDS)
def test_any_repaired_history_is_accepted(messages: list[Message], dialect: Any, system: str) -> None:
    """Whatever the history was, repaired and encoded it breaks no rule of the API, and is JSON in UTF-8."""
    history = (*repair_history(messages), *HISTORY[:1])
    asked = request(messages=repair_history(history), system=system, tools=(READ,), **thinking(enabled=True))
    body = encode_messages(asked, MessagesDialect(thinking=dialect), issuer="here")
    assert complaint(body) == ""
    assert json.loads(msgspec.json.encode(body)) == body


@settings(deadline=None)
@given(MESSAGES)
def test_order_is_kept(messages: list[Message]) -> None:
    """Texts stand in the body in the order in which they stood in the history, and none that says something is lost."""
    history = repair_history(messages)
    found = [
        block["text"]
        for message in encoded(messages=history)["messages"]
        for block in message["content"]
        if block["type"] == "text"
    ]
    assert found == [
        block.text for message in history for block in message.content if isinstance(block, Text) and block.text.strip()
    ]
