"""The kernel's own sections."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from ..egress import parse_allowed
from ..records import Secret, Section


def _field(description: str, *marks: str, env: str = "", command: str = "", **bounds: Any) -> Meta:
    extra = {**dict.fromkeys(marks, True), "env": env or (), "command": command}
    return Meta(description=description, extra=extra, **bounds)


class ServerSettings(Struct, frozen=True, kw_only=True):
    """Where the server listens and whom it lets in."""

    host: Annotated[str, _field("Address to listen on.", "restart", min_length=1)] = "127.0.0.1"
    port: Annotated[int, _field("Port; 0: a free one.", "restart", env="HALO_PORT", ge=0, le=65535)] = 9527
    password: Annotated[
        Secret | None,
        _field("A scrypt hash; plain in HALO_PASSWORD.", env="HALO_PASSWORD", command="halo password"),
    ] = None
    cors_origins: Annotated[tuple[str, ...], _field("Other sites that may call the API.", env="HALO_CORS_ORIGINS")] = ()
    allowed_hosts: Annotated[tuple[str, ...], _field("Names, beside localhost, of this server.")] = ()
    home: Annotated[str, _field("Plugin whose page `/` shows; empty: admin, else web.")] = ""
    root_path: Annotated[str, _field("Path of Halo behind a proxy.", "restart", pattern=r"^(/[^/\s]+)*$")] = ""
    trust_proxy: Annotated[bool, _field("Take the caller's address from X-Forwarded-For.")] = False


class SessionSettings(Struct, frozen=True, kw_only=True):
    """What a session may hold."""

    max_queue_size: Annotated[int, _field("Messages that may wait.", "restart", ge=1)] = 256
    max_nesting_depth: Annotated[int, _field("Levels of a tree of sessions.", "restart", ge=1)] = 16
    max_children: Annotated[int, _field("Sessions right below one, the archived apart.", "restart", ge=0)] = 64
    max_descendants: Annotated[int, _field("Sessions of a tree below its root, likewise.", "restart", ge=0)] = 256


class AgentSettings(Struct, frozen=True, kw_only=True):
    """How agents work."""

    default: Annotated[
        str, _field("Agent of a new session; empty: the workspace's best.", "restart", "global_only")
    ] = ""
    max_retries: Annotated[int, _field("Attempts at one model call.", "restart", ge=1, le=100)] = 5
    max_steps: Annotated[int, _field("Model calls in one turn.", "restart", ge=1)] = 100
    compress_at: Annotated[float, _field("Part of the context that calls for less.", "restart", gt=0, le=1)] = 0.9


class ModelSettings(Struct, frozen=True, kw_only=True):
    """Which model answers."""

    default: Annotated[str, _field("`<provider>/<id>`; empty: the best there is.", "restart", "global_only")] = ""
    fallbacks: Annotated[tuple[str, ...], _field("Asked in this order when one fails.", "restart", "global_only")] = ()
    idle_timeout: Annotated[float, _field("Seconds without data that end a call.", "restart", gt=0)] = 600.0


class LimitSettings(Struct, frozen=True, kw_only=True):
    """How long things may get."""

    tool_result_render_chars: Annotated[int, _field("Characters of a result for a model.", "restart", ge=100)] = 8000


class LogSettings(Struct, frozen=True, kw_only=True):
    """What is logged, and how. `format` is text on a terminal, else json, where it is auto."""

    level: Annotated[Literal["debug", "info", "warn", "error"], _field("Least.", "restart", env="HALO_LOG_LEVEL")] = (
        "warn"
    )
    format: Annotated[Literal["auto", "text", "json"], _field("How lines look.", "restart")] = "auto"
    max_file_size: Annotated[int, _field("Bytes of a file.", "restart", env="HALO_LOG_MAX_SIZE", ge=1024)] = 10_485_760
    max_files: Annotated[int, _field("Old files kept.", "restart", env="HALO_LOG_MAX_FILES", ge=1, le=100)] = 5


class EgressSettings(Struct, frozen=True, kw_only=True):
    """Where connections may lead that a model or a remote names, beside public addresses."""

    allow: Annotated[tuple[str, ...], _field("Hosts, host:port, addresses and CIDRs to allow.")] = ()

    def __post_init__(self) -> None:
        for entry in self.allow:
            parse_allowed(entry)


class SecretSettings(Struct, frozen=True, kw_only=True):
    """Where secrets are kept."""

    store: Annotated[Literal["file", "keyring"], _field("Where new secrets go.")] = "file"


class PluginSettings(Struct, frozen=True, kw_only=True):
    """Which plugins are loaded."""

    require_enable: Annotated[bool, _field("Load only what is enabled.", "restart")] = False
    enabled: Annotated[tuple[str, ...], _field("Enabled plugins.", "restart")] = ()
    disabled: Annotated[tuple[str, ...], _field("Disabled plugins.", "restart")] = ()


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
