"""One model call of a session: guarded, streamed to followers, kept while it runs, and accounted for."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from msgspec import structs

from .. import contracts, hookspecs
from ..contracts import ModelCall
from ..errors import ModelError
from ..hooks import Hooks
from ..journal import keep_partial
from ..models import Attempt, Listener
from ..questions import Paused
from ..records import AssistantDiscarded, AssistantMessage, Delta, Denial, ModelRequest, Offer, Question, UsageRecorded
from .desk import Desk, Place

_PARTIAL_SECONDS = 0.5


class Draft(Listener):
    """What a model streams in a turn: shown to followers, and kept now and then until it is in the journal."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._kept_at = 0.0

    def said(self, attempt: Attempt, text: str, thinking: bool) -> None:
        """See `Listener.said`. A failure to keep it costs only the partial, the answer itself is written later."""
        desk, place, session, reply = self._desk, self._desk.place, self._desk.session.info.id, attempt.reply
        offset = len(attempt.thinking if thinking else attempt.text)
        delta = Delta(session=session, turn=desk.turn, reply=reply, offset=offset, text=text, thinking=thinking)
        place.feed.publish_delta(delta)
        now = place.clock.monotonic()
        if not thinking and now - max(self._kept_at, attempt.started) >= _PARTIAL_SECONDS:
            self._kept_at, partial = now, place.feed.partial(session)
            task = asyncio.ensure_future(desk.commit(lambda tx: keep_partial(tx, partial)))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def failed(self, attempt: Attempt, error: ModelError) -> None:
        """See `Listener.failed`."""
        paid = [usage_of(attempt)] if attempt.spent[attempt.reply] else []
        await self._desk.commit(lambda _: [discarded(attempt, error), *paid])


async def ask_models(place: Place, line: list[Offer], wish: ModelCall, listener: Listener) -> Attempt:
    """Return the answer of the first model of `line` that gives one; those before it leave `line`.

    `wish.model` is whom the options of its request are meant for; another model gets none of them. Each model is a call
    of its own for the guards. Raises the last one's `ModelError`; `Paused` when a person must allow a call.
    """
    clock, hooks, models = place.clock, place.hooks, place.models
    while True:
        offer = models.next_of(line, clock.monotonic())
        call = replace(wish, id=clock.new_id(64), model=offer.model, price=offer.price, spent={})
        call = replace(call, request=_made_for(offer, wish))
        try:
            await _authorize(hooks, call)
            provider = models.provider(offer.model)
            answer = await place.caller.ask(provider, call, listener, others=len(line) > 1)
            call = replace(call, usage=answer.usage)
            return answer
        except ModelError as error:
            call = replace(call, error=error)
            models.failed(line, error, clock.monotonic())
        finally:  # a call that is cut, too, is over
            hooks.notify(hookspecs.model_finished, call=call)


async def complete(place: Place, session: contracts.Session, request: ModelRequest, *, purpose: str) -> Attempt:
    """Make a call beside the turn, for a plugin. A guard that wants to ask a person refuses: no turn waits here."""
    line = await place.models.line(session, place.hooks, request.model)
    wanted = structs.replace(request, model=line[0].model, purpose=purpose, session=session.info.id)
    wish = ModelCall(id="", model=wanted.model, purpose=purpose, request=wanted, session=session, turn="")
    try:
        return await ask_models(place, line, wish, Listener())
    except Paused as pause:
        raise ModelError(f"a person would have to allow this: {pause}", kind="refused") from pause


def _made_for(offer: Offer, wish: ModelCall) -> ModelRequest:
    """Return the request with what holds for this model; a limit of tokens holds for every one, within its own."""
    request, model = wish.request, offer.model.partition("/")[2]
    if offer.model == wish.model:
        return structs.replace(request, model=model, max_tokens=request.max_tokens or offer.max_tokens)
    tokens = min((most for most in (request.max_tokens, offer.max_tokens) if most), default=None)
    return structs.replace(request, model=model, max_tokens=tokens, endpoint=None, options={})


async def _authorize(hooks: Hooks, call: ModelCall) -> None:
    """Ask every guard of model calls. Raises `ModelError` of kind `refused`, or `Paused`."""
    verdict = await hooks.guard(hookspecs.authorize_model, call=call, session=call.session)
    if isinstance(verdict, Question) and call.approval is None:
        raise Paused(verdict, "model")
    if call.approval is not None and not call.approval.approved and not isinstance(verdict, Denial):
        verdict = Denial(call.approval.text)
    if isinstance(verdict, Denial):
        raise ModelError(f"the model call was refused: {verdict.reason}", kind="refused")


def message_of(answer: Attempt) -> AssistantMessage:
    """Return a whole answer as the journal keeps it."""
    reply, stop, model, number = answer.reply, answer.stop.reason, answer.model, answer.number
    return AssistantMessage(reply=reply, content=answer.content, stop=stop, model=model, attempt=number)


def discarded(attempt: Attempt, error: ModelError) -> AssistantDiscarded:
    """Return what the journal keeps of an attempt that does not count."""
    reply, model, number = attempt.reply, attempt.model, attempt.number
    return AssistantDiscarded(
        reply=reply, reason=error.kind, error=error.message, attempt=number, text=attempt.text, model=model
    )


def usage_of(answer: Attempt, *, purpose: str = "turn") -> UsageRecorded:
    """Return what an answer cost."""
    first, whole = (round((at - answer.started) * 1000) for at in (answer.first or answer.ended, answer.ended))
    tokens = structs.asdict(answer.usage)
    return UsageRecorded(reply=answer.reply, model=answer.model, purpose=purpose, first_ms=first, ms=whole, **tokens)
