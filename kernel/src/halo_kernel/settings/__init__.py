"""Typed settings: sections with defaults, one YAML file that people edit, and environment variables above it."""

from .document import SettingsFile
from .loaded import LoadedSettings, SettingsField, load_kernel_settings, load_settings
from .sections import (
    KERNEL_SECTIONS,
    AgentSettings,
    LimitSettings,
    LogSettings,
    ModelSettings,
    PluginSettings,
    ServerSettings,
    SessionSettings,
)
from .values import Finding

__all__ = [
    "KERNEL_SECTIONS",
    "AgentSettings",
    "Finding",
    "LimitSettings",
    "LoadedSettings",
    "LogSettings",
    "ModelSettings",
    "PluginSettings",
    "ServerSettings",
    "SessionSettings",
    "SettingsField",
    "SettingsFile",
    "load_kernel_settings",
    "load_settings",
]
