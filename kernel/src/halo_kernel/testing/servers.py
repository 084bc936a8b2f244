"""A kernel's routes for a test: as an application, or behind a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from ..http import Face
from ..server.listening import bind, serving, url_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from ..credentials import Credentials
    from ..runtime import Kernel


@dataclass(frozen=True, kw_only=True)
class Front:
    """A kernel's application, where it listens (if it does), and the token that lets the operator in."""

    app: ASGIApp
    token: str
    credentials: Credentials
    url: str = ""

    @property
    def headers(self) -> dict[str, str]:
        """The headers of a request by the operator."""
        return {"Authorization": f"Bearer {self.token}"}


def front(kernel: Kernel, *, url: str = "http://localhost:9527", host: str = "127.0.0.1") -> Front:
    """Return a kernel's application, for a client that calls it in this process."""
    face = Face(kernel, url=url, host=host)
    return Front(app=face, token=face.presence.token, credentials=face.credentials, url=url)


@asynccontextmanager
async def listening(kernel: Kernel) -> AsyncGenerator[Front]:
    """Serve a kernel's application on a free port of this machine; leaving ends it as a server's stop does."""
    await asyncio.to_thread(import_module, "hypercorn.asyncio")  # for half a second, the first time
    sock = bind("127.0.0.1", 0)
    face = front(kernel, url=url_of(sock))
    async with serving(face.app, sock, stopping=kernel.stopping):
        yield face
