"""Deleting one exchange, and titles: changes to what a session shows that take nothing out of its journal."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo_kernel import (
    OPERATOR,
    AssistantMessage,
    BadInput,
    Conflict,
    ContextCut,
    Event,
    ExchangeDeleted,
    History,
    Incoming,
    InputAdded,
    Kernel,
    NotFound,
    Principal,
    Session,
    Text,
    TurnEnded,
    View,
    repair_history,
)
from halo_kernel.testing import Answer, Calls, Hang, NoteTool, ScriptedModel, a_session, journal, running_kernel, until


async def delete(kernel: Kernel, session: Session, text: str, principal: Principal = OPERATOR) -> Event:
    """Delete the exchange that begins with `text`."""
    (row,) = [e.body.row for e in await journal(session) if isinstance(e.body, InputAdded) and e.body.text == text]
    which = {"workspace": session.info.workspace, "principal": principal}
    return await kernel.host.sessions.delete_exchange(session.info.id, row=row, **which)  # type: ignore[arg-type]


async def shown(kernel: Kernel, session: Session) -> list[str]:
    view, _ = await kernel.host.sessions.view(session.info.id, workspace=session.info.workspace, principal=OPERATOR)
    return [item.text for item in view.items.values()]


async def test_an_exchange_is_gone_for_people_and_models(tmp_path: Path) -> None:
    """A deleted message and its answer are shown to nobody; the journal keeps them and says who deleted them."""
    model = ScriptedModel([Calls([("note", {"text": "x"})]), Answer("one"), Answer("two"), Answer("three")])
    async with running_kernel(tmp_path / "home", model=model, tools=[NoteTool()]) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        for text in ("first", "second"):
            await session.prompt(Incoming(text=text)).result
        await until(lambda: session.info.state == "idle")
        before = await journal(session)
        event = await delete(kernel, session, "first")
        assert await shown(kernel, session) == ["second", "two"]
        assert (await journal(session))[: len(before)] == before
        assert isinstance(event.body, ExchangeDeleted) and event.body.by == "operator"
        await session.prompt(Incoming(text="third")).result
        asked = str(model.requests[-1].messages)
        assert "second" in asked and "first" not in asked and "'x'" not in asked and "one" not in asked


async def test_a_restart_shows_the_same(tmp_path: Path) -> None:
    """What was deleted stays so after a restart, from the journal alone."""
    async with running_kernel(tmp_path / "home") as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await session.prompt(Incoming(text="first")).result
        await until(lambda: session.info.state == "idle")
        await delete(kernel, session, "first")
        name, workspace = session.info.id, session.info.workspace
    model = ScriptedModel()
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        session = await kernel.host.sessions.open(name, workspace=workspace, principal=OPERATOR)
        assert await shown(kernel, session) == []
        await session.prompt(Incoming(text="second")).result
        assert "first" not in str(model.requests[-1].messages)


@pytest.mark.parametrize(
    ("gone", "left"),
    [
        (["a"], ["b", "c", "answer"]),
        (["a", "b"], ["c", "answer"]),
        (["c"], ["a", "b"]),
        (["c", "b", "a"], []),
        (["a", "b", "c"], []),
    ],
)
async def test_of_merged_messages_the_answer_goes_with_the_last(
    tmp_path: Path, gone: list[str], left: list[str]
) -> None:
    """57: of messages answered together one that is not the last goes alone; the last one takes the answer along."""
    model = ScriptedModel([Hang(), Answer("answer"), Answer("on")])
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await session.submit(Incoming(text="0"))
        await until(lambda: model.active)
        handles = [session.prompt(Incoming(text=text, mode="follow_up")) for text in "abc"]
        await asyncio.gather(*(handle.accepted for handle in handles))
        session.interrupt()
        await handles[-1].result
        await until(lambda: session.info.state == "idle")
        await delete(kernel, session, "0")
        for text in gone:
            await delete(kernel, session, text)
        assert await shown(kernel, session) == left
        await session.prompt(Incoming(text="next")).result
        sent = model.requests[-1].messages
        assert repair_history(sent) == sent and ("answer" in str(sent)) == ("answer" in left)


async def test_what_is_no_exchange_is_refused(tmp_path: Path) -> None:
    """58: an unknown row, one deleted before, a report, and another's session: not found, and nothing is written."""
    async with running_kernel(tmp_path / "home") as kernel:
        session = await a_session(kernel, tmp_path / "w")
        child = await session.start_child("default")
        await session.prompt(Incoming(text="first")).result
        await child.prompt(Incoming(text="work", principal=Principal(name="session:x", kind="agent"))).result
        await until(lambda: session.info.head > 10 and session.info.state == "idle")
        await delete(kernel, session, "first")
        before = await journal(session)
        (report,) = [e.body.row for e in before if isinstance(e.body, InputAdded) and e.body.cause == "report"]
        with pytest.raises(NotFound):
            await delete(kernel, session, "first")
        with pytest.raises(NotFound):
            await delete(kernel, child, "work")
        for row, who in ((report, OPERATOR), (999, OPERATOR), (1, Principal(name="other"))):
            with pytest.raises(NotFound):
                await kernel.host.sessions.delete_exchange(
                    session.info.id, workspace=session.info.workspace, principal=who, row=row
                )
        assert await journal(session) == before


async def test_a_running_session_keeps_its_exchanges(tmp_path: Path) -> None:
    """While a turn runs nothing is deleted; an archived session's exchanges can be."""
    model = ScriptedModel([Answer("one"), Hang()])
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await session.prompt(Incoming(text="first")).result
        await session.submit(Incoming(text="second"))
        await until(lambda: model.active)
        with pytest.raises(Conflict, match="running"):
            await delete(kernel, session, "first")
        await session.archive()
        await delete(kernel, session, "first")
        assert "first" not in await shown(kernel, session)


BODIES = st.sampled_from(["input", "answer", "end"])


@given(st.lists(BODIES, max_size=20), st.integers(1, 20), st.integers(0, 6), st.booleans())
def test_both_views_agree(kinds: list[str], start: int, length: int, cut: bool) -> None:
    """Whatever range is deleted, neither fold shows any of it, and both show the rest; a summary stays as it is."""
    events, texts, cut = [], {}, cut and len(kinds) >= 3
    for seq, kind in enumerate(kinds, 1):
        texts[seq] = f"t{seq}"
        body = {
            "input": InputAdded(row=seq, key=str(seq), text=texts[seq], content=texts[seq], sender="", stamp=""),
            "answer": AssistantMessage(reply=str(seq), content=(Text(texts[seq]),), stop="end", model="m"),
            "end": TurnEnded(outcome="succeeded"),
        }[kind]
        events.append(Event(session="s", seq=seq, at=0, turn="t", body=body))
    head = len(kinds)
    start, end = min(start, head), min(start + length, head)
    more = [ContextCut(start=1, end=3, replacement="summary", reason="")] if cut else []
    more.append(ExchangeDeleted(row=start, start=start, end=end, by=""))  # type: ignore[arg-type]
    events += [Event(session="s", seq=head + n, at=0, turn="", body=body) for n, body in enumerate(more, 1)]
    history, view = History(), View()
    for event in events:
        history.apply(event)
        view.apply(event)
    kept = [texts[seq] for seq, kind in enumerate(kinds, 1) if kind != "end" and not start <= seq <= end]
    assert [item.text for item in view.items.values() if item.kind != "notice"] == kept
    told = [block.text for piece in history.pieces for block in piece.content if isinstance(block, Text)]
    summary = ["summary"] if cut else []
    assert told == summary + [text for text in kept if not (cut and int(text[1:]) <= 3)]


# Titles


async def test_a_title_stays(tmp_path: Path) -> None:
    """A title is an event, lists show it, and no message replaces it."""
    async with running_kernel(tmp_path / "home") as kernel:
        session = await a_session(kernel, tmp_path / "w")
        which = {"workspace": session.info.workspace, "principal": OPERATOR}
        await kernel.host.sessions.rename(session.info.id, title="  my \n work ", **which)  # type: ignore[arg-type]
        assert session.info.title == "my work"
        await session.prompt(Incoming(text="hello")).result
        (listed,) = await kernel.host.sessions.list(**which)  # type: ignore[arg-type]
        assert listed.title == session.info.title == "my work"


@pytest.mark.parametrize("title", ["", "  ", "x" * 201, "a\x00b", "\ud800"])
async def test_a_title_is_text(tmp_path: Path, title: str) -> None:
    """A title that is empty, too long or no text is refused by its field, and nothing is written."""
    async with running_kernel(tmp_path / "home") as kernel:
        session = await a_session(kernel, tmp_path / "w")
        before = await journal(session)
        with pytest.raises(BadInput) as refused:
            await kernel.host.sessions.rename(
                session.info.id, workspace=session.info.workspace, principal=OPERATOR, title=title
            )
        assert refused.value.field == "title" and await journal(session) == before
