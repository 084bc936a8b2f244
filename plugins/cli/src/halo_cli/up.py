"""`halo up`: from nothing to an agent in the browser."""

from __future__ import annotations

import argparse
import os
import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from halo_kernel import Client, default_home, find_server

from .launch import ServerFailed, end, start, wait
from .signals import Signalled, signals
from .terminal import model_line, say
from .workspaces import choose_folder, open_workspace


def command(argv: Sequence[str]) -> int:
    """Set up what is missing, start the server or find it, and open the chat page signed in."""
    options = _options(argv)
    folder, home = choose_folder(options.workspace), default_home(os.environ)
    client = find_server(home)
    if client is not None:
        say(f"A server of {home} runs already at {client.url}.")
        return _show(client, folder, options, stop="`halo stop` stops it.")
    try:
        with signals():
            return _start(folder, home, options)
    except Signalled as signalled:
        return signalled.code


def _start(folder: Path, home: Path, options: argparse.Namespace) -> int:
    """Start a server, show it, and stay with it unless it is to run in the background; one that is of no use ends."""
    try:
        process, client = start(_server_options(options), home=home, detach=options.detach)
    except ServerFailed as error:
        return _other_starter(error, home, folder, options)
    stop = "It goes on in the background; `halo stop` stops it." if options.detach else "Press Ctrl-C to stop."
    try:
        _show(client, folder, options, stop=stop)
        return 0 if options.detach else wait(process)
    except BaseException as error:
        code = end(process)
        if isinstance(error, Signalled) and not options.detach:
            return code  # to stop it is what we were asked for
        raise


def _other_starter(error: ServerFailed, home: Path, folder: Path, options: argparse.Namespace) -> int:
    """Our server did not start; if another `halo up` was faster, its server is as good."""
    client = find_server(home)
    if client is not None:
        return _show(client, folder, options, stop="`halo stop` stops it.")
    if options.detach:
        raise error
    return 1


def _show(client: Client, folder: Path, options: argparse.Namespace, *, stop: str) -> int:
    workspace, path = open_workspace(client, folder)
    link = client.post("/api/auth/link", {"next": f"/web/?workspace={quote(workspace)}"})["url"]
    say(f"Halo runs at {client.url} with the workspace {path}.")
    say(model_line(client.get("/api/models")))
    if options.browser and _open(link):
        say("The page is opening in your browser.")
    else:
        say(f"Open this link within 5 minutes, it works once:\n  {link}")
    say(stop)
    return 0


def _open(link: str) -> bool:
    """Open a page in a graphical browser; false where there is none to open."""
    graphical = sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if not graphical and "BROWSER" not in os.environ:
        return False
    try:
        return webbrowser.open(link)
    except webbrowser.Error:
        return False


def _server_options(options: argparse.Namespace) -> list[str]:
    found: list[str] = []
    if options.port is not None:
        found += ["--port", str(options.port)]
    if options.host is not None:
        found += ["--host", options.host]
    for plugin in options.without:
        found += ["--without", plugin]
    return found


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: a whole number from 0 to 65535")
    return int(text)


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="halo up", description="Set up what is missing, start the server or find it, and open the chat page."
    )
    parser.add_argument("-w", "--workspace", metavar="DIR", help="folder to work in (default: the current one)")
    parser.add_argument("-p", "--port", type=_port, help="port, 0 for a free one (default: setting server.port, 9527)")
    parser.add_argument("--host", help="address to listen on (default: this machine only)")
    parser.add_argument("-d", "--detach", action="store_true", help="leave the server running in the background")
    parser.add_argument("--no-browser", dest="browser", action="store_false", help="print the link, open nothing")
    parser.add_argument("--without", action="append", default=[], metavar="PLUGIN", help="leave a plugin out")
    return parser.parse_args(list(argv))
