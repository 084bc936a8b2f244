"""Following one message through its session's events to the end of the turn that answers it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, cast

from halo_kernel import ServerEvent


@dataclass
class Reply:
    """What came of a message: the last answer's text, the tools that ran, usage and error.

    `session` is where the conversation goes on, '' where it was.
    """

    text: str = ""
    session: str = ""
    turn: str = ""
    outcome: str = ""
    error: str = ""
    tools: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    usage: dict[str, Any] | None = None


def follow(
    events: Iterable[ServerEvent], row: int, *, watch: Callable[[str], None], ask: Callable[[str], None] | None = None
) -> Reply:
    """Read events until the turn that answers inbox row `row` has ended, or it is answered as a command.

    `watch` gets lines for the curious.

    `ask` gets a line for each question that keeps the turn waiting. A turn that gave way to newer input, or was cut by
    a crash, is followed to the one that goes on.
    """
    reply = Reply()
    for event in events:
        data = cast("dict[str, Any]", event.data)
        if event.event == "delta":
            _delta(reply, data, watch)
        elif event.event == "event" and _take(reply, data, row, watch):
            break
        elif ask and data.get("kind") == "question.asked" and data["turn"] == reply.turn:
            ask(_question(data["body"]))
    return reply


def _question(body: dict[str, Any]) -> str:
    number = body["question"]
    return f"It waits for you: {body['text']} (`halo approvals approve {number}`, or `deny {number}`)"


def _delta(reply: Reply, data: dict[str, Any], watch: Callable[[str], None]) -> None:
    if reply.turn and data["turn"] == reply.turn:
        watch(data["text"])


def _take(reply: Reply, event: dict[str, Any], row: int, watch: Callable[[str], None]) -> bool:
    """Take one event; true when it ends the answer."""
    kind, body, turn = event["kind"], event["body"], event["turn"]
    if kind == "turn.started" and (row in body["rows"] or reply.outcome):
        reply.turn, reply.outcome, reply.text = turn, "", ""
    elif kind == "input.added" and body["row"] == row:
        reply.turn = turn
    elif kind == "command.finished" and body["row"] == row:
        return _commanded(reply, body)
    elif turn == reply.turn and turn:
        return _progress(reply, kind, body, watch)
    return False


def _commanded(reply: Reply, body: dict[str, Any]) -> bool:
    reply.session = body.get("session", "")
    if body.get("ok", True):
        reply.outcome, reply.text = "succeeded", body["text"]
    else:
        reply.outcome, reply.error = "failed", body["text"]
    return True


def _progress(reply: Reply, kind: str, body: dict[str, Any], watch: Callable[[str], None]) -> bool:
    if kind == "assistant.message":
        text = "".join(block["text"] for block in body["content"] if block["type"] == "text")
        reply.text = text or reply.text
        for call in (block for block in body["content"] if block["type"] == "tool_call"):
            watch(f"\n[tool: {call['name']}]\n")
    elif kind == "assistant.discarded":
        watch(f"\n[attempt {body['attempt']} failed: {body['error']}]\n")
    elif kind == "tool.finished":
        reply.tools.append({"name": body["name"], "durationMs": body.get("ms", 0)})
        watch(f"[done: {body['name']} {body.get('ms', 0)}ms]\n")
    elif kind == "usage.recorded":
        _usage(reply, body)
    elif kind == "turn.ended":
        return _ended(reply, body)
    return False


def _usage(reply: Reply, body: dict[str, Any]) -> None:
    before = reply.usage or {"inputTokens": 0, "outputTokens": 0, "cacheReadInputTokens": 0}
    reply.usage = {
        "inputTokens": before["inputTokens"] + body.get("input", 0),
        "outputTokens": before["outputTokens"] + body.get("output", 0),
        "cacheReadInputTokens": before["cacheReadInputTokens"] + body.get("cache_read", 0),
        "modelId": body["model"],
    }


def _ended(reply: Reply, body: dict[str, Any]) -> bool:
    reply.outcome, reply.error = body["outcome"], body.get("error", "")
    goes_on = reply.outcome == "yielded" or (reply.outcome == "interrupted" and body.get("error_kind") == "crash")
    return not goes_on
