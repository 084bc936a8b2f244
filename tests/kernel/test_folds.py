"""What is shown of a journal: the same live, on replay and from a snapshot, of every kind and version of event."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halo_kernel import (
    AssistantCut,
    AssistantDiscarded,
    AssistantMessage,
    Block,
    Body,
    CommandFinished,
    ContextCut,
    ContextErased,
    ContextPrepared,
    Event,
    ExchangeDeleted,
    Foreign,
    History,
    HookSkipped,
    InputAdded,
    Message,
    QuestionAsked,
    QuestionSettled,
    SessionCreated,
    SessionForked,
    SessionMoved,
    SessionTitled,
    Text,
    Thinking,
    ToolCall,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    Tx,
    UsageRecorded,
    View,
    repair_history,
)
from halo_kernel.contracts import Row, Value
from halo_kernel.folds import VERSION
from halo_kernel.journal import append, erase, folded, keep_folds, read
from halo_kernel.records import KINDS, decode_body, encode_body, kind_of
from halo_kernel.repair import Shown
from halo_kernel.schema import WORKSPACE

T = TypeVar("T")
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
few = st.sampled_from(["a", "b", "c"])
numbers = st.integers(0, 50)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | texts, lambda inner: st.dictionaries(few, inner, max_size=2)
)
objects = st.dictionaries(few, values, max_size=3)
blocks: st.SearchStrategy[Block] = st.one_of(
    st.builds(Text, texts),
    st.builds(Thinking, texts, st.none() | texts),
    st.builds(ToolCall, few, texts, objects),
)
plugins = st.builds(Foreign, kind=st.sampled_from(["note.made", "x.y", "turn.paused"]), data=objects)
named = st.builds(
    Foreign, kind=st.sampled_from(["note.made", "assistant.hummed"]), data=st.fixed_dictionaries({"text": texts})
)
outcomes = st.sampled_from(["succeeded", "failed", "cancelled", "interrupted", "yielded"])
loose = st.one_of(
    st.builds(SessionCreated, agent=texts, access=few, principal=few, title=texts),
    st.builds(SessionTitled, title=texts),
    st.builds(SessionMoved, directory=texts),
    st.builds(SessionForked, source=few, head=numbers),
    st.builds(
        UsageRecorded, reply=few, model=few, purpose=st.sampled_from(["turn", "aside"]), input=numbers, output=numbers
    ),
    plugins,
    named,
)
inside = st.one_of(
    loose,
    st.builds(
        InputAdded,
        row=numbers,
        key=few,
        text=texts,
        content=texts,
        sender=few,
        stamp=few,
        cause=st.sampled_from(["message", "recovery"]),
    ),
    st.builds(ContextPrepared, digest=few, parts=st.dictionaries(few, few), tools=st.lists(few).map(tuple)),
    st.builds(
        AssistantMessage,
        reply=few,
        content=st.lists(blocks, max_size=4).map(tuple),
        stop=few,
        model=few,
        attempt=numbers,
    ),
    st.builds(AssistantDiscarded, reply=few, reason=few, error=texts, attempt=numbers, text=texts),
    st.builds(AssistantCut, reply=few, text=texts, reason=few),
    st.builds(ToolStarted, call=few, name=few, replay_safe=st.booleans()),
    st.builds(
        ToolFinished,
        call=few,
        name=few,
        outcome=st.sampled_from(["ok", "error", "denied", "interrupted", "not_run"]),
        text=texts,
        ms=numbers,
    ),
    st.builds(QuestionAsked, question=numbers, call=few, tool=few, text=texts, options=st.just(("a", "b"))),
    st.builds(QuestionSettled, question=numbers, call=few, state=st.sampled_from(["approved", "expired"]), text=texts),
    st.builds(HookSkipped, plugin=few, hook=few, error=texts),
    st.builds(CommandFinished, row=numbers, said=texts, sender=few, text=texts, ok=st.booleans(), session=few),
    st.builds(
        ContextCut,
        start=st.integers(-2, 40),
        end=st.integers(-2, 40),
        replacement=texts,
        reason=few,
        cleared=st.lists(numbers, max_size=3).map(tuple),
        text=texts,
    ),
)
starts = st.builds(TurnStarted, rows=st.lists(numbers, max_size=2).map(tuple), cause=few, access=few)
ends = st.builds(TurnEnded, outcome=outcomes, error=texts, kind=few, steps=numbers)
gone = (
    st.builds(ContextErased, start=numbers, end=numbers, by=few),
    st.builds(ExchangeDeleted, row=numbers, start=numbers, end=numbers, by=few),
)
bodies: st.SearchStrategy[Body] = st.one_of(inside, starts, ends, *gone)
turns = st.tuples(starts, st.lists(inside, max_size=6), ends).map(lambda turn: [turn[0], *turn[1], turn[2]])


@dataclass(frozen=True)
class Erasure:
    """The wish to erase from one place between turns to another, each chosen among those there are."""

    one: int
    other: int


@dataclass(frozen=True)
class Keep:
    """The wish to keep what the folds come to."""


# Each step is a turn, one event outside of any, an erasure, or a snapshot.
Step = list[Body] | Body | Erasure | Keep
steps: st.SearchStrategy[list[Step]] = st.lists(
    st.one_of(turns, turns, loose, st.builds(Erasure, st.integers(0, 99), st.integers(0, 99)), st.builds(Keep)),
    max_size=12,
)


class MemoryTx:
    """A transaction on a database in memory."""

    def __init__(self) -> None:
        self.raw = sqlite3.connect(":memory:")
        for step in WORKSPACE:
            self.raw.executescript(step.sql)
        self.raw.execute(
            "INSERT INTO sessions(id, root, journal, agent, access, principal, principal_kind, origin, created_at,"
            " updated_at) VALUES ('s', 's', 'j', 'default', 'full', 'operator', 'person', '', 0, 0)"
        )

    def execute(self, sql: str, args: Sequence[Value] = ()) -> Iterator[Row]:
        return iter(self.raw.execute(sql, tuple(args)).fetchall())

    def one(self, sql: str, args: Sequence[Value] = ()) -> Row | None:
        return next(self.execute(sql, args), None)


class MemoryDatabase:
    """Runs functions on a `MemoryTx` at once."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    async def read(self, fn: Callable[[Tx], T]) -> T:
        return fn(self._tx)

    async def write(self, fn: Callable[[Tx], T]) -> T:
        return fn(self._tx)


def folds_of(events: Sequence[Event]) -> tuple[History, View]:
    """Return both folds of events."""
    history, view = History(), View()
    for event in events:
        history.apply(event)
        view.apply(event)
    return history, view


def places(events: Sequence[Event]) -> list[int]:
    """Return the numbers of the events after which no turn is open, 0 among them."""
    found, open_turn = [0], ""
    for event in events:
        open_turn = "" if event.kind == "turn.ended" else event.turn or open_turn
        if not open_turn:
            found.append(event.seq)
    return found


def database_of(tx: MemoryTx) -> Any:
    return MemoryDatabase(tx)


async def play(journal: list[Step]) -> tuple[MemoryTx, History, View]:
    """Do what a journal's steps say; return its database and the folds of what followers were told."""
    tx, history, view = MemoryTx(), History(), View()
    shown = Shown(history)
    for number, step in enumerate(journal):
        told: tuple[Event, ...] = ()
        match step:
            case Keep():
                await keep_folds(database_of(tx), "s")
            case Erasure(one=one, other=other):
                between = places(read(tx, "s"))
                start, end = sorted((between[one % len(between)], between[other % len(between)]))
                if start < end:
                    told, _ = erase(tx, "s", start + 1, end, by="somebody", at=number)
            case list():
                told = append(tx, "s", step, at=number, turn=f"t{number}")
            case _:
                told = append(tx, "s", [step], at=number)
        for event in told:
            history.apply(event)
            view.apply(event)
        assert shown.messages() == repair_history(history.pieces), (
            "what is repaired piece by piece is the whole, repaired"
        )
    return tx, history, view


@settings(max_examples=300, deadline=None)
@given(steps)
def test_live_replayed_and_kept_folds_are_one(journal: list[Step]) -> None:
    """S47: fold(snapshot + tail) = fold(all) = fold(what was told), whatever was said, cut, erased, and kept when."""
    tx, history, view = asyncio.run(play(journal))
    replayed = folds_of(read(tx, "s"))
    kept, _ = folded(tx, "s", History)
    assert (kept, folded(tx, "s", View)[0]) == replayed
    assert (history, view) == replayed


@settings(max_examples=200, deadline=None)
@given(st.lists(turns, max_size=5), st.integers(0, 99))
def test_a_fold_goes_on_from_any_event(journal: list[list[Body]], place: int) -> None:
    """What a fold came to at any event, written as JSON and read again, goes on to the same end."""
    tx = MemoryTx()
    for number, turn in enumerate(journal):
        append(tx, "s", turn, at=number, turn=f"t{number}")
    events = read(tx, "s")
    here = place % (len(events) + 1)
    for fold, whole in zip(folds_of(events[:here]), folds_of(events), strict=True):
        again: Any = msgspec.json.decode(msgspec.json.encode(fold), type=type(fold))
        for event in events[here:]:
            again.apply(event)
        assert again == whole


@settings(max_examples=300, deadline=None)
@given(bodies)
def test_every_kind_is_read_as_it_was_written(body: Body) -> None:
    """A body of any kind of ours comes back equal; of a plugin's, as its data."""
    assert decode_body(kind_of(body), encode_body(body)) == body


def test_every_kind_is_among_the_random_ones() -> None:
    """The random journals leave no kind of ours out."""
    seen: set[str] = set()

    @settings(max_examples=1000, deadline=None, database=None)
    @given(bodies)
    def look(body: Body) -> None:
        seen.add(kind_of(body))

    look()
    assert set(KINDS) <= seen


newer = st.fixed_dictionaries({"v": st.integers(2, 9)})
worse = st.fixed_dictionaries({"text": st.text(max_size=3)})


@settings(max_examples=300, deadline=None)
@given(inside, newer | worse, objects)
def test_what_a_later_release_wrote_is_kept_and_skipped(body: Body, other: dict[str, object], more: Any) -> None:
    """A later version of a kind, one of another shape, a kind that is unknown: kept whole, none is the model's."""
    kind = kind_of(body)
    data: dict[str, object] = {**more, **other}
    if "v" in other and not isinstance(body, Foreign):
        data = {**msgspec.json.decode(encode_body(body)), **other}
    for name in (kind, f"{kind}.later", "unheard.of"):
        read_again = decode_body(name, msgspec.json.encode(data).decode())
        assert read_again == Foreign(kind=name, data=data)
        event = Event(session="s", seq=1, at=0, turn="", body=read_again)
        history, view = folds_of([event])
        assert history == History()
        assert [item.text for item in view.items.values()] == [read_again.text] * bool(read_again.text)


@given(inside.filter(lambda body: not isinstance(body, Foreign)), st.integers())
def test_what_a_later_release_added_to_a_kind_does_not_matter(body: Body, extra: int) -> None:
    """A field that this release does not know, of a version that it knows, is passed over."""
    raw = {**msgspec.json.decode(encode_body(body)), "added_later": extra}
    assert decode_body(kind_of(body), msgspec.json.encode(raw).decode()) == body


def test_calls_of_one_name_in_two_turns_are_two_items() -> None:
    """A model that numbers its calls anew in each turn has each of them shown at its place."""
    tx = MemoryTx()
    for turn in ("one", "two"):
        call = AssistantMessage(reply=turn, content=(ToolCall("call_0", turn, {}),), stop="tools", model="m")
        done = ToolFinished(call="call_0", name=turn, outcome="ok", text=f"did {turn}")
        append(tx, "s", [call, done], at=0, turn=turn)
    _, view = folds_of(read(tx, "s"))
    assert [(item.id, item.name, item.text) for item in view.items.values()] == [
        ("call_0", "one", "did one"),
        ("call_0", "two", "did two"),
    ]


@pytest.mark.parametrize(("start", "end"), [(2, 1), (5, 9)])
def test_a_cut_of_nothing_changes_nothing(start: int, end: int) -> None:
    """A range that holds no event of the past leaves the history as it is."""
    tx = MemoryTx()
    said = InputAdded(row=1, key="k", text="hi", content="hi", sender="o", stamp="")
    append(tx, "s", [said, ContextCut(start=start, end=end, replacement="gone", reason="")], at=0, turn="t")
    history, _ = folds_of(read(tx, "s"))
    assert repair_history(history.pieces) == (Message("user", (Text("hi"),)),)


STORY: list[Body] = [
    SessionTitled(title="a title"),
    TurnStarted(rows=(1,), cause="message", access="full"),
    InputAdded(row=1, key="k", text="seen", content="said", sender="o", stamp=""),
    ContextPrepared(digest="d", parts={}, tools=()),
    AssistantMessage(
        reply="r", content=(Thinking("hm", "s"), Text("look"), ToolCall("c", "n", {"x": 1})), stop="tools", model="m"
    ),
    UsageRecorded(reply="r", model="m", input=1, output=2),
    ToolFinished(call="c", name="n", outcome="error", text="no"),
    AssistantCut(reply="q", text="half", reason="crash"),
    AssistantDiscarded(reply="p", reason="server", error="down", attempt=1),
    HookSkipped(plugin="p", hook="h", error="e"),
    Foreign(kind="note.made", data={"text": "a note"}),
    ContextCut(start=3, end=5, replacement="in short", reason="r"),
    UsageRecorded(reply="s", model="m", input=7, output=2),
    ToolFinished(call="e", name="n", outcome="ok", text="much"),
    ContextCut(start=1, end=0, replacement="", reason="r", cleared=(14,), text="cut"),
    TurnEnded(outcome="failed", error="why"),
]
# What the folds of `STORY` come to, by version. Other folds under an old version would go on from wrong snapshots.
STATES = {3: "907f92375e31349c", 4: "191f5f076f25d8c0"}


def test_folds_that_change_have_a_new_version() -> None:
    """Whoever changes what a fold comes to, or how that is stored, counts `VERSION` up."""
    tx = MemoryTx()
    append(tx, "s", STORY, at=7, turn="t")
    state = b"".join(msgspec.json.encode(fold) for fold in folds_of(read(tx, "s")))
    assert hashlib.sha256(state).hexdigest()[:16] == STATES.get(VERSION)
