"""A channel: people write to their agents in Telegram."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from halo_kernel import Account, CommandSpec, hook

from .settings import SECTION, TelegramSettings

if TYPE_CHECKING:
    from halo_kernel import (
        Channel,
        Command,
        Dispatcher,
        Host,
        Receipt,
        Route,
        Section,
        Session,
        SessionInfo,
        Turn,
        TurnResult,
        WorkspaceInfo,
    )

    from .desk import Desk

# Hooks are free functions, and those about a session are not handed the host: each host has a desk, found by workspace.
_desks: list[Desk] = []
_by_workspace: dict[str, Desk] = {}


def _desk(host: Host) -> Desk:
    from .desk import Desk

    found = next((each for each in _desks if each.host.workspaces is host.workspaces), None)
    if found is None:
        found = Desk.of(host)
        _desks.append(found)
    return found


@hook
def provide_settings() -> Iterable[Section]:
    """Where the Bot API is, and an account without a command."""
    return (SECTION,)


@hook
def provide_channels(host: Host) -> Sequence[Channel]:
    """What takes messages in."""
    return [_desk(host).channel]


@hook
def provide_dispatchers(host: Host) -> Sequence[Dispatcher]:
    """What carries answers out."""
    return [_desk(host).outgoing]


@hook
def provide_routes(host: Host) -> Sequence[Route]:
    """Where Telegram pushes to."""
    return [_desk(host).webhooks.route()]


@hook
async def runtime_started(host: Host) -> None:
    """Make the account of the workspace that the settings name; an operator may have changed the rest of it."""
    said = host.settings.of(TelegramSettings)
    held = next((each for each in await host.accounts.list("telegram") if each.id == "main"), None)
    wanted = replace(
        held or Account(type="telegram", id="main", workspace=""), workspace=said.workspace, allowed=said.users
    )
    if said.workspace and wanted != held:
        await host.accounts.put(wanted)


@hook
async def runtime_stopping(host: Host) -> None:
    """Give connections back, and forget a host that ends."""
    for desk in [each for each in _desks if each.host.workspaces is host.workspaces]:
        _desks.remove(desk)
        for workspace in [name for name, each in _by_workspace.items() if each is desk]:
            del _by_workspace[workspace]
        await desk.bots.close()


@hook
async def workspace_opened(workspace: WorkspaceInfo, host: Host) -> None:
    """Remember the host, for the workspace's sessions."""
    _by_workspace[workspace.id] = _desk(host)


@hook
async def session_opened(session: Session) -> None:
    """Have Telegram's apps offer the commands of its sessions."""
    desk = _of(session.info)
    if desk is not None:
        desk.host.spawn("telegram.commands", desk.menu.offer(session))


@hook
async def list_commands(session: Session) -> Iterable[CommandSpec]:
    """`/start`, in Telegram."""
    from .commands import START

    return [START] if _of(session.info) else []


@hook
async def resolve_command(name: str, session: Session) -> Command | None:
    """`/start`, in Telegram."""
    from .commands import Start

    desk = _of(session.info)
    return Start(desk.menu) if desk is not None and name == "start" else None


@hook
async def message_received(session: SessionInfo, receipt: Receipt) -> None:
    """Remember where its answer begins."""
    if desk := _of(session):
        desk.presence.received(session, receipt.cursor)


@hook
async def run_started(session: SessionInfo, turn: Turn) -> None:
    """Show in its chats that an answer is being written."""
    if desk := _by_workspace.get(session.workspace):
        desk.presence.started(session, turn)


@hook
async def run_finished(session: SessionInfo, result: TurnResult) -> None:
    """End what `run_started` began."""
    if desk := _by_workspace.get(session.workspace):
        desk.presence.finished(result.turn)


def _of(session: SessionInfo) -> Desk | None:
    """Return the desk of a session that is a chat's."""
    return _by_workspace.get(session.workspace) if session.origin == "telegram" else None
