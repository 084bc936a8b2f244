"""Calling plugins from plain and from asyncio code: five verbs, each with its own rule for order, time and failure.

collect (`collect`, `gather`, `gather_all`)  all are asked; a failing plugin's part is missing
notify (`notify`, `tell`)                    all are told; a failure changes nothing
first                                        in order to the first answer; a failure fails the question
guard                                        all are asked; a failure is a denial
fold                                         one after the other; a failing plugin's change is left out
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast

import pluggy

from .answers import Spec, WrongAnswer, checked, result_type, spec_function
from .errors import HaloError, PluginFailed
from .log import logger
from .records import Denial, PreparedInput

P = ParamSpec("P")
T = TypeVar("T")

BUDGET = 5.0
TELL_BUDGET = 10.0
GRACE = 0.1
QUEUE = 256
CLOSE_BUDGET = 1.0


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """What came of a piece of work: its value, or the error it raised."""

    value: T | None = None
    error: BaseException | None = None


def in_daemon_thread(name: str, work: Callable[[], T]) -> Future[Outcome[T]]:
    """Run `work` in a thread that nobody has to wait for; whatever it raises, `SystemExit` too, is in the outcome."""
    future: Future[Outcome[T]] = Future()
    context = contextvars.copy_context()

    def run() -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            outcome = Outcome(value=context.run(work))
        except BaseException as error:
            outcome = Outcome[T](error=error)
        future.set_result(outcome)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future


class _Fault(Exception):
    """What a plugin did wrong without raising, as a sentence."""


@dataclass(frozen=True, kw_only=True)
class _Call:
    """One plugin's implementation of a hook, with its arguments. `turn` orders those that are asked one by one."""

    plugin: str
    spec: Spec
    hook: str
    turn: tuple[int, str]
    function: Callable[..., object]
    arguments: Mapping[str, object]
    context: contextvars.Context = field(default_factory=contextvars.copy_context)

    @property
    def name(self) -> str:
        return f"{self.plugin}.{self.hook}"

    def provide(self) -> object:
        """Call a plain implementation and list what it provides."""
        return checked(self.function(**self.arguments), result_type(self.spec))

    async def answer(self) -> object:
        """Call an asynchronous implementation and check what it answers."""
        try:
            answer = await cast("Coroutine[Any, Any, object]", self.function(**self.arguments))
        except SystemExit as quitting:  # asyncio would pass it on and end the loop
            raise _Fault(f"it called sys.exit({quitting.code})") from quitting
        return checked(answer, result_type(self.spec))

    def failed(self, cause: BaseException) -> PluginFailed:
        """Return the failure that tells about `cause`."""
        said = isinstance(cause, HaloError | WrongAnswer | _Fault)
        text = str(cause) if said else f"{type(cause).__name__}: {cause}"
        failure = PluginFailed(
            f"plugin '{self.plugin}' failed in {self.hook}: " + text.strip().partition("\n")[0],
            plugin=self.plugin,
            hook=self.hook,
            advice=cause.advice if isinstance(cause, HaloError) else "",
        )
        failure.__cause__ = cause
        return failure

    def late(self, limit: float) -> PluginFailed:
        """Return the failure of a plugin that did not answer in time."""
        return self.failed(_Fault(f"it gave no answer within {limit:g} s"))


class _Mailbox:
    """One plugin's notifications, delivered one at a time by a task of its own."""

    def __init__(self, plugin: str, deliver: Callable[[_Call], Coroutine[Any, Any, None]]) -> None:
        self.dropped = 0
        self._queue: asyncio.Queue[_Call] = asyncio.Queue(QUEUE)
        self._deliver = deliver
        self._task = asyncio.create_task(self._run(), name=f"{plugin}.notifications", context=contextvars.Context())

    def put(self, call: _Call) -> bool:
        """Take a notification, or count it as dropped and return False when too many wait."""
        try:
            self._queue.put_nowait(call)
        except asyncio.QueueFull:
            self.dropped += 1
            return False
        return True

    async def _run(self) -> None:
        while True:
            call = await self._queue.get()
            try:
                await self._deliver(call)
            finally:
                self._queue.task_done()

    async def close(self, limit: float) -> None:
        """Deliver what waits, within `limit` seconds, and end."""
        drained = asyncio.create_task(self._queue.join())
        await asyncio.wait({drained, self._task}, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        drained.cancel()
        self._task.cancel()
        await asyncio.wait({self._task}, timeout=GRACE)


class Hooks:
    """Calls the hooks of the plugins in `manager`; every failure is logged and handed to `on_failure`.

    `budget` is what one call may take, in seconds. With `strict`, a failure that would be left out is raised as well.
    """

    def __init__(
        self,
        manager: pluggy.PluginManager,
        *,
        on_failure: Callable[[PluginFailed], None],
        strict: bool = False,
        budget: float = BUDGET,
    ) -> None:
        self._manager = manager
        self._on_failure = on_failure
        self._strict = strict
        self._budget = budget
        self._log = logger("hooks")
        self._mail: dict[str, _Mailbox] = {}
        self._left: set[asyncio.Task[object]] = set()
        self._closed = False

    @property
    def left_behind(self) -> Sequence[str]:
        """Names, `<plugin>.<hook>`, of calls that were cancelled and did not end."""
        return sorted(task.get_name() for task in self._left)

    @property
    def dropped(self) -> Mapping[str, int]:
        """How many notifications each plugin missed because it was too slow."""
        return {plugin: box.dropped for plugin, box in self._mail.items() if box.dropped}

    # collect

    def collect(self, spec: Callable[P, Iterable[T]], *args: P.args, **kwargs: P.kwargs) -> list[tuple[str, T]]:
        """Return what all plugins provide, with the plugin's name, ordered by it. Blocks; for code outside the loop."""
        found: list[tuple[str, object]] = []
        for call in self._calls(spec, args, kwargs):
            try:
                outcome = in_daemon_thread(call.name, call.provide).result(self._budget)
            except TimeoutError:
                self._blame([call.late(self._budget)])
                continue
            if outcome.error is not None:
                self._blame([call.failed(outcome.error)])
            found.extend((call.plugin, item) for item in cast("list[object]", outcome.value or []))
        return cast("list[tuple[str, T]]", found)

    async def gather(
        self,
        spec: Callable[P, Iterable[T]] | Callable[P, Coroutine[Any, Any, Iterable[T]]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> list[tuple[str, T]]:
        """Return what all plugins provide, as `collect` does, without blocking the loop."""
        found, failures = await self._gather(spec, args, kwargs)
        self._blame(failures)
        return cast("list[tuple[str, T]]", found)

    async def gather_all(
        self,
        spec: Callable[P, Iterable[T]] | Callable[P, Coroutine[Any, Any, Iterable[T]]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> list[tuple[str, T]]:
        """Return what all plugins provide, or raise the first `PluginFailed` once all have been asked."""
        found, failures = await self._gather(spec, args, kwargs)
        for failure in failures:
            self._report(failure)
        if failures:
            raise failures[0]
        return cast("list[tuple[str, T]]", found)

    async def _gather(
        self, spec: Spec, args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> tuple[list[tuple[str, object]], list[PluginFailed]]:
        found: list[tuple[str, object]] = []
        failures: list[PluginFailed] = []
        calls = self._calls(spec, args, kwargs)
        for call, answer in zip(calls, await self._ask_all(calls, self._budget), strict=True):
            if isinstance(answer, PluginFailed):
                failures.append(answer)
            else:
                found.extend((call.plugin, item) for item in cast("list[object]", answer))
        return found, failures

    # notify

    def notify(self, spec: Callable[P, Coroutine[Any, Any, None]], *args: P.args, **kwargs: P.kwargs) -> None:
        """Tell all plugins, later and in order for each; nobody waits. A plugin that is too slow misses some."""
        for call in self._calls(spec, args, kwargs):
            if self._closed or _is_echo(call):
                continue
            box = self._mail.get(call.plugin)
            if box is None:
                box = self._mail[call.plugin] = _Mailbox(call.plugin, self._deliver)
            if not box.put(call) and box.dropped == 1:
                self._log.warning("a plugin is too slow and misses notifications", plugin=call.plugin, hook=call.hook)

    async def _deliver(self, call: _Call) -> None:
        answer = await self._try(call, self._budget)
        if isinstance(answer, PluginFailed):
            self._report(answer)

    async def tell(self, spec: Callable[P, Coroutine[Any, Any, None]], *args: P.args, **kwargs: P.kwargs) -> None:
        """Tell all plugins at once and wait for them, 10 s in all; failures are reported, never raised."""
        answers = await self._ask_all(self._calls(spec, args, kwargs), TELL_BUDGET)
        self._blame([answer for answer in answers if isinstance(answer, PluginFailed)])

    # first, guard, fold

    async def first(
        self, spec: Callable[P, Coroutine[Any, Any, T | None]], *args: P.args, **kwargs: P.kwargs
    ) -> T | None:
        """Ask plugins in order until one answers. Raises `PluginFailed`, or the `HaloError` that a plugin raised."""
        for call in sorted(self._calls(spec, args, kwargs), key=lambda each: each.turn):
            answer = await self._try(call, self._budget)
            if isinstance(answer, PluginFailed):
                raise self._verdict(answer)
            if answer is not None:
                return cast("T", answer)
        return None

    def _verdict(self, failure: PluginFailed) -> HaloError:
        """Return what a failed question raises: a plugin's own typed refusal is an answer, all else its failure."""
        if isinstance(failure.__cause__, HaloError):
            return failure.__cause__
        self._report(failure)
        return failure

    async def guard(
        self, spec: Callable[P, Coroutine[Any, Any, Denial | None]], *args: P.args, **kwargs: P.kwargs
    ) -> Denial | None:
        """Ask all plugins; return the first denial by plugin name, else a failure as one, else None."""
        answers = await self._ask_all(self._calls(spec, args, kwargs), self._budget)
        failures = [answer for answer in answers if isinstance(answer, PluginFailed)]
        self._blame(failures)
        denials = [answer for answer in answers if isinstance(answer, Denial)]
        denials += [Denial(f"refused because {failure.message}") for failure in failures]
        return denials[0] if denials else None

    async def fold(
        self, spec: Callable[Concatenate[T, P], Coroutine[Any, Any, T]], value: T, *args: P.args, **kwargs: P.kwargs
    ) -> tuple[T, list[PluginFailed]]:
        """Pass `value` through all plugins by name; return it with the failures, whose changes are left out."""
        failures: list[PluginFailed] = []
        for call in self._calls(spec, (value, *args), kwargs):
            answer = await self._try(_with_first(call, value), self._budget)
            broken = "" if isinstance(answer, PluginFailed) else _broken_rule(call, value, answer)
            if broken:
                answer = call.failed(_Fault(broken))
            if isinstance(answer, PluginFailed):
                failures.append(answer)
            else:
                value = cast("T", answer)
        self._blame(failures)
        return value, failures

    async def close(self) -> None:
        """Deliver waiting notifications for up to a second and end; calls still left behind are named in the log."""
        self._closed = True
        await asyncio.gather(*(box.close(CLOSE_BUDGET) for box in self._mail.values()))
        if self._left:
            self._log.warning("plugin calls did not end when cancelled", calls=self.left_behind)

    # one call

    def _calls(self, spec: Spec, args: tuple[object, ...], kwargs: Mapping[str, object]) -> list[_Call]:
        hook = spec_function(spec).__name__
        caller: pluggy.HookCaller = getattr(self._manager.hook, hook)
        given = {**dict(zip(_parameters(spec), args, strict=False)), **kwargs}
        calls = [
            _Call(
                plugin=each.plugin_name,
                spec=spec,
                hook=hook,
                turn=(each.trylast - each.tryfirst, each.plugin_name),
                function=each.function,
                arguments={name: given[name] for name in each.argnames},
            )
            for each in caller.get_hookimpls()
        ]
        return sorted(calls, key=lambda call: call.plugin)

    async def _ask_all(self, calls: Sequence[_Call], limit: float) -> list[object]:
        return await asyncio.gather(*(self._try(call, limit) for call in calls))

    async def _try(self, call: _Call, limit: float) -> object:
        """Return the call's answer, or its `PluginFailed`. Only the caller's own cancellation is raised."""
        if not inspect.iscoroutinefunction(call.spec):
            return await self._try_plain(call, limit)
        task: asyncio.Task[object] = asyncio.create_task(call.answer(), name=call.name, context=call.context)
        try:
            await asyncio.wait({task}, timeout=limit)
        except asyncio.CancelledError:
            self._leave(task)
            raise
        if not task.done():
            self._leave(task)
            await asyncio.wait({task}, timeout=GRACE)
            return call.late(limit)
        if task.cancelled():
            return call.failed(_Fault("it cancelled itself"))
        error = task.exception()
        return task.result() if error is None else call.failed(error)

    async def _try_plain(self, call: _Call, limit: float) -> object:
        waiting = asyncio.wrap_future(in_daemon_thread(call.name, call.provide))
        await asyncio.wait({waiting}, timeout=limit)
        if not waiting.done():
            return call.late(limit)
        outcome = waiting.result()
        return outcome.value if outcome.error is None else call.failed(outcome.error)

    def _leave(self, task: asyncio.Task[object]) -> None:
        """Cancel a task that nobody waits for any longer, and remember it for as long as it lives."""
        self._left.add(task)
        task.add_done_callback(self._ended)
        task.cancel()

    def _ended(self, task: asyncio.Task[object]) -> None:
        self._left.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not log it

    # failures

    def _report(self, failure: PluginFailed) -> None:
        self._log.warning(failure.message, plugin=failure.plugin, hook=failure.hook, exc_info=failure.__cause__)
        try:
            self._on_failure(failure)
        except Exception:
            self._log.exception("reporting a plugin's failure failed", plugin=failure.plugin)

    def _blame(self, failures: Sequence[PluginFailed]) -> None:
        for failure in failures:
            self._report(failure)
        if failures and self._strict:
            raise failures[0]


@cache
def _parameters(spec: Spec) -> tuple[str, ...]:
    return tuple(inspect.signature(spec).parameters)


def _is_echo(call: _Call) -> bool:
    """Tell whether this reports the failure of a report, which would go on for ever."""
    failure = call.arguments.get("failure")
    return isinstance(failure, PluginFailed) and failure.hook == call.hook


def _with_first(call: _Call, value: object) -> _Call:
    """Return the call with the folded value as the hook's first argument, if this plugin takes it."""
    name = _parameters(call.spec)[0]
    return replace(call, arguments={**call.arguments, name: value}) if name in call.arguments else call


def _broken_rule(call: _Call, before: object, after: object) -> str:
    """Return what a fold broke: a batch of inputs keeps its rows and their order."""
    if call.hook != "prepare_input":
        return ""
    rows = [each.row for each in cast("Sequence[PreparedInput]", before)]
    kept = [each.row for each in cast("Sequence[PreparedInput]", after)]
    return "" if rows == kept else f"it must keep the rows {rows} in their order and answered {kept}"
