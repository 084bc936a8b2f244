"""One turn: it consumes inbox rows, asks the model and runs its tools until it rests, and records how it ended."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from msgspec import structs

from .. import contracts, hookspecs, records
from ..contracts import ModelCall, Tx
from ..errors import HaloError, ModelError
from ..inbox import Waiting, are_waiting, consume, input_of, next_batch, prepared, waiting
from ..journal import keep_partial, last_answer, read_turn
from ..log import logger
from ..models import Attempt
from ..outbox import REASONS, owe_replies
from ..questions import Paused, answers, ask, in_words
from ..records.storable import storable_text
from ..recovery import loose_ends, unanswered
from .asking import Draft, ask_models, discarded, message_of, usage_of
from .batch import Answers, Batch
from .cancel import CancelToken, Stopped, run_stoppable
from .context import Context, prepare_context
from .desk import Desk
from .extending import Extensions
from .room import make_room

_TITLE_CHARS = 60


class Turn:
    """One turn of a session. `rows` grows when steering input joins it; `token` stops it.

    `resumed` is the id of a turn that a question had paused; it goes on with the calls that have no result yet.
    """

    def __init__(self, desk: Desk, rows: Sequence[Waiting], *, resumed: str | None = None) -> None:
        self.id = resumed or desk.place.clock.new_id(128)
        self.paused = False
        self.rows = list(rows)
        self.token = CancelToken()
        self._desk = replace(desk, turn=self.id)
        self._session = desk.session.info.id
        self._resumed = resumed is not None
        self._draft = Draft(self._desk)
        self._answers: Answers = {}
        self._answer = ""
        self._context: Context | None = None
        self._steps = 0
        self.extensions = Extensions()

    @property
    def numbers(self) -> list[int]:
        """The numbers of its inbox rows, 0 if it has none."""
        return [row.row for row in self.rows] or [0]

    @property
    def told(self) -> contracts.Turn:
        """The turn as plugins see it."""
        routes = tuple(dict.fromkeys(row.route for row in self.rows if row.route))
        return contracts.Turn(id=self.id, cause=self.rows[0].cause, routes=routes, after=self._desk.history.ended)

    async def run(self) -> records.TurnResult | None:
        """Run to the end and return the result; None when its rows were settled by somebody else before it began.

        None also when a question paused it: then it is `paused`, and the journal has its calls without a result.
        A turn that is landed for a shutdown records what has been streamed and no end: the next boot goes on.
        Raises what kept it from beginning (its rows wait on), or from being ended (it is for recovery to end it).
        """
        if not self._resumed and not await self._begin():
            return None
        try:
            return await self._work()
        except Stopped:
            if (reason := self.token.reason) != "landed":
                return await self._end(records.TurnEnded(outcome=reason))
            await self._land()
        except Paused as pause:
            await self._pause(pause)
        except HaloError as error:
            kind = error.kind if isinstance(error, ModelError) else type(error).__name__
            return await self._end(records.TurnEnded(outcome="failed", error=_sentence(error), kind=kind))
        except Exception as error:
            logger("turns").error("turn failed", session=self._session, turn=self.id, exc_info=True)
            failed = records.TurnEnded(outcome="failed", error=f"internal error: {error!r}", kind="internal")
            return await self._end(failed)
        return None

    @property
    def is_crowded(self) -> bool:
        """Whether the next turn should find a shorter history."""
        return self._context is not None and self._context.is_full

    async def make_room(self, reason: records.ShrinkReason) -> bool:
        """Do nothing but make the history shorter, or do it after all else; false when it was not.

        It can be stopped as a turn can, and is not begun after one that was. Raises what kept it from what was asked.
        """
        with suppress(Stopped):
            context = self._context or await self._prepare(self._desk.session.info.access)
            return await run_stoppable(make_room(context, reason), self.token, name="compaction")
        return False

    async def _begin(self) -> bool:
        desk, info, rows = self._desk, self._desk.session.info, self.rows
        said, inputs = await self._prepare_input(rows)
        if self.token.reason == "landed":
            return False
        title = "" if info.title else storable_text(" ".join(said.split())[:_TITLE_CHARS])
        titled = [records.SessionTitled(title=title)] if title else []
        start = records.TurnStarted(rows=tuple(self.numbers), cause=rows[0].cause, access=rows[0].access)
        run = (info.id, info.root, self.id, desk.place.boot, desk.place.clock.now())

        def write(tx: Tx) -> Sequence[records.Body]:
            if not consume(tx, rows, self.id):
                return ()
            tx.execute("INSERT INTO runs(session, root, turn, boot, started_at) VALUES (?, ?, ?, ?, ?)", run)
            if title:
                tx.execute("UPDATE sessions SET title = ? WHERE id = ?", (title, info.id))
            return [start, *titled, *inputs]

        if not await desk.commit(write):
            return False
        desk.place.hooks.notify(hookspecs.run_started, session=desk.session.info, turn=self.told)
        return True

    async def _prepare_input(self, rows: Sequence[Waiting]) -> tuple[str, Sequence[records.Body]]:
        """Return the text of the first row, and what becomes of all."""
        mask, hooks, session = self._desk.place.mask, self._desk.place.hooks, self._desk.session
        batch: Sequence[records.PreparedInput] = [prepared(row) for row in rows]
        batch, failures = await hooks.fold(hookspecs.prepare_input, batch, session=session, turn=self.told)
        masked = [structs.replace(each, text=mask(each.text), content=mask(each.content)) for each in batch]
        inputs = [input_of(row, ready) for row, ready in zip(rows, masked, strict=True)]
        skipped = [records.HookSkipped(plugin=each.plugin, hook=each.hook, error=mask(str(each))) for each in failures]
        return inputs[0].text, [*inputs, *skipped]

    async def _work(self) -> records.TurnResult | None:
        desk, access = self._desk, self.rows[0].access
        context = self._context = await self._prepare(access)
        if context.event.digest != desk.history.digest:
            await desk.commit(lambda _: [context.event])
        batch = Batch(desk, context.tools, access, self.token)
        result = await self._act(batch, await self._catch_up()) if self._resumed else None
        while result is None and self._steps < desk.place.agents.max_steps:
            self._steps += 1
            result = await self._step(context, batch)
        tired = f"the turn took {self._steps} steps without an answer"
        return result or await self._end(records.TurnEnded(outcome="failed", error=tired, kind="max_steps"))

    async def _prepare(self, access: records.Access) -> Context:
        return await run_stoppable(prepare_context(self._desk, access), self.token, name="preparation of a turn")

    async def _catch_up(self) -> Sequence[records.Event]:
        """Take up a turn that was paused: return its events."""
        session, turn = self._session, self.id
        events, self._answers, self._answer = await self._desk.place.database.read(
            lambda tx: (read_turn(tx, session, turn), answers(tx, session, turn), last_answer(tx, session, turn=turn))
        )
        self._steps = sum(event.kind == "assistant.message" for event in events)
        return events

    async def _step(self, context: Context, batch: Batch) -> records.TurnResult | None:
        """Ask the model once, and do what it says. Return how the turn ended; None: it goes on."""
        answer = await run_stoppable(self._ask(context), self.token, name="model call")
        if answer.stop.reason == "refusal":  # nothing of it counts, but that it was paid for
            why = answer.stop.detail or "no reason given"
            error = ModelError(f"the model declined to respond: {why}", kind="refused")
            await self._desk.commit(lambda _: [discarded(answer, error), usage_of(answer)])
            raise error
        self._answer = answer.text or self._answer
        bodies = [message_of(answer), usage_of(answer)]
        if answer.calls:
            return await self._act(batch, await self._desk.commit(lambda _: bodies))
        joined = await self._steer(await self._joining(), bodies)
        return None if joined else await self._end(records.TurnEnded(outcome="succeeded"), bodies)

    async def _ask(self, context: Context) -> Attempt:
        """Ask the model, with less history when that comes to be too long for it, or turns out to be."""
        if context.is_full:
            await make_room(context, "threshold")
        try:
            return await self._call(context)
        except ModelError as error:
            if error.kind != "overflow" or not await make_room(context, "overflow"):
                raise
        return await self._call(context)

    async def _call(self, context: Context) -> Attempt:
        desk, model, request = self._desk, context.model, context.request()
        call = ModelCall(id="", model=model, purpose="turn", request=request, session=desk.session, turn=self.id)
        call = replace(call, cause=self.rows[0].cause, approval=self._answers.pop(("", "model"), None))
        return await ask_models(desk.place, context.line, call, self._draft)

    async def _act(self, batch: Batch, events: Sequence[records.Event]) -> records.TurnResult | None:
        """Run the calls in `events` that have no result, as they are in the journal: JSON can say all of it.

        Then end for newer input that wants a turn of its own, else let steering input join.
        """
        await batch.run(self.told, [call for call, _ in unanswered(events).values()], self._answers)
        joining = await self._joining()
        newer = [row for row in joining if row.mode in ("interrupt_soft", "interrupt_hard")]
        if newer and (result := await self._end(records.TurnEnded(outcome="yielded"), newer=newer)) is not None:
            return result
        await self._steer(joining, [])
        return None

    async def _joining(self) -> list[Waiting]:
        """Return the waiting rows that may belong to this turn, if anything may have arrived."""
        desk = self._desk
        if not desk.stirred.is_set():
            return []
        rows = await desk.place.database.read(lambda tx: waiting(tx, self._session))
        return [row for row in next_batch([self.rows[0], *rows]) if row is not self.rows[0]]

    async def _steer(self, joining: Sequence[Waiting], bodies: Sequence[records.Body]) -> bool:
        """Let steering input join, after `bodies`; false, and nothing is written, when there is none."""
        rows = [row for row in joining if row.mode == "steer"]
        if not rows:
            return False
        _, inputs = await self._prepare_input(rows)
        more = [*bodies, *inputs]
        joined = await self._desk.commit(lambda tx: more if consume(tx, rows, self.id) else None)
        if joined:
            self.rows += rows
        return bool(joined)

    async def _pause(self, pause: Paused) -> None:
        """Make the question durable, and owe it to whoever waits in a chat; no task is held while it is open."""
        desk, access, now = self._desk, self.rows[0].access, self._desk.place.clock.now()
        text, options = desk.place.mask(pause.question.text), tuple(map(desk.place.mask, pause.question.options))
        pause.question = structs.replace(pause.question, text=text, options=options)

        def write(tx: Tx) -> Sequence[records.Body]:
            owe_replies(tx, self._session, text=in_words(pause.question), at=now, debt="question")
            return [ask(tx, self._session, pause, turn=self.id, access=access, at=now)]

        await desk.commit(write, at=now)
        self.paused = True
        desk.place.database.notify("questions")
        desk.place.database.notify("outbox")

    async def _land(self) -> None:
        """Leave the turn for the next boot, with what has been streamed; unlike after a crash it is not to blame."""
        partial = self._desk.place.feed.partial(self._session)

        def write(tx: Tx) -> None:
            tx.execute("UPDATE runs SET landed = 1 WHERE session = ? AND turn = ?", (self._session, self.id))
            keep_partial(tx, partial)

        try:
            await self._desk.commit(write)
        except HaloError as error:
            logger("turns").warning("turn not landed", session=self._session, turn=self.id, error=error.message)

    async def _end(
        self, end: records.TurnEnded, bodies: Sequence[records.Body] = (), newer: list[Waiting] | None = None
    ) -> records.TurnResult | None:
        """End the turn with `bodies`, or what is left open. With `newer` rows it gives way to them.

        None if all of these have been withdrawn: nobody else would answer what this turn consumed.
        """
        desk, session = self._desk, self._session
        end = structs.replace(end, steps=self._steps, error=desk.place.mask(end.error))
        model, partial = self._context.line[0].model if self._context else "", desk.place.feed.partial(session)
        reply, reason = _reply(end, self._answer), REASONS.get(end.outcome, "aborted")
        if end.outcome in ("succeeded", "failed"):
            wanted = await desk.place.hooks.gather(hookspecs.extend_turn, turn=self.told, session=desk.session)
            self.extensions = Extensions(wanted=wanted)
        # One time for the end and for what is owed by it: `erase` finds the replies by that.
        more, access, now = self.extensions, self.rows[0].access, desk.place.clock.now()

        def write(tx: Tx) -> Sequence[records.Body]:
            if newer and not are_waiting(tx, newer):
                return ()
            tx.execute("DELETE FROM runs WHERE session = ?", (session,))
            tx.execute("UPDATE sessions SET crashes = 0, model = ? WHERE id = ?", (model, session))
            if newer:
                return [end]
            more.accept(tx, self.id, session, access=access, at=now, cap=desk.place.limits.max_queue_size)
            debt: records.Debt = "interim" if session in more.taken else "reply"
            owe_replies(tx, session, text=reply, reason=reason, at=now, debt=debt)
            left = bodies or loose_ends(tx, session, self.id, partial, reason=end.outcome)
            return [*left, *more.skipped, end]

        if not await desk.commit(write, at=now):
            return None
        desk.place.database.notify("outbox")
        if session in more.taken:
            desk.stirred.set()
        outcome, error, kind = end.outcome, end.error, end.kind
        result = records.TurnResult(
            session=session, turn=self.id, outcome=outcome, text=self._answer, error=error, kind=kind
        )
        desk.place.hooks.notify(hookspecs.run_finished, session=desk.session.info, result=result)
        return result


def _sentence(error: HaloError) -> str:
    """Return what went wrong, with which key if one was refused, and what to do next."""
    key = error.credential if isinstance(error, ModelError) and error.kind == "account" else ""
    used = f" (with the key in {key})" if key else ""
    return f"{error.message}{used}" + (f" — {error.advice}" if error.advice else "")


def _reply(end: records.TurnEnded, answer: str) -> str:
    """Return what is sent to those who wait for a reply elsewhere."""
    if end.outcome == "succeeded":
        return answer if answer.strip() else "(no output)"
    return f"❌ {end.error}" if end.outcome == "failed" else f"The turn was {end.outcome}."
