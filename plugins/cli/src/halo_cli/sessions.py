"""`halo sessions`: the conversations of a workspace: listed, shown, exported."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from halo_kernel import BadInput

from .terminal import answer, note, plain
from .workspaces import choose_folder, open_workspace, reach, session_path


def command(argv: Sequence[str]) -> int:
    """List sessions, one line each; or show or export one."""
    options = _options(argv)
    with reach() as client:
        workspace, _ = open_workspace(client, choose_folder(options.workspace))
        if options.verb is None:
            return _list(client.get(f"{session_path(workspace)}?limit=200")["sessions"])
        path = session_path(workspace, plain(options.session, "session"))
        found = client.get(f"{path}/export?format={'json' if options.verb == 'show' else options.format}")
    if options.verb == "show":
        return _show(found, as_json=options.json)
    return _export(found if options.format == "md" else json.dumps(found, ensure_ascii=False, indent=2), options.output)


def _list(rows: Sequence[dict[str, Any]]) -> int:
    for row in rows:
        answer(f"{row['id']}  {_time(row['updated_at'])}  {row['title'][:40]}")
    if not rows:
        note("No sessions found.")
    return 0


def _show(found: dict[str, Any], *, as_json: bool) -> int:
    info = found["session"]
    if as_json:
        answer(json.dumps({key: found[key] for key in ("session", "title", "items")}, ensure_ascii=False, indent=2))
        return 0
    answer(f"{info['id']}  {found['title']}")
    answer(f"agent {info['agent']}, access {info['access']}, made {_time(info['created_at'])}")
    for item in found["items"]:
        answer(f"\n{_who(item)}, {_time(item['at'])}\n{item['text']}")
    return 0


def _who(item: dict[str, Any]) -> str:
    if item["kind"] == "tool":
        return f"tool {item['name']} {json.dumps(item['arguments'], ensure_ascii=False)}: {item['outcome'] or 'runs'}"
    names = {"user": "you", "assistant": str(item["model"]) or "answer"}
    return names.get(item["kind"], "notice")


def _export(text: str, output: str | None) -> int:
    if output is None:
        answer(text.rstrip("\n"))
        return 0
    path = Path(output).expanduser()
    try:
        with open(path, "x", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(text.rstrip("\n") + "\n")
    except FileExistsError as error:
        raise BadInput(f"{path} is there already", field="output", advice="name another file") from error
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}", field="output") from error
    note(f"{path} is written.")
    return 0


def _time(at: int) -> str:
    return datetime.fromtimestamp(at / 1000).strftime("%Y-%m-%d %H:%M:%S")


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="halo sessions",
        description="List the sessions of a workspace, newest first; show or export one.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(dest="verb", metavar="show|export")
    show = verbs.add_parser("show", help="print what was said", description="Print what was said in a session.")
    show.add_argument("session", metavar="ID")
    show.add_argument("--json", action="store_true", help="print JSON")
    export = verbs.add_parser("export", help="print it as a document", description="Print a session as a document.")
    export.add_argument("session", metavar="ID")
    export.add_argument(
        "--format", choices=("md", "json"), default="md", help="markdown for people, or JSON with all of it"
    )
    export.add_argument("-o", "--output", metavar="FILE", help="write it to a new file that only you can read")
    said = "folder of the workspace (default: the current one)"
    parser.add_argument("-w", "--workspace", metavar="DIR", help=said)
    for verb in (show, export):
        verb.add_argument("-w", "--workspace", metavar="DIR", help=said, default=argparse.SUPPRESS)
    parser.epilog = f"{show.format_help()}\n{export.format_help()}"
    return parser.parse_args(list(argv))
