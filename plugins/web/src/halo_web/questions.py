"""The answer that a person gives on the page to a question that keeps a turn waiting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta, Struct

from halo_kernel import Exchange, Host, QuestionInfo, Route


class AnswerRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Yes or no to a question, and what to say with it: one of its options, or words of one's own."""

    workspace: str
    question: int
    approved: bool
    text: Annotated[str, Meta(max_length=100_000)] = ""


@dataclass(frozen=True)
class _Questions:
    host: Host

    async def answer(self, exchange: Exchange) -> QuestionInfo:
        assert isinstance(exchange.body, AnswerRequest)
        given = exchange.body
        return await self.host.questions.answer(
            given.question,
            workspace=given.workspace,
            principal=exchange.principal,
            approved=given.approved,
            text=given.text,
        )


def question_routes(host: Host) -> list[Route]:
    """Return the route by which the page answers a question."""
    return [
        Route(
            method="POST",
            path="/api/page/answer",
            handler=_Questions(host).answer,
            request=AnswerRequest,
            reply=QuestionInfo,
            summary="Answer the question that keeps a turn waiting",
        )
    ]
