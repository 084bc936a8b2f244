"""The composition root: a home becomes a running kernel, step by step, and ends in the reverse order."""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, Unpack

from . import contracts, hookspecs
from .blobs import Blobs
from .channels import Accounts
from .clock import SystemClock
from .contracts import Clock, Database, Dispatcher, Storage
from .data import Data
from .egress import Egress
from .errors import BadInput, ModelError, PluginFailed, StorageUnavailable
from .hooks import Hooks
from .journal import Feed
from .live import Live
from .log import logger
from .models import Caller, Models
from .outbox import Courier
from .plugins import Plugin, Plugins
from .records import HealthCheck, Offer, Route, WorkspaceInfo
from .scopes import Scope
from .secrets import Secrets, ensure_home, write_secret
from .sessions import Outbox, Questions, Sessions
from .sessions.retention import watch_retention
from .sessions.seat import Seat
from .settings import Settings, load_kernel_settings, sections
from .sites import Wanted, add_sites
from .supervisor import Supervisor, end_task
from .workspaces import Workspaces

T = TypeVar("T")
_ENGINE = "sqlite"
_SECTIONS = [("kernel", section) for section in sections.KERNEL_SECTIONS]


@dataclass(frozen=True, kw_only=True)
class RunningHost(contracts.Host):
    """The host of a kernel, as `plugin` holds it."""

    supervisor: Supervisor
    found: Callable[[str, str], object | None]
    plugin: str = "host"

    def seen_by(self, plugin: str) -> RunningHost:
        """Return the server as one plugin sees it: under its name in the log, in tasks, and among the secrets."""
        secrets = Secrets(self.settings.home, self.settings.redactor, plugin)
        return replace(self, plugin=plugin, log=logger(f"plugin.{plugin}"), secrets=secrets)

    def spawn(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """See `contracts.Host.spawn`."""
        self.supervisor.spawn(f"{self.plugin}: {name}", work)

    def lookup(self, kind: str, name: str) -> object | None:
        """See `contracts.Host.lookup`."""
        return self.found(kind, name)


class Kernel:
    """A running kernel: made by `start`, ended by `close`."""

    host: RunningHost
    data: Data
    workspaces: Workspaces
    sessions: Sessions
    routes: Sequence[tuple[str, Route]] = ()
    accounts: Accounts

    def __init__(self, home: Path, *, clock: Clock, plugins: Plugins, settings: Settings, strict: bool) -> None:
        self.home = home
        self.clock = clock
        self.plugins = plugins
        self.settings = settings
        self.boot = clock.new_id()
        self.stopping = asyncio.Event()
        self.supervisor = Supervisor()
        self.hooks = Hooks(plugins.manager, on_failure=self._failed, strict=strict)
        self._models = Models(settings.of(sections.ModelSettings))
        self.served: Sequence[tuple[str, Route]] = ()
        self.remap: Callable[[], None] = lambda: None
        self._parts: dict[str, list[tuple[str, Any]]] = defaultdict(list)
        self._dispatchers: dict[str, Dispatcher] = {}
        self._works = False
        self._closing: asyncio.Task[None] | None = None

    @classmethod
    async def start(
        cls,
        home: Path,
        *,
        embedded: bool = False,
        clock: Clock | None = None,
        env: Mapping[str, str] | None = None,
        settings: Settings | None = None,
        stopping: asyncio.Event | None = None,
        **wanted: Unpack[Wanted],
    ) -> Kernel:
        """Bring up a kernel on `home`; it answers nothing yet and has recovered nothing.

        `embedded` is a kernel for one command: no background duties. `settings` are the kernel's own, if they were read
        before; plugins' are declared in them. `stopping` is set by whoever wants it to end.
        Raises `BadFile` for broken settings, `StorageUnavailable`, `NewerData`.
        """
        environment = os.environ if env is None else env
        ensure_home(home)
        settings = settings or load_kernel_settings(home, environment)
        if wanted.get("discover", True) and (fault := add_sites(home)):
            logger("plugins").error(fault.message, advice=fault.advice)
        if (names := environment.get("HALO_PLUGINS")) is not None:
            wanted.setdefault("only", names.replace(",", " ").split())
        plugins, strict = Plugins(), wanted.get("strict", False)
        wanted["extra"] = {_ENGINE: _Engine(), **wanted.get("extra", {})}
        plugins.load(settings.of(sections.PluginSettings), **wanted)
        kernel = cls(home, clock=clock or SystemClock(), plugins=plugins, settings=settings, strict=strict)
        kernel.stopping = stopping or kernel.stopping
        found = kernel._parts["sections"] = [*_SECTIONS, *await kernel.hooks.gather(hookspecs.provide_settings)]
        kernel.settings.declare(found)
        try:
            await kernel._compose(embedded)
        except BaseException:
            kernel.stopping = asyncio.Event()  # a start that fails tells nobody else to end
            await kernel.close()
            raise
        return kernel

    async def _compose(self, embedded: bool) -> None:
        engines = await self.hooks.gather(hookspecs.provide_storage, settings=self.settings)
        storage = _chosen(engines, self.home / "global")
        self.data = Data(storage, self.home, self._folder)
        self.workspaces = Workspaces(
            data=self.data,
            registry=await self.data.open_home(),
            clock=self.clock,
            boot=self.boot,
            default=self.settings.of(sections.AgentSettings).default,
            make_seat=partial(self._make_seat, embedded),
        )
        if storage.name != _ENGINE:  # it has opened
            write_secret(self.home / "global" / "storage", storage.name)
        self.sessions = Sessions(self.workspaces.seat)
        self.accounts = Accounts(database=await self.data.open_channels(), supervisor=self.supervisor)
        self.host = RunningHost(
            settings=self.settings,
            secrets=Secrets(self.home, self.settings.redactor, "host"),
            log=logger("plugin"),
            clock=self.clock,
            data=self.data,
            workspaces=self.workspaces,
            sessions=self.sessions,
            accounts=self.accounts,
            questions=Questions(self.workspaces.seat),
            outbox=Outbox(self.workspaces.seat),
            blobs=Blobs(self._folder),
            live=Live(),
            egress=Egress(lambda: self.settings.of(sections.EgressSettings).allow),
            found=self._find,
            supervisor=self.supervisor,
        )
        self.accounts.host = self.host
        await self._take(self.hooks)

    async def _take(self, hooks: Hooks) -> None:
        """Take in what those plugins provide that `hooks` call."""
        host, parts = self.host, self._parts
        parts["models"] += await hooks.gather(hookspecs.provide_models, settings=self.settings, host=host)
        parts["agents"] += await hooks.gather(hookspecs.provide_agents, host=host)
        parts["dispatchers"] += await hooks.gather(hookspecs.provide_dispatchers, host=host)
        parts["channels"] += await hooks.gather(hookspecs.provide_channels, host=host)
        parts["routes"] += await hooks.gather(hookspecs.provide_routes, host=host)
        self._arrange()

    def _arrange(self) -> None:
        """Use what there is, and nothing else."""
        parts = self._parts
        self._models.provide(parts["models"])
        self.workspaces.sources = [source for _, source in parts["agents"]]
        self._dispatchers.clear()
        self._dispatchers.update(self._single("provide_dispatchers", parts["dispatchers"], lambda each: each.kind))
        self.accounts.channels = self._single("provide_channels", parts["channels"], lambda each: each.type)
        self.routes = tuple(parts["routes"])
        self.remap()

    async def _make_seat(self, embedded: bool, info: WorkspaceInfo, database: Database) -> Seat:
        seat = self._seat(info, database)
        await self.hooks.tell(hookspecs.workspace_opened, workspace=info, host=self.host)
        duties = {"inbox": seat.watch_inbox, "questions": seat.watch_questions}
        if not embedded:
            duties["retention"] = lambda: watch_retention(database, self.clock)
            duties["blobs"] = lambda: self.host.blobs.sweep(info.id, database, self.clock)
            duties["outbox"] = Courier(database, self._dispatchers, self.clock, self.hooks, self.settings.redactor).run
        for name, work in duties.items():
            task = self.supervisor.keep(f"{name} of {info.path}", work)
            seat.scope.push(name, partial(end_task, task, name=name, within=5.0))
        return seat

    def _seat(self, info: WorkspaceInfo, database: Database) -> Seat:
        return Seat(
            workspace=info,
            host=self.host,
            database=database,
            feed=Feed(database),
            hooks=self.hooks,
            models=self._models,
            clock=self.clock,
            boot=self.boot,
            mask=self.settings.redactor,
            scope=Scope(f"workspace {info.path}"),
            stopping=self.stopping,
            caller=Caller(
                clock=self.clock,
                mask=self.settings.redactor,
                idle_timeout=self.settings.of(sections.ModelSettings, info).idle_timeout,
                max_attempts=self.settings.of(sections.AgentSettings, info).max_retries,
            ),
            agents=self.settings.of(sections.AgentSettings, info),
            result_chars=self.settings.of(sections.LimitSettings, info).tool_result_render_chars,
            limits=self.settings.of(sections.SessionSettings),
        )

    async def databases(self) -> Mapping[Path, Database]:
        """Return the kernel's own databases, to be read: the home's, then those of open workspaces, by their folder."""
        seats = self.workspaces.seats.values()
        return {self.home: await self.data.open_home(), **{Path(each.workspace.path): each.database for each in seats}}

    async def reports(self) -> Sequence[HealthCheck]:
        """Return what plugins say of their own matters; one that fails to is degraded."""
        return [report for _, report in await self.hooks.gather(hookspecs.report_health, host=self.host)]

    async def models(self) -> tuple[Sequence[Offer], Offer | None, str]:
        """Return the offers, best first, the one a new turn would use, and why, or why there is none."""
        offers = await self._models.offers()
        try:
            chosen, why = await self._models.choose()
        except ModelError as error:
            return offers, None, f"{error.message}: {error.advice}"
        return offers, chosen, why

    async def recover(self) -> None:
        """Take over what was cut or waits in every workspace that was busy at the last end."""
        for workspace in await self.workspaces.busy():
            try:
                await self.sessions.recover(workspace.id)
            except Exception as error:
                logger("runtime").error("workspace not recovered", workspace=workspace.path, error=str(error))

    async def work(self) -> None:
        """Take up the duties of a server: recover, then run every channel and service until the end."""
        self.hooks.notify(hookspecs.runtime_started, host=self.host)
        await self.recover()
        self.supervisor.keep("workspaces", lambda: self.workspaces.watch(self.recover))
        await self.accounts.start()
        self._works = True
        await self._serve(self.hooks)

    async def _serve(self, hooks: Hooks) -> None:
        for plugin, service in await hooks.gather(hookspecs.provide_services, host=self.host):
            failed = partial(self._service_failed, plugin, service.name)
            self.supervisor.keep(f"{plugin}: {service.name}", service.run, failed)

    async def reload(self, name: str) -> Plugin:
        """Swap a plugin for a new import of it while no turn runs; when that fails, the former one goes on.

        Raises `NotFound`, `Conflict` when turns do not end in time or it says that it needs a restart, `PluginFailed`.
        """
        staged = await asyncio.to_thread(self.plugins.stage, name)
        async with self.sessions.gate.hold():
            for seat in self.workspaces.seats.values():
                await seat.empty()
            await self._retire(name)
            former = self.plugins.swap(*staged)
            try:
                await self._adopt(name, strict=True)
            except Exception:
                await self._retire(name)
                self.plugins.forget(self.plugins.swap(*former)[1])
                await self._adopt(name, strict=self.hooks.strict)
                raise
        self.plugins.forget(former[1])
        return staged[0]

    async def _retire(self, name: str) -> None:
        """End what a plugin provides, and what runs of it."""
        await replace(self.hooks, only=name).tell(hookspecs.runtime_stopping, host=self.host)
        await self.supervisor.close(f"{name}: ")
        mine = {kind: [part for plugin, part in found if plugin == name] for kind, found in self._parts.items()}
        await self._models.close([provider.name for provider in mine.get("models", ())])
        for found in self._parts.values():
            found[:] = [each for each in found if each[0] != name]
        self._arrange()
        await self.accounts.restart([channel.type for channel in mine.get("channels", ())])

    async def _adopt(self, name: str, *, strict: bool) -> None:
        """Take in what a plugin provides, and run what it has. Raises `PluginFailed`, `BadInput` for its settings."""
        hooks, host, parts = replace(self.hooks, only=name, strict=strict), self.host, self._parts
        parts["sections"] += await hooks.gather(hookspecs.provide_settings)
        self.settings.declare(parts["sections"])
        await self._take(hooks)
        for seat in self.workspaces.seats.values():
            await hooks.tell(hookspecs.workspace_opened, workspace=seat.workspace, host=host)
        if self._works:
            await self._serve(hooks)
            await self.accounts.restart([channel.type for plugin, channel in parts["channels"] if plugin == name])
            await hooks.tell(hookspecs.runtime_started, host=host)

    def _single(self, hook: str, found: Sequence[tuple[str, T]], name: Callable[[T], str]) -> dict[str, T]:
        """Return what plugins provide by name; of two of one name the second is left out, and its plugin named."""
        kept: dict[str, tuple[str, T]] = {}
        for plugin, provided in found:
            first, thing = kept.setdefault(name(provided), (plugin, provided))
            if thing is not provided:
                self._failed(PluginFailed(f"{name(provided)} is provided by {first} already", plugin=plugin, hook=hook))
        return {each: thing for each, (_, thing) in kept.items()}

    async def close(self) -> None:
        """Refuse new turns, land running ones for the next boot, end plugins and storage; bounded, and once."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self.stopping.set()
        for step in self._last_steps():
            try:
                await step()
            except Exception:
                logger("runtime").error("the kernel goes on closing over a failure", exc_info=True)

    def _last_steps(self) -> Iterator[Callable[[], Awaitable[None]]]:
        if hasattr(self, "host"):
            yield lambda: self.sessions.close(list(self.workspaces.seats.values()), "land")
            yield lambda: self.hooks.tell(hookspecs.runtime_stopping, host=self.host)
            yield self.workspaces.close
        yield self.supervisor.close
        yield self._models.close
        yield self.hooks.close
        if hasattr(self, "data"):
            yield self.data.close

    def _find(self, kind: str, name: str) -> object | None:
        finders: Mapping[str, Callable[[str], object | None]] = {
            "channel": self.accounts.channels.get,
            "dispatcher": self._dispatchers.get,
            "model": self._models.providers.get,
            "routes": lambda _: self.served,
            "kernel": lambda _: self,
        }
        if kind not in finders:
            raise BadInput(f"kind must be one of {', '.join(finders)}, not {kind!r}", field="kind")
        return finders[kind](name)

    def _folder(self, workspace: str) -> Path:
        return Path(self.workspaces.seats[workspace].workspace.path)

    def _service_failed(self, plugin: str, service: str, error: Exception) -> None:
        self._failed(PluginFailed(f"its service {service} failed: {error!r}", plugin=plugin, hook="provide_services"))

    def _failed(self, failure: PluginFailed) -> None:
        self.plugins.degrade(failure)
        self.hooks.notify(hookspecs.plugin_failed, failure=failure)


class _Engine:
    """The kernel's own storage, registered through the same hook as anybody's."""

    @hookspecs.hook
    def provide_storage(self) -> Sequence[Storage]:
        from .sqlite import SqliteStorage

        return [SqliteStorage()]


def _chosen(engines: Sequence[tuple[str, Storage]], folder: Path) -> Storage:
    """Return the one engine that a plugin provides, else the kernel's own; what a home holds is of one engine."""
    plugins = dict([each for each in engines if each[0] != _ENGINE] or engines)
    if len(plugins) > 1:
        raise StorageUnavailable(f"there must be one storage engine, not those of {' and '.join(plugins)}: leave one")
    ((plugin, engine),) = plugins.items()
    note, is_used = folder / "storage", (folder / "kernel.db").exists()
    began_with = note.read_text("utf-8", "replace").strip() if note.is_file() else _ENGINE if is_used else engine.name
    if began_with != engine.name:
        said = f"this home is kept by the storage engine {began_with!r}, not by the {engine.name!r} of {plugin}"
        raise StorageUnavailable(said, advice="install or mend that plugin, or set HALO_HOME to another folder")
    return engine
