"""Questions that wait for a person, and their answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta, Struct

from halo_kernel import Exchange, Host, NotFound, QuestionInfo, Route

from .query import flag_of, number_of

QUESTIONS = "/api/workspaces/{workspace}/questions"


class QuestionList(Struct, frozen=True):
    """Questions, oldest first."""

    questions: Sequence[QuestionInfo]


class AnswerRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Yes or no, and what to say with it: one of the question's options, or words of one's own."""

    approved: bool
    text: Annotated[str, Meta(max_length=100_000)] = ""


@dataclass(frozen=True)
class _Questions:
    host: Host

    async def list(self, exchange: Exchange) -> QuestionList:
        found = await self.host.questions.list(
            workspace=exchange.params["workspace"],
            principal=exchange.principal,
            session=exchange.query.get("session") or None,
            everything=flag_of(exchange.query, "all"),
        )
        return QuestionList(found)

    async def show(self, exchange: Exchange) -> QuestionInfo:
        number = number_of(exchange, "question")
        found = await self.host.questions.list(
            workspace=exchange.params["workspace"], principal=exchange.principal, everything=True
        )
        for each in found:
            if each.id == number:
                return each
        raise NotFound(f"there is no question {number}")

    async def answer(self, exchange: Exchange) -> QuestionInfo:
        assert isinstance(exchange.body, AnswerRequest)
        return await self.host.questions.answer(
            number_of(exchange, "question"),
            workspace=exchange.params["workspace"],
            principal=exchange.principal,
            approved=exchange.body.approved,
            text=exchange.body.text,
        )


def question_routes(host: Host) -> list[Route]:
    """Return the routes of questions."""
    on = _Questions(host)
    return [
        Route(
            method="GET",
            path=QUESTIONS,
            handler=on.list,
            reply=QuestionList,
            summary="List the open questions of your sessions, with `all` the settled ones too",
        ),
        Route(
            method="GET",
            path=QUESTIONS + "/{question}",
            handler=on.show,
            reply=QuestionInfo,
            summary="Show a question of your sessions, settled or not",
        ),
        Route(
            method="POST",
            path=QUESTIONS + "/{question}/answer",
            handler=on.answer,
            request=AnswerRequest,
            reply=QuestionInfo,
            summary="Answer a question; its session goes on",
        ),
    ]
