"""Work of others and its tasks: what fails harms nobody else, and nothing waits for the deaf."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from .contracts import Bell
from .log import logger

T = TypeVar("T")
Told = Callable[[Exception], object]

_END_SECONDS = 3.0
_FIRST_WAIT = 1.0
_LONGEST_WAIT = 60.0
left_behind: set[asyncio.Task[Any]] = set()  # cancelled, and not ended yet


async def contained(work: Awaitable[T]) -> T:
    """Await a plugin's work; `SystemExit` and its like, which would end the event loop, are its error."""
    try:
        return await work
    except (Exception, asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException as error:
        raise RuntimeError(f"it raised {error!r}") from error


async def end_task(task: asyncio.Task[Any], *, name: str, within: float) -> None:
    """Cancel a task that is not done and wait `within` seconds for it; a deaf one is left behind with a warning."""
    if not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=within)
    if not task.done():
        logger("supervisor").warning("left behind: it ignores its cancel", work=name)
        left_behind.add(task)
    task.add_done_callback(_forget)


async def given(method: Callable[..., Any], *args: object) -> Any:
    """Return what a plugin's method gives, at once or when it is awaited."""
    result = method(*args)
    return await result if inspect.isawaitable(result) else result


async def bounded(work: Awaitable[T], *, name: str, seconds: float, grace: float = 1.0) -> T:
    """Return what a plugin's work comes to within `seconds`; what is deaf to its cancel for `grace` is left behind.

    Raises `TimeoutError`, what `work` raises, and `RuntimeError` when it cancels itself.
    """
    task = asyncio.create_task(contained(work), name=name)
    try:
        await asyncio.wait({task}, timeout=seconds)
        if not task.done():
            raise TimeoutError(f"no answer within {seconds:g} s")
        if task.cancelled() or isinstance(task.exception(), GeneratorExit):
            raise RuntimeError("it cancelled itself")
        return task.result()
    finally:
        await end_task(task, name=name, within=grace)


async def at_bell(bell: Bell, work: Callable[[], Awaitable[float | None]]) -> None:
    """Do `work` now, and again whenever the bell rings or the seconds that it returned are over, until cancelled."""
    try:
        while True:
            seconds = await work()
            ringing = asyncio.ensure_future(bell.wait())
            await asyncio.wait({ringing}, timeout=seconds)
            await end_task(ringing, name="bell", within=1.0)
    finally:
        bell.close()


def _forget(task: asyncio.Task[Any]) -> None:
    left_behind.discard(task)
    if not task.cancelled():
        task.exception()  # retrieved, so that asyncio does not log it


def _ended(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger("supervisor").error("background task failed", task=task.get_name(), error=repr(error))


class Tasks(set[asyncio.Task[Any]]):
    """Tasks that have not ended."""

    def track(self, work: Coroutine[Any, Any, T], name: str | None = None) -> asyncio.Task[T]:
        """Run `work`; whoever waits for it has its error."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self.add(task)
        task.add_done_callback(self.discard)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task


class Supervisor:
    """Owns tasks nobody waits for."""

    def __init__(self) -> None:
        self._tasks = Tasks()

    def spawn(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run `work` as the task `name`."""
        task = self._tasks.track(work, name)
        task.add_done_callback(_ended)
        return task

    def keep(self, name: str, work: Callable[[], Awaitable[None]], failed: Told = repr) -> asyncio.Task[None]:
        """Run `work` as the task `name`, again whenever it `failed`, after a wait that doubles up to a minute."""

        async def kept() -> None:
            wait, clock = _FIRST_WAIT, asyncio.get_running_loop().time
            while True:
                began = clock()
                try:
                    await contained(work())
                    logger("supervisor").warning("a service has ended by itself", service=name)
                    return
                except Exception as error:
                    logger("supervisor").exception("a service failed and is started again", service=name, wait=wait)
                    failed(error)
                await asyncio.sleep(wait)
                wait = _FIRST_WAIT if clock() - began > 2 * _LONGEST_WAIT else min(2 * wait, _LONGEST_WAIT)

        return self.spawn(name, kept())

    async def close(self, prefix: str = "") -> None:
        """Cancel what runs under names that begin with `prefix`; what is deaf is left behind by name after 3 s."""
        which = [task for task in self._tasks if task.get_name().startswith(prefix)]
        ends = [end_task(task, name=task.get_name(), within=_END_SECONDS) for task in which]
        await asyncio.gather(*ends)
