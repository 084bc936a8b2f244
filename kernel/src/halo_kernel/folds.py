"""Views of a journal: what the model is shown, and what people see. Each takes events one by one, live and on replay.

A fold keeps its state in itself and changes only in `apply`, so the same events give the same state, whoever feeds it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from .records import (
    AssistantCut,
    AssistantDiscarded,
    AssistantMessage,
    Block,
    ContextCut,
    Event,
    Foreign,
    HookSkipped,
    InputAdded,
    Message,
    SessionTitled,
    Text,
    Thinking,
    ToolCall,
    ToolFinished,
    ToolResult,
    TurnEnded,
    UsageRecorded,
    plain_text,
)

CUT_MARKER = "[reply cut off here]"


@dataclass(frozen=True)
class _Piece:
    seq: int
    assistant: bool
    content: tuple[Block, ...]


@dataclass
class History:
    """The conversation as the model is shown it, before `repair`."""

    pieces: list[_Piece] = field(default_factory=list["_Piece"])

    def apply(self, event: Event) -> None:
        """Take the next event."""
        match event.body:
            case InputAdded(content=content):
                self._add(event.seq, False, Text(content))
            case AssistantMessage(content=content):
                self.pieces.append(_Piece(event.seq, True, content))
            case AssistantCut(text=text) if text:
                self._add(event.seq, True, Text(f"{text}\n\n{CUT_MARKER}"))
            case ToolFinished(call=call, text=text, outcome=outcome):
                self._add(event.seq, False, ToolResult(call, text, outcome != "ok"))
            case ContextCut():
                self._cut(event.body)
            case _:
                pass

    def _add(self, seq: int, assistant: bool, block: Block) -> None:
        self.pieces.append(_Piece(seq, assistant, (block,)))

    def _cut(self, cut: ContextCut) -> None:
        kept = [piece for piece in self.pieces if not cut.start <= piece.seq <= cut.end]
        place = sum(piece.seq < cut.start for piece in kept)
        if cut.replacement:
            kept.insert(place, _Piece(cut.end, False, (Text(cut.replacement),)))
        self.pieces = kept

    def messages(self) -> tuple[Message, ...]:
        """Return the pieces as messages, neighbours of one side joined."""
        found: list[tuple[bool, list[Block]]] = []
        for piece in self.pieces:
            if found and found[-1][0] == piece.assistant:
                found[-1][1].extend(piece.content)
            else:
                found.append((piece.assistant, list(piece.content)))
        return tuple(Message("assistant" if assistant else "user", tuple(blocks)) for assistant, blocks in found)


@dataclass(frozen=True, kw_only=True)
class Item:
    """One line of what people see: `kind` is user, assistant, tool or notice; `id` is stable and unique."""

    id: str
    kind: str
    at: int
    turn: str
    text: str = ""
    thinking: str = ""
    name: str = ""
    arguments: dict[str, object] = field(default_factory=dict[str, object])
    outcome: str = ""
    model: str = ""


@dataclass
class View:
    """The conversation as people see it."""

    title: str = ""
    items: dict[str, Item] = field(default_factory=dict[str, Item])
    running: str = ""
    tokens: int = 0

    def apply(self, event: Event) -> None:
        """Take the next event."""
        body = event.body
        if event.turn:
            self.running = "" if isinstance(body, TurnEnded) else event.turn
        match body:
            case SessionTitled(title=title):
                self.title = title
            case InputAdded(row=row, text=text, cause=cause):
                self._put(event, f"row:{row}", "user" if cause == "message" else "notice", text=text)
            case AssistantMessage():
                self._answer(event, body)
            case AssistantCut(reply=reply, text=text, reason=reason) if text:
                self._put(event, reply, "assistant", text=text, outcome=reason)
            case ToolFinished(call=call, text=text, outcome=outcome):
                self._finish(event, call, text, outcome)
            case UsageRecorded():
                self.tokens = body.input + body.cache_read + body.cache_write + body.output
            case _:
                self._notice(event)

    def _put(self, event: Event, item: str, kind: str, *, text: str, outcome: str = "") -> None:
        self.items[item] = Item(id=item, kind=kind, at=event.at, turn=event.turn, text=text, outcome=outcome)

    def _answer(self, event: Event, body: AssistantMessage) -> None:
        thinking = "".join(block.text for block in body.content if isinstance(block, Thinking))
        text = plain_text(body.content)
        if text or thinking:
            self._put(event, body.reply, "assistant", text=text)
            self.items[body.reply] = replace(self.items[body.reply], thinking=thinking, model=body.model)
        for block in body.content:
            if isinstance(block, ToolCall):
                self._put(event, block.id, "tool", text="")
                self.items[block.id] = replace(self.items[block.id], name=block.name, arguments=block.arguments)

    def _finish(self, event: Event, call: str, text: str, outcome: str) -> None:
        item = self.items.get(call) or Item(id=call, kind="tool", at=event.at, turn=event.turn)
        self.items[call] = replace(item, text=text, outcome=outcome)

    def _notice(self, event: Event) -> None:
        text = _notice_text(event)
        if text:
            self._put(event, f"seq:{event.seq}", "notice", text=text)


def _notice_text(event: Event) -> str:
    match event.body:
        case AssistantDiscarded(error=error, attempt=attempt):
            return f"Attempt {attempt} failed: {error}"
        case TurnEnded(outcome="failed", error=error):
            return error
        case TurnEnded(outcome=("cancelled" | "interrupted") as outcome):
            return f"The turn was {outcome}."
        case HookSkipped(plugin=plugin, hook=hook, error=error):
            return f"Plugin {plugin} was left out of {hook}: {error}"
        case Foreign():
            return event.body.text
        case _:
            return ""


def history_of(events: Iterable[Event]) -> History:
    """Return the model's history after `events`."""
    history = History()
    for event in events:
        history.apply(event)
    return history


def view_of(events: Iterable[Event]) -> View:
    """Return what people see after `events`."""
    view = View()
    for event in events:
        view.apply(event)
    return view
