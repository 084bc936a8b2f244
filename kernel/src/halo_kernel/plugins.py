"""Finding, checking and loading plugins, one at a time: a broken one is listed with its reason and hurts no other."""

from __future__ import annotations

import inspect
import re
import sys
import traceback
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import Distribution, EntryPoint
from types import CodeType
from typing import Literal, cast

import pluggy

from . import __version__, hookspecs
from .errors import HaloError, PluginFailed
from .hooks import in_daemon_thread
from .log import logger
from .manifests import Manifest, read_manifest, suggest

GROUP = "halo.plugins"
IMPORT_BUDGET = 10.0
PluginState = Literal["loaded", "degraded", "disabled", "incompatible", "failed", "missing"]


@dataclass(frozen=True, kw_only=True)
class Plugin:
    """A plugin as lists show it: what became of it, why, and what to do about it.

    `loaded`; `degraded` (loaded, and a hook of it failed); `disabled` (by a setting or an option); `incompatible`
    (wants another kernel); `failed`; `missing` (asked for, not installed). `warnings` are remarks that hinder nothing.
    """

    name: str
    distribution: str = ""
    version: str = ""
    state: PluginState = "loaded"
    reason: str = ""
    advice: str = ""
    provides: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    pages: tuple[str, ...] = ()
    module: str = ""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which plugins a person wants: the options `--without` and `HALO_PLUGINS`, and the settings `plugins.*`."""

    without: Collection[str] = ()
    only: Collection[str] | None = None
    require_enable: bool = False
    enabled: Collection[str] = ()
    disabled: Collection[str] = ()

    def refusal(self, name: str) -> tuple[str, str]:
        """Return why a plugin stays out and what to do about it, or two empty texts."""
        if name in self.without:
            return "left out by --without", f"start without the option --without {name}"
        if self.only is not None and name not in self.only:
            return "not named by HALO_PLUGINS", f"add {name} to HALO_PLUGINS"
        if name in self.disabled:
            return "disabled by the setting plugins.disabled", f"halo plugins enable {name}"
        if self.require_enable and name not in self.enabled:
            return "not enabled, and the setting plugins.require_enable is on", f"halo plugins enable {name}"
        return "", ""


class _Stopped(Exception):
    """A step that a plugin did not get past."""

    def __init__(self, reason: str, advice: str = "", *, state: PluginState = "failed") -> None:
        super().__init__(reason)
        self.reason = reason
        self.advice = advice
        self.state: PluginState = state


@dataclass(frozen=True)
class _Candidate:
    """A plugin on its way through the steps; `entry` and `manifest` are there once they are known."""

    plugin: Plugin
    entry: EntryPoint | None = None
    manifest: Manifest | None = None

    def stopped(self, stop: _Stopped) -> _Candidate:
        return _Candidate(replace(self.plugin, state=stop.state, reason=stop.reason, advice=stop.advice))


class Plugins:
    """The plugins of this process. `manager` calls those that are loaded; `path` replaces `sys.path` for discovery."""

    def __init__(
        self, *, kernel: str = __version__, import_budget: float = IMPORT_BUDGET, path: Sequence[str] | None = None
    ) -> None:
        self.manager = pluggy.PluginManager(hookspecs.PROJECT)
        self.manager.add_hookspecs(hookspecs)
        self._kernel = kernel
        self._budget = import_budget
        self._path = path
        self._rows: list[Plugin] = []
        self._log = logger("plugins")

    def list(self) -> Sequence[Plugin]:
        """Return all plugins known to this process, by name."""
        return sorted(self._rows, key=lambda row: (row.name, row.distribution))

    def discover(self) -> Sequence[Plugin]:
        """Return what is installed, checked as far as that goes without importing anything."""
        return [each.plugin for each in self._checked(self._found(), Selection())]

    def load(
        self,
        *,
        without: Collection[str] = (),
        only: Collection[str] | None = None,
        require_enable: bool = False,
        enabled: Collection[str] = (),
        disabled: Collection[str] = (),
        extra: Mapping[str, object] | None = None,
        discover: bool = True,
        strict: bool = False,
    ) -> None:
        """Load what is installed and wanted, after the objects of this process in `extra`, by name.

        Never raises for a broken plugin, unless `strict`: then the first is raised as `PluginFailed`.
        """
        selection = Selection(
            without=without, only=only, require_enable=require_enable, enabled=enabled, disabled=disabled
        )
        own = dict(extra or {})
        for name, module in own.items():
            self._add(Plugin(name=name, distribution="halo-kernel", version=self._kernel), module, (), strict)
        found = [_claimed(each) if each.plugin.name in own else each for each in self._found() if discover]
        for candidate in self._checked(found, selection):
            self._load(candidate, strict)
        known = {row.name for row in self._rows}
        wanted = {*(only or ()), *enabled} - known
        for name in sorted(wanted):
            self._keep(_missing(name, known), strict)
        for name in sorted(set(without) - known):
            self._log.warning("--without names a plugin that is not installed" + suggest(name, known), plugin=name)

    def degrade(self, failure: PluginFailed) -> None:
        """Show that a loaded plugin has failed in a hook."""
        for at, row in enumerate(self._rows):
            if row.name == failure.plugin and row.state in ("loaded", "degraded"):
                stop = _failure(row, failure)
                self._rows[at] = replace(row, state="degraded", reason=stop.reason, advice=stop.advice)

    # before the import

    def _found(self) -> Sequence[_Candidate]:
        names: dict[str, str] = {}
        for distribution in self._distributions():
            with suppress(Exception):  # a folder that only looks like a distribution
                if GROUP in (distribution.read_text("entry_points.txt") or ""):
                    names.setdefault(_normal(distribution.name), distribution.name)
        return [each for name in sorted(names) for each in self._entries(names[name])]

    def _distributions(self, name: str | None = None) -> Iterable[Distribution]:
        return Distribution.discover(name=name, path=list(sys.path if self._path is None else self._path))

    def _entries(self, name: str) -> Sequence[_Candidate]:
        """Return the claims of the distribution of this name that comes first on the path."""
        plugin = Plugin(name=name, distribution=name)
        try:
            distribution = next(iter(self._distributions(name)))
            plugin = replace(plugin, version=distribution.version)
            return [
                _Candidate(replace(plugin, name=entry.name, module=entry.module), entry)
                for entry in distribution.entry_points.select(group=GROUP)
            ]
        except Exception as error:
            return [_Candidate(plugin).stopped(_Stopped(f"its metadata cannot be read: {error}", "install it again"))]

    def _checked(self, found: Sequence[_Candidate], selection: Selection) -> Sequence[_Candidate]:
        chosen = [_selected(each, selection) for each in found]
        single = _without_clashes(chosen, "the plugin name", lambda each: (each.plugin.name,))
        described = [self._described(each) for each in single]
        apart = _without_clashes(described, "the path prefix", lambda each: each.plugin.prefixes)
        return _without_clashes(apart, "the page", lambda each: each.plugin.pages)

    def _described(self, candidate: _Candidate) -> _Candidate:
        if candidate.entry is None:
            return candidate
        plugin = candidate.plugin
        try:
            manifest = read_manifest(plugin.module)
        except HaloError as error:
            return candidate.stopped(_Stopped(error.message, error.advice or f"report it to {plugin.distribution}"))
        except Exception as error:  # finders of other packages run here
            return candidate.stopped(_Stopped(f"its package cannot be found: {error}", "install it again"))
        plugin = replace(
            plugin,
            provides=manifest.provides,
            capabilities=manifest.capabilities,
            prefixes=manifest.prefixes,
            pages=manifest.pages,
            warnings=manifest.unknown,
        )
        described = _Candidate(plugin, candidate.entry, manifest)
        if manifest.allows(self._kernel):
            return described
        reason = f"needs halo-kernel {manifest.kernel}, and this is {self._kernel}"
        return described.stopped(
            _Stopped(reason, f"pip install --upgrade {plugin.distribution} halo-kernel", state="incompatible")
        )

    # import, check, register

    def _load(self, candidate: _Candidate, strict: bool) -> None:
        plugin, entry, manifest = candidate.plugin, candidate.entry, candidate.manifest
        if entry is None or manifest is None:
            self._keep(plugin, strict)
            return
        for warning in plugin.warnings:
            self._log.warning(warning, plugin=plugin.name)
        try:
            module = self._imported(plugin, entry)
        except _Stopped as stop:
            self._keep(candidate.stopped(stop).plugin, strict)
        else:
            self._add(plugin, module, manifest.optional_hooks, strict)

    def _imported(self, plugin: Plugin, entry: EntryPoint) -> object:
        try:
            outcome = in_daemon_thread(f"import {entry.module}", entry.load).result(self._budget)
        except TimeoutError:
            reason = f"its import took longer than {self._budget:g} s"
            raise _Stopped(reason, f"start without it: --without {plugin.name}") from None
        if outcome.error is None:
            return outcome.value
        self._log.debug("import failed", plugin=plugin.name, exc_info=outcome.error)
        raise _import_failure(plugin, outcome.error) from outcome.error

    def _add(self, plugin: Plugin, module: object, optional: Collection[str], strict: bool) -> None:
        try:
            self._check(module, optional)
            self.manager.register(module, name=plugin.name)
        except _Stopped as stop:
            plugin = _Candidate(plugin).stopped(stop).plugin
        except Exception as error:
            with suppress(Exception):
                self.manager.unregister(name=plugin.name)
            plugin = replace(plugin, state="failed", reason=f"it cannot be registered: {error}")
        self._keep(plugin, strict)

    def _check(self, module: object, optional: Collection[str]) -> None:
        specs = {each: found for each, found in vars(hookspecs).items() if hasattr(found, "halo_spec")}
        for attribute in dir(module):
            options = self.manager.parse_hookimpl_opts(module, attribute)
            if options is None:
                continue
            hook = options["specname"] or attribute
            function = getattr(module, attribute)
            if hook not in specs:
                if hook not in optional:
                    raise _unfit(function, f"there is no hook {hook}{suggest(hook, specs)}", self._kernel)
                continue
            if options["wrapper"] or options["hookwrapper"]:
                raise _unfit(function, f"{hook} is a wrapper, and hooks have none")
            _check_signature(function, specs[hook], hook)

    def _keep(self, plugin: Plugin, strict: bool) -> None:
        self._rows.append(plugin)
        if plugin.state in ("loaded", "disabled"):
            return
        self._log.error(
            "a plugin was not loaded",
            plugin=plugin.name,
            state=plugin.state,
            reason=plugin.reason,
            advice=plugin.advice,
        )
        if strict:
            raise PluginFailed(
                f"plugin '{plugin.name}' was not loaded: {plugin.reason}",
                plugin=plugin.name,
                hook="load",
                advice=plugin.advice,
            )


def _normal(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def _selected(candidate: _Candidate, selection: Selection) -> _Candidate:
    reason, advice = selection.refusal(candidate.plugin.name)
    return candidate.stopped(_Stopped(reason, advice, state="disabled")) if reason else candidate


def _claimed(candidate: _Candidate) -> _Candidate:
    plugin = candidate.plugin
    reason = f"{plugin.distribution} claims the name {plugin.name}, which this process itself provides"
    return candidate.stopped(_Stopped(reason, f"pip uninstall {plugin.distribution}"))


def _missing(name: str, known: Iterable[str]) -> Plugin:
    reason = f"asked for and not installed{suggest(name, known)}"
    return Plugin(name=name, state="missing", reason=reason, advice=f"pip install halo-{name}")


def _without_clashes(
    candidates: Sequence[_Candidate], what: str, claims: Callable[[_Candidate], Iterable[str]]
) -> Sequence[_Candidate]:
    """Stop all candidates that claim the same thing; none of them is preferred."""
    claimants: dict[str, list[_Candidate]] = defaultdict(list)
    for candidate in candidates:
        for claim in claims(candidate) if candidate.entry else ():
            claimants[claim].append(candidate)
    stopped: dict[int, _Candidate] = {}
    for claim, rivals in claimants.items():
        names = [each.plugin.distribution for each in rivals]
        for rival in rivals if len(rivals) > 1 else ():
            reason = f"{what} {claim} is claimed by {' and '.join(names)}"
            advice = f"keep one of them: pip uninstall {rival.plugin.distribution}"
            stopped[id(rival)] = rival.stopped(_Stopped(reason, advice))
    return [stopped.get(id(each), each) for each in candidates]


def _import_failure(plugin: Plugin, error: BaseException) -> _Stopped:
    if lack := _lacking(plugin, error):
        return lack
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    reason = f"its import failed: {type(error).__name__}: {error}{place}"
    return _Stopped(reason, f"install {plugin.distribution} again, or start without it: --without {plugin.name}")


def _failure(plugin: Plugin, failure: PluginFailed) -> _Stopped:
    if failure.__cause__ and (lack := _lacking(plugin, failure.__cause__)):
        return lack
    return _Stopped(failure.message, failure.advice or f"if it stays so, start without it: --without {plugin.name}")


def _lacking(plugin: Plugin, error: BaseException) -> _Stopped | None:
    """Return what to install when an error says that somebody else's module is missing."""
    own = plugin.module.partition(".")[0]
    if not isinstance(error, ModuleNotFoundError) or not error.name or error.name.partition(".")[0] == own:
        return None
    command = f"pip install {plugin.distribution}"
    return _Stopped(f"needs {error.name}: {command}", command)


def _unfit(function: object, fault: str, kernel: str = "") -> _Stopped:
    """Return the stop that names file and line of an implementation that its specification does not allow."""
    code = getattr(inspect.unwrap(cast("Callable[..., object]", function)), "__code__", None)
    place = f"{code.co_filename}:{code.co_firstlineno}: " if isinstance(code, CodeType) else ""
    advice = f"its hook may be newer than this kernel ({kernel}); pip install --upgrade halo-kernel" if kernel else ""
    return _Stopped(f"{place}{fault}", advice)


def _check_signature(function: Callable[..., object], spec: Callable[..., object], hook: str) -> None:
    wanted = inspect.iscoroutinefunction(spec)
    if inspect.iscoroutinefunction(function) is not wanted:
        raise _unfit(function, f"{hook} must be {'async def' if wanted else 'a plain def'}")
    allowed = list(inspect.signature(spec).parameters)
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD and parameter.kind is not parameter.KEYWORD_ONLY:
            raise _unfit(function, f"{hook} must name its arguments, *{name} is none")
        if name not in allowed:
            known = f"it may take {', '.join(allowed)}" if allowed else "it takes none"
            raise _unfit(function, f"{hook} has no argument {name}{suggest(name, allowed)}; {known}")
        if parameter.default is not parameter.empty:
            raise _unfit(function, f"{hook} gives {name} a default, and the kernel always passes it")
