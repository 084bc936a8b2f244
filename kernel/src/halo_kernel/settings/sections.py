"""The kernel's own sections."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from ..egress import parse_allowed
from ..records import Secret, Section

_RESTART = {"restart": True}
_ONCE = {"restart": True, "global_only": True}


def _restart(variable: str) -> dict[str, object]:
    return {"restart": True, "env": variable}


class ServerSettings(Struct, frozen=True, kw_only=True):
    """Where the server listens and whom it lets in."""

    host: Annotated[str, Meta(min_length=1, description="Address to listen on.", extra=_RESTART)] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="Port; 0: a free one.", extra=_restart("HALO_PORT"))] = 9527
    password: Annotated[
        Secret | None, Meta(description="A scrypt hash; plain in HALO_PASSWORD.", extra={"env": "HALO_PASSWORD"})
    ] = None
    cors_origins: Annotated[
        tuple[str, ...], Meta(description="Other sites that may call the API.", extra={"env": "HALO_CORS_ORIGINS"})
    ] = ()
    allowed_hosts: Annotated[tuple[str, ...], Meta(description="Names, beside localhost, of this server.")] = ()
    home: Annotated[str, Meta(description="Plugin whose page `/` shows; empty: admin, else web.")] = ""
    root_path: Annotated[
        str, Meta(pattern=r"^(/[^/\s]+)*$", description="Path under which a proxy serves Halo.", extra=_RESTART)
    ] = ""
    trust_proxy: Annotated[bool, Meta(description="Take the caller's address from X-Forwarded-For.")] = False


class SessionSettings(Struct, frozen=True, kw_only=True):
    """What a session may hold."""

    max_queue_size: Annotated[int, Meta(ge=1, description="Messages that may wait.", extra=_RESTART)] = 256
    max_nesting_depth: Annotated[int, Meta(ge=0, description="Levels of sub-sessions.", extra=_RESTART)] = 16


class AgentSettings(Struct, frozen=True, kw_only=True):
    """How agents work."""

    default: Annotated[str, Meta(description="Agent of a new session; empty: the workspace's best.", extra=_ONCE)] = ""
    max_retries: Annotated[int, Meta(ge=1, le=100, description="Attempts at one model call.", extra=_RESTART)] = 5
    max_steps: Annotated[int, Meta(ge=1, description="Model calls in one turn.", extra=_RESTART)] = 100


class ModelSettings(Struct, frozen=True, kw_only=True):
    """Which model answers."""

    default: Annotated[str, Meta(description="`<provider>/<id>`; empty: the best that can answer.", extra=_ONCE)] = ""
    fallbacks: Annotated[tuple[str, ...], Meta(description="Asked in this order when one fails.", extra=_ONCE)] = ()
    idle_timeout: Annotated[
        float, Meta(gt=0, description="Seconds without data before a model call is cut.", extra=_RESTART)
    ] = 600.0


class LimitSettings(Struct, frozen=True, kw_only=True):
    """How long things may get."""

    tool_result_render_chars: Annotated[
        int, Meta(ge=100, description="Characters of a result for a model.", extra=_RESTART)
    ] = 8000


class LogSettings(Struct, frozen=True, kw_only=True):
    """What is logged, and how."""

    level: Annotated[
        Literal["debug", "info", "warn", "error"], Meta(description="Least level.", extra=_restart("HALO_LOG_LEVEL"))
    ] = "warn"
    format: Annotated[
        Literal["auto", "text", "json"], Meta(description="Lines; auto: text on a terminal, else json.", extra=_RESTART)
    ] = "auto"
    max_file_size: Annotated[
        int, Meta(ge=1024, description="Bytes before server.log is rotated.", extra=_restart("HALO_LOG_MAX_SIZE"))
    ] = 10_485_760
    max_files: Annotated[
        int, Meta(ge=1, le=100, description="Rotated files kept.", extra=_restart("HALO_LOG_MAX_FILES"))
    ] = 5


class EgressSettings(Struct, frozen=True, kw_only=True):
    """Where connections may lead that a model or a remote names, beside public addresses."""

    allow: Annotated[tuple[str, ...], Meta(description="Hosts, host:port, addresses and CIDRs to allow.")] = ()

    def __post_init__(self) -> None:
        for entry in self.allow:
            parse_allowed(entry)


class SecretSettings(Struct, frozen=True, kw_only=True):
    """Where secrets are kept."""

    store: Annotated[Literal["file", "keyring"], Meta(description="Where new secrets go.")] = "file"


class PluginSettings(Struct, frozen=True, kw_only=True):
    """Which plugins are loaded."""

    require_enable: Annotated[bool, Meta(description="Load only what is enabled.", extra=_RESTART)] = False
    enabled: Annotated[tuple[str, ...], Meta(description="Enabled plugins.", extra=_RESTART)] = ()
    disabled: Annotated[tuple[str, ...], Meta(description="Disabled plugins.", extra=_RESTART)] = ()


KERNEL_SECTIONS = (
    Section("server", ServerSettings, global_only=True),
    Section("session", SessionSettings, global_only=True),
    Section("agent", AgentSettings),
    Section("model", ModelSettings),
    Section("limits", LimitSettings),
    Section("logging", LogSettings, global_only=True),
    Section("egress", EgressSettings, global_only=True),
    Section("secrets", SecretSettings, global_only=True),
    Section("plugins", PluginSettings, global_only=True),
)
