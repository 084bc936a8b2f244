"""The command `halo`: its own `serve`, and what plugins add, each imported only when it is called."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import EntryPoint

from . import __version__
from .errors import BadFile, HaloError
from .sites import add_sites, default_home, find_distributions

GROUP = "halo.commands"
OWN = "serve"
HELP = """usage: halo COMMAND [OPTION ...]

commands: {}

halo COMMAND --help    what a command does
halo --version         the version"""
Command = Callable[[Sequence[str]], int]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code: 0, 1 for any error, 2 for wrong usage, 130 for Ctrl-C."""
    words = list(sys.argv[1:] if argv is None else argv)
    _open_closed_streams()
    if reconfigure := getattr(sys.stdout, "reconfigure", None):
        reconfigure(errors="backslashreplace")  # a terminal that lacks a letter shows its number
    try:
        code = _run(words[0] if words else "--help", words[1:])
        sys.stdout.flush()
        return code
    except HaloError as error:
        print(f"halo: {sentence(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        # What nobody takes any more, or has no room, must not make the interpreter complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            print(f"halo: {error.filename or 'the output'} cannot be used: {error.strerror or error}.", file=sys.stderr)
        return 1


def _open_closed_streams() -> None:
    """Let a standard stream that is closed lead nowhere: else the next file that is opened would be in its place."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            nowhere = os.fdopen(os.open(os.devnull, os.O_RDWR), "w" if number else "r", encoding="utf-8")
            setattr(sys, name, nowhere)


def _run(name: str, words: Sequence[str]) -> int:
    match name:
        case "--version" | "-V":
            print(f"halo {__version__}")
        case "--help" | "-h" | "help":
            print(HELP.format(", ".join(sorted({OWN, *_found()})).replace(".", " ")))
        case _ if name == OWN:
            return serve(words)
        case _:
            found, longer = _found(), f"{name}.{words[0] if words else ''}"  # `a.b` is a command below `a`
            return _load(longer, found)(words[1:]) if longer in found else _load(name, found)(words)
    return 0


def sentence(error: HaloError) -> str:
    """Return an error as one line for a terminal: where, what, and what to do next."""
    text = error.message.rstrip()
    if isinstance(error, BadFile) and error.path not in text:
        text = f"{error.path}:{error.line}: {text}" if error.line else f"{error.path}: {text}"
    if error.advice:
        end = "" if text.endswith(("?", "!")) else "."
        text = f"{text.rstrip('.')}{end} {error.advice[:1].upper()}{error.advice[1:].rstrip()}"
    return text if text.endswith((".", "!", "?", "…", ":")) else f"{text}."


def _found() -> Mapping[str, Mapping[str, EntryPoint]]:
    """Return the commands that distributions bring, by name, then by distribution."""
    found: dict[str, dict[str, EntryPoint]] = {}
    add_sites(default_home(os.environ))
    for distribution in find_distributions(GROUP, sys.path).values():
        with suppress(Exception):  # metadata that cannot be read: `halo plugins` names it
            for entry in distribution.entry_points.select(group=GROUP):
                found.setdefault(entry.name, {})[distribution.name] = entry
    return found


def _load(name: str, found: Mapping[str, Mapping[str, EntryPoint]]) -> Command:
    claims = found.get(name, {})
    if not claims:
        from .manifests import suggest

        advice = "`halo --help` lists them, and `pip install halo-cli` brings those that people use"
        raise HaloError(f"there is no command {name!r}{suggest(name, [*found, OWN])}", advice=advice)
    owners = " and ".join(sorted(claims))
    if len(claims) > 1:
        raise HaloError(f"the command {name!r} is claimed by {owners}", advice="uninstall one of them")
    try:
        command: Command = claims[owners].load()
    except (Exception, SystemExit) as error:
        text = f"the command {name!r} of {owners} cannot be loaded: {error!r}"
        raise HaloError(text, advice=f"reinstall {owners}") from error
    return command


def serve(argv: Sequence[str]) -> int:
    """Run the server in the foreground until it is stopped."""
    import argparse
    from pathlib import Path

    from .server import run

    parser = argparse.ArgumentParser(prog="halo serve", description=serve.__doc__)
    add, home = parser.add_argument, default_home(os.environ)
    add("--host", help="address to listen on (setting server.host)")
    add("-p", "--port", type=_port, help="port, 0 for a free one (setting server.port)")
    add("--home", type=Path, default=home, help="home folder (HALO_HOME, else ~/.halo)")
    add("--without", action="append", default=[], metavar="PLUGIN", help="leave a plugin out")
    add("--strict", action="store_true", help="end with an error when a plugin is broken")
    add("--quiet", action="store_true", help="log to the file alone, not on stderr too")
    add("--ready-fd", type=int, metavar="FD", help="write the url to this descriptor when ready")
    add("--parent-pid", type=int, metavar="PID", help="stop when this process ends")
    return run(**vars(parser.parse_args(list(argv))))


def _port(text: str) -> int:
    import argparse

    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: a whole number from 0 to 65535")
    return int(text)
