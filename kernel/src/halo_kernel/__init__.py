"""Halo's kernel: durable sessions, plugins and delivery. Everything public is a flat name of this package."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "access": "fold_access parse_access permits",
    "blobs": "Blobs",
    "channels": "Accounts",
    "clock": "SystemClock",
    "credentials": "COOKIE",
    "data": "Data",
    "egress": "Egress",
    "folds": "CLEARED_MARKER History Item View",
    "hookspecs": "hook",
    "http": "Face",
    "http.replies": "shape status_of",
    "live": "Live Subscription",
    "locks": "locked",
    "log": "configure",
    "plugins": "Plugin Plugins",
    "presence": "Presence is_served read_presence",
    "repair": "repair_history",
    "runtime": "Kernel",
    "schema": "newest_schema",
    "scopes": "Scope",
    "secrets": "Secrets ensure_home resolve_secret use_keyring write_secret",
    "server.listening": "serving",
    "sessions": "Outbox Prompt Questions Session Sessions",
    "settings": "AgentSettings EgressSettings LimitSettings LogSettings ModelSettings PluginSettings Reading"
    " SecretSettings ServerSettings SessionSettings Settings SettingsField SettingsFile SettingsFinding"
    " load_kernel_settings",
    "sites": "Wanted add_sites default_home read_sets",
    "sqlite": "is_network is_own_file",
    "testing.checks": "Verdict judge",
    "workspaces": "Workspaces",
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names.split():
            return getattr(import_module(f".{module}", __name__), name)
    for module in ("records", "errors", "contracts"):
        found = getattr(import_module(f".{module}", __name__), name, None)
        # a module of theirs is none of ours: `from . import settings` is not `records.settings`
        if found is not None and not isinstance(found, ModuleType):
            return found
    raise AttributeError(f"module 'halo_kernel' has no attribute {name!r}")


def __dir__() -> list[str]:
    lists = [vars(import_module(f".{module}", __name__)) for module in ("records", "errors", "contracts")]
    more = [name for each in lists for name, value in each.items() if _is_ours(name, value)]
    return sorted({*" ".join(_HOMES.values()).split(), *more, "__version__"})


def _is_ours(name: str, value: object) -> bool:
    home = sys.modules[getattr(value, "__module__", None) or "typing"]
    imported = name.startswith("_") or isinstance(value, ModuleType) or hasattr(home, name)
    return home.__name__.startswith(__name__) or not imported
