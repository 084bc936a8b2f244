"""Views of a journal: what the model is shown, and what people see. Each takes events one by one, live and on replay.

A fold keeps its state in itself and changes only in `apply`, so the same events give the same state, whoever feeds it,
and a state that was stored and read again goes on as if it had not been.
"""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from . import records

VERSION = 1  # of both folds: a stored state counts only for the version that made it
CUT_MARKER = "[reply cut off here]"


class Piece(Struct, frozen=True, array_like=True):
    """What one event adds to the history, at the place of event `seq`; it tells of the events `first` to `last`."""

    seq: int
    assistant: bool
    content: tuple[records.Block, ...]
    first: int
    last: int


class History(Struct):
    """The conversation as the model is shown it, before `repair`, and the digest of the context before it."""

    pieces: list[Piece] = []
    digest: str = ""

    def apply(self, event: records.Event) -> None:
        """Take the next event."""
        match event.body:
            case records.InputAdded(content=content):
                self._add(event.seq, False, records.Text(content))
            case records.AssistantMessage(content=content):
                self._add(event.seq, True, *content)
            case records.AssistantCut(text=text) if text:
                self._add(event.seq, True, records.Text(f"{text}\n\n{CUT_MARKER}"))
            case records.ToolFinished(call=call, text=text, outcome=outcome):
                self._add(event.seq, False, records.ToolResult(call, text, outcome != "ok"))
            case records.ContextPrepared(digest=digest):
                self.digest = digest
            case records.ContextCut():
                self._cut(event.seq, event.body)
            case records.ExchangeDeleted(start=start, end=end):  # what stands for more than it stays
                self.pieces = [piece for piece in self.pieces if piece.first < start or piece.last > end]
            case records.ContextErased(start=start, end=end):
                self.pieces = [piece for piece in self.pieces if piece.last < start or piece.first > end]
            case _:
                pass

    def _add(self, seq: int, assistant: bool, *content: records.Block) -> None:
        self.pieces.append(Piece(seq, assistant, content, seq, seq))

    def _cut(self, seq: int, cut: records.ContextCut) -> None:
        end = min(cut.end, seq)
        if cut.start <= end:
            stand_in = Piece(end, False, (records.Text(cut.replacement),), cut.start, seq)
            before = [piece for piece in self.pieces if piece.seq < cut.start]
            behind = [piece for piece in self.pieces if piece.seq > end]
            self.pieces = [*before, *([stand_in] if cut.replacement else []), *behind]

    def messages(self) -> tuple[records.Message, ...]:
        """Return the pieces as messages, neighbours of one side joined."""
        found: list[records.Message] = []
        for assistant, run in groupby(self.pieces, key=attrgetter("assistant")):
            blocks = tuple(block for piece in run for block in piece.content)
            found.append(records.Message("assistant" if assistant else "user", blocks))
        return tuple(found)


class Item(Struct, frozen=True, kw_only=True):
    """One line of what people see: `kind` is user, assistant, tool or notice; `id` is stable and unique in its turn.

    It began with event `seq`.
    """

    id: str
    kind: str
    at: int
    turn: str
    seq: int
    text: str = ""
    thinking: str = ""
    name: str = ""
    arguments: dict[str, object] = {}
    outcome: str = ""
    model: str = ""


class View(Struct):
    """The conversation as people see it: a title, items in order, the turn that runs, tokens of the last model call."""

    title: str = ""
    items: dict[str, Item] = {}
    running: str = ""
    tokens: int = 0

    def apply(self, event: records.Event) -> None:
        """Take the next event."""
        body = event.body
        if event.turn:
            self.running = "" if event.kind == "turn.ended" else event.turn
        match body:
            case records.SessionTitled(title=title):
                self.title = title
            case records.InputAdded(row=row, text=text, cause=cause):
                self._put(event, f"row:{row}", "user" if cause == "message" else "notice", text=text)
            case records.AssistantMessage():
                self._answer(event, body)
            case records.AssistantCut(reply=reply, text=text, reason=reason) if text:
                self._put(event, reply, "assistant", text=text, outcome=reason)
            case records.ToolFinished(call=call, text=text, outcome=outcome):
                item = self.items.get(f"{event.turn}/{call}") or self._put(event, call, "tool")
                self.items[f"{event.turn}/{call}"] = replace(item, text=text, outcome=outcome)
            case records.UsageRecorded():
                self.tokens = body.input + body.cache_read + body.cache_write + body.output
            case records.ContextErased(start=start, end=end) | records.ExchangeDeleted(start=start, end=end):
                self.items = {key: item for key, item in self.items.items() if not start <= item.seq <= end}
            case _:
                if text := _notice(body):
                    self._put(event, f"seq:{event.seq}", "notice", text=text)

    def _put(self, event: records.Event, item: str, kind: str, **more: Any) -> Item:
        made = Item(id=item, kind=kind, at=event.at, turn=event.turn, seq=event.seq, **more)
        self.items[f"{event.turn}/{item}"] = made
        return made

    def _answer(self, event: records.Event, body: records.AssistantMessage) -> None:
        thinking = "".join(block.text for block in body.content if isinstance(block, records.Thinking))
        text = records.plain_text(body.content)
        if text or thinking:
            self._put(event, body.reply, "assistant", text=text, thinking=thinking, model=body.model)
        for block in body.content:
            if isinstance(block, records.ToolCall):
                self._put(event, block.id, "tool", name=block.name, arguments=block.arguments)


def _notice(body: records.Body) -> str:
    match body:
        case records.AssistantDiscarded(error=error, attempt=attempt):
            return f"Attempt {attempt} failed: {error}"
        case records.TurnEnded(outcome="failed", error=error):
            return error
        case records.TurnEnded(outcome=("cancelled" | "interrupted") as outcome):
            return f"The turn was {outcome}."
        case records.HookSkipped(plugin=plugin, hook=hook, error=error):
            return f"Plugin {plugin} was left out of {hook}: {error}"
        case records.Foreign():
            return body.text
        case _:
            return ""
