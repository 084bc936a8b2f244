"""`halo up`: from nothing to an agent in the browser."""

from __future__ import annotations

import argparse
import os
import sys
import time
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from halo_kernel import default_home, read_presence
from halo_lib_client import Client, find_server

from .launch import end, wait
from .progress import waiting
from .signals import Signalled, signals
from .start import ServerFailed, start, start_supervised
from .stop import PATIENCE
from .stop import end as stop
from .supervision import is_supervised
from .terminal import model_line, say
from .workspaces import choose_folder, open_workspace

_STEP = 0.1
_STOP = "`halo stop` stops it."


def command(argv: Sequence[str]) -> int:
    """Set up what is missing, start the server or find it, and open the chat page signed in."""
    options = _options(argv)
    folder, home = choose_folder(options.workspace), default_home(os.environ)
    try:
        with signals():
            client = _found(home)
            if client is not None:
                say(f"A server of {home} runs already at {_address(client)}.")
                return _show(client, folder, options, stop=_STOP)
            return _start(folder, home, options)
    except Signalled as signalled:
        return signalled.code


def _found(home: Path) -> Client | None:
    """Return a client of the server that runs, if need be of the one that its supervisor is about to start."""
    with waiting("Waiting for the server that its supervisor starts"):
        while (client := find_server(home)) is None and is_supervised(home):
            time.sleep(_STEP)
    return client


def _start(folder: Path, home: Path, options: argparse.Namespace) -> int:
    """Start a server and show it; if another `halo up` was faster, its server is as good."""
    try:
        return (_in_background if options.detach else _in_foreground)(folder, home, options)
    except ServerFailed as error:
        client = _found(home)
        if client is not None:
            return _show(client, folder, options, stop=_STOP)
        if options.detach:
            raise error
        return 1  # the server has said why


def _in_foreground(folder: Path, home: Path, options: argparse.Namespace) -> int:
    """Stay with a server of our own; one that is of no use ends."""
    with waiting("Starting the server"):
        process, client = start(_server_options(options), home=home)
    try:
        _show(client, folder, options, stop="Press Ctrl-C to stop.")
        return wait(process)
    except Signalled:  # to stop it is what we were asked for
        with waiting("Stopping the server"):
            return end(process)
    except BaseException:
        end(process)
        raise


def _in_background(folder: Path, home: Path, options: argparse.Namespace) -> int:
    """Leave a server with its supervisor; both end if they are of no use."""
    try:
        with waiting("Starting the server"):
            client = start_supervised(_server_options(options), home=home)
        return _show(client, folder, options, stop=f"It goes on in the background; {_STOP}")
    except ServerFailed:
        raise
    except BaseException:
        stop(home, PATIENCE)
        raise


def _show(client: Client, folder: Path, options: argparse.Namespace, *, stop: str) -> int:
    workspace, path = open_workspace(client, folder)
    link = client.post("/api/auth/link", {"next": f"/web/?workspace={quote(workspace)}"})["url"]
    say(f"Halo runs at {_address(client)} with the workspace {path}.")
    say(model_line(client.get("/api/models")))
    if options.browser and _open(link):
        say("The page is opening in your browser.")
    else:
        say(f"Open this link within 5 minutes, it works once:\n  {link.replace(client.url, _address(client), 1)}")
    say(stop)
    return 0


def _address(client: Client) -> str:
    """Return where people find the server, who may sit at another machine."""
    presence = read_presence(client.home)
    return (presence.address if presence else "") or client.url


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
