"""Models behind an Eliza server."""

from __future__ import annotations

from collections.abc import Sequence

from halo_kernel import Host, ModelProvider, Section, Settings, hook

from .provider import Eliza
from .settings import ElizaSettings


@hook
def provide_settings() -> Sequence[Section]:
    """Where the server is; a workspace, which may be a stranger's, has no say in where the key goes."""
    return [Section("eliza", ElizaSettings, global_only=True)]


@hook
def provide_models(settings: Settings, host: Host) -> Sequence[ModelProvider]:
    """The provider."""
    return [Eliza(settings, host.egress)]
