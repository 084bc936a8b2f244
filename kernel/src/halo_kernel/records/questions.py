"""What waits for a person: a question of a tool or a guard, and the one answer to it."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from .sessions import Access

QuestionState = Literal["pending", "approved", "denied", "expired"]


class Question(Struct, frozen=True, kw_only=True):
    """What a tool or a guard wants to know before a call runs.

    Who answers needs `access`, at least the call's own level. After `expires_in` seconds without an answer it counts as
    denied. `options` are texts to choose from beside yes and no.
    """

    text: str
    options: tuple[str, ...] = ()
    access: Access | None = None
    expires_in: int = 86_400


class Answer(Struct, frozen=True, kw_only=True):
    """How a question was settled: `by` whom, and the `text` they chose or wrote.

    Without an answer of a person `by` is '', and `text` says why: `expired` when its time was over.
    """

    question: int
    approved: bool
    text: str = ""
    by: str = ""


class QuestionInfo(Struct, frozen=True, kw_only=True):
    """A question as people see it; times are UTC milliseconds."""

    id: int
    session: str
    turn: str
    call: str
    tool: str
    arguments: dict[str, object]
    text: str
    options: tuple[str, ...]
    access: Access
    state: QuestionState
    asked_at: int
    expires_at: int
    answer: str = ""
    answered_by: str = ""
