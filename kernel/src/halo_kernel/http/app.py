"""The application: every route behind the gate, and an answer for what no route claims."""

from __future__ import annotations

import re
from collections import defaultdict
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from starlette.routing import BaseRoute, Router
from starlette.routing import Route as Mapped

from ..log import logger
from .callers import Callers
from .dispatch import Endpoint, Nowhere
from .system import About, Models, System
from .visits import Gate

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

    from starlette.types import ASGIApp

    from ..contracts import Clock, Settings
    from ..credentials import Credentials
    from ..hooks import Hooks
    from ..plugins import Plugin
    from ..records import Route

_PARAMETER = re.compile(r"\{[^}]*\}")


def build_app(
    *,
    routes: Sequence[tuple[str, Route]],
    pages: Mapping[str, str],
    credentials: Credentials,
    hooks: Hooks,
    stopping: asyncio.Event,
    settings: Settings,
    clock: Clock,
    about: About,
    models: Models,
    plugins: Callable[[], Sequence[Plugin]],
    on_started: Callable[[], None] | None = None,
) -> ASGIApp:
    """Return the ASGI application of the kernel's and the plugins' routes.

    `on_started` is called when a server begins to serve it.
    """
    system = System(
        about=about,
        clock=clock,
        links=credentials.links,
        models=models,
        plugins=plugins,
        stopping=stopping,
        others=routes,
        pages=pages,
        settings=settings,
    )
    gate = Gate(
        credentials=credentials,
        callers=Callers(credentials=credentials, hooks=hooks),
        settings=settings,
        bound=about.host,
        stopping=stopping,
        clock=clock,
        log=logger("http"),
    )

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncGenerator[None]:
        if on_started is not None:
            on_started()
        yield

    mapped = _map([route for _, route in system.routes], gate)
    return Router(mapped, default=Nowhere(gate), redirect_slashes=False, lifespan=lifespan)


def _map(routes: Sequence[Route], gate: Gate) -> Sequence[BaseRoute]:
    """Return one entry a path, the more exact paths first, because the first that fits answers."""
    by_path: dict[str, dict[str, Route]] = defaultdict(dict)
    for route in routes:
        by_path[route.path].setdefault(route.method.upper(), route)  # the kernel's own come first
    return [Mapped(path, Endpoint(by_path[path], gate)) for path in sorted(by_path, key=_vagueness)]


def _vagueness(path: str) -> list[tuple[int, str]]:
    """Order `/a/b` before `/a/{x}` before `/{rest:path}`."""
    return [
        (2 if ":path}" in part else 1 if _PARAMETER.search(part) else 0, part) for part in path.strip("/").split("/")
    ]
