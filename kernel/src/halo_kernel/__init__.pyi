# What type checkers see of the lazy names in `__init__.py`; a test holds both to the same set.
from .access import fold_access as fold_access
from .access import parse_access as parse_access
from .access import permits as permits
from .blobs import Blobs as Blobs
from .channels import Accounts as Accounts
from .clock import SystemClock as SystemClock
from .contracts import *  # noqa: F403
from .credentials import COOKIE as COOKIE
from .data import Data as Data
from .egress import Egress as Egress
from .errors import *  # noqa: F403
from .folds import CLEARED_MARKER as CLEARED_MARKER
from .folds import History as History
from .folds import Item as Item
from .folds import View as View
from .hookspecs import hook as hook
from .http import Face as Face
from .live import Live as Live
from .live import Subscription as Subscription
from .locks import locked as locked
from .log import configure as configure
from .plugins import Plugin as Plugin
from .plugins import Plugins as Plugins
from .presence import Presence as Presence
from .presence import is_served as is_served
from .presence import read_presence as read_presence
from .records import *  # noqa: F403
from .repair import repair_history as repair_history
from .runtime import Kernel as Kernel
from .schema import newest_schema as newest_schema
from .scopes import Scope as Scope
from .secrets import ensure_home as ensure_home
from .secrets import write_secret as write_secret
from .server.listening import serving as serving
from .sessions import Outbox as Outbox
from .sessions import Prompt as Prompt
from .sessions import Questions as Questions
from .sessions import Sessions as Sessions
from .settings import AgentSettings as AgentSettings
from .settings import EgressSettings as EgressSettings
from .settings import LimitSettings as LimitSettings
from .settings import LogSettings as LogSettings
from .settings import ModelSettings as ModelSettings
from .settings import PluginSettings as PluginSettings
from .settings import Reading as Reading
from .settings import Secrets as Secrets
from .settings import SecretSettings as SecretSettings
from .settings import ServerSettings as ServerSettings
from .settings import SessionSettings as SessionSettings
from .settings import Settings as Settings
from .settings import SettingsField as SettingsField
from .settings import SettingsFile as SettingsFile
from .settings import SettingsFinding as SettingsFinding
from .settings import load_kernel_settings as load_kernel_settings
from .settings import resolve_secret as resolve_secret
from .settings import use_keyring as use_keyring
from .sites import Wanted as Wanted
from .sites import add_sites as add_sites
from .sites import default_home as default_home
from .sites import read_sets as read_sets
from .sqlite import is_network as is_network
from .sqlite import is_own_file as is_own_file
from .testing.checks import Verdict as Verdict
from .testing.checks import judge as judge
from .workspaces import Workspaces as Workspaces

__version__: str
