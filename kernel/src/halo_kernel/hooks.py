"""Calling plugins: five verbs, each with its own rule for order, time and failure.

collect (`gather`)                all are asked; a failing plugin's part is missing
notify (`notify`, `tell`)         all are told; a failure changes nothing
first                             in order to the first answer; a failure fails the question
guard                             all are asked; a failure is a denial
fold                              one after the other; a failing plugin's change is left out
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cache
from types import NoneType, SimpleNamespace
from typing import Any, Concatenate, ParamSpec, TypeVar, cast, get_args, get_origin, get_type_hints

import pluggy

from . import contracts, errors, records
from .errors import HaloError, PluginFailed
from .log import logger
from .records import Denial, PreparedInput, Question
from .supervisor import bounded, end_task

P = ParamSpec("P")
T = TypeVar("T")
Spec = Callable[..., object]
Asked = Callable[P, Coroutine[Any, Any, T]]
Collected = Callable[P, Iterable[T]] | Asked[P, Iterable[T]]

BUDGET = 5.0
LONG_BUDGET = {"shrink_context": 3600.0}  # what asks a model
TELL_BUDGET = 10.0
GRACE = 0.1
QUEUE = 256
CLOSE_BUDGET = 1.0
_log = logger("hooks")


def in_daemon_thread(name: str, work: Callable[[], T]) -> Future[T]:
    """Run `work`, which raises nothing, in a thread that nobody has to wait for."""
    future, context = Future[T](), contextvars.copy_context()
    future.set_running_or_notify_cancel()
    threading.Thread(target=lambda: future.set_result(context.run(work)), name=name, daemon=True).start()
    return future


@cache
def _arguments(spec: Spec) -> tuple[str, ...]:
    """Return the names of a hook's arguments, in order."""
    return tuple(inspect.signature(spec).parameters)


_is_awaited = cache(inspect.iscoroutinefunction)


@dataclass(frozen=True)
class _Call:
    """One plugin's implementation of a hook, with its arguments. `place` orders those that are asked one by one."""

    plugin: str
    spec: Spec
    place: int
    function: Callable[..., Any]
    arguments: Mapping[str, object]
    context: contextvars.Context = field(default_factory=contextvars.copy_context)

    @property
    def name(self) -> str:
        """Who is called for what."""
        return f"{self.plugin}.{self.spec.__name__}"

    def begin(self) -> asyncio.Future[object]:
        """Start the implementation in a task, a plain one in a daemon thread."""
        if _is_awaited(self.spec):
            return asyncio.create_task(self.answer(), name=self.name, context=self.context)
        return asyncio.wrap_future(in_daemon_thread(self.name, self.provide))

    def provide(self) -> object:
        """Return what a plain implementation answers, or its `PluginFailed`."""
        try:
            return checked(self.function(**self.arguments), result_type(self.spec))
        except BaseException as error:
            return self.failed(error)

    async def answer(self) -> object:
        """Return what an asynchronous implementation answers, or its `PluginFailed`."""
        try:
            return checked(await self.function(**self.arguments), result_type(self.spec))
        except (asyncio.CancelledError, KeyboardInterrupt):
            raise
        except BaseException as error:  # SystemExit too, which would end the loop
            return self.failed(error)

    def failed(self, cause: BaseException | str) -> PluginFailed:
        """Return the failure that tells about `cause`."""
        hook, said = self.spec.__name__, isinstance(cause, str | HaloError | WrongAnswer)
        text = str(cause) if said else f"{type(cause).__name__}: {cause}"
        message = f"plugin '{self.plugin}' failed in {hook}: " + text.strip().partition("\n")[0]
        failure = PluginFailed(message, plugin=self.plugin, hook=hook, advice=getattr(cause, "advice", ""))
        failure.__cause__ = cause if isinstance(cause, BaseException) else None
        return failure


@dataclass(eq=False)
class Hooks:
    """Calls the hooks of the plugins in `manager`; every failure is logged and handed to `on_failure`.

    `budget` is what one call may take, in seconds. With `strict`, a failure that would be left out is raised as well.
    `only` is the one plugin that is called, '' for all. `dropped` counts the notifications that each plugin missed
    because it was too slow.
    """

    manager: pluggy.PluginManager
    _: KW_ONLY
    on_failure: Callable[[PluginFailed], None]
    strict: bool = False
    budget: float = BUDGET
    only: str = ""
    dropped: Counter[str] = field(default_factory=Counter[str], init=False)
    _mail: dict[str, asyncio.Queue[_Call]] = field(default_factory=dict[str, asyncio.Queue[_Call]], init=False)
    _posts: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]], init=False)
    _closed: bool = field(default=False, init=False)

    # collect

    async def gather(self, spec: Collected[P, T], *args: P.args, **kwargs: P.kwargs) -> list[tuple[str, T]]:
        """Return what all plugins provide, with the plugin's name, ordered by it."""
        calls = self._calls(spec, args, kwargs)
        answers = await self._ask_all(calls, self.budget)
        failures = self._blame(answers)
        given = [(call.plugin, answer) for call, answer in zip(calls, answers, strict=True) if answer not in failures]
        return [(plugin, item) for plugin, items in given for item in cast("list[T]", items)]

    # notify

    def notify(self, spec: Asked[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        """Tell all plugins, later and in order for each; nobody waits. A plugin that is too slow misses some."""
        for call in self._calls(spec, args, kwargs):
            if self._closed or getattr(call.arguments.get("failure"), "hook", "") == spec.__name__:
                continue  # the failure of a failure's report would go round for ever
            if call.plugin not in self._mail:
                queue = self._mail[call.plugin] = asyncio.Queue[_Call](QUEUE)
                name, context = f"{call.plugin}.notifications", contextvars.Context()
                self._posts.append(asyncio.create_task(self._deliver(queue), name=name, context=context))
            try:
                self._mail[call.plugin].put_nowait(call)
            except asyncio.QueueFull:
                self.dropped[call.plugin] += 1
                if self.dropped[call.plugin] == 1:
                    _log.warning("a plugin is too slow to be told all", plugin=call.plugin, hook=spec.__name__)

    async def _deliver(self, queue: asyncio.Queue[_Call]) -> None:
        while True:
            answer = await self._try(await queue.get(), self.budget)
            if isinstance(answer, PluginFailed):
                self._report(answer)
            queue.task_done()

    async def tell(self, spec: Asked[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        """Tell all plugins at once and wait for them, 10 s in all; failures are reported, never raised."""
        self._blame(await self._ask_all(self._calls(spec, args, kwargs), TELL_BUDGET))

    # first, guard, fold

    async def first(self, spec: Asked[P, T | None], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Ask plugins in order until one answers. Raises `PluginFailed`, or the `HaloError` that a plugin raised."""
        for call in sorted(self._calls(spec, args, kwargs), key=lambda each: each.place):
            answer = await self._try(call, LONG_BUDGET.get(spec.__name__, self.budget))
            if isinstance(answer, PluginFailed) and isinstance(answer.__cause__, HaloError):
                raise answer.__cause__  # a typed refusal is an answer, not a failure
            self._blame([answer], strict=True)
            if answer is not None:
                return cast("T", answer)
        return None

    async def guard(
        self, spec: Asked[P, Denial | Question | None], *args: P.args, **kwargs: P.kwargs
    ) -> Denial | Question | None:
        """Ask all plugins; return the first denial by name, else a failure as one, else a question, else None."""
        answers = await self._ask_all(self._calls(spec, args, kwargs), self.budget)
        verdicts: list[Denial | Question] = [answer for answer in answers if isinstance(answer, Denial)]
        verdicts += [Denial(f"refused because {each.message} {each.advice}".strip()) for each in self._blame(answers)]
        verdicts += [answer for answer in answers if isinstance(answer, Question)]
        return verdicts[0] if verdicts else None

    async def fold(
        self, spec: Asked[Concatenate[T, P], T], value: T, *args: P.args, **kwargs: P.kwargs
    ) -> tuple[T, list[PluginFailed]]:
        """Pass `value` through all plugins by name; return it with the failures, whose changes are left out.

        The value is a batch of inputs: who drops, adds or moves one of its rows has failed.
        """
        failures: list[PluginFailed] = []
        for call in self._calls(spec, (value, *args), kwargs):
            name = _arguments(spec)[0]
            given = {key: value if key == name else each for key, each in call.arguments.items()}
            answer = await self._try(replace(call, arguments=given), self.budget)
            if not isinstance(answer, PluginFailed) and _rows(answer) != _rows(value):
                answer = call.failed(f"it must keep the rows {_rows(value)} in their order")
            if isinstance(answer, PluginFailed):
                failures.append(answer)
            else:
                value = cast("T", answer)
        return value, self._blame(failures)

    async def close(self) -> None:
        """Deliver waiting notifications for up to a second and end."""
        self._closed = True
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*(queue.join() for queue in self._mail.values())), CLOSE_BUDGET)
        await asyncio.gather(*(end_task(post, name=post.get_name(), within=GRACE) for post in self._posts))

    # one call

    def _calls(self, spec: Spec, args: tuple[object, ...], kwargs: Mapping[str, object]) -> list[_Call]:
        caller: pluggy.HookCaller = getattr(self.manager.hook, spec.__name__)
        given = {**dict(zip(_arguments(spec), args, strict=False)), **kwargs}
        calls: list[_Call] = []
        for each in caller.get_hookimpls():
            if self.only in ("", each.plugin_name):
                place = each.trylast - each.tryfirst
                seen = {name: _seen(given[name], each.plugin_name) for name in each.argnames}
                calls.append(_Call(each.plugin_name, spec, place, each.function, seen))
        return sorted(calls, key=lambda call: call.plugin)

    async def _ask_all(self, calls: Sequence[_Call], limit: float) -> list[object]:
        """Return the answer of each call, or its `PluginFailed`. Only the caller's own cancellation is raised."""
        return await asyncio.gather(*(self._try(call, limit) for call in calls))

    async def _try(self, call: _Call, limit: float) -> object:
        try:
            return await bounded(call.begin(), name=call.name, seconds=limit, grace=GRACE)
        except TimeoutError as late:
            return call.failed(f"it gave {late}")
        except RuntimeError as error:
            return call.failed(str(error))

    # failures

    def _report(self, failure: PluginFailed) -> None:
        _log.warning(failure.message, plugin=failure.plugin, hook=failure.hook, exc_info=failure.__cause__)
        try:
            self.on_failure(failure)
        except Exception:
            _log.exception("reporting a plugin's failure failed", plugin=failure.plugin)

    def _blame(self, answers: Iterable[object], *, strict: bool = False) -> list[PluginFailed]:
        """Report the failures among some answers and return them, or raise the first."""
        failures = [answer for answer in answers if isinstance(answer, PluginFailed)]
        for failure in failures:
            self._report(failure)
        if failures and (strict or self.strict):
            raise failures[0]
        return failures


def _seen(value: object, plugin: str) -> object:
    """Return what a plugin gets to hold of a value: of the server, its own view."""
    view = getattr(value, "seen_by", None)
    return value if view is None else view(plugin)


def _rows(batch: object) -> list[int]:
    return [each.row for each in cast("Sequence[PreparedInput]", batch)]


# what implementations may answer, read from the annotation of the specification


class WrongAnswer(TypeError):
    """An answer of the wrong type, or none; says so in a sentence."""


@cache
def result_type(spec: Spec) -> object:
    """Return what implementations must answer; names of contracts, errors and records are known everywhere."""
    names = {**vars(contracts), **vars(errors), **vars(records), **getattr(spec, "__globals__", {})}
    holder = SimpleNamespace(__annotations__={"return": spec.__annotations__["return"]})
    return get_type_hints(holder, names)["return"]


def checked(answer: object, wanted: Any) -> object:
    """Return a hook's answer, an iterable as a list, or raise `WrongAnswer` that says what it should have been."""
    origin, inner = get_origin(wanted), get_args(wanted)
    if isinstance(origin, type) and issubclass(origin, Iterable):
        if not hasattr(answer, "__iter__") or type(answer) in (str, bytes, dict):
            raise WrongAnswer(f"it answered with {type(answer).__name__}, not an iterable of {_name(inner[0])}")
        return [checked(each, inner[0]) for each in cast("Iterable[object]", answer)]
    kinds = inner or (wanted,)
    if not any(_is(answer, kind) for kind in kinds):
        missing = [each for each in _members(kinds[0]) if not hasattr(answer, each)]
        lack = f", it has no {', '.join(missing)}" if missing else ""
        raise WrongAnswer(f"it answered with {type(answer).__name__}, not {' or '.join(map(_name, kinds))}{lack}")
    return answer


def _is(value: object, kind: type) -> bool:
    members = _members(kind)
    return all(hasattr(value, each) for each in members) if members else isinstance(value, kind)


@cache
def _members(kind: type) -> tuple[str, ...]:
    """Return the public members that a protocol asks for."""
    protocols = [each for each in kind.__mro__ if getattr(each, "_is_protocol", False)]
    names = {name for each in protocols for name in (*vars(each), *vars(each).get("__annotations__", ()))}
    return tuple(sorted(name for name in names if not name.startswith("_")))


def _name(kind: type) -> str:
    return "None" if kind is NoneType else kind.__name__
