"""Any history made valid for a provider: every tool call answered right after it, nothing empty, sides alternating."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence, Set

from .folds import History
from .records import Block, Message, Piece, Role, Text, Thinking, ToolCall, ToolResult

INTERRUPTED = "[tool execution interrupted — no result. Do not automatically retry; check what it did first.]"
NOT_RUN = "[this call was not run; it is safe to ask for it again]"
_NO_NAME = re.compile(r"[^A-Za-z0-9_-]")


def repair_history(history: Iterable[Message | Piece]) -> tuple[Message, ...]:
    """Return a history as a strict provider accepts it; messages that are valid come back unchanged.

    The first message is the user's. Each call has a name that can be a tool's and exactly one result, at the head of
    the next user message; a missing one is made up as an error; results without their call, empty texts and empty
    messages are left out.
    """
    repair = _Repair()
    for said in history:
        repair.add(said)
    return repair.messages()


class Shown:
    """A history as `repair_history` makes it, which costs only what was added since the last time."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._pieces: list[Piece] = []
        self._taken = 0
        self._repair = _Repair()

    def messages(self) -> tuple[Message, ...]:
        """Return the messages of all pieces; a history that was cut has another list of them, and is begun anew."""
        pieces = self._history.pieces
        if pieces is not self._pieces:
            self._pieces, self._taken, self._repair = pieces, 0, _Repair()
        for piece in pieces[self._taken :]:
            self._repair.add(piece)
        self._taken = len(pieces)
        return self._repair.messages()


class _Repair:
    """Exchanges, each an answer and what follows up to the next one; all but the last can change no more."""

    def __init__(self) -> None:
        self._done: list[Message] = []
        self._calls: set[str] = set()
        self._answer: list[Block] = []
        self._following: list[Block] = []

    def add(self, said: Message | Piece) -> None:
        """Take what one side said next."""
        is_answer = said.role == "assistant"
        if is_answer and self._following:
            answer = self._end(self._done)
            self._calls.update(block.id for block in answer if isinstance(block, ToolCall))
            self._answer, self._following = [], []
        (self._answer if is_answer else self._following).extend(said.content)

    def messages(self) -> tuple[Message, ...]:
        """Return everything so far."""
        messages = self._done[:]
        self._end(messages)
        return tuple(messages)

    def _end(self, messages: list[Message]) -> Sequence[Block]:
        said, following = _said(self._answer, self._calls), self._following
        _add(messages, "assistant", said)
        _add(messages, "user", [*_results(said, following), *(block for block in following if _is_said(block))])
        return said


def _said(answer: Sequence[Block], used: Set[str]) -> Sequence[Block]:
    """Drop calls whose id was used before (a provider pairs results by id), and thinking that led to nothing."""
    kept: list[Block] = []
    calls: set[str] = set()
    for block in answer:
        if isinstance(block, ToolCall) and block.id not in used and block.id not in calls:
            calls.add(block.id)
            kept.append(_named(block))
        elif isinstance(block, Thinking) or _is_said(block):
            kept.append(block)
    return () if all(isinstance(block, Thinking) for block in kept) else kept


def _is_said(block: Block) -> bool:
    return isinstance(block, Text) and bool(block.text.strip())


def _named(call: ToolCall) -> ToolCall:
    """Give a call of a tool that a model made up a name under which a provider takes it back."""
    name = _NO_NAME.sub("_", call.name)[:64] or "_"
    return call if name == call.name else ToolCall(call.id, name, call.arguments)


def _results(said: Sequence[Block], following: Sequence[Block]) -> list[ToolResult]:
    """Return one result for each call."""
    results: dict[str, ToolResult] = {}
    for block in following:
        if isinstance(block, ToolResult):
            results.setdefault(block.call, block)
    calls = [block.id for block in said if isinstance(block, ToolCall)]
    return [results.get(call, ToolResult(call, INTERRUPTED, True)) for call in calls]


def _add(messages: list[Message], role: Role, content: Sequence[Block]) -> None:
    if content and messages and messages[-1].role == role:
        messages[-1] = Message(role, (*messages[-1].content, *content))
    elif content:
        if not messages and role == "assistant":
            messages.append(Message("user", (Text("[the conversation starts here]"),)))
        messages.append(Message(role, tuple(content)))
