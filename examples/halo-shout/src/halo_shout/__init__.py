"""The channel `shout`: plain lines over TCP, on this machine."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from halo_kernel import Account, Channel, Dispatcher, Host, Section, hook

from .channel import Shout
from .outgoing import Outgoing
from .settings import ShoutSettings


@hook
def provide_settings() -> Sequence[Section]:
    """Where it listens, whom it lets in, and whom it speaks for."""
    return [Section("shout", ShoutSettings, global_only=True)]


@hook
def provide_channels(host: Host) -> Sequence[Channel]:
    """What takes messages in."""
    return [Shout(host)]


@hook
def provide_dispatchers(host: Host) -> Sequence[Dispatcher]:
    """What carries the answers out."""
    return [Outgoing(host)]


@hook
async def runtime_started(host: Host) -> None:
    """Make the account of the workspace that the settings name; an operator may have changed the rest of it."""
    folder = host.settings.of(ShoutSettings).workspace
    held = next((each for each in await host.accounts.list("shout") if each.id == "main"), None)
    wanted = replace(held, workspace=folder) if held else Account(type="shout", id="main", workspace=folder)
    if folder and wanted != held:
        await host.accounts.put(wanted)
