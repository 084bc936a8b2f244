"""Budgets: tokens or money a day, kept across crashes; one that is reached asks a person."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from halo_kernel import hook

if TYPE_CHECKING:
    from halo_kernel import (
        Denial,
        Host,
        ModelCall,
        Question,
        Route,
        Section,
        Service,
        Session,
        SessionInfo,
        TurnResult,
        WorkspaceInfo,
    )

    from .books import Books

_books: MutableMapping[int, Books] = WeakValueDictionary()  # by the id of what the views of one server share
_open: dict[str, Books] = {}  # by workspace: a guard is told of a session, not of the server


def _books_of(host: Host) -> Books:
    from .books import Books

    found = _books.get(id(host.sessions))
    if found is None:
        found = _books[id(host.sessions)] = Books(host)
    return found


@hook
def provide_settings() -> Iterable[Section]:
    """Provide the section `budget`."""
    from .settings import SECTION

    return [SECTION]


@hook
def provide_routes(host: Host) -> Iterable[Route]:
    """Provide the routes under `/api/budgets`."""
    from .routes import budget_routes

    return budget_routes(_books_of(host))


@hook
def provide_services(host: Host) -> Iterable[Service]:
    """Provide what lets turns go on when there is room again."""
    from .service import Watch

    return [Watch(_books_of(host))]


@hook
async def workspace_opened(workspace: WorkspaceInfo, host: Host) -> None:
    """Know which books a workspace's calls go into."""
    _open[workspace.id] = _books_of(host)


@hook
async def authorize_model(call: ModelCall, session: Session) -> Denial | Question | None:
    """Let a call through while there is something left of every budget that it falls under."""
    return await _open[session.info.workspace].authorize(call, session)


@hook
async def model_finished(call: ModelCall) -> None:
    """Count what a call cost."""
    await _open[call.session.info.workspace].finished(call)


@hook
async def run_finished(session: SessionInfo, result: TurnResult) -> None:
    """Forget what a turn that is over had asked for."""
    await _open[session.workspace].ended(session, result.turn)
