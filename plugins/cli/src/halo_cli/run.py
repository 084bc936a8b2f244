"""`halo run`: one message, one answer, on the terminal or in a script."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from typing import Any

from halo_kernel import BadInput, HaloError, NotFound
from halo_lib_client import Client

from .bookmarks import bookmark, set_bookmark
from .follow import Reply, follow
from .progress import waiting
from .signals import Signalled, signals
from .terminal import answer, note, plain, shown
from .workspaces import choose_folder, open_workspace, reach, session_path

_ABOUT = "Send a prompt to an agent and print its answer; one like `/help` is a command, and answered without an agent."


def command(argv: Sequence[str]) -> int:
    """Send a prompt and print the answer. Exit codes: 0, 1 for an error, 130 for Ctrl-C, 143 for SIGTERM."""
    options = _options(argv)
    text = _prompt(options.prompt)
    try:
        with signals():
            return _run(options, text)
    except Signalled as signalled:
        return signalled.code


def _run(options: argparse.Namespace, text: str) -> int:
    with reach(local=options.local) as client:
        path = ""
        try:
            workspace, name = _session(client, options)
            path = session_path(workspace, name)
            reply = _ask(client, path, text, access=options.access, verbose=options.verbose)
        except Signalled:
            _interrupt(client, path)
            raise
        if reply.session:
            set_bookmark(client.home, workspace, reply.session)
    _print(reply, reply.session or name, options.format)
    return 0 if reply.outcome == "succeeded" else 1


def _prompt(words: Sequence[str]) -> str:
    parts = (plain(" ".join(words), "prompt").strip(), _piped())
    text = "\n\n".join(part for part in parts if part)
    if not text:
        raise BadInput('there is no prompt: `halo run "your question"`, or pipe it in', field="prompt")
    return text


def _piped() -> str:
    if sys.stdin is None or sys.stdin.isatty():
        return ""
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise BadInput(f"what is piped in is not UTF-8 text: byte {error.start} is wrong", field="prompt") from None


def _session(client: Client, options: argparse.Namespace) -> tuple[str, str]:
    """Return the ids of the workspace and of the session to speak to."""
    workspace, _ = open_workspace(client, choose_folder(options.workspace))
    wish: dict[str, Any] = {"agent": plain(options.agent, "agent")} if options.agent else {}
    if options.directory is not None:
        wish["directory"] = plain(options.directory, "directory")
    name = plain(options.session or "", "session")
    if name or options.new:
        set_bookmark(client.home, workspace, "")
    else:
        name = _latest(client, workspace, options.agent)
    answer = client.post(session_path(workspace), wish | ({"id": name} if name else {"origin": "cli"}))
    return workspace, answer["id"]


def _latest(client: Client, workspace: str, agent: str | None) -> str:
    """Return the session that a command named, else the newest of the command line, '' when none is still open."""
    rows: list[dict[str, Any]] = []
    if marked := bookmark(client.home, workspace):
        with suppress(NotFound):
            rows.append(client.get(session_path(workspace, marked)))
    rows += client.get(f"{session_path(workspace)}?limit=200")["sessions"]
    for row in rows:
        ours = row["id"] == marked or row["id"].startswith("cli_")
        if ours and not row["archived"] and agent in (None, row["agent"]):
            return str(row["id"])
    return ""


def _ask(client: Client, path: str, text: str, *, access: str | None, verbose: bool) -> Reply:
    receipt = client.post(f"{path}/messages", {"text": text} | ({"access": access} if access else {}))
    watch: Callable[[str], None] = _watch if verbose else lambda piece: None
    quiet = nullcontext() if verbose else waiting("Waiting for the answer; Ctrl-C stops it", in_pipe=False)
    with quiet:
        reply = follow(client.stream(f"{path}/stream", after=receipt["cursor"]), receipt["row"], watch=watch, ask=note)
    if verbose:
        _watch("\n")
    return reply


def _watch(piece: str) -> None:
    print(shown(piece, sys.stderr), end="", file=sys.stderr, flush=True)


def _interrupt(client: Client, path: str) -> None:
    if path:
        with suppress(HaloError):
            client.post(f"{path}/interrupt")


def _print(reply: Reply, session: str, format: str) -> None:
    if format == "json":
        found = {
            "text": reply.text,
            "sessionId": session,
            "toolCalls": reply.tools,
            "usage": reply.usage,
            "error": reply.error or None,
        }
        answer(json.dumps(found, ensure_ascii=False, indent=2))
        return
    if reply.text:
        answer(reply.text)
    if reply.outcome != "succeeded":
        note("halo: " + (reply.error or f"the turn was {reply.outcome or 'not finished'}"))


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="halo run", description=_ABOUT)
    parser.add_argument("prompt", nargs="*", help="the prompt; what is piped in is added to it")
    parser.add_argument("-w", "--workspace", metavar="DIR", help="folder of the workspace (default: the current one)")
    parser.add_argument("-a", "--agent", help="agent (default: the session's, or the workspace's best)")
    parser.add_argument("-s", "--session", metavar="ID", help="session to go on with, made if it does not exist")
    parser.add_argument("--new", action="store_true", help="start a new session")
    parser.add_argument("--dir", dest="directory", metavar="DIR", help="part of the workspace it is about, '.' for all")
    levels = ("full", "workspace", "readonly")
    parser.add_argument("--access", choices=levels, help="the most that this turn may do (default: the session's)")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="what to print (default: text)")
    parser.add_argument("-v", "--verbose", action="store_true", help="show on stderr what happens")
    parser.add_argument("--local", action="store_true", help="use no server, run everything in this process")
    return parser.parse_args(list(argv))
