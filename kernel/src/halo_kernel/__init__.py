"""Halo's kernel: durable sessions, plugins and delivery. Everything public is a flat name of this package."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .access import fold_access as fold_access
    from .access import parse_access as parse_access
    from .access import permits as permits
    from .client import Client as Client
    from .client import connect as connect
    from .client import find_server as find_server
    from .clock import SystemClock as SystemClock
    from .command import wanted_plugins as wanted_plugins
    from .contracts import *  # noqa: F403
    from .errors import *  # noqa: F403
    from .folds import History as History
    from .folds import Item as Item
    from .folds import View as View
    from .hookspecs import hook as hook
    from .locks import locked as locked
    from .plugins import Plugin as Plugin
    from .plugins import Plugins as Plugins
    from .presence import is_served as is_served
    from .presence import read_presence as read_presence
    from .records import *  # noqa: F403
    from .repair import repair_history as repair_history
    from .runtime import Kernel as Kernel
    from .secrets import ensure_home as ensure_home
    from .secrets import write_secret as write_secret
    from .settings import AgentSettings as AgentSettings
    from .settings import EgressSettings as EgressSettings
    from .settings import LimitSettings as LimitSettings
    from .settings import LogSettings as LogSettings
    from .settings import ModelSettings as ModelSettings
    from .settings import PluginSettings as PluginSettings
    from .settings import ServerSettings as ServerSettings
    from .settings import SessionSettings as SessionSettings
    from .settings import SettingsField as SettingsField
    from .settings import load_kernel_settings as load_kernel_settings
    from .sites import add_sites as add_sites
    from .sites import default_home as default_home
    from .sites import read_sets as read_sets
    from .sqlite import is_own_file as is_own_file
    from .testing.checks import judge as judge

__version__ = "0.1.0"

_HOMES = {
    "access": ("fold_access", "parse_access", "permits"),
    "client": ("Client", "connect", "find_server"),
    "clock": ("SystemClock",),
    "command": ("wanted_plugins",),
    "folds": ("History", "Item", "View"),
    "hookspecs": ("hook",),
    "locks": ("locked",),
    "plugins": ("Plugin", "Plugins"),
    "presence": ("is_served", "read_presence"),
    "repair": ("repair_history",),
    "runtime": ("Kernel",),
    "secrets": ("ensure_home", "write_secret"),
    "settings": (
        "AgentSettings",
        "EgressSettings",
        "LimitSettings",
        "LogSettings",
        "ModelSettings",
        "PluginSettings",
        "ServerSettings",
        "SessionSettings",
        "SettingsField",
        "load_kernel_settings",
    ),
    "sites": ("add_sites", "default_home", "read_sets"),
    "sqlite": ("is_own_file",),
    "testing.checks": ("judge",),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f".{module}", __name__), name)
    for module in ("records", "errors", "contracts"):
        found = getattr(import_module(f".{module}", __name__), name, None)
        if found is not None:
            return found
    raise AttributeError(f"module 'halo_kernel' has no attribute {name!r}")
