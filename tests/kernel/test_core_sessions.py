"""Sessions at their edges: receipts, repeats, cancels and closes that meet, and more sessions than stay in memory."""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from halo_kernel import (
    OPERATOR,
    BadInput,
    Database,
    Event,
    Incoming,
    InputAdded,
    Kernel,
    NotFound,
    PreparedInput,
    Principal,
    Session,
    StorageUnavailable,
    TurnEnded,
    hook,
)
from halo_kernel.testing import (
    Answer,
    Calls,
    Hang,
    NoteTool,
    Pieces,
    ScriptedModel,
    VirtualClock,
    a_session,
    journal,
    running_kernel,
    until,
)


async def again(kernel: Kernel, session: Session) -> Session:
    info = session.info
    return await kernel.host.sessions.open(info.id, workspace=info.workspace, principal=OPERATOR)


def inputs(events: list[Event]) -> list[str]:
    return [event.body.text for event in events if isinstance(event.body, InputAdded)]


async def soon(handle: Any) -> Any:
    return await asyncio.wait_for(asyncio.shield(handle.result), 10)


def held_up(kernel: Kernel, session: Session) -> tuple[Database, asyncio.Event]:
    """Let every write of the session's workspace wait for an event."""
    database: Any = kernel.workspaces.seats[session.info.workspace].database
    write, free = database.write, asyncio.Event()

    async def later(fn: Any) -> Any:
        await free.wait()
        return await write(fn)

    database.write = later
    return database, free


async def test_a_message_whose_sender_hung_up_is_answered(tmp_path: Path) -> None:
    """A caller of `submit` that is cancelled while its message is written knows nothing, and the message runs."""
    async with running_kernel(tmp_path / "home") as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await soon(session.prompt(Incoming(text="first")))
        _, free = held_up(kernel, session)
        sending = asyncio.create_task(session.submit(Incoming(text="second")))
        await asyncio.sleep(0.01)
        sending.cancel()
        await asyncio.wait({sending})
        free.set()
        await until(lambda: session.info.state == "idle")
        assert inputs(await journal(session)) == ["first", "second"]


async def test_a_receipt_given_while_the_server_stops_is_honoured_at_the_next_start(tmp_path: Path) -> None:
    """S36: what was on its way into the inbox when the kernel closed is answered by the next one, unasked."""
    home = tmp_path / "home"
    async with running_kernel(home) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await soon(session.prompt(Incoming(text="first")))
        _, free = held_up(kernel, session)
        sending = asyncio.create_task(session.submit(Incoming(text="second", key="k")))
        await asyncio.sleep(0.01)
        closing = asyncio.create_task(kernel.close())
        await asyncio.sleep(0.05)
        free.set()
        receipt = await asyncio.wait_for(sending, 5)
        await closing
    model = ScriptedModel()
    async with running_kernel(home, model=model) as kernel:
        await until(lambda: model.requests)
        session = await again(kernel, session)
        await until(lambda: session.info.state == "idle")
        assert inputs(await journal(session)) == ["first", "second"]
        assert await session.submit(Incoming(text="third", key="k")) == receipt


@pytest.mark.parametrize("seed", range(8))
async def test_whatever_is_accepted_while_the_kernel_closes_is_consumed_once(tmp_path: Path, seed: int) -> None:
    """S36: messages that arrive at many sessions while the kernel closes are refused, or consumed exactly once."""
    rnd, home, accepted = random.Random(seed), tmp_path / "home", set[str]()

    async def send(session: Session, name: str) -> None:
        await asyncio.sleep(rnd.random() * 0.02)
        for number in range(3):
            await session.submit(Incoming(text=f"{name}.{number}"))
            accepted.add(f"{name}.{number}")
            await asyncio.sleep(rnd.random() * 0.005)

    async with running_kernel(home) as kernel:
        sessions = [await a_session(kernel, tmp_path / "w") for _ in range(4)]
        sending = [asyncio.create_task(send(session, f"s{i}")) for i, session in enumerate(sessions)]
        await asyncio.sleep(rnd.random() * 0.03)
        await kernel.close()
        await asyncio.gather(*sending, return_exceptions=True)
    async with running_kernel(home) as kernel:
        await asyncio.sleep(0.05)
        found: list[str] = []
        for session in sessions:
            live = await again(kernel, session)
            await until(lambda live=live: live.info.state == "idle")
            events = await journal(live)
            found += [text for text in inputs(events) if text.startswith("s")]
            ends = [event.body.outcome for event in events if isinstance(event.body, TurnEnded)]
            assert not ends or ends[-1] in ("succeeded", "failed")
        assert sorted(found) == sorted(set(found)) and accepted <= set(found)


@pytest.mark.parametrize("seed", range(10))
async def test_a_repeat_that_meets_the_end_of_its_turn_is_settled(tmp_path: Path, seed: int) -> None:
    """However late the same key comes, its handle says how the one turn ended."""
    rnd = random.Random(seed)
    async with running_kernel(tmp_path / "home") as kernel:
        session = await a_session(kernel, tmp_path / "w")
        for number in range(10):
            first = session.prompt(Incoming(text="x", key=f"k{number}"))
            await asyncio.sleep(rnd.random() * 0.01)
            second = session.prompt(Incoming(text="x", key=f"k{number}"))
            assert await soon(second) == await soon(first)
        assert len(inputs(await journal(session))) == 10


async def test_a_repeat_to_another_session_follows_the_first_message(tmp_path: Path) -> None:
    """S37: the same sender's key in another session is the same message: its receipt, its result, once."""
    model = ScriptedModel([Hang()])
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        one, two = await a_session(kernel, tmp_path / "w"), await a_session(kernel, tmp_path / "w")
        first = one.prompt(Incoming(text="hello", key="k"))
        await until(lambda: model.active)
        second = two.prompt(Incoming(text="hello", key="k"))
        assert await second.accepted == await first.accepted
        one.interrupt()
        assert (await soon(second)) == (await soon(first))
        assert inputs(await journal(two)) == []


async def test_keys_of_two_principals_are_two_keys(tmp_path: Path) -> None:
    """A key is its sender's own: another principal's message with the same key is another message."""
    async with running_kernel(tmp_path / "home") as kernel:
        session = await a_session(kernel, tmp_path / "w")
        mine = session.prompt(Incoming(text="mine", key="1"))
        other = session.prompt(Incoming(text="yours", key="1", principal=Principal(name="other")))
        await soon(mine), await soon(other)
        assert sorted(inputs(await journal(session))) == ["mine", "yours"]


async def test_a_session_is_its_principals_of_one_kind(tmp_path: Path) -> None:
    """A name is unique within its kind: a remote `operator` is nobody to the operator's sessions, open or made anew."""
    stranger = Principal(name="operator", kind="remote")
    async with running_kernel(tmp_path / "home") as kernel:
        session = await a_session(kernel, tmp_path / "w")
        place = {"workspace": session.info.workspace, "principal": stranger}
        for create in (False, True):
            with pytest.raises(NotFound):
                await kernel.host.sessions.open(session.info.id, create=create, **place)  # type: ignore[arg-type]
        assert await kernel.host.sessions.list(**place) == []  # type: ignore[arg-type]
        theirs = await kernel.host.sessions.open("theirs", create=True, **place)  # type: ignore[arg-type]
        assert theirs.info.principal_kind == "remote"
        with pytest.raises(NotFound):
            await kernel.host.sessions.open("theirs", workspace=session.info.workspace, principal=OPERATOR)
    async with running_kernel(tmp_path / "home") as kernel:
        for create in (False, True):
            with pytest.raises(NotFound):
                await kernel.host.sessions.open(session.info.id, create=create, **place)  # type: ignore[arg-type]


async def test_pages_of_sessions_miss_none(tmp_path: Path) -> None:
    """Sessions that changed in one millisecond are on one page, so that the next one, of what is older, misses none."""
    async with running_kernel(tmp_path / "home", clock=VirtualClock()) as kernel:
        made = {(await a_session(kernel, tmp_path / "w")).info.id for _ in range(7)}
        workspace = (await kernel.host.workspaces.list())[0].id
        seen: list[str] = []
        before: int | None = None
        while page := await kernel.host.sessions.list(workspace=workspace, principal=OPERATOR, before=before, limit=3):
            seen += [info.id for info in page]
            before = page[-1].updated_at
        assert sorted(seen) == sorted(made)


async def test_cancelling_what_gave_way_cancels_what_took_over(tmp_path: Path) -> None:
    """The handle of a message whose turn gave way stops the turn that answers it."""
    held = asyncio.Event()
    note = NoteTool(wait=lambda call: held.wait())
    model = ScriptedModel([Calls([("note", {"text": "x"})]), Hang()])
    async with running_kernel(tmp_path / "home", model=model, tools=[note]) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        first = session.prompt(Incoming(text="run"))
        await until(lambda: note.seen)
        await session.submit(Incoming(text="newer"))
        held.set()
        await until(lambda: len(model.requests) == 2)
        first.cancel()
        assert (await soon(first)).outcome == "cancelled"


class Held:
    """Holds up the preparation of the message `newer` until it is told."""

    def __init__(self) -> None:
        self.reached, self.free = asyncio.Event(), asyncio.Event()

    @hook
    async def prepare_input(self, batch: Sequence[PreparedInput], session: Session) -> Sequence[PreparedInput]:
        if batch[0].text == "newer":
            self.reached.set()
            await self.free.wait()
        return batch


async def test_what_gave_way_to_a_message_that_is_withdrawn_is_answered(tmp_path: Path) -> None:
    """When the newer message is withdrawn before its turn begins, the turn that stopped for it goes on."""
    held = Held()
    note = NoteTool(wait=lambda call: asyncio.sleep(0.05))
    model = ScriptedModel([Calls([("note", {"text": "x"})]), Answer("done")])
    async with running_kernel(tmp_path / "home", model=model, tools=[note], extra={"held": held}) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        first = session.prompt(Incoming(text="run"))
        await until(lambda: note.seen)
        newer = session.prompt(Incoming(text="newer"))
        await asyncio.wait_for(held.reached.wait(), 5)
        newer.cancel()
        assert (await soon(newer)).outcome == "cancelled"
        held.free.set()
        assert (await soon(first)).text == "done"
        assert "newer" not in inputs(await journal(session))


@pytest.mark.parametrize("how", ["stop", "archive"])
async def test_what_gave_way_to_a_message_that_never_ran_is_cancelled(tmp_path: Path, how: str) -> None:
    """A halt settles a chain of messages whose turns gave way, and what is answered later is not their answer."""
    held, gates = Held(), [asyncio.Event(), asyncio.Event()]
    note = NoteTool(wait=lambda call: gates[len(note.seen) - 1].wait())
    model = ScriptedModel([Calls([("note", {"text": "x"})]), Calls([("note", {"text": "y"})]), Answer("to the last")])
    async with running_kernel(tmp_path / "home", model=model, tools=[note], extra={"held": held}) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        handles = [session.prompt(Incoming(text="run", key="first"))]
        for text, number in (("also", 1), ("newer", 2)):
            await until(lambda number=number: len(note.seen) == number)
            handles.append(session.prompt(Incoming(text=text, key=text)))
            await handles[-1].accepted
            gates[number - 1].set()
        await asyncio.wait_for(held.reached.wait(), 5)
        halting = asyncio.ensure_future(getattr(session, how)())
        await until(lambda: session.info.stopped or session.info.archived)
        held.free.set()
        await halting
        assert [(await soon(handle)).outcome for handle in handles] == ["cancelled"] * 3
        if how == "archive":
            return
        last = await soon(session.prompt(Incoming(text="and now?")))
        assert (last.outcome, last.text) == ("succeeded", "to the last")
        again = [session.prompt(Incoming(text="again", key=key)) for key in ("first", "also", "newer")]
        assert [(await soon(handle)).outcome for handle in again] == ["cancelled"] * 3
        assert len(model.requests) == 3


async def test_a_cancel_between_two_turns_is_heard(tmp_path: Path) -> None:
    """A message whose turn has given way is cancelled with the turn that takes over, though that has not begun."""
    held, reached, free = asyncio.Event(), asyncio.Event(), asyncio.Event()
    note = NoteTool(wait=lambda call: held.wait())
    model = ScriptedModel([Calls([("note", {"text": "x"})]), Hang()])
    async with running_kernel(tmp_path / "home", model=model, tools=[note]) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        first = session.prompt(Incoming(text="run"))
        await until(lambda: note.seen)
        await session.submit(Incoming(text="newer"))
        database: Any = kernel.workspaces.seats[session.info.workspace].database
        read = database.read

        async def later(fn: Any) -> Any:
            if getattr(fn, "__name__", "") == "due":
                reached.set()
                await free.wait()
            return await read(fn)

        database.read = later
        held.set()
        await asyncio.wait_for(reached.wait(), 5)
        first.cancel()
        await asyncio.sleep(0.05)
        free.set()
        assert (await soon(first)).outcome == "cancelled"


async def test_a_hard_interrupt_does_not_hit_its_own_turn(tmp_path: Path) -> None:
    """A message that a turn has taken before its sender hears of it does not abort that turn."""
    model = ScriptedModel([Hang()])
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        message = Incoming(text="now", mode="interrupt_hard")
        receipt = await session.submit(message)
        await until(lambda: model.active)
        session._hard = 0  # type: ignore[attr-defined]
        session._arrived(message, receipt)  # type: ignore[attr-defined]
        await asyncio.sleep(0.05)
        assert model.active and session.info.state == "running"


async def test_a_hard_interrupt_of_another_process_aborts_at_once(tmp_path: Path) -> None:
    """The process that holds the tree hears a hard interrupt wherever it was accepted, once, and answers it."""
    (tmp_path / "w").mkdir()
    model = ScriptedModel([Hang(), Answer("answered")])
    async with running_kernel(tmp_path / "a", model=model) as first, running_kernel(tmp_path / "b") as second:
        workspace = await first.host.workspaces.open(tmp_path / "w")
        mine = await first.host.sessions.open("shared", workspace=workspace.id, principal=OPERATOR, create=True)
        long = mine.prompt(Incoming(text="long"))
        await until(lambda: model.active)
        workspace = await second.host.workspaces.open(tmp_path / "w")
        other = await second.host.sessions.open("shared", workspace=workspace.id, principal=OPERATOR)
        hard = other.prompt(Incoming(text="now", mode="interrupt_hard"))
        assert (await soon(long)).outcome == "interrupted"
        assert (await soon(hard)).text == "answered"


async def test_a_tree_keeps_its_lease_while_one_of_its_sessions_works(tmp_path: Path) -> None:
    """Sessions of a tree share its lease: one that rests or closes does not take it from under another."""
    model = ScriptedModel([Answer("root"), Answer("child"), Answer("the child's report"), Pieces(["a ", "b"], 0.1)])
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        root = await a_session(kernel, tmp_path / "w")
        other = await a_session(kernel, tmp_path / "w")
        name, seat = root.info.id, kernel.workspaces.seats[root.info.workspace]
        sql, args = "UPDATE sessions SET root = ?, parent = ? WHERE id = ?", (name, name, other.info.id)
        await seat.database.write(lambda tx: tx.one(sql, args))
        await other.close("abort")  # type: ignore[attr-defined]
        child = await again(kernel, other)
        assert (await soon(root.prompt(Incoming(text="one")))).text == "root"
        assert (await soon(child.prompt(Incoming(text="two")))).text == "child"
        await until(lambda: len(model.requests) == 3 and root.info.state == "idle")
        handle = root.prompt(Incoming(text="three"))
        await until(lambda: model.active)
        child.doze()  # type: ignore[attr-defined]
        await child.close("abort")  # type: ignore[attr-defined]
        assert (await soon(handle)).text == "a b"


async def test_the_cancel_of_a_repeat_settles(tmp_path: Path) -> None:
    """A handle that follows another session's message is settled by that message's turn, cancelled or not."""
    model = ScriptedModel([Hang()])
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        one, two = await a_session(kernel, tmp_path / "w"), await a_session(kernel, tmp_path / "w")
        first = one.prompt(Incoming(text="hello", key="k"))
        await until(lambda: model.active)
        second = two.prompt(Incoming(text="hello", key="k"))
        second.cancel()
        await second.accepted
        one.interrupt()
        assert await soon(second) == await soon(first)


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (Incoming(text="a\ud800b"), "text"),
        (Incoming(text="x", key="a\0b"), "key"),
        (Incoming(text="x", key="\udfff"), "key"),
    ],
    ids=["text", "nul", "surrogate"],
)
async def test_text_that_no_storage_keeps_is_refused_by_name(tmp_path: Path, message: Incoming, field: str) -> None:
    """A sender is told which field holds what cannot be kept, and nothing is written."""
    async with running_kernel(tmp_path / "home") as kernel:
        session = await a_session(kernel, tmp_path / "w")
        with pytest.raises(BadInput) as caught:
            await session.submit(message)
        assert caught.value.field == field and len(await journal(session)) == 1


async def test_a_lease_that_cannot_be_given_back_does_not_brick_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S16: a close whose last write fails still closes: the session opens again."""

    async def fails(lease: object) -> None:
        raise StorageUnavailable("injected")

    async with running_kernel(tmp_path / "home") as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await soon(session.prompt(Incoming(text="one")))
        with monkeypatch.context() as patch:
            patch.setattr("halo_kernel.leases.HeldLease.release", fails)
            await session.close("abort")  # type: ignore[attr-defined]
        fresh = await again(kernel, session)
        assert fresh is not session
        assert (await soon(fresh.prompt(Incoming(text="two")))).text == "echo: two"


async def test_a_session_that_left_memory_takes_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever holds a session may use it at any time: that others were used since costs only a new reading."""
    monkeypatch.setattr("halo_kernel.sessions.seat._KEPT_OPEN", 2)
    async with running_kernel(tmp_path / "home") as kernel:
        session = await a_session(kernel, tmp_path / "w")
        follower = session.events(live=True)
        await soon(session.prompt(Incoming(text="one")))
        for _ in range(4):
            await soon((await a_session(kernel, tmp_path / "w")).prompt(Incoming(text="other")))
        assert session._desk is None  # type: ignore[attr-defined]
        assert await again(kernel, session) is session and session.info.state == "idle"
        assert (await soon(session.prompt(Incoming(text="two")))).text == "echo: two"
        texts: list[str] = []
        async for update in follower:
            if update.event and isinstance(update.event.body, InputAdded):
                texts.append(update.event.body.text)
            if texts == ["one", "two"]:
                break
        await follower.aclose()


@pytest.mark.parametrize("seed", range(4))
async def test_more_sessions_than_stay_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """S29: opened, used and left at random, each session is one instance at a time and answers each message once."""
    monkeypatch.setattr("halo_kernel.sessions.seat._KEPT_OPEN", 2)
    rnd = random.Random(seed)
    async with running_kernel(tmp_path / "home", clock=VirtualClock()) as kernel:
        names = [(await a_session(kernel, tmp_path / "w")).info for _ in range(6)]

        async def user(number: int) -> None:
            for turn in range(6):
                info = rnd.choice(names)
                session = await kernel.host.sessions.open(info.id, workspace=info.workspace, principal=OPERATOR)
                await asyncio.sleep(rnd.random() * 0.004)
                text = f"{number}.{turn}"
                if rnd.random() < 0.5:
                    await soon(session.prompt(Incoming(text=text)))
                else:
                    await session.submit(Incoming(text=text))

        await asyncio.wait_for(asyncio.gather(*(user(number) for number in range(5))), 30)
        found: list[str] = []
        for info in names:
            session = await kernel.host.sessions.open(info.id, workspace=info.workspace, principal=OPERATOR)
            await until(lambda session=session: session.info.state == "idle")
            found += inputs(await journal(session))
        assert sorted(found) == sorted(f"{number}.{turn}" for number in range(5) for turn in range(6))
        seat = kernel.workspaces.seats[names[0].workspace]
        session = None  # type: ignore[assignment]
        await until(lambda: gc.collect() >= 0 and len(seat.sessions) <= 3, what="the rest of all but three")


async def test_opening_a_session_lets_what_waits_there_run(tmp_path: Path) -> None:
    """What nobody recovered, as in a workspace that was moved to another home, runs when its session is opened."""
    async with running_kernel(tmp_path / "home", model=ScriptedModel([Hang()])) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await session.submit(Incoming(text="cut"))
        await until(lambda: session.info.state == "running")
    model = ScriptedModel(responder=lambda request: Answer("done"))
    async with running_kernel(tmp_path / "other", model=model) as kernel:
        workspace = await kernel.host.workspaces.open(tmp_path / "w")
        session = await kernel.host.sessions.open(session.info.id, workspace=workspace.id, principal=OPERATOR)
        await until(lambda: model.requests and session.info.state == "idle")
        assert inputs(await journal(session))[0] == "cut"
        assert await session.output() == "done"
