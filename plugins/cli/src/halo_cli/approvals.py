"""`halo approvals`: what waits for a person, and the answer to it."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote

from halo_lib_client import Client

from .progress import waiting
from .terminal import answer, note, plain
from .workspaces import choose_folder, kept_workspace, reach, session_path

_STEP = 0.1
Asked = Mapping[str, Any]
Act = Callable[[Client, str, argparse.Namespace], None]


def command(argv: Sequence[str]) -> int:
    """List, show, approve or deny questions of a workspace's sessions."""
    options = _options(argv)
    act: Act = _list if options.action == "list" else _show if options.action == "show" else _settle
    with reach() as client:
        workspace = kept_workspace(client, choose_folder(options.workspace), lists=options.action == "list")
        act(client, workspace, options)
    return 0


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="halo approvals",
        description="List what waits for your yes or no, show a question whole, approve it, or deny it.",
        epilog="A yes is for one call. Its session goes on at once.",
    )
    parser.add_argument("action", nargs="?", choices=("list", "show", "approve", "deny"), default="list")
    parser.add_argument("question", nargs="?", type=int, metavar="NUMBER", help="the question's number")
    parser.add_argument("-w", "--workspace", metavar="DIR", help="folder of the workspace (default: the current one)")
    parser.add_argument("-s", "--session", metavar="ID", help="with list: of this session only")
    parser.add_argument("--all", action="store_true", help="with list: settled questions too")
    parser.add_argument("--text", default="", help="with approve and deny: one of the options, or words of your own")
    parser.add_argument("--json", action="store_true", help="print all that is known")
    options = parser.parse_args(list(argv))
    if (options.question is None) != (options.action == "list"):
        needs = options.question is None
        parser.error(f"{options.action} needs a question's number" if needs else "list takes no number")
    if options.text and options.action in ("list", "show"):
        parser.error(f"{options.action} takes no --text")
    return options


def _path(workspace: str, options: argparse.Namespace) -> str:
    base = f"/api/workspaces/{quote(workspace, safe='')}/questions"
    return base if options.question is None else f"{base}/{options.question}"


def _list(client: Client, workspace: str, options: argparse.Namespace) -> None:
    session = quote(plain(options.session or "", "session"), safe="")
    where = f"{_path(workspace, options)}?session={session}&all={str(options.all).lower()}"
    found: dict[str, Any] = client.get(where) if workspace else {"questions": []}
    if options.json:
        answer(_json(found))
        return
    for each in found["questions"]:
        state = "" if each["state"] == "pending" else f"  ({each['state']})"
        answer(f"{each['id']}  {_time(each['asked_at'])}  {each['session']}  {_first_line(each)}{state}")
    if not found["questions"]:
        note("Nothing waits for you here.")


def _show(client: Client, workspace: str, options: argparse.Namespace) -> None:
    found = client.get(_path(workspace, options))
    answer(_json(found) if options.json else "\n".join(_lines(found)))


def _settle(client: Client, workspace: str, options: argparse.Namespace) -> None:
    approved = options.action == "approve"
    wish = {"approved": approved, "text": plain(options.text, "text")}
    found = client.post(f"{_path(workspace, options)}/answer", wish)
    answer(_json(found) if options.json else f"Question {found['id']} is {found['state']}.")
    if client.embedded:
        _stay(client, workspace, found["session"])


def _stay(client: Client, workspace: str, session: str) -> None:
    """Stay until the session rests: it goes on in this process. A server's start goes on with what is cut here."""
    path = session_path(workspace, session)
    with waiting("No server is running, so the turn goes on here; Ctrl-C leaves it to the next one"):
        while client.get(path)["state"] == "running":
            time.sleep(_STEP)


def _lines(asked: Asked) -> Iterator[str]:
    yield asked["text"]
    if asked["options"]:
        yield f"Options: {', '.join(asked['options'])}"
    if asked["tool"]:
        yield f"Call: {asked['tool']} {json.dumps(asked['arguments'], ensure_ascii=False)}"
    yield f"Session: {asked['session']}"
    if asked["state"] == "pending":
        yield f"Asked {_time(asked['asked_at'])}; counts as no at {_time(asked['expires_at'])}."
        yield f"Takes {asked['access']} access: `halo approvals approve {asked['id']}`, or `deny`."
    else:
        said = f": {asked['answer']}" if asked["answer"] else ""
        by = f" by {asked['answered_by']}" if asked["answered_by"] else ""
        yield f"It was {asked['state']}{by}{said}."


def _first_line(asked: Asked) -> str:
    text = str(asked["text"]).partition("\n")[0]
    return f"{asked['tool']}: {text}" if asked["tool"] else text


def _time(at: int) -> str:
    return datetime.fromtimestamp(at / 1000).strftime("%Y-%m-%d %H:%M:%S")


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)
