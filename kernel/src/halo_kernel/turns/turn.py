"""One turn: it consumes inbox rows, asks the model and runs its tools until it rests, and records how it ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from .. import hookspecs
from ..contracts import Tx
from ..errors import HaloError, ModelError
from ..inbox import Waiting, are_waiting, consume, input_of, next_batch, prepared, waiting
from ..journal import append, read_turn
from ..log import logger
from ..models import Answer
from ..outbox import REASONS, owe_replies, settle
from ..questions import Asker, Paused, Pending, answers, ask
from ..records import Answer as Approval
from ..records import (
    AssistantMessage,
    Block,
    Body,
    Event,
    HookSkipped,
    InputAdded,
    ModelRequest,
    Offer,
    Outcome,
    PreparedInput,
    SessionTitled,
    ToolCall,
    TurnEnded,
    TurnResult,
    TurnStarted,
    plain_text,
)
from ..records.storable import storable_text
from ..recovery import open_calls, unanswered
from ..repair import repair_history
from .asking import Asking, discarded, message_of, usage_of
from .batch import Batch, going_on
from .cancel import CancelToken, Stopped, run_stoppable
from .context import Context, prepare_context
from .desk import Desk

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
        self._desk = desk
        self._session = desk.session.info.id
        self._resumed = resumed is not None
        self._asking = Asking(desk, turn=self.id)
        self._answers: dict[tuple[str, Asker], Approval] = {}
        self._answer = ""
        self._line: list[Offer] = []
        self._own = ""
        self._steps = 0

    @property
    def numbers(self) -> list[int]:
        """The numbers of its inbox rows."""
        return [row.row for row in self.rows]

    async def run(self) -> TurnResult | None:
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
            return await self._stopped()
        except Paused as pause:
            await self._pause(pause.pending)
            return None
        except HaloError as error:
            kind = error.kind if isinstance(error, ModelError) else type(error).__name__
            return await self._end("failed", bodies=self._asking.cut("failed"), error=_sentence(error), kind=kind)
        except Exception as error:
            logger("turns").error("turn failed", session=self._session, turn=self.id, exc_info=True)
            return await self._end(
                "failed", bodies=self._asking.cut("failed"), error=f"internal error: {error!r}", kind="internal"
            )

    async def _begin(self) -> bool:
        desk, rows, now = self._desk, self.rows, self._desk.place.clock.now()
        inputs, skipped = await self._prepare_input(rows)
        if self.token.requested and self.token.reason == "landed":
            return False
        titled = storable_text(_title(desk.session.info.title, inputs))
        first = rows[0]
        start = TurnStarted(rows=tuple(self.numbers), cause=first.cause, access=first.access)

        def write(tx: Tx) -> tuple[Event, ...]:
            if not consume(tx, rows, self.id):
                return ()
            root = desk.session.info.root
            tx.execute(
                "INSERT INTO runs(session, root, turn, boot, started_at) VALUES (?, ?, ?, ?, ?)",
                (self._session, root, self.id, desk.place.boot, now),
            )
            if titled:
                tx.execute("UPDATE sessions SET title = ? WHERE id = ?", (titled, self._session))
            bodies: list[Body] = [SessionTitled(title=titled)] if titled else []
            return append(tx, self._session, [start, *bodies, *inputs, *skipped], at=now, turn=self.id)

        if not await desk.commit(write):
            return False
        desk.place.hooks.notify(hookspecs.run_started, session=desk.session.info, turn=self.id)
        return True

    async def _prepare_input(self, rows: Sequence[Waiting]) -> tuple[list[InputAdded], list[HookSkipped]]:
        mask = self._desk.place.mask
        batch: Sequence[PreparedInput] = [prepared(row) for row in rows]
        batch, failures = await self._desk.place.hooks.fold(hookspecs.prepare_input, batch, session=self._desk.session)
        masked = [replace(each, text=mask(each.text), content=mask(each.content)) for each in batch]
        inputs = [input_of(row, ready) for row, ready in zip(rows, masked, strict=True)]
        skipped = [HookSkipped(plugin=failure.plugin, hook=failure.hook, error=str(failure)) for failure in failures]
        return inputs, skipped

    async def _work(self) -> TurnResult:
        desk, access = self._desk, self.rows[0].access
        context = await run_stoppable(
            prepare_context(desk.place.hooks, desk.session, desk.tools, access), self.token, name="prepare_context"
        )
        await run_stoppable(self._choose(), self.token, name="choice of a model")
        if context.event.digest != desk.history.digest:
            await self._record([context.event])
        batch = Batch(self._desk, context.tools, turn=self.id, access=access, token=self.token)
        if self._resumed and (result := await self._catch_up(batch)) is not None:
            return result
        while self._steps < desk.place.limits.max_steps:
            self._steps += 1
            calls = await self._step(context)
            if isinstance(calls, TurnResult):
                return calls
            if not calls:
                continue
            await batch.run(calls)
            if (result := await self._give_way()) is not None:
                return result
        return await self._end("failed", error=f"the turn took {self._steps} steps without an answer", kind="max_steps")

    async def _step(self, context: Context) -> list[ToolCall] | TurnResult:
        """Ask the model once. Return its calls (none: the turn goes on with steering input), or how the turn ended."""
        answer = await run_stoppable(self._ask(context), self.token, name="model call")
        if answer.stop.reason == "refusal":
            raise await self._refused(answer)
        self._answer = plain_text(answer.content) or self._answer
        bodies: list[Body] = [message_of(answer), usage_of(answer)]
        if _calls(answer.content):
            # Those in the journal run: what JSON cannot say is gone from their arguments.
            (message, *_) = await self._asking.record(bodies)
            return _calls(message.body.content) if isinstance(message.body, AssistantMessage) else []
        joining = await self._joining()
        steering = [row for row in joining if row.mode == "steer"]
        if steering and await self._steer(steering, bodies):
            return []
        return await self._end("succeeded", bodies=bodies)

    async def _refused(self, answer: Answer) -> ModelError:
        """Discard what a model said before it declined: nothing of it counts, but that it was paid for."""
        error = ModelError(f"the model declined to respond: {answer.stop.detail or 'no reason given'}", kind="refused")
        await self._asking.record([discarded(answer.attempt, error, plain_text(answer.content)), usage_of(answer)])
        return error

    async def _choose(self) -> None:
        place = self._desk.place
        self._line = await place.models.line(self._desk.session, place.hooks)
        self._own = self._line[0].model

    async def _ask(self, context: Context) -> Answer:
        desk, wish = self._desk, self._desk.session.agent.model
        request = ModelRequest(
            model=self._own,
            system=context.system,
            messages=repair_history(desk.history.messages()),
            tools=context.specs,
            max_tokens=wish.max_tokens if wish else None,
            endpoint=wish.endpoint if wish else None,
            session=self._session,
            options=wish.options if wish else {},
        )
        approval = self._answers.pop(("", "model"), None)
        return await self._asking.ask(self._line, request, approval)

    async def _joining(self) -> list[Waiting]:
        """Return the waiting rows that may belong to this turn, if anything may have arrived."""
        desk = self._desk
        if not desk.stirred.is_set():
            return []
        rows = await desk.place.database.read(lambda tx: waiting(tx, self._session))
        return [row for row in next_batch([self.rows[0], *rows]) if row is not self.rows[0]]

    async def _give_way(self) -> TurnResult | None:
        """After a batch: end for newer input that wants a turn of its own, else let steering input join."""
        joining = await self._joining()
        newer = [row for row in joining if row.mode in ("interrupt_soft", "interrupt_hard")]
        if newer:
            end = self._ending("yielded")
            # Unless all of it has been withdrawn: then nobody else would answer what this turn consumed.
            if await self._desk.commit(lambda tx: end(tx) if are_waiting(tx, newer) else ()):
                return self._ended("yielded")
        steering = [row for row in joining if row.mode == "steer"]
        if steering:
            await self._steer(steering, [])
        return None

    async def _steer(self, rows: list[Waiting], bodies: list[Body]) -> bool:
        inputs, skipped = await self._prepare_input(rows)
        now = self._desk.place.clock.now()

        def write(tx: Tx) -> tuple[Event, ...]:
            if not consume(tx, rows, self.id):
                return ()
            tx.execute("DELETE FROM partials WHERE session = ?", (self._session,))
            return append(tx, self._session, [*bodies, *inputs, *skipped], at=now, turn=self.id)

        joined = bool(await self._desk.commit(write))
        if joined:
            self._asking.forget()
            self.rows += rows
        return joined

    async def _record(self, bodies: Sequence[Body]) -> tuple[Event, ...]:
        now = self._desk.place.clock.now()
        return await self._desk.commit(lambda tx: append(tx, self._session, bodies, at=now, turn=self.id))

    async def _catch_up(self, batch: Batch) -> TurnResult | None:
        """Take up a turn that was paused: run the calls of its last answer that have no result."""

        def look(tx: Tx) -> tuple[list[Event], dict[tuple[str, Asker], Approval]]:
            return read_turn(tx, self._session, self.id), answers(tx, self._session, self.id)

        events, self._answers = await self._desk.place.database.read(look)
        said = [event.body.content for event in events if isinstance(event.body, AssistantMessage)]
        self._steps = len(said)
        self._answer = next((text for content in reversed(said) if (text := plain_text(content))), "")
        calls = [call for call, _ in unanswered(events).values()]
        if not calls:
            await self._desk.commit(lambda tx: going_on(tx, self._session, self._desk.place.boot))
        await batch.run(calls, self._answers)
        return await self._give_way()

    async def _pause(self, pending: Pending) -> None:
        """Make the question durable; no task is held while it is open."""
        session, turn, now = self._session, self.id, self._desk.place.clock.now()
        access = self.rows[0].access

        def write(tx: Tx) -> tuple[Event, ...]:
            body = ask(tx, session, pending, turn=turn, access=access, at=now)
            return append(tx, session, [body], at=now, turn=turn)

        await self._desk.commit(write)
        self.paused = True
        self._desk.place.database.notify("questions")

    async def _stopped(self) -> TurnResult | None:
        if self.token.reason == "landed":
            await self._land()
            return None
        outcome: Outcome = "interrupted" if self.token.reason == "interrupted" else "cancelled"
        return await self._end(outcome, bodies=self._asking.cut(outcome))

    async def _land(self) -> None:
        """Leave the turn for the next boot, with what has been streamed; unlike after a crash it is not to blame."""
        keep, where = self._asking.keep(), (self._session, self.id)

        def write(tx: Tx) -> tuple[Event, ...]:
            tx.execute("UPDATE runs SET landed = 1 WHERE session = ? AND turn = ?", where)
            if keep is not None:
                keep(tx)
            return ()

        try:
            await self._desk.commit(write)
        except HaloError as error:
            logger("turns").warning("turn not landed", session=self._session, turn=self.id, error=error.message)

    async def _end(
        self, outcome: Outcome, *, bodies: Sequence[Body] = (), error: str = "", kind: str = ""
    ) -> TurnResult:
        await self._desk.commit(self._ending(outcome, bodies=bodies, error=error, kind=kind))
        return self._ended(outcome, error=error, kind=kind)

    def _ending(
        self, outcome: Outcome, *, bodies: Sequence[Body] = (), error: str = "", kind: str = ""
    ) -> Callable[[Tx], tuple[Event, ...]]:
        model = self._line[0].model if self._line else ""
        session, turn, now = self._session, self.id, self._desk.place.clock.now()
        end = TurnEnded(outcome=outcome, error=error, kind=kind, steps=self._steps)
        reply = _reply(outcome, self._answer, error)

        def write(tx: Tx) -> tuple[Event, ...]:
            tx.execute("DELETE FROM runs WHERE session = ?", (session,))
            tx.execute("DELETE FROM partials WHERE session = ?", (session,))
            tx.execute("UPDATE sessions SET crashes = 0, model = ? WHERE id = ?", (model, session))
            answers = [] if outcome in ("succeeded", "yielded") else open_calls(read_turn(tx, session, turn))
            events = append(tx, session, [*bodies, *answers, end], at=now, turn=turn)
            if outcome != "yielded":
                owe_replies(tx, session, text=reply, reason=REASONS.get(outcome, "aborted"), at=now)
                settle(tx, session, at=now)
            return events

        return write

    def _ended(self, outcome: Outcome, *, error: str = "", kind: str = "") -> TurnResult:
        self._asking.forget()
        self._desk.place.database.notify("outbox")
        result = TurnResult(
            session=self._session, turn=self.id, outcome=outcome, text=self._answer, error=error, kind=kind
        )
        self._desk.place.hooks.notify(hookspecs.run_finished, session=self._desk.session.info, result=result)
        return result


def _sentence(error: HaloError) -> str:
    """Return what went wrong, with which key if one was refused, and what to do next."""
    key = error.credential if isinstance(error, ModelError) and error.kind == "account" else ""
    used = f" (with the key in {key})" if key else ""
    return f"{error.message}{used}" + (f" — {error.advice}" if error.advice else "")


def _calls(content: Sequence[Block]) -> list[ToolCall]:
    return [block for block in content if isinstance(block, ToolCall)]


def _reply(outcome: Outcome, answer: str, error: str) -> str:
    """Return what is sent to those who wait for a reply elsewhere."""
    if outcome == "succeeded":
        return answer if answer.strip() else "(no output)"
    return f"❌ {error}" if outcome == "failed" else f"The turn was {outcome}."


def _title(current: str, inputs: Sequence[InputAdded]) -> str:
    """Return the title that the first message gives, or '' when there is one already."""
    words = " ".join(inputs[0].text.split()) if inputs and not current else ""
    return words[:_TITLE_CHARS]
