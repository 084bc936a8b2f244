"""Backups of a whole home or of one workspace, made while everything goes on, verified and restored."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from halo_kernel import hook

if TYPE_CHECKING:
    from halo_kernel import Host, Route


@hook
def provide_routes(host: Host) -> Iterable[Route]:
    """Provide the routes under `/api/backups`."""
    from .routes import backup_routes

    return backup_routes(host)
