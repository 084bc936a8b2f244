"""Refusals of model servers as typed errors."""

from __future__ import annotations

import json
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo_kernel import ModelError
from halo_lib_wire import model_error, retry_after

NOW = 1_800_000_000.0


def refused(status: int, body: object = b"", headers: dict[str, str] | None = None) -> ModelError:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return model_error(
        status=status, headers=headers or {}, body=raw, now=NOW, service="Kimi", credential="KIMI_API_KEY"
    )


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "refused"),
        (401, "account"),
        (402, "account"),
        (403, "account"),
        (404, "refused"),
        (408, "server"),
        (413, "refused"),
        (422, "refused"),
        (429, "throttle"),
        (500, "server"),
        (502, "server"),
        (503, "server"),
        (504, "server"),
        (529, "server"),
        (301, "refused"),
    ],
)
def test_each_status_has_a_kind(status: int, kind: str) -> None:
    """The status alone decides the kind when the body says nothing special."""
    error = refused(status, {"error": {"message": "no"}})
    assert error.kind == kind
    assert error.message == f"Kimi answered {status}: no"
    assert error.credential == "KIMI_API_KEY"


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens",
        "Input is too long for requested model.",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "Your request exceeded model token limit: 262144",
        "the request exceeds the available context size, try increasing it",
        "Trying to keep the first 5000 tokens when context the overflows.",
        "Range of input length should be [1, 98304]",
        "too many input tokens",
    ],
)
def test_a_context_that_is_too_long(message: str) -> None:
    """Vendors' words for a context that is too long are an overflow, whatever the status."""
    assert refused(400, {"error": {"message": message}}).kind == "overflow"
    assert refused(500, {"error": message}).kind == "overflow"


WORDS = ["authentication", "Unauthorized", "invalid api key", "insufficient_quota", "credit balance is too low", "429"]


@given(st.sampled_from([401, 402, 403]), st.sampled_from([*WORDS, "prompt is too long", "rate limit"]), st.text())
def test_a_refused_key_is_that_whatever_is_said(status: int, words: str, more: str) -> None:
    """32: a 401, a 402 and a 403 with any body are of the account, which no other attempt mends."""
    assert refused(status, {"error": {"message": f"{more} {words}"}}).kind == "account"
    assert refused(status, {"error": {"type": words, "message": more}}).kind == "account"
    assert refused(status, more.encode()).kind == "account"


@pytest.mark.parametrize("status", [500, 502, 503, 504, 529])
@pytest.mark.parametrize("words", WORDS)
def test_a_failing_server_is_that_whatever_it_says_of_keys(status: int, words: str) -> None:
    """32: a 5xx whose body speaks of authentication, keys or credit is the server's failure, and is tried again."""
    assert refused(status, {"error": {"message": f"upstream said: {words}"}}).kind == "server"
    assert refused(status, {"error": {"type": words, "message": words}}).kind == "server"


def test_an_overflow_by_code() -> None:
    """OpenAI's code alone is enough."""
    assert refused(400, {"error": {"code": "context_length_exceeded", "message": "no"}}).kind == "overflow"


def test_an_output_bound_is_no_overflow() -> None:
    """A request for too long an answer is a wrong request: compacting would not help."""
    message = "max_tokens is too large: 200000. This model supports at most 16384 completion tokens"
    assert refused(400, {"error": {"message": message}}).kind == "refused"


@pytest.mark.parametrize("code", ["insufficient_quota", "exceeded_current_quota_error"])
def test_a_spent_balance_is_no_throttle(code: str) -> None:
    """A 429 for a spent balance is an account error, which no wait repairs."""
    error = refused(429, {"error": {"type": code, "message": "You exceeded your current quota"}})
    assert (error.kind, "credit" in error.advice) == ("account", True)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"error": {"message": "m"}}, "m"),
        ({"error": "m"}, "m"),
        ({"message": "m", "object": "error"}, "m"),
        ({"detail": "m"}, "m"),
        ({"detail": [{"msg": "a"}, {"msg": "b"}]}, "a; b"),
        ([{"error": {"message": "m"}}], "m"),
        (b"plain words", "plain words"),
        (b"<!DOCTYPE html><html>...", "a web page"),
        (b"", "no reason given"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        ({"error": {"message": "x" * 2000}}, "x" * 2000),
        (b'{"error": "half \\ud83d"}', "half \ufffd"),
    ],
)
def test_the_reason_is_found_in_every_shape(body: object, said: str) -> None:
    """The server's sentence is shown, wherever it put it, and whole: who masks it cuts it."""
    assert refused(400, body).message == f"Kimi answered 400: {said}"


@pytest.mark.parametrize("status", [401, 402, 403, 404, 302])
def test_advice_says_what_to_do(status: int) -> None:
    """What a person can repair comes with advice."""
    assert refused(status).advice


def test_a_model_without_tools() -> None:
    """Ollama's refusal of tools comes with advice."""
    error = refused(400, {"error": {"message": "registry.ollama.ai/library/gemma does not support tools"}})
    assert error.advice == "Choose a model that can call tools."


def test_tools_beside_reasoning() -> None:
    """OpenAI's refusal of tools beside reasoning comes with the option that helps."""
    message = "Function tools with reasoning_effort are not supported for gpt-5.6 in /v1/chat/completions."
    assert "reasoning_effort: none" in refused(400, {"error": {"message": message}}).advice


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "9", "retry-after-ms": "250"}, 0.25),
        ({"retry-after": formatdate(NOW + 30, usegmt=True)}, 30.0),
        ({"retry-after": formatdate(NOW - 30, usegmt=True)}, 0.0),
    ],
)
def test_how_long_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    """`Retry-After` is read as seconds or as a date, and never as less than nothing."""
    assert retry_after(headers, now=NOW) == seconds
    assert refused(429, headers=headers).retry_after == seconds
