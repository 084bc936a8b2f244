"""Questions that wait for a person, as whoever shows them holds them."""

# pyright: reportReturnType=false
# The docstring is the whole body of a protocol's method.
from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..records import Principal, QuestionInfo


class Questions(Protocol):
    """The questions of this home, filtered by principal."""

    async def list(
        self, *, workspace: str, principal: Principal, session: str | None = None, everything: bool = False
    ) -> Sequence[QuestionInfo]:
        """Return the open questions of the principal's sessions, oldest first; with `everything` settled ones too."""

    async def answer(
        self, question: int, *, workspace: str, principal: Principal, approved: bool, text: str = ""
    ) -> QuestionInfo:
        """Settle a question and let its session go on.

        Raises `NotFound`, `Forbidden` below the call's level, `Conflict` for a question that is settled or over.
        """
