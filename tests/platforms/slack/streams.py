"""chat.*Stream: a message that grows while people read it.

Sources: docs.slack.dev/reference/methods, and what others measured on the real thing: both recipients are asked for
in DMs too, a stream lives about 306 seconds whatever is appended, and the limit is one chunk's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .blocks import complaints
from .call import Call, Method
from .chat import thread_of
from .content import read_blocks
from .markup import stored
from .messages import Json, Message
from .refusals import Refused
from .rules import MARKDOWN_MOST, TASK_FIELD_MOST

_STATUSES = ("pending", "in_progress", "complete", "error")
_NEEDS = {
    "markdown_text": ("text",),
    "task_update": ("id", "title", "status"),
    "plan_update": ("title",),
    "blocks": ("blocks",),
}


def start(call: Call) -> Json:
    """Begin a message in a thread, for the person who asked."""
    conversation = call.joined(call.conversation())
    for name in ("recipient_team_id", "recipient_user_id"):
        if not call.arguments.given(name):
            raise Refused(f"missing_{name}")
    if call.text("recipient_team_id") != call.platform.team.id:
        raise Refused("team_not_found")
    if call.text("recipient_user_id") not in call.platform.team.people:
        raise Refused("user_not_found")
    chunks = _chunks(call)
    thread = thread_of(call, conversation)
    message = call.platform.board.post_as(
        call.app, conversation, _said(chunks), thread_ts=thread, streaming="in_progress", chunks=list(chunks)
    )
    return {"channel": conversation.id, "ts": message.ts}


def append(call: Call) -> Json:
    """Add to it; readers see it, apps are told at its end alone."""
    message = _running(call)
    chunks = _chunks(call)
    if not chunks:
        raise Refused("no_text")
    _grow(call, message, chunks)
    return {"channel": message.channel, "ts": message.ts}


def stop(call: Call) -> Json:
    """Add the last of it and end it."""
    message = _running(call)
    chunks, blocks = _chunks(call), read_blocks(call.arguments)
    _grow(call, message, chunks, streaming="completed", blocks=blocks, told=True)
    return {"channel": message.channel, "ts": message.ts, "message": message.payload()}


def _grow(call: Call, message: Message, chunks: Sequence[Any], *, told: bool = False, **changes: Any) -> None:
    text = message.text + _said(chunks)
    changes |= {"text": text, "chunks": [*message.chunks, *chunks]}
    call.platform.board.edit(message, by=call.app.bot_user, told=told, **changes)


def _running(call: Call) -> Message:
    message = call.message(call.conversation(), call.text("ts"))
    if message.app_id != call.app.id:
        raise Refused("message_not_owned_by_app")
    if message.stopped_by_user:
        raise Refused("stopped_by_user")
    age = call.platform.clock.now() / 1000 - float(message.ts)
    if message.streaming != "in_progress" or age > call.platform.pace.stream:
        raise Refused("message_not_in_streaming_state")
    return message


def _chunks(call: Call) -> list[Any]:
    text = call.text("markdown_text")
    chunks = call.arguments.data("chunks", "invalid_chunks")
    if chunks is None:
        chunks = []
    if not isinstance(chunks, list) or (text and chunks):
        raise Refused("invalid_chunks")
    if text:
        chunks = [{"type": "markdown_text", "text": text}]
    for chunk in chunks:
        _check(chunk)
    return list(chunks)


def _check(chunk: Any) -> None:
    needs = _NEEDS.get(str(chunk.get("type"))) if isinstance(chunk, dict) else None
    if needs is None or any(not chunk.get(name) for name in needs):
        raise Refused("invalid_chunks")
    kind = chunk["type"]
    if kind != "blocks" and not all(isinstance(chunk[name], str) for name in needs):
        raise Refused("invalid_chunks")
    if kind == "markdown_text" and len(chunk["text"]) > MARKDOWN_MOST:
        raise Refused("msg_too_long")
    if kind == "blocks" and (found := complaints(chunk["blocks"])):
        raise Refused("invalid_blocks", *(f"[ERROR] {each}" for each in found), errors=found)
    if kind == "task_update" and chunk["status"] not in _STATUSES:
        raise Refused("invalid_chunks")
    if kind in ("task_update", "plan_update") and len(chunk["title"]) > TASK_FIELD_MOST:
        raise Refused("invalid_chunks")


def _said(chunks: Sequence[Any]) -> str:
    return "".join(stored(each["text"]) for each in chunks if each["type"] == "markdown_text")


STREAMS: dict[str, Method] = {"chat.appendStream": append, "chat.startStream": start, "chat.stopStream": stop}
