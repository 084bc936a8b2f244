"""Streamed messages as chunks."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halo_kernel import (
    MALFORMED,
    Chunk,
    Message,
    ModelError,
    ModelRequest,
    Stop,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    Usage,
)
from halo_kernel.testing.anthropic_script import Messages
from halo_kernel.testing.scripts import Script, ScriptedCall
from halo_lib_wire import MessagesDecoder, MessagesDialect, SseParser, encode_messages
from halo_lib_wire.loose import text

WORDS = st.text(alphabet='ab"\\{} \n\u2028\0é你😀', max_size=30)


def decoder() -> MessagesDecoder:
    ids = count(1)
    return MessagesDecoder(new_id=lambda: f"made-{next(ids)}", issuer="here")


def event(kind: str, **fields: Any) -> str:
    return json.dumps({"type": kind, **fields})


def start(index: int, **block: Any) -> str:
    return event("content_block_start", index=index, content_block=block)


def delta(index: int, kind: str, **fields: Any) -> str:
    return event("content_block_delta", index=index, delta={"type": kind, **fields})


def ended(reason: str | None = "end_turn", **more: Any) -> str:
    return event("message_delta", delta={"stop_reason": reason, **more})


def decoded(*datas: str) -> list[Chunk]:
    reader = decoder()
    chunks = [each for data in datas for each in reader.feed(data)]
    return chunks + reader.finish()


def fed(reader: MessagesDecoder, raw: bytes, places: list[int]) -> list[Chunk]:
    marks = sorted({place % (len(raw) + 1) for place in places})
    parser, chunks = SseParser(), list[Chunk]()
    for begin, end in zip([0, *marks], [*marks, len(raw)], strict=True):
        for each in parser.feed(raw[begin:end]):
            chunks += reader.feed(each.data)
    return chunks + reader.finish()


def thought(chunks: list[Chunk]) -> Thinking:
    deltas = [each for each in chunks if isinstance(each, ThinkingDelta)]
    return Thinking("".join(each.text for each in deltas), next((each.signature for each in reversed(deltas)), None))


def said(chunks: list[Chunk]) -> str:
    return "".join(each.text for each in chunks if isinstance(each, TextDelta))


def sent_back(chunks: list[Chunk]) -> list[dict[str, Any]]:
    """Return the blocks that go back when this answer, as the kernel keeps it, is part of a request."""
    calls = tuple(each for each in chunks if isinstance(each, ToolCall))
    kept = (thought(chunks), *([Text(said(chunks))] if said(chunks) else []), *calls)
    request = ModelRequest(model="m", system="", messages=(Message("assistant", kept),))
    body = encode_messages(request, MessagesDialect(cache=False), issuer="here")
    return [block for message in body["messages"] for block in message["content"]]


def test_text_usage_and_stop_come_in_order() -> None:
    """Deltas come as they arrive, a ping as an empty one, then usage with its totals, then the one stop."""
    counts = {"input_tokens": 10, "cache_read_input_tokens": 4, "output_tokens": 1, "cache_creation": {"x": 1}}
    assert decoded(
        event("message_start", message={"usage": counts}),
        start(0, type="text", text=""),
        event("ping"),
        delta(0, "text_delta", text="Hel"),
        delta(0, "text_delta", text="lo"),
        event("content_block_stop", index=0),
        json.dumps({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}}),
        event("message_stop"),
    ) == [TextDelta(""), TextDelta("Hel"), TextDelta("lo"), Usage(input=10, output=7, cache_read=4), Stop("end")]


def test_input_that_comes_at_once() -> None:
    """A call's input may come with its beginning, as an object or as text; pieces that follow are the whole of it."""
    given = {"type": "tool_use", "id": "a", "name": "read"}
    one = decoded(start(0, **given, input={"path": "x"}), event("content_block_stop", index=0), ended("tool_use"))
    assert one == [ToolCall("a", "read", {"path": "x"}), Stop("tools")]
    assert decoded(start(0, **given, input='{"path": "x"}'), ended("tool_use"))[0] == one[0]
    both = decoded(
        start(0, **given, input={"p": 1}), delta(0, "input_json_delta", partial_json='{"path": "x"}'), ended()
    )
    assert both == one


def test_a_call_cut_by_the_output_limit() -> None:
    """A call that the output limit cut keeps its text as malformed, and the stop says why."""
    begun = start(0, type="tool_use", id="a", name="write", input={})
    assert decoded(begun, delta(0, "input_json_delta", partial_json='{"text": "lon'), ended("max_tokens")) == [
        ToolCall("a", "write", {MALFORMED: '{"text": "lon'}),
        Stop("tools", "length"),
    ]


def test_ids_are_made_where_none_came() -> None:
    """A call without an id, or with one that came before, gets one; a nameless one is dropped."""
    calls = [
        start(at, type="tool_use", id=id, name=name)
        for at, (id, name) in enumerate((("", "a"), ("x", "b"), ("x", "c"), ("y", "")))
    ]
    assert [each.id for each in decoded(*calls, ended("tool_use")) if isinstance(each, ToolCall)] == [
        "made-1", "x", "made-2",
    ]  # fmt: skip


def test_a_refusal_says_why() -> None:
    """A refusal's explanation is its detail, and nothing of it runs."""
    call = start(0, type="tool_use", id="a", name="rm")
    refused = event("message_delta", delta={"stop_reason": "refusal", "stop_details": {"explanation": "not that"}})
    assert decoded(call, refused) == [Stop("refusal", "not that")]


def test_several_thoughts_and_texts_go_back_as_they_came() -> None:
    """Blocks of an answer that lay between one another do so when they go back; an unsigned thought stays behind."""
    chunks = decoded(
        start(0, type="thinking", thinking=""),
        delta(0, "thinking_delta", thinking="one"),
        delta(0, "signature_delta", signature="s"),
        delta(0, "signature_delta", signature="1"),
        start(1, type="redacted_thinking", data="opaque"),
        start(2, type="text", text="a"),
        start(3, type="thinking", thinking="", signature=""),
        delta(3, "thinking_delta", thinking="unsigned"),
        start(4, type="thinking", thinking="", signature="s2"),
        start(5, type="server_tool_use", name="web_search"),
        delta(6, "text_delta", text="b"),
        start(7, type="tool_use", id="t", name="read"),
        ended("tool_use"),
    )
    assert sent_back(chunks) == [
        {"type": "thinking", "thinking": "one", "signature": "s1"},
        {"type": "redacted_thinking", "data": "opaque"},
        {"type": "text", "text": "a"},
        {"type": "thinking", "thinking": "", "signature": "s2"},
        {"type": "text", "text": "b"},
        {"type": "tool_use", "id": "t", "name": "read", "input": {}},
    ]


def test_half_a_character_where_none_belongs() -> None:
    """Ids, signatures and sealed data can be stored, whatever is in them, and a pair that was cut in two is whole."""
    chunks = decoded(
        start(0, type="thinking", thinking=""),
        delta(0, "signature_delta", signature="\ud83d"),
        delta(0, "signature_delta", signature="\ude00"),
        start(1, type="redacted_thinking", data="\ud83d"),
        start(2, type="tool_use", id="\ud83d", name="read"),
        ended("tool_use"),
    )
    assert sent_back(chunks) == [
        {"type": "thinking", "thinking": "", "signature": "😀"},
        {"type": "redacted_thinking", "data": "\ufffd"},
        {"type": "tool_use", "id": "\ufffd", "name": "read", "input": {}},
    ]


def test_text_in_parts_of_parts() -> None:
    """A part's text is text: what is nested in its place, perhaps without end, is not looked into."""
    nested: object = "x"
    for _ in range(5000):
        nested = [{"text": nested}]
    assert text([{"text": "a"}, {"text": nested}, {"text": "b"}]) == "ab"


def test_nothing_signed_has_no_seal() -> None:
    """Thinking without any signature is shown and not sealed."""
    assert thought(decoded(start(0, type="thinking", thinking="hm"), ended())) == Thinking("hm")


def test_a_stream_without_an_end_is_a_cut() -> None:
    """Neither a stop reason nor `message_stop`: the answer was cut, which is a network failure."""
    with pytest.raises(ModelError, match="ended before") as failure:
        decoded(start(0, type="text", text="half"))
    assert failure.value.kind == "network"
    assert decoded(start(0, type="text", text="x"), event("message_stop")) == [TextDelta("x"), Stop("end")]


def test_a_damaged_event() -> None:
    """An event that is no JSON is a network failure; the rest of a closed stream may be one."""
    with pytest.raises(ModelError) as failure:
        decoder().feed('{"type": "mess')
    assert failure.value.kind == "network"
    assert decoder().feed('{"type": "mess', tail=True) == []


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"type": "overloaded_error", "message": "Overloaded"}, "server"),
        ({"type": "api_error", "message": "Internal server error"}, "server"),
        ({"type": "rate_limit_error", "message": "slow down"}, "throttle"),
        ({"type": "authentication_error", "message": "no"}, "account"),
        ({"type": "permission_error", "message": "no"}, "account"),
        ({"type": "billing_error", "message": "no"}, "account"),
        ({"type": "invalid_request_error", "message": "no"}, "refused"),
        ({"type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 8 maximum"}, "overflow"),
        ({"type": "request_too_large", "message": "no"}, "overflow"),
    ],
)
def test_an_error_within_the_stream(error: dict[str, str], kind: str) -> None:
    """An error event is classified by its type."""
    with pytest.raises(ModelError) as failure:
        decoder().feed(event("error", error=error))
    assert failure.value.kind == kind


@pytest.mark.parametrize(
    "data",
    [
        "", " ", "[]", "null", "3", "{}", '{"type": 3}', '{"type": "later"}', '{"type": "message_start", "message": 3}',
        '{"type": "content_block_start"}', '{"type": "content_block_delta", "index": "x", "delta": null}',
        '{"type": "content_block_stop", "index": 9}', '{"type": "message_delta", "usage": []}',
        '{"type": "content_block_delta", "index": 3, "delta": {"type": "input_json_delta", "partial_json": "{"}}',
    ],
)  # fmt: skip
def test_events_with_nothing_in_them(data: str) -> None:
    """An event of an unknown shape adds nothing."""
    reader = decoder()
    assert reader.feed(data) == []
    assert reader.feed(ended()) == []
    assert reader.finish()[-1] == Stop("end")


def test_a_character_split_between_deltas() -> None:
    """Half a surrogate pair waits for its other half; one that stays alone becomes U+FFFD, and lengths still fit."""
    pieces = ("a\ud83d", "\ude00b\ud83d")
    chunks = decoded(
        start(0, type="thinking", thinking=""),
        *(delta(0, "thinking_delta", thinking=piece) for piece in pieces),
        delta(0, "signature_delta", signature="s"),
        *(delta(1, "text_delta", text=piece) for piece in pieces),
        ended(),
    )
    assert (thought(chunks).text, said(chunks)) == ("a😀b\ufffd", "a😀b\ufffd")
    assert [block["type"] for block in sent_back(chunks)] == ["thinking", "text"]


@settings(deadline=None)
@given(
    WORDS,
    WORDS,
    st.dictionaries(WORDS, WORDS, max_size=2),
    st.integers(1, 6),
    st.lists(st.integers(0, 9999), max_size=9),
)
def test_bytes_to_chunks(thinking: str, text: str, arguments: dict[str, str], pieces: int, places: list[int]) -> None:
    """From a real stream's bytes cut anywhere to chunks, everything is what was sent, and goes back as it came."""
    calls = (ScriptedCall(name="t", arguments=arguments),)
    script = Script(thinking=thinking, text=text, calls=calls, pieces=pieces, fragments=pieces, redacted="opaque")
    chunks = fed(decoder(), b"".join(Messages().events(script, "m")), places)
    assert (thought(chunks).text, said(chunks)) == (thinking, text)
    assert chunks[-3:] == [ToolCall("toolu_0", "t", dict(arguments)), Usage(input=10, output=5), Stop("tools")]
    back = sent_back(chunks)
    kinds = ["thinking"] * bool(thinking) + ["redacted_thinking"] + ["text"] * bool(text.strip()) + ["tool_use"]
    assert [block["type"] for block in back] == kinds
    assert "".join(block.get("thinking", "") for block in back) == thinking
