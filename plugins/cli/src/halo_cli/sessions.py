"""`halo sessions`: the conversations of a workspace: listed, shown, exported, and what becomes of them."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from halo_kernel import BadInput
from halo_lib_client import Client

from .terminal import answer, note, plain
from .workspaces import choose_folder, kept_workspace, reach, session_path


def command(argv: Sequence[str]) -> int:
    """List sessions, one line each; or do something with one."""
    options = _options(argv)
    with reach() as client:
        lists = options.verb in (None, "list")
        workspace = kept_workspace(client, choose_folder(options.workspace), lists=lists)
        if lists:
            rows = client.get(f"{session_path(workspace)}?limit=200")["sessions"] if workspace else ()
            return _list(rows, as_json=getattr(options, "json", False))
        name = plain(options.session, "session")
        path = session_path(workspace, name)
        if options.verb not in ("show", "export"):
            return _change(client, path, name, options)
        found = client.get(f"{path}/export?format={'json' if options.verb == 'show' else options.format}")
    if options.verb == "show":
        return _show(found, as_json=options.json)
    return _export(found if options.format == "md" else json.dumps(found, ensure_ascii=False, indent=2), options.output)


def _change(client: Client, path: str, name: str, options: argparse.Namespace) -> int:
    """Do with a session what the verb says; stdout is the new session's id where one is made."""
    title = None if getattr(options, "title", None) is None else plain(options.title, "title")
    match options.verb:
        case "rename":
            client.request("PATCH", path, {"title": title})
            note(f"{name} is called {title!r} now.")
        case "fork":
            answer(client.post(f"{path}/fork", {} if title is None else {"title": title})["id"])
        case "delete":
            client.request("DELETE", path)
            note(f"{name} is deleted.")
        case verb:
            client.post(f"{path}/{verb}")
            note(f"{name} is {'stopped' if verb == 'stop' else 'archived'}.")
    return 0


def _list(rows: Sequence[dict[str, Any]], *, as_json: bool) -> int:
    if as_json:
        answer(json.dumps(rows, ensure_ascii=False, indent=2))
        return 0
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


_CHANGES = {
    "rename": ("give it a title", "Give a session a title, which no message replaces."),
    "fork": ("copy it", "Make a session with the history of another one, and print its id."),
    "stop": ("stop it", "Stop a session and all that was started from it; the next message goes on."),
    "archive": ("close it for good", "Close a session for good; it can be read."),
    "delete": ("delete it", "Delete a session and all that was started from it; a day later it is erased."),
}


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="halo sessions",
        description="List the sessions of a workspace, newest first; show, export or change one.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(dest="verb", metavar="|".join(["list", "show", "export", *_CHANGES]))
    listed = verbs.add_parser("list", help="list them", description="List the sessions of a workspace, newest first.")
    show = verbs.add_parser("show", help="print what was said", description="Print what was said in a session.")
    export = verbs.add_parser("export", help="print it as a document", description="Print a session as a document.")
    changes = {verb: verbs.add_parser(verb, help=help, description=about) for verb, (help, about) in _CHANGES.items()}
    for one in (show, export, *changes.values()):
        one.add_argument("session", metavar="ID")
    for one in (listed, show):
        one.add_argument("--json", action="store_true", help="print JSON")
    export.add_argument(
        "--format", choices=("md", "json"), default="md", help="markdown for people, or JSON with all of it"
    )
    export.add_argument("-o", "--output", metavar="FILE", help="write it to a new file that only you can read")
    changes["rename"].add_argument("title", metavar="TITLE")
    changes["fork"].add_argument("--title", metavar="TITLE", help="of the copy (default: the original's)")
    said = "folder of the workspace (default: the current one)"
    parser.add_argument("-w", "--workspace", metavar="DIR", help=said)
    for one in (listed, show, export, *changes.values()):
        one.add_argument("-w", "--workspace", metavar="DIR", help=said, default=argparse.SUPPRESS)
    parser.epilog = "\n".join(one.format_help() for one in (show, export, *changes.values()))
    return parser.parse_args(list(argv))
