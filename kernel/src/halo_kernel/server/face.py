"""A kernel's face to the world: its application, and the keys that it checks."""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING

from .. import __version__
from ..credentials import Credentials, make_credentials
from ..http import About, build_app
from ..secrets import read_secret, write_secret

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from starlette.types import ASGIApp

    from ..runtime import Kernel

_KEY_BYTES = 32


def credentials_of(kernel: Kernel) -> Credentials:
    """Return the credentials of a server that starts now; cookies of earlier ones stay good."""
    return make_credentials(_cookie_key(kernel.home), kernel.clock)


def app_of(
    kernel: Kernel,
    credentials: Credentials,
    *,
    host: str = "127.0.0.1",
    url: str = "",
    embedded: bool = False,
    on_started: Callable[[], None] | None = None,
) -> ASGIApp:
    """Return a kernel's application."""
    about = About(
        version=__version__,
        home=str(kernel.home),
        pid=os.getpid(),
        started=kernel.clock.now(),
        host=host,
        url=url,
        embedded=embedded,
    )
    return build_app(
        routes=kernel.routes,
        pages=kernel.pages,
        credentials=credentials,
        hooks=kernel.hooks,
        stopping=kernel.stopping,
        settings=kernel.settings,
        clock=kernel.clock,
        about=about,
        models=kernel.models,
        plugins=kernel.plugins.list,
        on_started=on_started,
    )


def _cookie_key(home: Path) -> bytes:
    """Return the key that signs cookies, made once for each home."""
    path = home / "secrets" / "cookie.key"
    text = (read_secret(path) or "").strip()
    if len(text) != 2 * _KEY_BYTES:
        text = secrets.token_hex(_KEY_BYTES)
        write_secret(path, text + "\n")
    return bytes.fromhex(text)
