"""Finding, checking and loading plugins, one at a time: a broken one is listed with its reason and hurts no other."""

from __future__ import annotations

import inspect
import os
import re
import sys
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import Distribution, EntryPoint
from types import ModuleType
from typing import Literal, Unpack

import pluggy
from msgspec.structs import asdict, replace

from . import __version__, hookspecs
from .errors import Conflict, HaloError, NotFound, PluginFailed
from .hooks import in_daemon_thread
from .log import logger
from .manifests import Manifest, read_manifest, suggest
from .settings import PluginSettings
from .sites import Wanted, find_distributions, forget_modules, import_again

GROUP = "halo.plugins"
IMPORT_BUDGET = 10.0
Names = Collection[str]
_log = logger("plugins")
_MACHINERY = re.compile(f"{re.escape(os.path.dirname(__file__))}|<frozen importlib|.*\\Wimportlib\\W")
PluginState = Literal["loaded", "degraded", "disabled", "incompatible", "failed", "missing"]


class Plugin(Manifest, frozen=True, kw_only=True):
    """A plugin as lists show it: what it says about itself, what became of it, why, and what to do about it.

    `loaded`; `degraded` (loaded, and a hook of it failed); `disabled` (by a setting or an option); `incompatible`
    (wants another kernel); `failed`; `missing` (asked for, not installed). `entry` is the value of its entry point,
    empty for an object of this process. `hooks` are those it implements, `seconds` what its import took.
    """

    kernel: str = ""
    name: str
    distribution: str = ""
    version: str = ""
    entry: str = ""
    state: PluginState = "loaded"
    reason: str = ""
    advice: str = ""
    hooks: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def package(self) -> str:
        """The package that it is imported from."""
        return self.entry.partition(":")[0].partition(".")[0]

    def stopped(self, reason: str, advice: str, state: PluginState = "failed") -> Plugin:
        """Return this plugin as one that did not get past a step."""
        return replace(self, state=state, reason=reason, advice=advice)


class Plugins:
    """The plugins of this process. `manager` calls those that are loaded; `path` replaces `sys.path` for discovery."""

    def __init__(self, *, import_budget: float = IMPORT_BUDGET, path: Sequence[str] | None = None) -> None:
        self.manager = pluggy.PluginManager(hookspecs.PROJECT)
        self.manager.add_hookspecs(hookspecs)
        self._budget = import_budget
        self._path = path
        self._rows: list[Plugin] = []
        self._staged: list[str] = []

    def list(self) -> Sequence[Plugin]:
        """Return all plugins known to this process, by name."""
        return sorted(self._rows, key=lambda row: (row.name, row.distribution))

    def discover(self) -> Sequence[Plugin]:
        """Return what is installed, checked as far as that goes without importing anything."""
        return self._checked(PluginSettings(), {})

    def load(self, settings: PluginSettings | None = None, **wanted: Unpack[Wanted]) -> None:
        """Load what is installed and wanted, after the objects of this process in `extra`, by name.

        Never raises for a broken plugin, unless `strict`: then the first is raised as `PluginFailed`.
        """
        for plugin in self._outcomes(settings or PluginSettings(), wanted):
            self._rows.append(plugin)
            if plugin.state in ("loaded", "disabled"):
                continue
            message, whose = f"plugin '{plugin.name}' was not loaded: {plugin.reason}", {"plugin": plugin.name}
            facts = {"state": plugin.state, "distribution": plugin.distribution, "version": plugin.version}
            _log.error(message, **whose, **facts, advice=plugin.advice)
            if wanted.get("strict"):
                raise PluginFailed(message, **whose, hook="load", advice=plugin.advice)

    def stage(self, name: str) -> tuple[Plugin, object]:
        """Import a loaded plugin anew, under another name beside the one that runs, and return what `swap` takes.

        Raises `NotFound`, `Conflict` when it says that it cannot be swapped, `PluginFailed` when it is broken.
        """
        rows = {row.name: row for row in self._rows if row.state in ("loaded", "degraded")}
        row = rows.get(name)
        if row is None:
            raise NotFound(f"there is no loaded plugin {name}{suggest(name, rows)}")
        if not row.entry or row.reload == "restart":
            raise Conflict(f"plugin {name} cannot be changed while the server runs", advice="restart the server")
        staged = _described(replace(row, state="loaded", reason="", advice=""))
        module: object = None
        if staged.state == "loaded":
            suffix = f"_{len(self._staged) + 1}"
            self._staged.append(row.package + suffix)
            staged, module = self._imported(staged, partial(import_again, row.entry, suffix))
        if staged.state == "loaded":
            staged = self._registered(staged, module, keep=False)
        if staged.state != "loaded":
            self.forget(module)
            raise PluginFailed(f"plugin '{name}' stays as it is: {staged.reason}", plugin=name, hook="load")
        return staged, module

    def swap(self, plugin: Plugin, module: object) -> tuple[Plugin, object]:
        """Register another module for a plugin, and return what was registered before."""
        at = next(at for at, row in enumerate(self._rows) if row.name == plugin.name)
        before = self._rows[at], self.manager.unregister(name=plugin.name)
        self._rows[at] = self._registered(plugin, module)
        return before

    def forget(self, module: object) -> None:
        """Let go of what `stage` imported: nothing imports it again."""
        package = (module.__name__ if isinstance(module, ModuleType) else type(module).__module__).partition(".")[0]
        if package in self._staged:
            forget_modules(package)

    def degrade(self, failure: PluginFailed) -> None:
        """Show that a loaded plugin has failed in a hook."""
        for at, row in enumerate(self._rows):
            if row.name == failure.plugin and row.state in ("loaded", "degraded"):
                function = getattr(self.manager.get_plugin(row.name), failure.hook, None)
                reason = failure.message + _place(failure.__cause__, function)
                leave = f"if it stays so, start without it: --without {row.name}"
                reason, advice = _lacking(row, failure.__cause__) or (reason, failure.advice or leave)
                self._rows[at] = row.stopped(reason, advice, "degraded")

    def _outcomes(self, settings: PluginSettings, wanted: Wanted) -> Iterator[Plugin]:
        """Load one plugin after the other and yield what became of it; then those that are not there."""
        for name, module in wanted.get("extra", {}).items():
            yield self._registered(Plugin(name=name, distribution="halo-kernel", version=__version__), module)
        yield from map(self._loaded, self._checked(settings, wanted) if wanted.get("discover", True) else ())
        known = {row.name for row in self._rows}
        for name in sorted({*(wanted.get("only") or ()), *settings.enabled} - known):
            reason = f"asked for and not installed{suggest(name, known)}"
            yield Plugin(name=name).stopped(reason, f"pip install halo-{name}", "missing")
        for name in sorted({*wanted.get("without", ())} - known):
            _log.warning("--without names a plugin that is not installed" + suggest(name, known), plugin=name)

    # before the import

    def _checked(self, settings: PluginSettings, wanted: Wanted) -> Sequence[Plugin]:
        """Return what is installed, stopped where it is unwanted, incompatible, or claims what another claims too."""
        distributions = find_distributions(GROUP, sys.path if self._path is None else self._path)
        claims = [each for name in sorted(distributions) for each in _claims(distributions[name])]
        found: Sequence[Plugin] = [_described(_refused(each, settings, wanted)) for each in claims]
        for what, claimed in _SINGLE.items():
            found = _without_clashes(found, what, claimed)
        return found

    # import, check, register

    def _loaded(self, plugin: Plugin) -> Plugin:
        if plugin.state != "loaded":
            return plugin
        for warning in plugin.unknown:
            _log.warning(warning, plugin=plugin.name)
        found, module = self._imported(plugin, EntryPoint(plugin.name, plugin.entry, GROUP).load)
        return found if module is None else self._registered(found, module)

    def _imported(self, plugin: Plugin, load: Callable[[], object]) -> tuple[Plugin, object]:
        """Return a plugin with what its import gave, or stopped by that and without."""

        def attempt() -> tuple[object, BaseException | None]:
            try:
                return load(), None
            except BaseException as error:
                return None, error

        began = time.perf_counter()
        try:
            module, error = in_daemon_thread(f"import {plugin.package}", attempt).result(self._budget)
        except TimeoutError:
            reason = f"its import took longer than {self._budget:g} s"
            return plugin.stopped(reason, f"start without it: --without {plugin.name}"), None
        if error is not None:
            _log.debug("import failed", plugin=plugin.name, exc_info=error)
            text = error.msg if isinstance(error, SyntaxError) else error
            reason = f"its import failed: {type(error).__name__}: {text}{_place(error)}"
            advice = f"install {plugin.distribution} again, or start without it: --without {plugin.name}"
            return plugin.stopped(*(_lacking(plugin, error) or (reason, advice))), None
        return replace(plugin, seconds=time.perf_counter() - began), module

    def _registered(self, plugin: Plugin, module: object, *, keep: bool = True) -> Plugin:
        try:
            for function, fault in self._faults(module, plugin.optional_hooks):
                advice = f"if it needs a newer kernel than {__version__}: pip install --upgrade halo-kernel"
                return plugin.stopped(fault + _place(None, function), advice)
            if not keep:
                return plugin
            self.manager.register(module, name=plugin.name)
            callers = self.manager.get_hookcallers(module) or ()
        except Exception as error:
            return plugin.stopped(f"it cannot be registered: {error}", f"start without it: --without {plugin.name}")
        return replace(plugin, hooks=tuple(sorted(caller.name for caller in callers)))

    def _faults(self, module: object, optional: Names) -> Iterator[tuple[Callable[..., object], str]]:
        """Yield the implementations that no specification allows, and why."""
        specs = {each: found for each, found in vars(hookspecs).items() if hasattr(found, "halo_spec")}
        for attribute in dir(module):
            options = self.manager.parse_hookimpl_opts(module, attribute)
            if options is None:
                continue
            hook, function = options["specname"] or attribute, getattr(module, attribute)
            if hook in specs:
                is_wrapper = options["wrapper"] or options["hookwrapper"]
                fault = "is a wrapper, and hooks have none" if is_wrapper else _misfit(function, specs[hook])
                if fault:
                    yield function, f"{hook} {fault}"
            elif hook not in optional:
                yield function, f"there is no hook {hook}{suggest(hook, specs)}"


_SINGLE: Mapping[str, Callable[[Plugin], Names]] = {
    "the plugin name": lambda plugin: (plugin.name,),
    "the path prefix": lambda plugin: plugin.prefixes,
    "the page": lambda plugin: plugin.pages,
}


def _refused(plugin: Plugin, settings: PluginSettings, wanted: Wanted) -> Plugin:
    """Return a plugin as it is, or stopped by what this process provides or a person wants."""
    name, only, enable = plugin.name, wanted.get("only"), f"halo plugins enable {plugin.name}"
    if name in wanted.get("extra", ()):
        reason = f"{plugin.distribution} claims the name {name}, which this process itself provides"
        return plugin.stopped(reason, f"pip uninstall {plugin.distribution}")
    needed = settings.enabled if settings.require_enable else (name,)
    rules = (
        (name in wanted.get("without", ()), "left out by --without", f"start without the option --without {name}"),
        (only is not None and name not in only, "not named by HALO_PLUGINS", f"add {name} to HALO_PLUGINS"),
        (name in settings.disabled, "disabled by the setting plugins.disabled", enable),
        (name not in needed, "not enabled, as plugins.require_enable asks for", enable),
    )
    broken = (plugin.stopped(reason, advice, "disabled") for breaks, reason, advice in rules if breaks)
    return next(broken, plugin)


def _claims(distribution: Distribution) -> Sequence[Plugin]:
    plugin = Plugin(name=distribution.name, distribution=distribution.name, version=distribution.version)
    try:
        entries = distribution.entry_points.select(group=GROUP)
        return [replace(plugin, name=entry.name, entry=entry.value) for entry in entries]
    except Exception as error:
        return [plugin.stopped(f"its metadata cannot be read: {error}", "install it again")]


def _described(plugin: Plugin) -> Plugin:
    """Return a plugin that nothing has stopped with what its `halo.toml` says."""
    if plugin.state != "loaded":
        return plugin
    try:
        manifest = read_manifest(plugin.package)
    except Exception as error:  # finders of other packages run here
        reason = error.message if isinstance(error, HaloError) else f"its halo.toml cannot be read: {error}"
        return plugin.stopped(reason, getattr(error, "advice", "") or "install it again")
    if manifest.allows(__version__):
        return replace(plugin, **asdict(manifest))
    reason = f"needs halo-kernel {manifest.kernel}, and this is {__version__}"
    return plugin.stopped(reason, f"pip install --upgrade {plugin.distribution} halo-kernel", "incompatible")


def _without_clashes(found: Sequence[Plugin], what: str, claims: Callable[[Plugin], Names]) -> Sequence[Plugin]:
    """Stop all plugins that claim the same thing; none of them is preferred."""
    alive = [each for each in found if each.state == "loaded"]

    def judged(plugin: Plugin) -> Plugin:
        for claim in claims(plugin) if plugin in alive else ():
            names = [each.distribution for each in alive if claim in claims(each)]
            if len(names) > 1:
                reason = f"{what} {claim} is claimed by {' and '.join(names)}"
                return plugin.stopped(reason, f"keep one of them: pip uninstall {plugin.distribution}")
        return plugin

    return [judged(each) for each in found]


def _lacking(plugin: Plugin, error: BaseException | None) -> tuple[str, str] | None:
    """Return what to install when an error says that somebody else's module is missing."""
    if not isinstance(error, ModuleNotFoundError) or (error.name or "").partition(".")[0] in ("", plugin.package):
        return None
    command = f"pip install {plugin.distribution}"
    return f"needs {error.name}: {command}", command


def _place(error: BaseException | None, function: object = None) -> str:
    """Return where others' code raised an error, ` (<file>:<line>)`, else where a function is written, else nothing."""
    frames = traceback.extract_tb(error.__traceback__) if error else ()
    places = [(each.filename, each.lineno) for each in frames if not _MACHINERY.match(each.filename)]
    if isinstance(error, SyntaxError) and not (error.filename or "<").startswith("<"):
        places.append((error.filename or "", error.lineno))
    if not places and (code := getattr(inspect.unwrap(function) if callable(function) else None, "__code__", None)):
        places = [(code.co_filename, code.co_firstlineno)]
    return f" ({places[-1][0]}:{places[-1][1]})" if places else ""


def _misfit(function: Callable[..., object], spec: Callable[..., object]) -> str:
    """Return how an implementation differs from its specification, or nothing."""
    wanted = inspect.iscoroutinefunction(spec)
    if inspect.iscoroutinefunction(function) is not wanted:
        return f"must be {'async def' if wanted else 'a plain def'}"
    allowed = list(inspect.signature(spec).parameters)
    for name, parameter in inspect.signature(function).parameters.items():
        if name not in allowed or parameter.default is not parameter.empty:
            known = f"it may take {', '.join(allowed)}, without a default" if allowed else "it takes none"
            return f"cannot have the argument {parameter}: {known}"
    return ""
