"""A chat page and its routes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from halo_kernel import hook

if TYPE_CHECKING:
    from halo_kernel import Host, Route


@hook
def provide_routes(host: Host) -> Iterable[Route]:
    """Provide the page under `/web/` and what it asks under `/api/web/`."""
    from .assets import asset_routes
    from .chat import chat_routes
    from .lists import list_routes
    from .questions import question_routes

    return [*asset_routes(), *chat_routes(host), *question_routes(host), *list_routes(host)]
