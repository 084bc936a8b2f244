"""Streamed chat completions as chunks."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halo_kernel import MALFORMED, Chunk, ModelError, Stop, TextDelta, ThinkingDelta, ToolCall, Usage
from halo_lib_wire import ChatDecoder, SseParser

TEXT = st.text(alphabet='ab<>/think"\\{} \n\u2028é你😀', max_size=30)


def decoder(*, think_tags: bool = False) -> ChatDecoder:
    ids = count(1)
    return ChatDecoder(new_id=lambda: f"made-{next(ids)}", think_tags=think_tags)


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> str:
    return json.dumps({"choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}], **more})


def call(index: int, id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"tool_calls": [{"index": index, "id": id, "function": {"name": name, "arguments": arguments}}]}


def decoded(*datas: str, think_tags: bool = False) -> list[Chunk]:
    reader = decoder(think_tags=think_tags)
    chunks = [each for data in datas for each in reader.feed(data)]
    return chunks + reader.finish()


def joined(chunks: list[Chunk]) -> tuple[str, str]:
    thought = "".join(each.text for each in chunks if isinstance(each, ThinkingDelta))
    return thought, "".join(each.text for each in chunks if isinstance(each, TextDelta))


def test_text_usage_and_stop_come_in_order() -> None:
    """Deltas come as they arrive, then usage, then the one stop."""
    usage = {"prompt_tokens": 10, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4}}
    assert decoded(
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "Hel"}),
        chunk({"content": "lo"}),
        chunk(finish="stop"),
        json.dumps({"choices": [], "usage": usage}),
        "[DONE]",
    ) == [TextDelta("Hel"), TextDelta("lo"), Usage(input=6, output=3, cache_read=4), Stop("end")]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_comes_as_thinking(field: str) -> None:
    """Reasoning is thinking under either name, and is not doubled when a proxy sends both."""
    chunks = decoded(chunk({field: "hm"}), chunk({"content": "yes"}, "stop"))
    assert chunks == [ThinkingDelta("hm"), TextDelta("yes"), Stop("end")]
    both = decoded(chunk({"reasoning_content": "hm", "reasoning": "hm"}, "stop"))
    assert both == [ThinkingDelta("hm"), Stop("end")]


@pytest.mark.parametrize("finish", ["tool_calls", "stop", "function_call"])
def test_calls_are_calls_whatever_the_finish_says(finish: str) -> None:
    """An answer with calls stops for tools, even when the server says `stop`."""
    chunks = decoded(chunk(call(0, "a", "read", '{"path":')), chunk(call(0, "", "", '"x"}')), chunk(finish=finish))
    assert chunks == [ToolCall("a", "read", {"path": "x"}), Stop("tools")]


def test_parallel_calls() -> None:
    """Several calls come out whole and in order, after the text."""
    chunks = decoded(
        chunk({"content": "I look."}),
        chunk(call(0, "a", "read", "{")),
        chunk(call(1, "", "list", "")),
        chunk(call(0, "", "", "}")),
        chunk(finish="tool_calls"),
    )
    calls = [ToolCall("a", "read", {}), ToolCall("made-1", "list", {})]
    assert chunks == [TextDelta("I look."), *calls, Stop("tools")]


def test_arguments_as_an_object() -> None:
    """Arguments that come as a JSON object instead of its text are taken."""
    delta = {"tool_calls": [{"id": "a", "function": {"name": "read", "arguments": {"path": "x"}}}]}
    assert decoded(chunk(delta, "stop"))[0] == ToolCall("a", "read", {"path": "x"})


def test_a_call_cut_by_the_output_limit() -> None:
    """A call that the output limit cut keeps its text as malformed, and the stop says why."""
    chunks = decoded(chunk(call(0, "a", "write", '{"text": "lon')), chunk(finish="length"))
    assert chunks == [ToolCall("a", "write", {MALFORMED: '{"text": "lon'}), Stop("tools", "length")]


@pytest.mark.parametrize(
    ("finish", "stop"),
    [
        ("stop", Stop("end")),
        ("eos", Stop("end")),
        ("length", Stop("length")),
        ("content_filter", Stop("refusal", "content_filter")),
        ("sensitive", Stop("refusal", "sensitive")),
    ],
)
def test_finish_reasons(finish: str, stop: Stop) -> None:
    """Each finish reason has one meaning; an unknown one ends the answer."""
    assert decoded(chunk({"content": "x"}, finish)) == [TextDelta("x"), stop]


def test_a_refused_answer_runs_nothing() -> None:
    """Of a refusal its text is kept as the reason and its calls are dropped."""
    chunks = decoded(chunk({"refusal": "I "}), chunk({"refusal": "won't"}), chunk(call(0, "a", "rm", "{}"), "stop"))
    assert chunks == [Stop("refusal", "I won't")]


def test_a_stream_without_an_end_is_a_cut() -> None:
    """Neither a finish reason nor `[DONE]`: the answer was cut, which is a network failure."""
    with pytest.raises(ModelError, match="ended before") as failure:
        decoded(chunk({"content": "half"}))
    assert failure.value.kind == "network"


def test_done_without_a_finish_reason_is_an_end() -> None:
    """`[DONE]` alone ends an answer."""
    assert decoded(chunk({"content": "x"}), "[DONE]") == [TextDelta("x"), Stop("end")]


@pytest.mark.parametrize("finish", ["insufficient_system_resource", "network_error"])
def test_a_server_that_gives_up(finish: str) -> None:
    """A vendor's own word for giving up is a server failure."""
    with pytest.raises(ModelError) as failure:
        decoded(chunk({"content": "x"}, finish))
    assert failure.value.kind == "server"


def test_a_damaged_chunk() -> None:
    """A chunk that is no JSON is a network failure; the rest of a closed stream may be one."""
    with pytest.raises(ModelError) as failure:
        decoder().feed('{"choices": [{"del')
    assert failure.value.kind == "network"
    assert decoder().feed('{"choices": [{"del', tail=True) == []


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": "Rate limit reached", "code": "rate_limit_exceeded"}, "throttle"),
        ({"message": "slow down", "code": 429}, "throttle"),
        ({"message": "overloaded", "code": 502}, "server"),
        ({"message": "oops"}, "server"),
        ("just a word", "server"),
        ({"message": "You exceeded your current quota", "type": "insufficient_quota"}, "account"),
        ({"message": "Invalid API key"}, "account"),
        ({"message": "This model's maximum context length is 8192 tokens"}, "overflow"),
    ],
)
def test_an_error_within_the_stream(error: object, kind: str) -> None:
    """An error that comes as a chunk is classified like an answer's."""
    with pytest.raises(ModelError) as failure:
        decoder().feed(json.dumps({"error": error}))
    assert failure.value.kind == kind


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 3}},
        {"prompt_tokens": 10, "completion_tokens": 2, "prompt_cache_hit_tokens": 3},
        {"prompt_tokens": 10, "completion_tokens": 2, "cache_read_tokens": 3},
        {"prompt_tokens": 10, "completion_tokens": 2, "cached_tokens": 3, "prompt_tokens_details": None},
    ],
)
def test_cached_tokens_under_every_name(usage: dict[str, object]) -> None:
    """The cached part of the prompt is told apart, whatever the vendor calls it, in the chunk or in its choice."""
    expected = Usage(input=7, output=2, cache_read=3)
    assert expected in decoded(chunk({"content": "x"}, "stop", usage=usage))
    in_choice = {"choices": [{"delta": {}, "finish_reason": "stop", "usage": usage}]}
    assert expected in decoded(json.dumps(in_choice))


def test_a_whole_answer_instead_of_a_stream() -> None:
    """A server that ignores `stream` answers with one message, which is taken."""
    message = {"role": "assistant", "content": [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]}
    assert decoded(json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]})) == [
        TextDelta("Hello"),
        Stop("end"),
    ]


@pytest.mark.parametrize("data", ["[]", "null", "3", "{}", '{"choices": null}', '{"choices": [null]}', "", " "])
def test_chunks_with_nothing_in_them(data: str) -> None:
    """A chunk of an unknown shape adds nothing."""
    assert decoder().feed(data) == []


def test_a_character_split_between_deltas() -> None:
    """Half a surrogate pair waits for its other half; one that stays alone becomes U+FFFD."""
    halves = decoded(chunk({"content": "a\ud83d"}), chunk({"content": "\ude00b"}, "stop"))
    assert joined(halves) == ("", "a😀b")
    assert joined(decoded(chunk({"content": "a\ud83d"}, "stop"))) == ("", "a\ufffd")


@settings(deadline=None)
@given(TEXT, TEXT, st.lists(st.integers(0, 100), max_size=8))
def test_think_tags_cut_anywhere(thought: str, answer: str, places: list[int]) -> None:
    """Reasoning between tags at the beginning is thinking, wherever the deltas are cut."""
    thought, answer = thought.replace("<", "").strip(), answer.strip()
    raw = f"<think>\n{thought}\n</think>\n\n{answer}"
    marks = sorted({place % (len(raw) + 1) for place in places})
    pieces = [raw[begin:end] for begin, end in zip([0, *marks], [*marks, len(raw)], strict=True)]
    found, said = joined(decoded(*[chunk({"content": piece}) for piece in pieces], "[DONE]", think_tags=True))
    assert (found.strip(), said) == (thought, answer)


@pytest.mark.parametrize("answer", ["plain", "<thin", "<b>x</b>", " a <think>b</think>", "x <think>"])
def test_think_tags_elsewhere_are_text(answer: str) -> None:
    """Tags are reasoning only at the beginning of an answer, and only where the dialect says so."""
    assert joined(decoded(chunk({"content": answer}, "stop"), think_tags=True)) == ("", answer)
    tagged = "<think>a</think>b"
    assert joined(decoded(chunk({"content": tagged}, "stop"))) == ("", tagged)


@settings(deadline=None)
@given(st.lists(TEXT.filter(bool), max_size=6), st.lists(st.integers(0, 5000), max_size=10))
def test_bytes_to_chunks(pieces: list[str], places: list[int]) -> None:
    """From raw bytes cut anywhere to chunks, the text is the text that was sent."""
    raw = "".join(f"data: {chunk({'content': piece})}\n\n" for piece in pieces) + "data: [DONE]\n\n"
    data = raw.encode()
    marks = sorted({place % (len(data) + 1) for place in places})
    parser, reader, chunks = SseParser(), decoder(), list[Chunk]()
    for begin, end in zip([0, *marks], [*marks, len(data)], strict=True):
        for event in parser.feed(data[begin:end]):
            chunks += reader.feed(event.data)
    assert reader.done
    assert joined([*chunks, *reader.finish()]) == ("", "".join(pieces))
