"""Coroutines that block the event loop, found by a thread that listens for its heartbeat."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType, TracebackType

from .places import current_frames, frames_of, place_of, told

LIMIT = 0.25
_TICK = 0.025
_DEBUGGERS = ("pdb.py", "bdb.py")


@dataclass(frozen=True, kw_only=True)
class Block:
    """One step of a task that kept the loop for `seconds`: the task's name, and the stack in it, innermost last."""

    seconds: float
    task: str
    place: str
    stack: tuple[str, ...]

    def __str__(self) -> str:
        lines = "".join(f"\n    {line}" for line in self.stack)
        return f"task {self.task!r} blocked the event loop for {self.seconds:.2f} s at {self.place}{lines}"


class LoopWatch:
    """Between `with` and its end, `blocks` gets every step of the running loop that lasts longer than `limit` seconds.

    Time that the machine did not give to the loop's thread is not counted. It names; it cannot end what blocks.
    """

    def __init__(self, *, limit: float = LIMIT) -> None:
        self.limit = limit
        self.blocks: list[Block] = []
        self._over = threading.Event()
        self._paused = 0

    def __enter__(self) -> LoopWatch:
        self._loop = asyncio.get_running_loop()
        self._ident = threading.get_ident()
        self._schedule = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        self._thread = threading.Thread(target=self._watch, name="halo-loop-watch", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    @contextmanager
    def paused(self) -> Generator[None]:
        """Let the loop block within; for what happens before a server serves."""
        self._paused += 1
        try:
            yield
        finally:
            self._paused -= 1

    def _watch(self) -> None:
        while not self._over.is_set():
            beat = threading.Event()
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(beat.set)
            self._await(beat)
            self._over.wait(_TICK)

    def _await(self, beat: threading.Event) -> None:
        """Wait for a beat. A tick counts as two at most, however late this thread wakes: then the machine was slow."""
        step, waited, starved, block = None, 0.0, 0.0, None
        last = time.monotonic()
        while not beat.wait(_TICK) and not self._over.is_set():
            frames = [] if self._paused else _step(current_frames().get(self._ident))
            if not frames or frames[-1] is not step:
                self.blocks += [block] if block else []
                step, waited, starved, block = frames[-1] if frames else None, 0.0, self._starved(), None
            now = time.monotonic()
            waited += min(now - last, 2 * _TICK)
            last = now
            seconds = waited - (self._starved() - starved)
            if frames and seconds >= self.limit:
                block = replace(block, seconds=seconds) if block else self._look(seconds, frames)
        self.blocks += [block] if block else []

    def _starved(self) -> float:
        """Return for how many seconds the loop's thread has been ready to run without getting a processor."""
        try:
            return int(self._schedule.read_text().split()[1]) / 1e9
        except (OSError, IndexError, ValueError):
            return 0.0

    def _look(self, seconds: float, frames: Sequence[FrameType]) -> Block | None:
        if any(each.f_code.co_filename.endswith(_DEBUGGERS) for each in frames):
            return None
        task = asyncio.current_task(self._loop)
        return Block(
            seconds=seconds,
            task=task.get_name() if task else "none",
            place=place_of(frames),
            stack=tuple(told(each) for each in reversed(frames)),
        )


def _step(frame: FrameType | None) -> list[FrameType]:
    """Return the frames of the callback that the loop runs, innermost first; none while it waits."""
    frames = frames_of(frame)
    for depth, each in enumerate(frames):
        if each.f_code.co_filename.endswith("events.py") and each.f_code.co_name == "_run":
            return frames[:depth]
    return []
