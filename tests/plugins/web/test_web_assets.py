"""The page's files."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path

import pytest
from starlette.requests import Request

import halo_web
from halo_kernel import OPERATOR, Exchange, NotFound, Reply
from halo_web.assets import asset_routes, content_policy, load_assets, serve

STATIC = Path(halo_web.__file__).with_name("static")


def visit(path: str, **headers: str) -> Exchange:
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    raw = Request({"type": "http", "method": "GET", "path": f"/web/{path}", "headers": pairs, "query_string": b""})
    return Exchange(
        principal=OPERATOR, body=None, params={"path": path}, query={}, last_event_id=None, address="", raw=raw
    )


async def test_the_page_is_served_with_a_strict_policy() -> None:
    """The page may run and load its own files only, and no other site may frame it."""
    reply = await serve(visit(""))
    assert reply.media_type == "text/html; charset=utf-8"
    policy = reply.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy


PAGES = pytest.mark.parametrize("name", ["index.html", "embed.html"])


async def test_only_the_chat_for_other_pages_may_be_framed() -> None:
    """Any page may frame `embed.html`, and nothing else of it is looser than the page."""
    replies = [await serve(visit(path)) for path in ("embed.html", "")]
    embedded, page = (reply.headers["Content-Security-Policy"] for reply in replies)
    ends = [policy.rpartition("; ")[2] for policy in (embedded, page)]
    assert ends == ["frame-ancestors *", "frame-ancestors 'none'"]
    loose, strict = (re.sub(r"sha256-[^']*", "", policy.rpartition("; ")[0]) for policy in (embedded, page))
    assert loose == strict


@PAGES
async def test_the_policy_allows_exactly_the_import_map(name: str) -> None:
    """The one inline script is the import map, and its digest is in the policy."""
    page = load_assets()[name].content
    inline = [
        body
        for attributes, body in re.findall(rb"<script([^>]*)>(.*?)</script>", page, re.DOTALL)
        if b"src=" not in attributes
    ]
    assert len(inline) == 1
    digest = base64.b64encode(hashlib.sha256(inline[0]).digest()).decode()
    assert f"'sha256-{digest}'" in content_policy(name)


@PAGES
async def test_every_address_in_the_page_is_relative_and_there(name: str) -> None:
    """The page works behind any prefix: nothing in it begins with a slash or names a host."""
    page = load_assets()[name].content.decode()
    found = re.findall(r'(?:src|href)="([^"]+)"', page) + list(
        json.loads(re.findall(r"importmap\">(.*?)</script>", page, re.DOTALL)[0])["imports"].values()
    )
    assert len(found) > 8
    assert all(address.removeprefix("./") in load_assets() for address in found)


async def test_modules_import_only_what_is_there() -> None:
    """Every module that a module of the page imports is a file of ours or in the import map."""
    page = load_assets()["index.html"].content.decode()
    named = set(json.loads(re.findall(r"importmap\">(.*?)</script>", page, re.DOTALL)[0])["imports"])
    for path, asset in load_assets().items():
        if path.endswith(".js"):
            for name in re.findall(r'\bfrom ?"([^"]+)"', asset.content.decode()):
                assert name in named or name.removeprefix("./") in load_assets(), f"{path} imports {name}"


@pytest.mark.parametrize(
    "path", ["../halo.toml", "../__init__.py", "..%2f__init__.py", "/etc/passwd", "vendor", "vendor/", "x.js"]
)
async def test_nothing_outside_the_folder_is_served(path: str) -> None:
    """A path is looked up among the page's files, so that no path leads out of them."""
    with pytest.raises(NotFound):
        await serve(visit(path))


@pytest.mark.parametrize(
    ("path", "media_type"),
    [
        ("app.js", "text/javascript"),
        ("app.css", "text/css"),
        ("icon.svg", "image/svg+xml"),
        ("vendor/marked.js", "text/javascript"),
    ],
)
async def test_media_types_let_browsers_run_it(path: str, media_type: str) -> None:
    """Modules, styles and drawings have the types that a browser under nosniff insists on."""
    reply = await serve(visit(path))
    assert reply.media_type.startswith(media_type)
    assert reply.body == (STATIC / path).read_bytes()


async def test_a_known_file_is_not_sent_again() -> None:
    """A browser that has the file asks with its tag and gets 304 without a body."""
    first = await serve(visit("app.js"))
    again = await serve(visit("app.js", if_none_match=f'"other", W/{first.headers["ETag"]}'))
    assert again.status == 304
    assert again.headers["ETag"] == first.headers["ETag"]


async def test_the_address_without_a_slash_leads_to_the_page() -> None:
    """`/web` answers with a relative redirect, which holds behind a prefix too."""
    route = next(route for route in asset_routes() if route.path == "/web")
    reply = await route.handler(visit(""))
    assert isinstance(reply, Reply)
    assert (reply.status, reply.headers["Location"]) == (308, "web/")


def test_vendored_files_are_as_their_manifest_says() -> None:
    """Every library file has the sha256 of its manifest, and every package its licence."""
    manifest = json.loads((STATIC / "vendor" / "manifest.json").read_text())
    listed = {name: digest for files in manifest.values() for name, digest in files.items()}
    present = {path.name for path in (STATIC / "vendor").iterdir()} - {"manifest.json"}
    assert present == set(listed)
    assert {name: hashlib.sha256((STATIC / "vendor" / name).read_bytes()).hexdigest() for name in present} == listed
    assert all(any("LICENSE" in name for name in files) for files in manifest.values())


def test_every_word_is_there_in_both_languages() -> None:
    """What the page says in English it says in Chinese, with the same marks."""
    source = (STATIC / "words.js").read_text()
    english, chinese = (
        {
            name: sorted(re.findall(r"\{\w+\}", words))
            for name, words in re.findall(r"^  (\w+): (.+),$", table, re.MULTILINE)
        }
        for table in re.findall(r"^const (?:EN|ZH) = \{\n(.*?)^\};", source, re.MULTILINE | re.DOTALL)
    )
    assert len(english) > 80
    assert english == chinese
