"""What every service has to hold to, as tests that a plugin's own tests inherit."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from ..runtime import Kernel
from ..supervisor import left_behind
from .blocking import LoopWatch
from .clock import SteppedClock
from .crashes import CrashPoints
from .faults import FaultyStorage
from .leaks import LeakGuard
from .sessions import unless
from .swaps import adopt, retire
from .timers import timers
from .workbench import Workbench, named

_SECONDS = 10.0
_START_SECONDS = 1.0
_END_SECONDS = 2.0
_QUIET_SECONDS = 0.4
_WRONG_SECONDS = 0.4  # in which what should not happen would
_EARLY = 0.9  # of its interval
_STEP = 0.02
_MANY = 5
_PAUSE = 0.03  # in which two servers have read the same, and neither has written


class ServiceContract:
    """Tests for one service, run by real servers whose clock the test holds.

    A subclass makes the plugin, gives the service work, and tells what became of it. What is owed and what is done
    lie outside of the plugin's memory, for each start gets a new one::

        class TestReminders(ServiceContract):
            service_name = "reminders"
            interval = 60.0

            def plugins(self):
                return [Reminders()]

            async def owe(self, halo, key):
                await remind(halo.kernel.host, key, after=60)

            async def done(self, halo):
                return [key for key in Path(halo.folder, "reminded").read_text().split()]

    `interval` is the time on the kernel's clock after which what is owed has to be done, 0 for at once. With
    `can_fail`, `fail_next` makes the next piece of work fail once. Without `once`, two servers may do one piece twice,
    and so may one that a crash cut.
    """

    service_name: str
    interval: float = 0.0
    once: bool = True
    can_fail: bool = False

    def plugins(self) -> Sequence[object]:
        """Return the plugin, and others that it needs, new with each call."""
        raise NotImplementedError("make the plugin of the service")

    @pytest.fixture
    def service_env(self) -> Mapping[str, str]:
        """The environment that the service's plugin reads its settings from."""
        return {}

    async def prepare(self, halo: Workbench) -> None:
        """Make what the service needs, in the kernel that is about to work."""

    async def owe(self, halo: Workbench, key: str) -> None:
        """Give the service a piece of work, by the kernel that runs; it is durable on return."""
        raise NotImplementedError("say how the service gets its work")

    async def done(self, halo: Workbench) -> Sequence[str]:
        """Return the keys of the pieces that are done, each as often as it was done."""
        raise NotImplementedError("say what has been done")

    def fail_next(self) -> None:
        """Make the next piece of work fail once, in whichever plugin does it."""
        raise NotImplementedError("say how the next piece of work fails")

    async def begin(self, halo: Workbench, env: Mapping[str, str]) -> Kernel:
        """Start a kernel with a new plugin, which does not work yet: what a server's restart does."""
        await halo.close()
        halo.folder.mkdir(parents=True, exist_ok=True)
        halo.plugins = named(self.plugins())
        kernel = await halo.start(env=env)
        await self.prepare(halo)
        return kernel

    async def serve(self, halo: Workbench, env: Mapping[str, str]) -> str:
        """Start a server with a new plugin, and return the plugin's name."""
        kernel = await self.begin(halo, env)
        await kernel.work()
        found = self.running()
        assert found, f"no service {self.service_name} runs; there are: {', '.join(_tasks()) or 'none'} (see the log)"
        return found[0].removesuffix(f": {self.service_name}")

    def running(self) -> list[str]:
        """Return the names of the service's tasks that run."""
        return [name for name in _tasks() if name.endswith(f": {self.service_name}")]

    async def until_done(self, halo: Workbench, clock: SteppedClock, *keys: str) -> None:
        """Let time pass until pieces of work are done."""
        done = await self.done_in(halo, clock, _SECONDS, *keys)
        lost = ", ".join(sorted(set(keys) - set(done)))
        assert not lost, f"{lost} was owed, and is not done after {_SECONDS:g} s; done: {', '.join(done) or 'none'}"

    async def done_in(self, halo: Workbench, clock: SteppedClock, seconds: float, *keys: str) -> Sequence[str]:
        """Let time pass until pieces of work are done, for so many seconds at most, and return what is done."""
        done: Sequence[str] = ()
        end = time.monotonic() + seconds
        while not set(keys) <= set(done) and time.monotonic() < end:
            clock.advance(self.interval or 1.0)
            await asyncio.sleep(_STEP)
            done = await self.done(halo)
        return done

    async def counted(self, halo: Workbench, clock: SteppedClock, **counts: int) -> None:
        """See that pieces of work were done so often, and are not done again as time passes."""
        for _ in range(3):
            clock.advance(self.interval or 1.0)
            await asyncio.sleep(_QUIET_SECONDS / 3)
        done = list(await self.done(halo))
        for key, count in counts.items():
            assert done.count(key) == count, f"{key} was to be done {count} times, and was {done.count(key)} times"

    @pytest.fixture
    def clock(self) -> SteppedClock:
        """The clock of the kernels, which the test holds."""
        return SteppedClock()

    @pytest.fixture
    def server(self, halo: Workbench, clock: SteppedClock) -> Workbench:
        """The workbench, by the test's clock."""
        return self.another(halo, clock)

    def another(self, halo: Workbench, clock: SteppedClock, *, pause: float = 0.0) -> Workbench:
        """Return one more workbench on the same home and workspace, whose readers wait for `pause` seconds."""
        storage = FaultyStorage(pause=pause)
        return Workbench(halo.home.parent, model=halo.model, clock=clock, storage=storage, workspace=halo.folder)

    @asynccontextmanager
    async def closing(self, *servers: Workbench) -> AsyncGenerator[None]:
        """Close the servers at the end."""
        try:
            yield
        finally:
            for server in servers:
                await server.close()

    @pytest.mark.asyncio
    async def test_it_starts_with_the_server(
        self, server: Workbench, clock: SteppedClock, service_env: Mapping[str, str]
    ) -> None:
        """It works only once the server does, not in a kernel of a command, and its start holds nobody up."""
        async with self.closing(server):
            kernel = await self.begin(server, service_env)
            await self.owe(server, "a")
            done = await self.done_in(server, clock, _WRONG_SECONDS, "a")
            assert not done, "it works in a kernel that does not serve: begin in `Service.run`"
            began = time.monotonic()
            await kernel.work()
            took = time.monotonic() - began
            assert took < _START_SECONDS, f"the server's start took {took:.1f} s: `provide_services` has to be fast"
            await self.until_done(server, clock, "a")
            assert len(self.running()) == 1, f"after its work, {len(self.running())} tasks of the service run"

    @pytest.mark.asyncio
    async def test_it_does_what_is_owed(
        self, server: Workbench, clock: SteppedClock, service_env: Mapping[str, str]
    ) -> None:
        """Each piece of work is done, once, and no step of it blocks the event loop."""
        async with self.closing(server):
            await self.serve(server, service_env)
            keys = [f"w{number}" for number in range(_MANY)]
            with LoopWatch() as watch:
                for key in keys:
                    await self.owe(server, key)
                await self.until_done(server, clock, *keys)
                await self.counted(server, clock, **dict.fromkeys(keys, 1))
            assert not watch.blocks, "\n".join(map(str, watch.blocks))

    @pytest.mark.asyncio
    async def test_it_keeps_the_kernels_time(
        self, server: Workbench, clock: SteppedClock, service_env: Mapping[str, str]
    ) -> None:
        """Nothing is done before its time on the kernel's clock, and all soon after it, by whatever other clock."""
        if not self.interval:
            pytest.skip("what it does is done at once: `interval` is 0")
        async with self.closing(server):
            await self.serve(server, service_env)
            await asyncio.sleep(_QUIET_SECONDS)
            await self.owe(server, "a")
            await unless(lambda: self.done(server), _WRONG_SECONDS)
            assert not await self.done(server), "it was done while the kernel's clock stood still"
            clock.advance(_EARLY * self.interval)
            await unless(lambda: self.done(server), _WRONG_SECONDS)
            assert not await self.done(server), f"it was done after {_EARLY * self.interval:g} s of {self.interval:g} s"
            clock.advance((1 - _EARLY) * self.interval + 1.0)
            await asyncio.sleep(_QUIET_SECONDS)
            is_done = False
            for _ in range(int(_SECONDS / _STEP)):
                if is_done := bool(await self.done(server)):
                    break
                await asyncio.sleep(_STEP)
            assert is_done, "its time has come on the kernel's clock, and it is not done: wait by `host.clock.sleep`"

    @pytest.mark.asyncio
    @pytest.mark.parametrize("busy", [False, True], ids=["idle", "busy"])
    async def test_a_stop_leaves_nothing(
        self, server: Workbench, clock: SteppedClock, service_env: Mapping[str, str], busy: bool
    ) -> None:
        """It ends within two seconds of its cancel, in its work too, and leaves nothing that runs, waits or is open."""
        guard, ticking = LeakGuard(), timers()
        async with self.closing(server):
            name = await self.serve(server, service_env)
            await self.owe(server, "a")
            await self.until_done(server, clock, "a")
            if busy:
                await self.owe(server, "b")
                clock.advance(2 * self.interval)
                await asyncio.sleep(0)
            tasks = [each for each in asyncio.all_tasks() if each.get_name() == f"{name}: {self.service_name}"]
            for task in tasks:
                task.cancel()
            _, late = await asyncio.wait(tasks, timeout=_END_SECONDS)
            assert not late, f"it went on for {_END_SECONDS:g} s after its cancel"
        deaf = [task.get_name() for task in left_behind if task.get_name().startswith(f"{name}: ")]
        assert not deaf, f"the server ended without waiting any longer for {', '.join(deaf)}"
        left = [*await guard.left(), *(told for handle, told in timers().items() if handle not in ticking)]
        assert not left, "it has ended and left behind: " + "; ".join(left)

    @pytest.mark.asyncio
    async def test_a_failure_is_told_and_survived(
        self, server: Workbench, clock: SteppedClock, service_env: Mapping[str, str]
    ) -> None:
        """Work that fails is in the log with the plugin's name and done later; the service and the server go on."""
        if not self.can_fail:
            pytest.skip("no piece of work is known to fail: `can_fail` is not set")
        async with self.closing(server):
            name = await self.serve(server, service_env)
            with _logged() as records:
                self.fail_next()
                await self.owe(server, "a")
                clock.advance(self.interval or 1.0)
                await asyncio.sleep(_QUIET_SECONDS)
                await self.owe(server, "b")
                await self.until_done(server, clock, "b")
                await self.until_done(server, clock, "a")
            assert self.running(), "a piece of work failed, and the service has ended"
            told = [record for record in records if name in f"{record.name} {record.msg}"]
            assert told, f"a piece of work failed, and no warning or error in the log names the plugin {name}"
            assert server.kernel and not server.kernel.stopping.is_set(), "a piece of work failed, and the server ends"
            assert (await server.ask("are you there?")).text, "a piece of work failed, and the server answers nobody"
            await self.counted(server, clock, a=1, b=1)

    @pytest.mark.asyncio
    @pytest.mark.parametrize("how", ["restart", "reload"])
    async def test_it_starts_again(
        self, server: Workbench, clock: SteppedClock, service_env: Mapping[str, str], how: str
    ) -> None:
        """After a restart or a reload it does what was owed before and meanwhile, and nothing that was done again."""
        async with self.closing(server):
            name = await self.serve(server, service_env)
            await self.owe(server, "a")
            await self.until_done(server, clock, "a")
            await self.owe(server, "b")
            if how == "restart":
                await self.serve(server, service_env)
            else:
                await self.reload(server, name)
            await self.owe(server, "c")
            await self.until_done(server, clock, "b", "c")
            await self.counted(server, clock, a=1, b=1, c=1)

    async def reload(self, server: Workbench, name: str) -> None:
        """Swap the plugin for a new one in the kernel that runs."""
        assert server.kernel
        await retire(server.kernel, name)
        assert not self.running(), "its plugin is unloaded, and the service goes on"
        await adopt(server.kernel, name, named(self.plugins())[name])
        await asyncio.sleep(0)
        assert len(self.running()) == 1, f"its plugin is reloaded, and {len(self.running())} tasks of the service run"

    @pytest.mark.asyncio
    async def test_two_servers_do_it_once(
        self, halo: Workbench, clock: SteppedClock, service_env: Mapping[str, str]
    ) -> None:
        """Two servers on one home do each piece of work once between them; when one ends, the other does the rest."""
        if not self.once:
            pytest.skip("it does not promise that: `once` is not set")
        server, second = (self.another(halo, clock, pause=_PAUSE) for _ in range(2))
        async with self.closing(second, server):
            await self.serve(server, service_env)
            await self.serve(second, service_env)
            await asyncio.sleep(_QUIET_SECONDS)
            keys = [f"w{number}" for number in range(_MANY)]
            for key in keys:
                await self.owe(server, key)
            await self.until_done(server, clock, *keys)
            await self.counted(server, clock, **dict.fromkeys(keys, 1))
            await self.owe(server, "last")
            await server.close()
            await self.until_done(second, clock, "last")
            await self.counted(second, clock, **dict.fromkeys([*keys, "last"], 1))

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork, and a crash needs that")
    def test_a_crash_loses_nothing(self, tmp_path: Path, service_env: Mapping[str, str]) -> None:
        """Killed before or after any commit from its order on, what was owed is done after the next start, and once."""
        clocks: list[SteppedClock] = []

        def clock() -> SteppedClock:
            clocks.append(SteppedClock())
            return clocks[-1]

        async def begin(halo: Workbench) -> None:
            await self.serve(halo, service_env)

        async def work(halo: Workbench) -> None:
            await self.owe(halo, "a")
            Path(halo.home, "owed").touch()
            await self.until_done(halo, clocks[-1], "a")

        async def check(halo: Workbench) -> None:
            await self.serve(halo, service_env)
            is_owed = Path(halo.home, "owed").exists()
            if is_owed:
                try:
                    await self.until_done(halo, clocks[-1], "a")
                except AssertionError as error:
                    raise AssertionError(f"what was owed was lost: {error}") from None
            for _ in range(3):
                clocks[-1].advance(self.interval or 1.0)
                await asyncio.sleep(_STEP)
            count = list(await self.done(halo)).count("a")
            assert count <= 1 or not self.once, f"what was owed once was done {count} times"

        points = CrashPoints(tmp_path, clock=clock)(work, check, begin=begin)
        assert points, "neither the order of work nor the work itself is written by a commit"


def _tasks() -> list[str]:
    return sorted(name for each in asyncio.all_tasks() if ": " in (name := each.get_name()))


@contextmanager
def _logged() -> Generator[list[logging.LogRecord]]:
    """Collect what is logged as a warning or worse."""
    records: list[logging.LogRecord] = []

    class Collecting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    collecting = Collecting(logging.WARNING)
    logging.getLogger().addHandler(collecting)
    try:
        yield records
    finally:
        logging.getLogger().removeHandler(collecting)
