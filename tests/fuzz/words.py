"""Text made of a language's own words, and JSON of nearly the right shape."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

YAML = (
    *("\n", "\n  ", "\n- ", ": ", "[", "]", "{", "}", ", ", "&a ", "*a", "<<: ", "? ", "|", ">", "'", '"', "\\x", "#"),
    *("!!", "!!int ", "!!float ", "!!bool ", "!!timestamp ", "!!omap ", "---\n", "...", "%YAML 1.1\n", "null", "yes"),
    *("1e999", ".nan", "2026-01-01", "\t"),
)
AGENT = (
    *("name: ", "model:", "\n  provider: a\n  id: b", "thinking: {enabled: ", "tools: [", "context: {maxTokens: "),
    *("priority: ", "team: "),
)
SETTINGS = (
    *("server:", "\n  port: ", "egress: {allow: [", "secrets: ", "model: {fallbacks: ", "<<HOME>>", "keyring:a/b"),
    *("logging: ", "session:"),
)
VENDOR = ("id: mine\n", "id: kimi\n", "api: chat\n", "models:", "wire: {", "local: ", "prices: [", "endpointPresets: ")
TOML = (
    'kernel = ">=0.1"\n',
    "kernel = ",
    "provides = [",
    '"',
    "'''",
    "[",
    "]",
    "=",
    "\n",
    "reload = 'live'",
    "0x",
    "\r",
)
URL = (
    *(
        "http://",
        "https://",
        "user@",
        "[::1]",
        "[",
        "]",
        ":80",
        ":99999",
        "/v1",
        "?q",
        "#",
        "%",
        "localhost",
        " ",
        "\\",
    ),
    *("//", "10.0.0.0/8", "*.example.org"),
)
FRONT = ("---", "\n", "user_name: ", "ai_name: ", '"', "{{user_name}}", "{{", "}}", " ", "\r")
QUERY = ('"', "“", "”", "-", "word", "数据", "😀", " ", "*", "OR ", "NEAR(", ":")
SSE = (
    *(b"event: x\n\n", b"event: x\ndata: {", b"data: ", b"data", b"id: 1", b"retry: 9", b": ", b"\n", b"\r", b"\n\n"),
    *(b"{}", b'"a"', b"\xef\xbb\xbf", b"\xff"),
)


def prose(*words: str) -> st.SearchStrategy[str]:
    """Text of these words and of any others, some of them many times."""
    word = st.sampled_from(words) | st.text(max_size=4) | st.builds(str, st.integers() | st.floats())
    many = st.builds(lambda one, count: one * count, st.sampled_from(words), st.sampled_from([2, 60, 300]))
    return st.lists(st.one_of(word, word, word, many), max_size=12).map("".join)


ANY: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters() | st.characters(categories=["Cs"]), max_size=5)
    | st.sampled_from(["<think>", "</think>", '{"a": 1}', '{"a', "\ud83d", "\ude00", "stop", "length", "refusal"]),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.sampled_from(["text", "code", "a"]), each, max_size=3),
    max_leaves=4,
)


def loose(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """An object with some of these fields, or something else in its place."""
    there = st.fixed_dictionaries({}, optional=fields)
    return st.one_of(there, there, there, ANY)


def several(each: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """A list, or something else in its place."""
    return st.lists(each, max_size=3) | ANY


def _one(*kinds: str) -> st.SearchStrategy[Any]:
    return st.sampled_from(kinds) | ANY


_INDEX = st.integers(0, 2) | ANY
_COUNTS = dict.fromkeys(("prompt_tokens", "completion_tokens", "input_tokens", "cached_tokens"), ANY)
_USAGE = loose(prompt_tokens_details=loose(**_COUNTS), **_COUNTS)
_CALL = loose(index=_INDEX, id=ANY, function=loose(name=ANY, arguments=ANY))
_DELTA = loose(content=ANY, reasoning=ANY, reasoning_content=ANY, refusal=ANY, tool_calls=several(_CALL))
_CHOICE = loose(delta=_DELTA, message=_DELTA, finish_reason=ANY, usage=_USAGE)
_BLOCK = loose(
    type=_one("text", "thinking", "redacted_thinking", "tool_use"),
    **dict.fromkeys(("id", "name", "input", "text", "thinking", "data", "signature"), ANY),
)
_PIECE = loose(
    type=_one("text_delta", "thinking_delta", "signature_delta", "input_json_delta"),
    **dict.fromkeys(("text", "thinking", "signature", "partial_json", "stop_reason", "stop_details"), ANY),
)
# A chunk of a chat completion, and an event of a message.
CHAT = loose(choices=several(_CHOICE), usage=_USAGE, error=ANY)
MESSAGE = loose(
    type=_one(
        *(f"content_block_{each}" for each in ("start", "delta", "stop")),
        *("message_start", "message_delta", "message_stop", "message", "ping", "error"),
    ),
    index=_INDEX,
    message=loose(usage=_USAGE),
    content_block=_BLOCK,
    delta=_PIECE,
    content=several(_BLOCK),
    stop_reason=ANY,
    usage=_USAGE,
    error=ANY,
)
_DEEP = [each * count + end * count for each, end in (("[", "]"), ('{"a":', "}")) for count in (300, 700, 950, 5000)]
_HOLDERS = (
    '{"choices":[{"delta":{"content":%s}}]}',
    '{"choices":[{"delta":{"tool_calls":[{"function":{"name":"f","arguments":%s}}]}}]}',
    '{"type":"message","content":[{"type":"text","text":[{"text":%s}]}]}',
    '{"type":"message","content":[{"type":"tool_use","name":"f","input":{"a":%s}}]}',
)
# What is no chunk, or has no end.
ODD = st.text(max_size=8) | st.sampled_from(
    ["[DONE]", "", "{", "1" * 5000, *_DEEP, *(holder % deep for holder in _HOLDERS for deep in _DEEP)]
)
