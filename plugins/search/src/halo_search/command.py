"""`halo sessions search`: what was said in the sessions of a workspace."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import quote, urlencode

from halo_kernel import BadInput, HaloError, NotFound, default_home
from halo_lib_client import Client, connect

_PAGE = 100
_LOOK, _LINE = 0.5, 10.0  # seconds between two looks at a rebuild, and between two lines about it in a pipe
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"
# What a terminal would obey instead of showing it: C0, DEL, C1, and what turns the direction of writing.
_ACTING = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def command(argv: Sequence[str]) -> int:
    """Print what was found, best first: when, who, session and title, and below it the text."""
    options = _options().parse_args(list(argv))
    if options.rebuild == (options.query is not None):
        _options().error("name what to look for, or give --rebuild")
    folder = _text(str(_folder(options.workspace).absolute()), "workspace")
    with connect() as client:
        path = f"/api/workspaces/{quote(_workspace(client, folder), safe='')}/search"
        if options.rebuild:
            return _rebuild(client, f"{path}/index")
        return _print(_hits(client, path, _text(options.query, "query"), options.limit), options.format)


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="halo sessions search",
        description="Search what was said in the sessions of a workspace.",
        epilog='A query has words that must all be there (the last one may be only begun), "phrases", and behind a dash'
        " what must not be there. Put `--` before one that begins with a dash.",
    )
    add = parser.add_argument
    add("query", nargs="?", metavar="QUERY", help="what to look for")
    add("-w", "--workspace", metavar="DIR", help="folder of the workspace (default: the current one)")
    add("-n", "--limit", type=_count, default=20, metavar="N", help="print at most N (default: 20)")
    add("--format", choices=("text", "json"), default="text", help="text, or one JSON object a line")
    add("--rebuild", action="store_true", help="make the index anew, from the sessions")
    return parser


def _folder(named: str | None) -> Path:
    """Return the folder that is named, else the current one, but for a person's home and the root: those are none."""
    if named is not None:
        return Path(named).expanduser()
    here = Path.cwd()
    return here if here not in (Path.home(), Path(here.anchor)) else default_home(os.environ) / "workspaces" / "default"


def _count(text: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,3}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to 9999")
    return int(text)


def _text(typed: str, field: str) -> str:
    """Return what was typed, if it is text: bytes that are not UTF-8 reach us in disguise. Raises `BadInput`."""
    try:
        typed.encode()
    except UnicodeEncodeError:
        raise BadInput(f"the {field} is not UTF-8 text", field=field) from None
    return typed


def _workspace(client: Client, folder: str) -> str:
    """Return the id of a folder's workspace. Raises `WorkspaceUnusable`."""
    try:
        return str(client.post("/api/workspaces", {"path": folder})["id"])
    except NotFound as error:
        raise HaloError("the server has no route that opens a folder", advice="`pip install halo-api`") from error


def _hits(client: Client, path: str, query: str, limit: int) -> Iterator[dict[str, Any]]:
    """Yield hits, page by page, and say at the end when there may be more that is not indexed yet."""
    after = ""
    while True:
        size = min(limit, _PAGE)
        page = client.get(f"{path}?{urlencode({'q': query, 'limit': size, 'after': after})}")
        yield from page["hits"]
        limit, after = limit - size, page["next"]
        if not (limit and after):
            break
    if not page["complete"]:
        _note(f"The index is being made, {page['indexed']:.0%} so far: there may be more.")


def _print(hits: Iterator[dict[str, Any]], form: str) -> int:
    found = False
    for hit in hits:
        found = True
        print(json.dumps(hit, ensure_ascii=False) if form == "json" else _lines(hit, sys.stdout), flush=True)
    if not found:
        _note("Nothing found.")
    return 0


def _lines(hit: dict[str, Any], stream: TextIO) -> str:
    """Return a hit as two lines; on a terminal what was looked for is bold, and nothing else acts."""
    when = datetime.fromtimestamp(hit["at"] / 1000).strftime("%Y-%m-%d %H:%M")
    begin, end = (_BOLD, _PLAIN) if stream.isatty() else ("", "")
    pieces = ((_shown(piece["text"]), piece["hit"]) for piece in hit["snippet"])
    text = "".join(f"{begin}{text}{end}" if is_hit else text for text, is_hit in pieces)
    return f"{when}  {hit['kind']:<9}  {hit['session']}  {_shown(hit['title'])[:40]}\n    {text}"


def _shown(text: str) -> str:
    """Return a text in one line, without what acts."""
    return _ACTING.sub(" ", text)


def _rebuild(client: Client, path: str) -> int:
    """Make the index anew and say how far it is, until it is there; Ctrl-C leaves the server at it."""
    began = told = time.monotonic()
    on_screen = sys.stderr.isatty()
    state = client.post(path)
    while state["busy"]:
        time.sleep(_LOOK)
        state, now = client.get(path), time.monotonic()
        if on_screen or now - told >= _LINE:
            share, told = state["indexed"], now
            left = f", {(now - began) * (1 - share) / share:.0f} s left" if share else ""
            print(f"Indexing: {share:.0%}{left}", end="   \r" if on_screen else "\n", file=sys.stderr, flush=True)
    if state["indexed"] < 1:
        raise HaloError("not all sessions could be indexed", advice="`halo logs` says why")
    print("The index is made.")
    return 0


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
