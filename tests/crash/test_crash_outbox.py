"""The outbox under `kill -9`: between any two commits, for each guarantee, and across two databases."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec
import pytest

from halo_kernel import (
    OPERATOR,
    AssistantMessage,
    Claim,
    Database,
    Delivery,
    Guarantee,
    Host,
    Incoming,
    InputAdded,
    Migration,
    Owed,
    Part,
    Pointer,
    Session,
    Tx,
    hook,
)
from halo_kernel.testing import Answer, CrashPoints, Postbox, Workbench, journal

GUARANTEES: tuple[Guarantee, ...] = ("keyed", "queryable", "local", "none")


def postboxes(halo: Workbench) -> dict[str, Postbox]:
    """Return a dispatcher of each guarantee; what arrived is in a file, which a kill leaves."""
    return {
        kind: Postbox(kind=kind, guarantee=kind, limit=2, file=halo.home.parent / f"{kind}.arrived")
        for kind in GUARANTEES
    }


async def deliveries(halo: Workbench, *, unsettled: bool = False) -> Sequence[Delivery]:
    assert halo.kernel is not None
    (workspace,) = await halo.kernel.host.workspaces.list()
    return await halo.kernel.host.outbox.list(workspace=workspace.id, unsettled=unsettled)


async def eventually(condition: Callable[[], object]) -> None:
    """Return once what `condition` awaits is true."""
    for _ in range(2000):
        done = condition()
        if await done if asyncio.iscoroutine(done) else done:
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it did not come to pass")


async def no_debts(halo: Workbench) -> bool:
    return not await deliveries(halo, unsettled=True)


# pending, sending, sent


async def make_workspace(halo: Workbench) -> None:
    await halo.session("talk")


async def send(halo: Workbench) -> None:
    """Owe a delivery of two parts through each, one after the other, and note down which are acknowledged."""
    kernel = await halo.start(plugins=postboxes(halo))
    workspace = (await halo.session("talk")).info.workspace
    for kind in GUARANTEES:
        owed = Owed(key=f"to {kind}", dispatcher=kind, target=f"{kind}:me:here", text="aabb")
        await kernel.host.outbox.owe(owed, workspace=workspace)
        (halo.home.parent / f"{kind}.owed").touch()
        await eventually(partial(no_debts, halo))


async def look(halo: Workbench) -> None:
    """What was acknowledged arrives once; where nobody can know, at most once, and is shown as sent or uncertain."""
    boxes = postboxes(halo)
    await halo.start(plugins=boxes)
    await halo.session("talk")
    await eventually(partial(no_debts, halo))
    found = {delivery.dispatcher: delivery for delivery in await deliveries(halo)}
    for kind, box in boxes.items():
        acknowledged = (halo.home.parent / f"{kind}.owed").exists()
        assert kind in found or not acknowledged, f"{kind}: what was acknowledged is gone"
        texts = [part.text for part in box.arrived]
        states = [part.state for part in found[kind].parts] if kind in found else []
        if kind == "none":
            assert len(set(texts)) == len(texts), "a part arrived twice"
            assert set(states) <= {"sent", "uncertain"} and states.count("uncertain") <= 1
            for number, state in enumerate(states):
                assert state == "uncertain" or ["aa", "bb"][number] in texts
        else:
            assert (texts, states) == ((["aa", "bb"], ["sent", "sent"]) if kind in found else ([], [])), kind


@pytest.mark.timeout(300)  # two processes for each point, one after the other
def test_a_kill_between_pending_sending_and_sent(crash_points: CrashPoints) -> None:
    """Whatever commit a process dies at, the next one brings each delivery to its end as its guarantee says."""
    died = crash_points(send, look, prepare=make_workspace)
    told = [str(point) for point in died]
    for side in ("before", "after"):
        for what in ("lease deliver:", ": begin", ": end"):
            assert sum(f"just {side}" in each and what in each for each in told) >= len(GUARANTEES), (side, what, told)


# intent, effect, mark


class Orders:
    """A plugin with rows of its own: it commits an order, has it done, and marks it; the answer finishes its row.

    Its effects are a message to a session, which reports to it, and a notice through somebody else's dispatcher.
    """

    kind = "order"
    guarantee: Guarantee = "local"
    claim: Claim = "report"
    tables = (
        Migration(
            version=1,
            sql="CREATE TABLE orders(key TEXT PRIMARY KEY, text TEXT NOT NULL, marked INTEGER NOT NULL DEFAULT 0,"
            " answer TEXT, finished INTEGER NOT NULL DEFAULT 0);",
        ),
    )

    def __init__(self) -> None:
        self._host: Host | None = None

    @hook
    def provide_dispatchers(self, host: Host) -> Sequence[Orders]:
        self._host = host
        return [self]

    async def database(self) -> Database:
        assert self._host is not None
        return await self._host.data.open("orders", "global", self.tables)

    async def order(self, key: str, text: str, *, workspace: str) -> None:
        """Take an order; taking it again changes nothing."""

        def intend(tx: Tx) -> None:
            tx.execute("INSERT INTO orders(key, text) VALUES (?, ?) ON CONFLICT(key) DO NOTHING", (key, text))

        await (await self.database()).write(intend)
        await self.catch_up(workspace=workspace)

    async def catch_up(self, *, workspace: str) -> None:
        """Do what is not marked yet, as at every start."""
        database = await self.database()
        open_orders = await database.read(lambda tx: list(tx.execute("SELECT key, text FROM orders WHERE marked = 0")))
        for key, text in open_orders:
            await self._do(key, text, workspace)
            await database.write(lambda tx, key=key: tx.one("UPDATE orders SET marked = 1 WHERE key = ?", (key,)))

    async def _do(self, key: str, text: str, workspace: str) -> None:
        assert self._host is not None
        session = await self._host.sessions.open("orders", workspace=workspace, principal=OPERATOR, create=True)
        pointer = Pointer(dispatcher="order", target=key)
        await session.submit(Incoming(text=text, key=f"order:{key}", reply_to=pointer))
        notice = Owed(key=f"order:{key}", dispatcher="keyed", target="keyed:me:here", text="ok")
        await self._host.outbox.owe(notice, workspace=workspace)

    def split(self, text: str) -> Sequence[str]:
        return [text]

    async def deliver(self, part: Part) -> str:
        """Finish the order, once: what is finished stays as it is."""

        def finish(tx: Tx) -> None:
            tx.execute(
                "UPDATE orders SET answer = ?, finished = finished + 1 WHERE key = ? AND answer IS NULL",
                (part.text, part.target),
            )

        await (await self.database()).write(finish)
        return part.target

    async def find(self, part: Part) -> str | None:
        return None

    async def rows(self) -> list[tuple[object, ...]]:
        database = await self.database()
        return await database.read(lambda tx: list(tx.execute("SELECT key, marked, answer, finished FROM orders")))


async def begin(halo: Workbench) -> tuple[Orders, str]:
    """Start a server with the plugin, and return it when it has caught up."""
    orders, notices = Orders(), Postbox(kind="keyed", file=halo.home.parent / "notices")
    halo.model.responder = lambda request: Answer("made")
    kernel = await halo.start(plugins={"orders": orders, "keyed": notices})
    workspace = (await kernel.host.workspaces.open(_folder(halo))).id
    await orders.catch_up(workspace=workspace)
    return orders, workspace


def _folder(halo: Workbench) -> Path:
    halo.folder.mkdir(parents=True, exist_ok=True)
    return halo.folder


async def done(halo: Workbench, orders: Orders) -> bool:
    finished = [row[2] is not None for row in await orders.rows()]
    return bool(finished) and all(finished) and await no_debts(halo)


async def take_an_order(halo: Workbench) -> None:
    orders, workspace = await begin(halo)
    await orders.order("7", "two lamps", workspace=workspace)
    await eventually(partial(done, halo, orders))


async def count(halo: Workbench) -> None:
    """The sender repeats its order, since it may know nothing; then there is one of everything."""
    orders, workspace = await begin(halo)
    await orders.order("7", "two lamps", workspace=workspace)
    await eventually(partial(done, halo, orders))
    assert await orders.rows() == [("7", 1, "made", 1)]
    session = await halo.session("orders")
    assert await _messages(session) == 1
    notices = (halo.home.parent / "notices").read_bytes().splitlines()
    assert [msgspec.json.decode(line, type=Part).text for line in notices] == ["ok"]
    found = await deliveries(halo)
    assert sorted((each.debt, each.parts[0].state) for each in found) == [("notice", "sent"), ("report", "sent")]


async def _messages(session: Session) -> int:
    bodies = [event.body for event in await journal(session)]
    answers = [body for body in bodies if isinstance(body, AssistantMessage)]
    assert len(answers) == 1, f"there are {len(answers)} answers"
    return sum(isinstance(body, InputAdded) and body.key == "order:7" for body in bodies)


async def nothing(halo: Workbench) -> None:
    await begin(halo)


@pytest.mark.timeout(300)
def test_a_kill_between_intent_effect_and_mark(crash_points: CrashPoints) -> None:
    """Killed at any point, and repeated: one message, one answer, one notice, one finished row."""
    died = crash_points(take_an_order, count, prepare=nothing)
    told = " ".join(map(str, died))
    for commit in ("intend", "Session._accept", ": owe", "catch_up", "Desk.commit", "finish"):
        assert commit in told
