"""The page's files: public, read once, never outside of their folder."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from halo_kernel import Exchange, NotFound, Reply, Route

_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
EMBEDDED = "embed.html"  # the page that other pages may frame
_FOLDER = Path(__file__).with_name("static")
_IMPORT_MAP = re.compile(rb'<script type="importmap">(.*?)</script>', re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Asset:
    """One file of the page."""

    content: bytes
    media_type: str
    etag: str


@cache
def load_assets() -> Mapping[str, Asset]:
    """Return every file of the page by its path below `/web/`; the page itself has the path ''."""
    files = [file for file in _FOLDER.rglob("*") if file.suffix in _TYPES]
    found = {file.relative_to(_FOLDER).as_posix(): _asset(file) for file in files}
    found[""] = found["index.html"]
    return found


def _asset(file: Path) -> Asset:
    content = file.read_bytes()
    digest = hashlib.sha256(content).hexdigest()[:32]
    return Asset(content=content, media_type=_TYPES[file.suffix], etag=f'"{digest}"')


@cache
def content_policy(page: str = "index.html") -> str:
    """Return a page's Content-Security-Policy: our own files, and the one inline import map by its digest.

    Only the page that is made for it may be framed.
    """
    found = _IMPORT_MAP.search(load_assets()[page].content)
    assert found is not None
    digest = base64.b64encode(hashlib.sha256(found[1]).digest()).decode()
    ancestors = "*" if page == EMBEDDED else "'none'"
    return (
        f"default-src 'none'; script-src 'self' 'sha256-{digest}'; style-src 'self'; img-src 'self' data:; "
        f"font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors {ancestors}"
    )


def _headers(path: str, asset: Asset) -> dict[str, str]:
    return {
        "ETag": asset.etag,
        "Cache-Control": "no-cache",
        "Content-Security-Policy": content_policy(EMBEDDED if path == EMBEDDED else "index.html"),
        "Cross-Origin-Opener-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }


async def serve(exchange: Exchange) -> Reply:
    """Answer a file of the page. Raises `NotFound`."""
    path = exchange.params["path"]
    asset = load_assets().get(path)
    if asset is None:
        raise NotFound(f"the page has no file {path[:100]!r}")
    known = exchange.raw.headers.get("if-none-match", "")
    if asset.etag in (tag.strip().removeprefix("W/") for tag in known.split(",")):
        return Reply(body=b"", status=304, headers=_headers(path, asset), media_type=asset.media_type)
    return Reply(body=asset.content, headers=_headers(path, asset), media_type=asset.media_type)


async def lead(exchange: Exchange) -> Reply:
    """Lead from `/web` to the page, by a relative address that holds behind any prefix."""
    return Reply(status=308, headers={"Location": "web/"})


def asset_routes() -> list[Route]:
    """Return the routes of the page's files."""
    return [
        Route(method="GET", path="/web", handler=lead, auth="public", summary="Lead to the chat page"),
        Route(method="GET", path="/web/{path:path}", handler=serve, auth="public", summary="The chat page"),
    ]
