"""Typed settings: sections with defaults, one YAML file that people edit, and environment variables above it."""

from .document import SettingsFile as SettingsFile
from .loaded import Reading as Reading
from .loaded import Settings as Settings
from .loaded import SettingsField as SettingsField
from .loaded import SettingsFinding as SettingsFinding
from .loaded import load_kernel_settings as load_kernel_settings
from .loaded import load_settings as load_settings
from .sections import KERNEL_SECTIONS as KERNEL_SECTIONS
from .sections import AgentSettings as AgentSettings
from .sections import EgressSettings as EgressSettings
from .sections import LimitSettings as LimitSettings
from .sections import LogSettings as LogSettings
from .sections import ModelSettings as ModelSettings
from .sections import PluginSettings as PluginSettings
from .sections import SecretSettings as SecretSettings
from .sections import ServerSettings as ServerSettings
from .sections import SessionSettings as SessionSettings
from .vault import Secrets as Secrets
from .vault import resolve_secret as resolve_secret
from .vault import use_keyring as use_keyring
