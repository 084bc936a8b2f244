"""What a session's stream looks like on the page: flat frames, each a JSON object with a `type`.

An event may make several frames; only the last carries the cursor, so that a reader who was cut off between them gets
all of them again. Ids (`row`, `reply` with `offset`, `toolUseId`, `question`, `turn`) tell them apart: one seen twice
does no harm.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from halo_kernel import (
    AssistantCut,
    AssistantDiscarded,
    AssistantMessage,
    CommandFinished,
    ContextCut,
    ContextErased,
    Delta,
    Event,
    ExchangeDeleted,
    Foreign,
    HookSkipped,
    InputAdded,
    QuestionAsked,
    QuestionSettled,
    ServerEvent,
    SessionTitled,
    Thinking,
    ToolCall,
    ToolFinished,
    TurnEnded,
    TurnStarted,
    Update,
    plain_text,
)

Frame = dict[str, object]

RESULT_CHARS = 500
_NUDGE = "nudge:"  # the key of the message by which the kernel lets a turn go on that a crash or a stop had cut


def own_key(session: str, key: str) -> str:
    """Return the key that stands in the inbox for the page's own `key`, which is unique in its session only."""
    return f"web:{session}:{key}"


def server_events(frames: list[Frame], cursor: str | None) -> list[ServerEvent]:
    """Return frames as server-sent events, the last of them with the cursor."""
    last = len(frames) - 1
    return [
        ServerEvent(event="message", data=frame, id=cursor if number == last else None)
        for number, frame in enumerate(frames)
    ]


@dataclass
class Frames:
    """Turns the updates of one reader into frames; knows what this reader has of the unfinished answer.

    It also knows where this reader began and which turns it was shown, to tell when one of them is erased.
    """

    session: str
    _sent: dict[str, int] = field(default_factory=dict[str, int])
    _first: int = 0
    _shown: list[int] = field(default_factory=list[int])

    def of(self, update: Update) -> list[ServerEvent]:
        """Return the frames of one update as server-sent events."""
        return server_events(self.bare(update), update.cursor)

    def bare(self, update: Update) -> list[Frame]:
        """Return the frames of one update; some have none."""
        if (event := update.event) is not None:
            self._first = self._first or event.seq
            frames = self._event(event)
            if frames and (not event.turn or isinstance(event.body, TurnStarted)):
                self._shown.append(event.seq)
            return frames
        return self._delta(update.delta) if update.delta is not None else []

    def _delta(self, delta: Delta) -> list[Frame]:
        frame: Frame = {"turn": delta.turn, "reply": delta.reply, "text": delta.text}
        if delta.thinking:
            return [{"type": "thinking", **frame}]
        self._sent[delta.reply] = delta.offset + len(delta.text)
        return [{"type": "stream", **frame, "offset": delta.offset}]

    def _event(self, event: Event) -> list[Frame]:
        stamp: Frame = {"turn": event.turn, "at": event.at}
        match event.body:
            case TurnStarted(cause=cause, attempt=attempt):
                return [{"type": "started", **stamp, "cause": cause, "attempt": attempt}]
            case InputAdded(key=key) if key.startswith(_NUDGE):
                return [{"type": "resumed", **stamp}]
            case InputAdded():
                return [{"type": "user", **stamp, **self._input(event.body)}]
            case AssistantMessage():
                return self._answer(event.body, stamp)
            case AssistantCut(reply=reply, text=text, reason=reason):
                return [
                    *self._tail(reply, text, event.turn),
                    {"type": "cut", **stamp, "reply": reply, "reason": reason},
                ]
            case AssistantDiscarded(reply=reply):
                self._sent.pop(reply, None)
                return [{"type": "discarded", **stamp, **_plain(event.body)}]
            case ToolFinished():
                return [{"type": "tool_result", **stamp, **_result(event.body)}]
            case QuestionAsked():
                return [{"type": "question", **stamp, **_question(event.body)}]
            case QuestionSettled(question=question, call=call, state=state, text=text, by=by):
                answer: Frame = {"question": question, "toolUseId": call, "state": state, "text": text, "by": by}
                return [{"type": "settled", **stamp, **answer}]
            case ContextErased(start=start, end=end) | ExchangeDeleted(start=start, end=end):
                return [{"type": "erased"}] if self._has_shown(start, end) else []
            case CommandFinished():
                return [{"type": "command", **stamp, **_command(event.body)}]
            case TurnEnded() if event.body.outcome != "yielded":  # else the next turn answers for this one
                return [{**_end(event.body), **stamp}]
            case SessionTitled(title=title):
                return [{"type": "title", "title": title}]
            case HookSkipped(plugin=plugin, hook=hook, error=error):
                return [{"type": "notice", **stamp, "text": f"Plugin {plugin} was left out of {hook}: {error}"}]
            case Foreign() | ContextCut() if event.body.text:
                return [{"type": "notice", **stamp, "text": event.body.text}]
            case _:
                return []

    def _has_shown(self, start: int, end: int) -> bool:
        """Tell whether the reader has anything of these events: what was read after they were erased has no words."""
        return start < self._first or any(start <= seq <= end for seq in self._shown)

    def _input(self, body: InputAdded) -> Frame:
        key = body.key.removeprefix(own_key(self.session, ""))
        return {"row": body.row, "key": key, "text": body.text, "sender": body.sender}

    def _answer(self, body: AssistantMessage, stamp: Frame) -> list[Frame]:
        thinking = "".join(block.text for block in body.content if isinstance(block, Thinking))
        message: Frame = {"type": "message", **stamp, "reply": body.reply, "model": body.model, "stop": body.stop}
        calls: list[Frame] = [
            {"type": "tool_call", **stamp, "reply": body.reply, **_call(block)}
            for block in body.content
            if isinstance(block, ToolCall)
        ]
        tail = self._tail(body.reply, plain_text(body.content), str(stamp["turn"]))
        return [*tail, {**message, "thinking": thinking}, *calls]

    def _tail(self, reply: str, text: str, turn: str) -> list[Frame]:
        """Return what this reader lacks of a text that is final now."""
        offset = self._sent.pop(reply, 0)
        rest = text[offset:]
        return [{"type": "stream", "turn": turn, "reply": reply, "text": rest, "offset": offset}] if rest else []


def _plain(body: AssistantDiscarded) -> Frame:
    return {"reply": body.reply, "reason": body.reason, "error": body.error, "attempt": body.attempt}


def _call(block: ToolCall) -> Frame:
    return {"toolUseId": block.id, "toolName": block.name, "toolInput": block.arguments}


def _question(body: QuestionAsked) -> Frame:
    return {
        "question": body.question,
        "toolUseId": body.call,
        "toolName": body.tool,
        "text": body.text,
        "options": body.options,
        "expiresAt": body.expires_at,
    }


def _command(body: CommandFinished) -> Frame:
    asked: Frame = {"row": body.row, "text": body.said, "sender": body.sender}
    return {**asked, "answer": body.text, "ok": body.ok, "session": body.session}


def _result(body: ToolFinished) -> Frame:
    return {
        "toolUseId": body.call,
        "toolName": body.name,
        "result": body.text[:RESULT_CHARS],
        "length": len(body.text),
        "outcome": body.outcome,
        "ms": body.ms,
    }


def _end(body: TurnEnded) -> Frame:
    if body.outcome == "failed":
        return {"type": "error", "error": body.error, "kind": body.kind}
    return {"type": "complete", "outcome": body.outcome}
