"""Inbox, sessions and outbox together, under any order of what people, agents, targets and crashes do."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import Phase, given, note
from hypothesis import strategies as st

from .amount import SECONDS, amount
from .promises import check_everything
from .world import GUARANTEES, Halt, Said, World

pytestmark = pytest.mark.timeout(SECONDS)

MEMORY = Path("/dev/shm")  # where it is there: nobody looks at what a power cut leaves
AT = st.integers(0, 9)
HALTS = st.sampled_from(["stop", "interrupt", "archive", "delete"])
SAID = st.builds(
    Said,
    key=st.sampled_from([None, None, "a", "b"]),
    mode=st.sampled_from(["steer", "follow_up", "interrupt_soft", "interrupt_hard"]),
    route=st.sampled_from(["", "", *(f"{kind}:a:{chat}" for kind in GUARANTEES for chat in "xy")]),
    points=st.sampled_from([False, False, True]),
    held=st.booleans(),
)


class Steps:
    """What can be done to a world; a session is named by its number among those that are alive."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._crashes = 0

    async def _one(self, number: int) -> str:
        if not self.world.alive:
            await self.world.begin()
        return self.world.alive[number % len(self.world.alive)]

    async def make(self, at: int, how: str) -> None:
        """Make a session, a child or a copy."""
        await self.world.begin(None if how == "create" else await self._one(at), how=how)

    async def say(self, says: Sequence[tuple[int, Said, int]]) -> None:
        """Send messages, with milliseconds in between."""
        for at, said, pause in says:
            await self.world.say(await self._one(at), said)
            await asyncio.sleep(pause / 1000)

    async def cancel(self, number: int) -> None:
        """Withdraw a message."""
        await self.world.cancel(number)

    async def halt(self, at: int, how: Halt) -> None:
        """Interrupt, stop, archive or delete."""
        await self.world.halt(await self._one(at), how)

    async def compact(self, at: int) -> None:
        """Shorten a past."""
        await self.world.compact(await self._one(at))

    async def keep_folds(self, at: int) -> None:
        """Keep what a journal comes to."""
        await self.world.keep_folds(await self._one(at))

    async def answer(self, approved: bool) -> None:
        """Answer all questions."""
        await self.world.answer(approved)

    async def retry(self) -> None:
        """Send again what did not arrive."""
        await self.world.retry()

    async def advance(self, seconds: int, pause: int) -> None:
        """Let time pass, in the world and here."""
        self.world.advance(seconds)
        await asyncio.sleep(pause / 1000)

    async def restart(self) -> None:
        """Stop and start the server."""
        await self.world.end()
        await self.world.start()

    async def halt_and_crash(self, at: int, how: Halt, commits: int) -> None:
        """Halt a session in a process that dies."""
        await self.world.crash(self.world.halt(await self._one(at), how), commits=commits)

    async def say_and_crash(self, says: Sequence[tuple[int, Said]], commits: int) -> None:
        """Say something to a process that dies, and all of it again, with its key, to the next one."""
        self._crashes += 1
        keys = (f"c{self._crashes}.{number}" for number in range(len(says)))
        named = [(await self._one(at), said._replace(key=key)) for (at, said), key in zip(says, keys, strict=True)]

        async def say() -> None:
            await asyncio.gather(*(self.world.say(name, said) for name, said in named))

        await self.world.crash(say(), commits=commits)
        await say()

    async def rest(self) -> None:
        """Have everything come to rest, and see what was promised."""
        await self.world.rest()
        await check_everything(self.world)


class Do(NamedTuple):
    """A step and its arguments."""

    what: str
    how: dict[str, Any]


def _do(step: Callable[..., Awaitable[None]], **how: st.SearchStrategy[Any]) -> st.SearchStrategy[Do]:
    return st.fixed_dictionaries(how).map(lambda drawn: Do(step.__name__, drawn))


_SAY = _do(Steps.say, says=st.lists(st.tuples(AT, SAID, st.integers(0, 4)), min_size=1, max_size=5))
STEP = st.one_of(
    *[_SAY] * 4,  # so that most of what is done is done to something
    _do(Steps.make, at=AT, how=st.sampled_from(["create", "child", "fork"])),
    _do(Steps.cancel, number=AT),
    *[_do(Steps.halt, at=AT, how=HALTS)] * 2,
    _do(Steps.compact, at=AT),
    _do(Steps.keep_folds, at=AT),
    _do(Steps.answer, approved=st.booleans()),
    _do(Steps.retry),
    _do(Steps.advance, seconds=st.sampled_from([0, 1, 60, 4000, 90_000]), pause=st.integers(2, 20)),
    _do(Steps.restart),
    _do(Steps.halt_and_crash, at=AT, how=HALTS, commits=st.integers(0, 9)),
    *[_do(Steps.say_and_crash, says=st.lists(st.tuples(AT, SAID), max_size=3), commits=st.integers(0, 30))] * 2,
    _do(Steps.rest),
)


async def live(folder: Path, seed: int, todo: Sequence[Do]) -> None:
    """Do all steps to a new world, then let it rest."""
    steps = Steps(World(folder, random.Random(seed)))
    await steps.world.start()
    for how in ("create", "create", "child"):
        await steps.make(0, how)
    for do in [*todo, Do("rest", {}), Do("restart", {}), Do("rest", {})]:
        await getattr(steps, do.what)(**do.how)
    await steps.world.end()


# What fails once need not fail again, for threads are in it: so there is nothing to make smaller.
@amount(50, phases=(Phase.explicit, Phase.generate))
@given(seed=st.integers(0, 1 << 16), todo=st.lists(STEP, min_size=5, max_size=30))
def test_what_is_promised_holds_whatever_happens(seed: int, todo: list[Do]) -> None:
    """Nothing acknowledged is lost, nothing arrives twice, every session opens, all that is owed is settled."""
    note(f"{seed=}, {todo=}")
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None, ignore_cleanup_errors=True) as folder:
        asyncio.run(live(Path(folder), seed, todo))
