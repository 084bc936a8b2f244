"""What a model server refuses with, as the kernel's `ModelError`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from halo_kernel import ModelError, ModelErrorKind

from .loose import items, mapping, text
from .surrogates import sound

_OVERFLOW = re.compile(
    r"context[_ -]?length|context[_ -]?window|context limit|context size|maximum context|contextwindowoverflow"
    r"|too many input tokens|(?:prompt|input)[_ ](?:is )?too[_ ]long|exceeded model token limit"
    r"|range of input length|context the overflows|request_too_large",
    re.IGNORECASE,
)
# A spent balance is often a 429, but no wait helps against it.
_SPENT = re.compile(
    r"insufficient_quota|exceeded_current_quota|insufficient[ _]balance|credit balance is too low|billing_error"
    r"|api usage limits|余额不足|欠费",
    re.IGNORECASE,
)
_THROTTLE = re.compile(r"rate.?limit|throttl|too many requests|\b429\b", re.IGNORECASE)
_ACCOUNT = re.compile(r"invalid.api.key|unauthorized|authentication|permission|suspended", re.IGNORECASE)
_WRONG = re.compile(r"invalid_request_error|not_found_error", re.IGNORECASE)
_NO_EFFORT = re.compile(r"tools with reasoning_effort are not supported", re.IGNORECASE)
_NO_TOOLS = re.compile(r"does not support tools|tool use is not supported", re.IGNORECASE)

_ADVICE: dict[int, str] = {
    401: "The key is wrong or has expired: set a valid one.",
    402: "The account has no credit left: add some, or choose another model.",
    403: "The key may not use this model, or not from here: check the account's rights.",
    404: "Check the model's name and the base URL.",
    429: "Wait a while, or choose another model.",
}


def model_error(
    *, status: int, headers: Mapping[str, str], body: bytes, now: float, service: str, credential: str = ""
) -> ModelError:
    """Return the error for a refused request.

    `headers` are looked up in lower case; `now` is UTC seconds, for a `Retry-After` that is a date; `service` is the
    server's name for people, `credential` the name of the key that was sent.
    """
    payload, plain = _decoded(body)
    words, said = _words(payload), _message(payload) or plain
    kind = _kind(status, f"{words} {said}")
    return ModelError(
        f"{service} answered {status}: {_short(said) or 'no reason given'}",
        kind=kind,
        retry_after=retry_after(headers, now=now),
        credential=credential,
        advice=_advice(kind, status, said),
    )


def stream_error(payload: Mapping[str, object]) -> ModelError:
    """Return the error for a `{"error": …}` that came in the middle of a stream."""
    words, said = _words(payload), _message(payload)
    status = mapping(payload.get("error")).get("code")
    kind = _kind(status if isinstance(status, int) and 400 <= status < 600 else None, f"{words} {said}")
    return ModelError(f"the server broke off: {_short(said) or words or 'no reason given'}", kind=kind)


def retry_after(headers: Mapping[str, str], *, now: float) -> float | None:
    """Return the seconds to wait that the server asks for: `retry-after-ms`, or `retry-after` (seconds or a date)."""
    milliseconds = _seconds(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after", "")
    seconds = _seconds(value)
    if seconds is not None or not value:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - now)
    except (ValueError, OverflowError):
        return None


def _seconds(value: str) -> float | None:
    try:
        seconds = float(value)
    except ValueError:
        return None
    return max(0.0, seconds) if abs(seconds) < 1e9 else None


def _kind(status: int | None, words: str) -> ModelErrorKind:
    """Return the first kind that matches; without a status (an error within a stream) by its words alone.

    A refused key is that whatever is said with it, and what a failing server says of accounts is not to be believed.
    """
    if status in (401, 402, 403):
        return "account"
    if status != 429 and _OVERFLOW.search(words):
        return "overflow"
    if (status is None or status < 500) and _SPENT.search(words):
        return "account"
    if status == 429 or (status is None and _THROTTLE.search(words)):
        return "throttle"
    if status is None and _ACCOUNT.search(words):
        return "account"
    if status is None:
        return "refused" if _WRONG.search(words) else "server"
    return "server" if status == 408 or status >= 500 else "refused"


def _advice(kind: ModelErrorKind, status: int, said: str) -> str:
    if kind == "overflow":
        return "The conversation is longer than the model's context: start a new session or choose a larger model."
    if kind == "account" and status not in (401, 403):
        return _ADVICE[402]
    if _NO_TOOLS.search(said):
        return "Choose a model that can call tools."
    if _NO_EFFORT.search(said):
        return "Give the agent's model options `extra_body: {reasoning_effort: none}`, or choose another model."
    if 300 <= status < 400:
        return "The server points elsewhere: set that address as the base URL."
    return _ADVICE.get(status, "")


def _decoded(body: bytes) -> tuple[Mapping[str, object], str]:
    """Return (JSON object, text); one of the two is empty. Google's proxy wraps the object in a list."""
    plain = body.decode("utf-8", "replace").strip()
    try:
        value = json.loads(plain)
    except (ValueError, RecursionError):
        return {}, "a web page" if plain[:20].lower().startswith(("<!doctype", "<html")) else plain
    payload = mapping(value) or mapping(next(iter(items(value)), None))
    return payload, "" if payload else plain


def _message(payload: Mapping[str, object]) -> str:
    """Return the sentence: OpenAI's `error.message`, a bare `error`, `message`, or FastAPI's `detail`."""
    error = payload.get("error")
    found = text(mapping(error).get("message")) or text(error) or text(payload.get("message"))
    detail = payload.get("detail")
    return found or text(detail) or "; ".join(text(mapping(each).get("msg")) for each in items(detail))


def _words(payload: Mapping[str, object]) -> str:
    error = mapping(payload.get("error")) or payload
    return sound(" ".join(str(error[name]) for name in ("type", "code") if isinstance(error.get(name), str | int)))


def _short(said: str) -> str:
    return " ".join(sound(said).split())  # the kernel cuts it, once no key is in it any more
