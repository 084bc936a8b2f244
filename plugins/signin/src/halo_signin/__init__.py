"""Password and users: who may use the pages of this server."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from halo_kernel import hook

if TYPE_CHECKING:
    from halo_kernel import Host, Route, Section


@hook
def provide_settings() -> Iterable[Section]:
    """Provide the section `signin`."""
    from .settings import SECTION

    return [SECTION]


@hook
def provide_routes(host: Host) -> Iterable[Route]:
    """Provide the routes for signing in and out."""
    from .routes import SignIn

    return SignIn(host=host).routes
