"""Views of a journal: what the model is shown, and what people see. Each takes events one by one, live and on replay.

A fold keeps its state in itself and changes only in `apply`, so the same events give the same state, whoever feeds it,
and a state that was stored and read again goes on as if it had not been.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from . import records
from .records import Piece, tokens_of

VERSION = 4  # of both folds: a stored state counts only for the version that made it
CUT_MARKER = "[reply cut off here]"
CLEARED_MARKER = "[Old tool result content cleared]"


class History(Struct):
    """The conversation as the model is shown it, before `repair`, and the digest of the context before it.

    `tokens` is what the provider counted of both, 0 while it has not, and `newer` about what came since. `ended` is how
    the last turn did, '' when that was by a crash.
    """

    pieces: list[Piece] = []
    digest: str = ""
    tokens: int = 0
    newer: int = 0
    ended: str = ""

    def apply(self, event: records.Event) -> None:
        """Take the next event."""
        match event.body:
            case records.TurnEnded(outcome=outcome, kind=kind):
                self.ended = "" if kind == "crash" else outcome
            case records.InputAdded(content=content):
                self._add(event.seq, "user", records.Text(content))
            case records.AssistantMessage(content=content):
                self._add(event.seq, "assistant", *content)
            case records.AssistantCut(text=text) if text:
                self._add(event.seq, "assistant", records.Text(f"{text}\n\n{CUT_MARKER}"))
            case records.ToolFinished(call=call, text=text, outcome=outcome):
                self._add(event.seq, "user", records.ToolResult(call, text, outcome != "ok"))
            case records.ContextPrepared(digest=digest):
                self.digest = digest
            case records.UsageRecorded(purpose="turn", tokens=tokens) if tokens:
                self.tokens, self.newer = tokens, 0
            case records.ContextCut():
                self._keep(self._cut(event.seq, event.body))
            case records.ExchangeDeleted(start=start, end=end):  # what stands for more than it stays
                self._keep([piece for piece in self.pieces if piece.first < start or piece.last > end])
            case records.ContextErased(start=start, end=end):
                self._keep([piece for piece in self.pieces if piece.last < start or piece.first > end])
            case _:
                pass

    def _add(self, seq: int, role: records.Role, *content: records.Block) -> None:
        self.pieces.append(Piece(seq, role, content, seq, seq))
        self.newer += tokens_of(*content)

    def _keep(self, pieces: list[Piece]) -> None:
        self.pieces, self.tokens = pieces, 0
        self.newer = tokens_of(*(block for piece in pieces for block in piece.content))

    def _cut(self, seq: int, cut: records.ContextCut) -> list[Piece]:
        end = min(cut.end, seq)
        pieces = [_cleared(piece) if piece.seq in cut.cleared else piece for piece in self.pieces]
        if cut.start > end:
            return pieces
        stand_in = Piece(end, "user", (records.Text(cut.replacement),), cut.start, seq)
        before = [piece for piece in pieces if piece.seq < cut.start]
        behind = [piece for piece in pieces if piece.seq > end]
        return [*before, *([stand_in] if cut.replacement else []), *behind]

    def size(self, before: int) -> int:
        """Return about how many tokens a call would take in which so many stand before the history."""
        return (self.tokens or before) + self.newer


def _cleared(piece: Piece) -> Piece:
    results = (block for block in piece.content if isinstance(block, records.ToolResult))
    return replace(piece, content=tuple(replace(result, text=CLEARED_MARKER) for result in results))


class Item(Struct, frozen=True, kw_only=True):
    """One line of what people see: `kind` is user, assistant, tool or notice; `id` is stable and unique in its turn.

    It began with event `seq`, and tells of what was said from event `first` on.
    """

    id: str
    kind: str
    at: int
    turn: str
    seq: int
    first: int
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
            case records.UsageRecorded(purpose="turn"):
                self.tokens = body.tokens
            case records.CommandFinished(row=row, said=said, text=text):
                self._put(event, f"row:{row}", "user", text=said)
                self._put(event, f"seq:{event.seq}", "notice", text=text)
            case records.ContextCut(start=first, text=text, replacement=said) if text or said:
                self._put(
                    event, f"seq:{event.seq}", "notice", text=f"{text}\n\n{said}".strip(), first=min(first, event.seq)
                )
            case records.ContextErased(start=start, end=end):  # with what stands for more than it
                self.items = {key: item for key, item in self.items.items() if item.seq < start or item.first > end}
            case records.ExchangeDeleted(start=start, end=end):
                self.items = {key: item for key, item in self.items.items() if not start <= item.seq <= end}
            case _:
                if text := _notice(body):
                    self._put(event, f"seq:{event.seq}", "notice", text=text)

    def _put(self, event: records.Event, item: str, kind: str, **more: Any) -> Item:
        told: dict[str, Any] = {"first": event.seq, **more}
        made = Item(id=item, kind=kind, at=event.at, turn=event.turn, seq=event.seq, **told)
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
