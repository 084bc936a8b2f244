"""Following a session: what is stored, then what happens, nothing twice and nothing missing."""

from __future__ import annotations

import asyncio
import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halo_kernel import (
    OPERATOR,
    AssistantCut,
    AssistantMessage,
    BadInput,
    CursorGone,
    Event,
    History,
    Incoming,
    Session,
    Tool,
    Update,
    View,
    plain_text,
)
from halo_kernel.testing import Calls, Fail, NoteTool, Pieces, ScriptedModel, Step, VirtualClock, running_kernel

scripts = st.lists(
    st.one_of(
        st.builds(Pieces, st.lists(st.sampled_from(["a", "bc", "def "]), min_size=1, max_size=6), st.just(0.0005)),
        st.builds(Calls, st.just([("note", {"text": "x"})]), st.sampled_from(["", "let me see "])),
        st.builds(Fail, st.sampled_from(["throttle", "network"]), text=st.sampled_from(["", "half "])),
    ),
    min_size=1,
    max_size=6,
)


class Follower:
    """Follows from an instant on and checks what it is told."""

    def __init__(self, session: Session, after: str | None = None) -> None:
        self.events: list[Event] = []
        self.cursors: list[str | None] = []
        self.texts: dict[str, str] = {}
        self.late: list[str] = []
        self._done: set[str] = set()
        self._source = session.events(after, live=True)
        self.task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        async for update in self._source:
            self._take(update)

    def _take(self, update: Update) -> None:
        if update.event is not None:
            self.events.append(update.event)
            self.cursors.append(update.cursor)
            if isinstance(update.event.body, AssistantMessage | AssistantCut):
                self._done.add(update.event.body.reply)
        elif update.delta is not None and not update.delta.thinking:
            so_far = self.texts.get(update.delta.reply, "")
            assert update.delta.offset == len(so_far), "pieces join without a gap and without an overlap"
            self.texts[update.delta.reply] = so_far + update.delta.text
            if update.delta.reply in self._done:
                self.late.append(update.delta.reply)

    async def reach(self, seq: int) -> None:
        for _ in range(2000):
            if self.events and self.events[-1].seq >= seq:
                break
            await asyncio.sleep(0.002)
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self._source.aclose()


def history_of(events: list[Event]) -> History:
    history = History()
    for event in events:
        history.apply(event)
    return history


def view_of(events: list[Event]) -> View:
    view = View()
    for event in events:
        view.apply(event)
    return view


def check(follower: Follower, journal: list[Event]) -> None:
    assert follower.events == journal[len(journal) - len(follower.events) :]
    assert follower.late == [], "no piece comes after its whole answer"
    for event in follower.events:
        if isinstance(event.body, AssistantMessage):
            text = plain_text(event.body.content)
            assert text.startswith(follower.texts.get(event.body.reply, "")), "pieces are the answer's beginning"


async def scenario(script: list[Step], seed: int, home: Path) -> None:
    rnd = random.Random(seed)
    model = ScriptedModel(script)
    tools: list[Tool] = [NoteTool()]
    async with running_kernel(home / "home", model=model, tools=tools, clock=VirtualClock()) as kernel:
        (home / "w").mkdir()
        workspace = await kernel.host.workspaces.open(home / "w")
        session = await kernel.host.sessions.create(workspace=workspace.id, principal=OPERATOR)
        watcher = Follower(session)
        followers = [watcher]
        handles = []
        for text in "abc"[: rnd.randint(1, 3)]:
            handles.append(session.prompt(Incoming(text=text, mode=rnd.choice(["follow_up", "steer"]))))
            for _ in range(rnd.randint(0, 3)):
                await asyncio.sleep(rnd.random() * 0.004)
                cursors = [c for f in followers for c in f.cursors]
                followers.append(Follower(session, rnd.choice([None, *cursors])))
        await asyncio.gather(*(handle.result for handle in handles))
        journal = [update.event async for update in session.events() if update.event]
        for follower in followers:
            await follower.reach(journal[-1].seq)
            check(follower, journal)
        check_folds(watcher.events, journal)
        desk = session._desk  # type: ignore[attr-defined]
        assert desk is not None and desk.history == history_of(journal), "what the model is shown is what is stored"


def check_folds(told: list[Event], stored: list[Event]) -> None:
    """Fold what a follower was told, step by step, beside a replay of each prefix of what is stored."""
    history, view = History(), View()
    for end, event in enumerate(told, start=1):
        history.apply(event)
        view.apply(event)
        assert (history, view) == (history_of(stored[:end]), view_of(stored[:end])), f"they differ after event {end}"
    assert len(told) == len(stored)


@settings(max_examples=25, deadline=None)
@given(scripts, st.integers(0, 1 << 30))
def test_a_follower_loses_and_repeats_nothing(script: list[Step], seed: int) -> None:
    """S47, S48: from any instant on, a follower gets the journal's rest in order, and folds agree at every prefix."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(scenario(script, seed, Path(folder)))


async def test_cursors_are_checked(tmp_path: Path) -> None:
    """A malformed cursor is bad input; one of another journal, or from the future, is gone."""
    async with running_kernel(tmp_path / "home") as kernel:
        (tmp_path / "w").mkdir()
        workspace = await kernel.host.workspaces.open(tmp_path / "w")
        session = await kernel.host.sessions.create(workspace=workspace.id, principal=OPERATOR)
        other = await kernel.host.sessions.create(workspace=workspace.id, principal=OPERATOR)
        cursor = [update.cursor async for update in session.events()][-1]
        assert cursor is not None
        assert [update async for update in session.events(cursor)] == []
        for bad in ("x", "1", ".", f"{cursor}x", cursor.replace(".1", ".-1"), "a" * 1000):
            with pytest.raises(BadInput) as caught:
                await anext(session.events(bad))
            assert caught.value.field == "after"
        for gone in (cursor.replace(".1", ".99"), f"{'0' * 32}.1"):
            with pytest.raises(CursorGone):
                await anext(session.events(gone))
        with pytest.raises(CursorGone):
            await anext(other.events(cursor))


async def test_a_reader_that_never_reads_holds_nobody_up(tmp_path: Path) -> None:
    """S48: a follower's queue is bounded: one that fell behind goes back to the journal and misses nothing."""
    model = ScriptedModel([Pieces(["x"] * 3000)])
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        (tmp_path / "w").mkdir()
        workspace = await kernel.host.workspaces.open(tmp_path / "w")
        session = await kernel.host.sessions.create(workspace=workspace.id, principal=OPERATOR)
        source = session.events(live=True)
        first = await anext(source)
        assert first.event is not None and first.event.seq == 1
        await session.prompt(Incoming(text="go")).result
        seen = [first.event]
        async for update in source:
            if update.event is not None:
                seen.append(update.event)
                if update.event.kind == "turn.ended":
                    break
        await source.aclose()
        assert seen == [update.event async for update in session.events() if update.event]
