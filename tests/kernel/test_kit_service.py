"""The contract suite for services: a good one passes, and each rule that a broken service breaks is named."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

import pytest

from halo_kernel import OPERATOR, Database, Host, Incoming, InputAdded, Migration, Service, WorkspaceInfo, hook
from halo_kernel.testing import ServiceContract, SteppedClock, Workbench, journal

TABLE = [
    Migration(version=1, sql="CREATE TABLE reminders(key TEXT PRIMARY KEY, due INTEGER, workspace TEXT, done INT)")
]
SESSION = "reminders_1"
INTERVAL = 60.0
Row = tuple[str, str]


async def opened(host: Host) -> Database:
    return await host.data.open("reminders", "global", TABLE)


async def remind(host: Host, workspace: str, key: str) -> None:
    """Owe a reminder for a minute from now."""
    row, database = (key, host.clock.now() + int(INTERVAL * 1000), workspace), await opened(host)
    await database.write(lambda tx: list(tx.execute("INSERT INTO reminders VALUES (?, ?, ?, 0)", row)))


class Reminders:
    """A plugin, and its service: intent is the row, effect a message under the row's key, then the row is marked."""

    name = "reminders"
    fails: list[str]
    host: Host

    def __init__(self, fails: list[str] | None = None) -> None:
        self.fails = [] if fails is None else fails

    @hook
    def provide_services(self, host: Host) -> Sequence[Service]:
        self.host = host
        return [self]

    async def run(self) -> None:
        while True:
            for row in await self.due():
                await self.carry_out(*row)
            await self.wait()

    async def wait(self) -> None:
        await self.host.clock.sleep(5)

    async def due(self) -> Sequence[Row]:
        database, now = await opened(self.host), self.host.clock.now()
        find = "SELECT key, workspace FROM reminders WHERE done = 0 AND due <= ?"
        return [(str(key), str(where)) for key, where in await database.read(lambda tx: list(tx.execute(find, (now,))))]

    async def carry_out(self, key: str, workspace: str) -> None:
        if self.fails:
            raise ValueError(self.fails.pop())
        await self.effect(key, workspace)
        await self.mark(key)

    async def effect(self, key: str, workspace: str, message: str | None = None) -> None:
        session = await self.host.sessions.open(SESSION, workspace=workspace, principal=OPERATOR, create=True)
        await session.submit(Incoming(text=key, key=message or f"reminder:{key}"))

    async def mark(self, key: str) -> None:
        database = await opened(self.host)
        await database.write(lambda tx: list(tx.execute("UPDATE reminders SET done = 1 WHERE key = ?", (key,))))


class RemindersContract(ServiceContract):
    service_name = "reminders"
    interval = INTERVAL
    can_fail = True
    make: Callable[[list[str]], object] = Reminders
    fails: list[str]

    @pytest.fixture(autouse=True)
    def flaws(self) -> None:
        self.fails = []

    def plugins(self) -> Sequence[object]:
        return [type(self).make(self.fails)]

    async def prepare(self, halo: Workbench) -> None:
        await halo.session(SESSION)

    async def owe(self, halo: Workbench, key: str) -> None:
        assert halo.kernel
        workspace = await halo.kernel.host.workspaces.open(halo.folder)
        await remind(halo.kernel.host, workspace.id, key)

    async def done(self, halo: Workbench) -> Sequence[str]:
        events = await journal(await halo.session(SESSION))
        waiting = await (await halo.session(SESSION)).waiting()
        inputs = [
            event.body for event in events if isinstance(event.body, InputAdded) and event.body.cause == "message"
        ]
        return [each.text for each in (*inputs, *waiting)]

    def fail_next(self) -> None:
        self.fails.append("on purpose")


class TestReminders(RemindersContract):
    pass


class Eager(Reminders):
    """Begins as soon as a workspace is open."""

    @hook
    async def workspace_opened(self, workspace: WorkspaceInfo, host: Host) -> None:
        self.host = host
        host.spawn("eager", self.run())


class Slow(Reminders):
    """Takes its time to make the service."""

    @hook
    def provide_services(self, host: Host) -> Sequence[Service]:
        time.sleep(1.2)
        self.host = host
        return [self]


class Unnamed(Reminders):
    """Its service has another name."""

    name = "memos"


class Done(Reminders):
    """Looks once, and has ended then."""

    async def wait(self) -> None:
        if await self.due():
            return
        await super().wait()

    async def run(self) -> None:
        while not (rows := await self.due()):
            await self.wait()
        for row in rows:
            await self.carry_out(*row)


class Lossy(Reminders):
    """Carries out the first of what is due, and marks the rest."""

    async def due(self) -> Sequence[Row]:
        rows = await super().due()
        for key, _ in rows[1:]:
            await self.mark(key)
        return rows[:1]


class Twofold(Reminders):
    """Gives each of its messages a key of its own."""

    count = 0

    async def effect(self, key: str, workspace: str, message: str | None = None) -> None:
        await super().effect(key, workspace, f"{key}-{self.host.clock.new_id()}")


class Repeating(Twofold):
    """Remembers in its memory what it has done."""

    def __init__(self, fails: list[str]) -> None:
        super().__init__(fails)
        self.marked: set[str] = set()

    async def due(self) -> Sequence[Row]:
        return [row for row in await super().due() if row[0] not in self.marked]

    async def mark(self, key: str) -> None:
        self.marked.add(key)


class Insistent(Twofold):
    """Never marks anything."""

    async def mark(self, key: str) -> None: ...


class Blocking(Reminders):
    """Blocks the loop at its work."""

    async def carry_out(self, key: str, workspace: str) -> None:
        time.sleep(0.4)  # noqa: ASYNC251
        await super().carry_out(key, workspace)


class Hasty(Reminders):
    """Does not look at the time."""

    async def due(self) -> Sequence[Row]:
        database, find = await opened(self.host), "SELECT key, workspace FROM reminders WHERE done = 0"
        return [(str(key), str(where)) for key, where in await database.read(lambda tx: list(tx.execute(find)))]

    async def wait(self) -> None:
        await asyncio.sleep(0.05)


class Early(Hasty):
    """Is half a minute early."""

    async def due(self) -> Sequence[Row]:
        database, now = await opened(self.host), self.host.clock.now() + int(INTERVAL * 500)
        find = "SELECT key, workspace FROM reminders WHERE done = 0 AND due <= ?"
        return [(str(key), str(where)) for key, where in await database.read(lambda tx: list(tx.execute(find, (now,))))]


class WallClock(Reminders):
    """Waits by the clock on the wall."""

    async def wait(self) -> None:
        await asyncio.sleep(INTERVAL)


class Deaf(Reminders):
    """Ignores its cancel for a while."""

    async def run(self) -> None:
        try:
            await super().run()
        finally:
            await asyncio.sleep(0.7)


class Littering(Reminders):
    """Leaves something behind; what that is, a test says."""

    litter: Any

    def leave(self) -> Any:
        raise NotImplementedError

    async def run(self) -> None:
        self.litter = self.leave()
        await super().run()


class LeavingTask(Littering):
    def leave(self) -> Any:
        return asyncio.create_task(asyncio.sleep(4), name="litter")


class LeavingThread(Littering):
    def leave(self) -> Any:
        thread = threading.Thread(target=time.sleep, args=[4], name="litter", daemon=True)
        thread.start()
        return thread


class LeavingFile(Littering):
    opened: list[IO[str]] = []  # noqa: RUF012

    def leave(self) -> Any:
        self.opened.append(open(__file__, encoding="utf-8"))  # noqa: SIM115


class LeavingTimer(Littering):
    def leave(self) -> Any:
        def remind() -> None: ...

        return asyncio.get_running_loop().call_later(60, remind)


class Silent(Reminders):
    """Says nothing of what fails."""

    async def carry_out(self, key: str, workspace: str) -> None:
        try:
            await super().carry_out(key, workspace)
        except ValueError:
            return


class Fragile(Reminders):
    """Ends when something fails."""

    async def run(self) -> None:
        try:
            await super().run()
        except ValueError:
            self.host.log.exception("the reminders have ended")


class GivingUp(Reminders):
    """Never does what failed once."""

    async def carry_out(self, key: str, workspace: str) -> None:
        try:
            await super().carry_out(key, workspace)
        except ValueError:
            self.host.log.exception("a reminder has failed")
            await self.mark(key)


class Clinging(Reminders):
    """Goes on when its plugin is unloaded."""

    going: asyncio.Task[None]

    async def run(self) -> None:
        self.going = asyncio.create_task(super().run(), name="more: reminders")
        await asyncio.Event().wait()


class MarkFirst(Reminders):
    """Marks the row, and then does what it says."""

    async def carry_out(self, key: str, workspace: str) -> None:
        await self.mark(key)
        await self.effect(key, workspace)


def contract_of(make: Callable[[list[str]], object]) -> RemindersContract:
    contract = type("Contract", (RemindersContract,), {"make": make})()
    assert isinstance(contract, RemindersContract)
    contract.fails = []
    return contract


async def broken(folder: Path, make: Callable[[list[str]], object], test: str, *more: object) -> str:
    """Run one test of the contract on a service and return why it fails."""
    contract, clock = contract_of(make), SteppedClock()
    halo = Workbench(folder)
    bench = halo if test == "test_two_servers_do_it_once" else contract.another(halo, clock)
    try:
        with pytest.raises(AssertionError) as caught:
            await getattr(contract, test)(bench, clock, {}, *more)
    finally:
        for task in asyncio.all_tasks():
            if task.get_name() in ("litter", "more: reminders"):
                task.cancel()
        while LeavingFile.opened:
            LeavingFile.opened.pop().close()
    return str(caught.value)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("make", "test", "more", "message"),
    [
        (Eager, "test_it_starts_with_the_server", (), "it works in a kernel that does not serve"),
        (Slow, "test_it_starts_with_the_server", (), "`provide_services` has to be fast"),
        (Unnamed, "test_it_does_what_is_owed", (), "no service reminders runs; there are: "),
        (Done, "test_it_starts_with_the_server", (), "after its work, 0 tasks of the service run"),
        (Lossy, "test_it_does_what_is_owed", (), "was owed, and is not done"),
        (Insistent, "test_it_does_what_is_owed", (), "w0 was to be done 1 times, and was"),
        (Blocking, "test_it_does_what_is_owed", (), "blocked the event loop for"),
        (Hasty, "test_it_keeps_the_kernels_time", (), "while the kernel's clock stood still"),
        (Early, "test_it_keeps_the_kernels_time", (), "it was done after 54 s of 60 s"),
        (WallClock, "test_it_keeps_the_kernels_time", (), "wait by `host.clock.sleep`"),
        (Deaf, "test_a_stop_leaves_nothing", (False,), "it went on for 0.5 s after its cancel"),
        (Deaf, "test_a_stop_leaves_nothing", (True,), "it went on for 0.5 s after its cancel"),
        (LeavingTask, "test_a_stop_leaves_nothing", (False,), "left behind: task 'litter'"),
        (LeavingThread, "test_a_stop_leaves_nothing", (False,), "left behind: thread 'litter'"),
        (LeavingFile, "test_a_stop_leaves_nothing", (False,), "left behind: open file"),
        (LeavingTimer, "test_a_stop_leaves_nothing", (False,), "LeavingTimer.leave.<locals>.remind"),
        (Silent, "test_a_failure_is_told_and_survived", (), "names the plugin Silent"),
        (Fragile, "test_a_failure_is_told_and_survived", (), "b was owed, and is not done"),
        (GivingUp, "test_a_failure_is_told_and_survived", (), "a was owed, and is not done"),
        (Repeating, "test_it_starts_again", ("restart",), "a was to be done 1 times, and was 2 times"),
        (Repeating, "test_it_starts_again", ("reload",), "a was to be done 1 times, and was 2 times"),
        (Clinging, "test_it_starts_again", ("reload",), "its plugin is unloaded, and the service goes on"),
        (Twofold, "test_two_servers_do_it_once", (), "was to be done 1 times, and was 2 times"),
    ],
)
@pytest.mark.halo_may_block
async def test_a_broken_service_is_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    make: Callable[[list[str]], object],
    test: str,
    more: tuple[object, ...],
    message: str,
) -> None:
    """A service that breaks a rule fails that rule's test, with a sentence that says what it does."""
    for name, seconds in (("_SECONDS", 2.5), ("_END_SECONDS", 0.5), ("_QUIET_SECONDS", 0.3), ("_WRONG_SECONDS", 2.0)):
        monkeypatch.setattr(f"halo_kernel.testing.service_contract.{name}", seconds)
    assert message in await broken(tmp_path, make, test, *more)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("make", "message"),
    [(MarkFirst, "what was owed was lost"), (Twofold, "what was owed once was done 2 times")],
)
def test_a_service_that_a_crash_breaks_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[list[str]], object], message: str
) -> None:
    """A mark before the effect loses it, an effect without a key repeats it; the commit at which that was is told."""
    monkeypatch.setattr("halo_kernel.testing.service_contract._SECONDS", 1.5)
    with pytest.raises(AssertionError, match="after a crash just") as caught:
        contract_of(make).test_a_crash_loses_nothing(tmp_path, {})
    assert message in str(caught.value)
