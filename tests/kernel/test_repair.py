"""Repair: whatever a journal holds, a provider accepts it."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from halo_kernel import Message, Text, Thinking, ToolCall, ToolResult, repair_history

names = st.sampled_from("abcdef")
texts = st.sampled_from(["", " ", "hello", "world"])
blocks = st.one_of(
    texts.map(Text),
    texts.map(Thinking),
    st.builds(ToolCall, names, st.sampled_from(["tool", "", "a.b", "x" * 65, "文件"]), st.just({})),
    st.builds(ToolResult, names, st.just("done"), st.booleans()),
)
histories = st.lists(
    st.builds(Message, st.sampled_from(["user", "assistant"]), st.lists(blocks).map(tuple)), max_size=12
)


def check_strict(messages: tuple[Message, ...]) -> None:
    """The union of what strict providers demand."""
    used: set[str] = set()
    for position, message in enumerate(messages):
        assert message.content, "no empty message"
        assert message.role == ("user" if position % 2 == 0 else "assistant"), "sides alternate, the user begins"
        assert all(block.text.strip() for block in message.content if isinstance(block, Text))
        calls = [block.id for block in message.content if isinstance(block, ToolCall)]
        assert all(
            re.fullmatch("[A-Za-z0-9_-]{1,64}", block.name) for block in message.content if isinstance(block, ToolCall)
        )
        results = [block.call for block in message.content if isinstance(block, ToolResult)]
        if message.role == "user":
            before = messages[position - 1].content if position else ()
            assert results == [block.id for block in before if isinstance(block, ToolCall)], (
                "one result a call, in order"
            )
            assert not calls
            assert all(isinstance(block, ToolResult) for block in message.content[: len(results)]), "results come first"
        else:
            assert not results
            assert not used.intersection(calls) and len(set(calls)) == len(calls), "ids are unique"
            used.update(calls)
            if calls:
                assert position + 1 < len(messages), "a call is never the end"


@given(histories)
def test_any_history_becomes_valid(history: list[Message]) -> None:
    """What repair returns is accepted by the strictest provider."""
    check_strict(repair_history(history))


@given(histories)
def test_repair_is_idempotent(history: list[Message]) -> None:
    """Repairing twice is repairing once."""
    once = repair_history(history)
    assert repair_history(once) == once


def test_a_valid_history_is_unchanged() -> None:
    """Repair touches nothing that is valid."""
    history = (
        Message("user", (Text("read it"),)),
        Message("assistant", (Text("reading"), ToolCall("1", "file_read", {"path": "a"}))),
        Message("user", (ToolResult("1", "content"),)),
        Message("assistant", (Text("it says content"),)),
    )
    assert repair_history(history) == history


def test_a_call_without_its_result_gets_an_error_result() -> None:
    """A call that was cut is answered by an error that warns against a blind retry."""
    fixed = repair_history([Message("user", (Text("go"),)), Message("assistant", (ToolCall("1", "shell_exec", {}),))])
    result = fixed[-1].content[0]
    assert isinstance(result, ToolResult) and result.error and "Do not automatically retry" in result.text
