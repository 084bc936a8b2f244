"""One model call of a session: guarded, streamed to followers, kept while it runs, and accounted for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from msgspec import structs

from .. import hookspecs
from ..contracts import ModelCall, Session, Tx
from ..errors import ModelError
from ..hooks import Hooks
from ..journal import append
from ..models import Answer, Attempt, OnDelta, OnFailure, call_model
from ..questions import Paused, Pending
from ..records import Answer as Approval
from ..records import (
    AssistantCut,
    AssistantDiscarded,
    AssistantMessage,
    Body,
    Delta,
    Denial,
    Event,
    ModelRequest,
    Offer,
    Question,
    UsageRecorded,
)
from .desk import Desk, Place

_PARTIAL_SECONDS = 0.5


class Asking:
    """Asks models for one turn; what is streamed is kept beside the journal until the answer, or its loss, is in it."""

    def __init__(self, desk: Desk, *, turn: str) -> None:
        self._desk = desk
        self._session = desk.session.info.id
        self._turn = turn
        self._attempt: Attempt | None = None
        self._kept_at = 0.0

    async def ask(self, line: list[Offer], request: ModelRequest, approval: Approval | None) -> Answer:
        """See `ask_models`."""
        place, session = self._desk.place, self._desk.session
        self._kept_at = place.clock.monotonic()
        return await ask_models(
            place, session, line, request, self._delta, self._discard, turn=self._turn, approval=approval
        )

    async def record(self, bodies: Sequence[Body]) -> tuple[Event, ...]:
        """Journal what became of the call; what had been streamed of it is in there now, in one form or another."""
        session, turn, now = self._session, self._turn, self._desk.place.clock.now()

        def write(tx: Tx) -> tuple[Event, ...]:
            tx.execute("DELETE FROM partials WHERE session = ?", (session,))
            return append(tx, session, bodies, at=now, turn=turn)

        events = await self._desk.commit(write)
        self.forget()
        return events

    def forget(self) -> None:
        """What was streamed is in the journal now."""
        self._attempt = None
        self._desk.place.feed.forget_partial(self._session)

    def cut(self, reason: str) -> list[Body]:
        """Return what was streamed of an answer that is not in the journal."""
        attempt = self._attempt
        if attempt is None or not attempt.text:
            return []
        return [AssistantCut(reply=attempt.reply, text=attempt.text, reason=reason)]

    def keep(self) -> Callable[[Tx], None] | None:
        """Return what stores the text that was streamed and is not in the journal, if there is any."""
        attempt = self._attempt
        return self._partial(attempt.reply, attempt.text) if attempt is not None and attempt.text else None

    def _delta(self, attempt: Attempt, text: str, thinking: bool) -> None:
        self._attempt = attempt
        offset = len(attempt.thinking if thinking else attempt.text)
        self._desk.place.feed.publish_delta(
            Delta(
                session=self._session, turn=self._turn, reply=attempt.reply, offset=offset, text=text, thinking=thinking
            )
        )
        now = self._desk.place.clock.monotonic()
        if not thinking and now - self._kept_at >= _PARTIAL_SECONDS:
            self._kept_at = now
            self._store(attempt.reply, attempt.text + text)

    def _store(self, reply: str, text: str) -> None:
        """Store what has been streamed; a failure costs only the partial, the answer itself is written later."""
        task = asyncio.ensure_future(self._desk.place.database.write(self._partial(reply, text)))
        task.add_done_callback(lambda done: done.cancelled() or done.exception())

    def _partial(self, reply: str, text: str) -> Callable[[Tx], None]:
        lease, values = self._desk.lease, (reply, text, self._session, self._turn)

        def write(tx: Tx) -> None:
            lease.check(tx)
            tx.execute(
                "INSERT INTO partials(session, turn, reply, text) SELECT session, turn, ?, ? FROM runs"
                " WHERE session = ? AND turn = ? ON CONFLICT(session) DO UPDATE"
                " SET turn = excluded.turn, reply = excluded.reply, text = excluded.text",
                values,
            )

        return write

    async def _discard(self, attempt: Attempt, error: ModelError) -> None:
        self._attempt = None  # before the commit, which a cancel does not undo: nothing is told twice
        await self.record([discarded(attempt, error, attempt.text)])


async def ask_models(
    place: Place,
    session: Session,
    line: list[Offer],
    request: ModelRequest,
    on_delta: OnDelta,
    on_failure: OnFailure,
    *,
    turn: str = "",
    approval: Approval | None = None,
) -> Answer:
    """Return the answer of the first model of `line` that gives one; those before it leave `line`.

    `request.model` is the `<provider>/<id>` that its options are meant for; another model gets none of them. Each model
    is a call of its own for the guards. Raises the last one's `ModelError`; `Paused` when a person must allow a call.
    """
    clock, hooks, limits = place.clock, place.hooks, place.limits
    while True:
        offer = place.models.next_of(line, clock.monotonic())
        call = ModelCall(
            id=clock.new_id(64),
            model=offer.model,
            purpose=request.purpose,
            request=_made_for(offer, request),
            session=session,
            turn=turn,
            approval=approval,
        )
        try:
            await _authorize(hooks, call)
            answer = await call_model(
                place.models.provider(offer.model),
                call.request,
                clock=clock,
                idle_timeout=limits.idle_timeout,
                max_attempts=limits.max_attempts,
                others=len(line) > 1,
                mask=place.mask,
                on_delta=on_delta,
                on_failure=on_failure,
            )
        except ModelError as error:
            hooks.notify(hookspecs.model_finished, call=replace(call, error=error))
            place.models.failed(line, error, clock.monotonic())
        else:
            hooks.notify(hookspecs.model_finished, call=replace(call, usage=answer.attempt.usage))
            return answer


def _made_for(offer: Offer, request: ModelRequest) -> ModelRequest:
    """Return `request` with what holds for this model; a limit of tokens holds for every one, within its own."""
    model, own = offer.model.partition("/")[2], offer.model == request.model
    if own:
        return structs.replace(request, model=model, max_tokens=request.max_tokens or offer.max_tokens)
    tokens = min((most for most in (request.max_tokens, offer.max_tokens) if most), default=None)
    return structs.replace(request, model=model, max_tokens=tokens, endpoint=None, options={})


async def _authorize(hooks: Hooks, call: ModelCall) -> None:
    """Ask every guard of model calls. Raises `ModelError` of kind `refused`, or `Paused`."""
    verdict = await hooks.guard(hookspecs.authorize_model, call=call, session=call.session)
    if isinstance(verdict, Question) and call.approval is None:
        raise Paused(Pending(question=verdict, asker="model", call=None))
    if call.approval is not None and not call.approval.approved:
        verdict = Denial(call.approval.text)
    if isinstance(verdict, Denial):
        raise ModelError(f"the model call was refused: {verdict.reason}", kind="refused")


def discarded(attempt: Attempt, error: ModelError, text: str) -> AssistantDiscarded:
    """Return what the journal keeps of an attempt whose `text` does not count."""
    reply, model, number = attempt.reply, attempt.model, attempt.number
    return AssistantDiscarded(
        reply=reply, reason=error.kind, error=error.message, attempt=number, text=text, model=model
    )


def message_of(answer: Answer) -> AssistantMessage:
    """Return a whole answer as the journal keeps it."""
    reply, model, number = answer.attempt.reply, answer.attempt.model, answer.attempt.number
    return AssistantMessage(reply=reply, content=answer.content, stop=answer.stop.reason, model=model, attempt=number)


def usage_of(answer: Answer, *, purpose: str = "turn") -> UsageRecorded:
    """Return what an answer cost."""
    reply, model, tokens = answer.attempt.reply, answer.attempt.model, structs.asdict(answer.attempt.usage)
    return UsageRecorded(reply=reply, model=model, purpose=purpose, first_ms=answer.first_ms, ms=answer.ms, **tokens)
