"""A turn over a storage that fails, or a lease that is lost, at any of its writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from halo_kernel import (
    AssistantMessage,
    Event,
    History,
    Incoming,
    InputAdded,
    Place,
    Session,
    StorageUnavailable,
    ToolCall,
    ToolFinished,
    TurnEnded,
    TurnStarted,
    Tx,
)
from halo_kernel.recovery import recover_tree
from halo_kernel.testing import (
    Answer,
    Calls,
    FaultyStorage,
    NoteTool,
    ScriptedModel,
    VirtualClock,
    a_session,
    journal,
    running_kernel,
)

pytestmark = pytest.mark.thorough

Before = Callable[[Place, int], Callable[[Tx], object] | None]
WRITES = 11  # of the turn below, the acceptance of its message included


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session looks again at once after a failure."""
    monkeypatch.setattr("halo_kernel.sessions.session._HELD_SECONDS", 0.02)


def a_model() -> ScriptedModel:
    calls = Calls([("note", {"text": "a"}), ("note", {"text": "b"})], text="let me")
    return ScriptedModel([calls, Answer("done")], responder=lambda request: Answer("again"))


def failing(first: int, count: int) -> Before:
    """Refuse `count` writes of a workspace, from the one that is `first` from now on."""
    left = list(range(1, first + count))

    def before(place: Place, number: int) -> None:
        if place.name == "halo" and left and left.pop(0) >= first:
            raise StorageUnavailable("injected")

    return before


def check(events: list[Event], note: NoteTool) -> list[TurnEnded]:
    """Check a journal that came to rest; return how its turns ended."""
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    started = [event.turn for event in events if isinstance(event.body, TurnStarted)]
    ended = [event.turn for event in events if isinstance(event.body, TurnEnded)]
    assert started == ended, "each turn that began has one end, and nothing else has"
    rows = [event.body.row for event in events if isinstance(event.body, InputAdded)]
    assert len(rows) == len(set(rows))
    calls = [block.id for event in events for block in _content(event) if isinstance(block, ToolCall)]
    results = [event.body.call for event in events if isinstance(event.body, ToolFinished)]
    assert calls == results, "each call has one result"
    assert len(note.seen) == len(set(map(str, note.seen))), "no tool ran twice"
    return [event.body for event in events if isinstance(event.body, TurnEnded)]


def _content(event: Event) -> tuple[object, ...]:
    return event.body.content if isinstance(event.body, AssistantMessage) else ()


def answering(ends: list[TurnEnded]) -> TurnEnded:
    """Return the end of the first turn that was not cut: the one that goes on from those that were."""
    return next(end for end in ends if end.kind != "crash")


def history_of(events: list[Event]) -> History:
    history = History()
    for event in events:
        history.apply(event)
    return history


async def at_rest(session: Session) -> list[Event]:
    """Return the journal once nothing is written any more."""
    before: list[Event] = []
    while True:
        await asyncio.sleep(0.1)
        events = await journal(session)
        if events == before and session.info.state == "idle":
            return events
        before = events


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("first", range(1, WRITES + 1))
async def test_a_storage_that_fails_at_any_write_loses_and_doubles_nothing(
    tmp_path: Path, first: int, count: int
) -> None:
    """S3, S36: whichever write fails: a message is consumed once, its turn ends, its handle settles, folds agree."""
    model, note, faulty = a_model(), NoteTool(), FaultyStorage()
    extra = {"faulty": faulty}
    async with running_kernel(
        tmp_path / "home", model=model, tools=[note], extra=extra, clock=VirtualClock()
    ) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        faulty.before = failing(first, count)
        handle = session.prompt(Incoming(text="go"))
        try:
            result = await asyncio.wait_for(asyncio.shield(handle.result), 5)
        except StorageUnavailable:
            result = None
        events = await at_rest(session)
        ends = check(events, note)
        assert session._desk is None or session._desk.history == history_of(events)  # type: ignore[attr-defined]
        if not handle.row:  # type: ignore[attr-defined]
            assert ends == [] and result is None
            return
        assert next(e.body.text for e in events if isinstance(e.body, InputAdded)) == "go"
        assert ends[-1].outcome == "succeeded" or ends[-1].kind == "StorageUnavailable"
        assert result is None or result.outcome == answering(ends).outcome
        faulty.before = None
        assert (await session.prompt(Incoming(text="and now?")).result).outcome == "succeeded"
        check(await at_rest(session), note)


class Captured:
    """A database that keeps what it is given to write, and a lease that anybody holds."""

    fn: Callable[[Tx], object]

    async def write(self, fn: Callable[[Tx], object]) -> tuple[Event, ...]:
        self.fn = fn
        return ()

    def check(self, tx: Tx) -> None:
        """Ours."""


async def taking_over(root: str, *, at: int, mends: bool) -> Before:
    """Let another process take the tree's lease ahead of write `at`, mend the tree or not, and die."""
    other = Captured()
    await recover_tree(other, other, root, session="", clock=VirtualClock(), boot="other")  # type: ignore[arg-type]
    left = list(range(1, at + 1))

    def quicker(tx: Tx) -> None:
        tx.execute("UPDATE leases SET member = NULL, epoch = epoch + 1 WHERE name = ?", (f"tree:{root}",))
        if mends:
            other.fn(tx)

    def before(place: Place, number: int) -> Callable[[Tx], object] | None:
        return quicker if place.name == "halo" and left and left.pop(0) == at else None

    return before


@pytest.mark.parametrize("mends", [False, True])
@pytest.mark.parametrize("at", range(1, WRITES + 1))
async def test_a_lease_lost_at_any_write_loses_and_doubles_nothing(tmp_path: Path, at: int, mends: bool) -> None:
    """S4, S36: whoever takes the tree over between any two writes: nothing is written without the lease, and the handle
    follows the message to the turn that answers it."""
    model, note, faulty = a_model(), NoteTool(), FaultyStorage()
    extra = {"faulty": faulty}
    async with running_kernel(
        tmp_path / "home", model=model, tools=[note], extra=extra, clock=VirtualClock()
    ) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        faulty.before = await taking_over(session.info.root, at=at, mends=mends)
        handle = session.prompt(Incoming(text="go"))
        result = await asyncio.wait_for(handle.result, 5)
        events = await at_rest(session)
        ends = check(events, note)
        assert session._desk is None or session._desk.history == history_of(events)  # type: ignore[attr-defined]
        assert next(e.body.text for e in events if isinstance(e.body, InputAdded)) == "go"
        assert result.outcome == answering(ends).outcome == "succeeded" and ends[-1].outcome == "succeeded"
        assert (await session.prompt(Incoming(text="and now?")).result).outcome == "succeeded"
