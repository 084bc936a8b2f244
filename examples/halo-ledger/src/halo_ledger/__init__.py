"""A tool for transfers of money that asks a person above a limit."""

from __future__ import annotations

from collections.abc import Sequence

from halo_kernel import Host, Section, Session, Tool, hook

from .settings import LedgerSettings
from .transfer import Transfer


@hook
def provide_settings() -> Sequence[Section]:
    """What may be moved without asking; a workspace, which may be a stranger's, has no say in it."""
    return [Section("ledger", LedgerSettings, global_only=True)]


@hook
def provide_tools(session: Session, host: Host) -> Sequence[Tool]:
    """The transfer."""
    return [Transfer(host)]
