"""`halo doctor`: what is well and what is not, of the home, of its kernel and of its plugins, and what to do."""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import shutil
import socket
import stat
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import convert, to_builtins

from halo_kernel import (
    Client,
    HaloError,
    HealthCheck,
    Stopping,
    __version__,
    default_home,
    is_served,
    read_presence,
)

from .progress import waiting
from .terminal import answer
from .workspaces import reach

PATIENCE = 30.0
LOW_DISK = 200 * 1024 * 1024
Said = tuple[str, str]  # what was found, and what to do if that is not well, else ''


def command(argv: Sequence[str]) -> int:
    """Print what is well and what is not; exit code 1 when something is not."""
    parser = argparse.ArgumentParser(prog="halo doctor", description="Say what is well and what not.")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(list(argv))
    logging.disable()  # what a log would tell is in the answer
    kernel = examine_kernel()  # first: it makes a home that is not there yet
    checks = [*examine_home(default_home(os.environ)), *kernel]
    well = all(check.ok for check in checks)
    if options.json:
        answer(json.dumps({"ok": well, "checks": to_builtins(checks)}, ensure_ascii=False, indent=2))
    for check in () if options.json else checks:
        todo = f"\n     what to do: {check.advice}" if check.advice else ""
        answer(f"{'ok  ' if check.ok else 'BAD '} {check.name}: {check.text}{todo}")
    return 0 if well else 1


def examine_kernel() -> Sequence[HealthCheck]:
    """Return what the home's server says of itself, else a kernel of our own, else why there is none."""
    try:
        with reach() as client, waiting("Looking"):
            return _asked(client)
    except Exception as error:
        return [_failed("kernel", error)]


def _asked(client: Client) -> Sequence[HealthCheck]:
    """Return what a kernel answers within `PATIENCE`. Raises `Stopping`."""
    answers: list[Sequence[HealthCheck]] = []

    def ask() -> None:
        try:
            answers.append(convert(client.get("/api/doctor")["checks"], list[HealthCheck]))
        except Exception as error:
            answers.append([_failed("kernel", error)])

    asking = threading.Thread(target=ask, name="halo.doctor", daemon=True)
    asking.start()
    asking.join(PATIENCE)
    if not answers:
        raise Stopping("the server does not answer", advice="`halo stop --force` ends it")
    return answers[0]


def examine_home(home: Path) -> Sequence[HealthCheck]:
    """Return what is to be said of a home, whatever state it is in; a check that fails says so."""
    found: list[HealthCheck] = []
    for check in (_versions, _home, _disk, _server, _port):
        try:
            found += [_check(check.__name__, said) for said in check(home)]
        except Exception as error:
            found.append(_failed(check.__name__, error))
    return found


def _check(name: str, said: Said) -> HealthCheck:
    return HealthCheck(name=name.strip("_"), ok=not said[1], text=said[0], advice=said[1])


def _failed(name: str, error: Exception) -> HealthCheck:
    text = error.message if isinstance(error, HaloError) else f"{type(error).__name__}: {error}"
    return _check(name, (text, getattr(error, "advice", "") or "correct what it names, then look again"))


def _versions(home: Path) -> Iterator[Said]:
    yield f"Halo {__version__}, Python {platform.python_version()}, {platform.platform(terse=True)}", ""


def _home(home: Path) -> Iterator[Said]:
    mode, secrets = home.stat().st_mode, home / "secrets"
    usable = stat.S_ISDIR(mode) and os.access(home, os.R_OK | os.W_OK | os.X_OK)
    yield f"{home}, mode {stat.S_IMODE(mode):o}", "" if usable else "set HALO_HOME to a folder that you may write to"
    if usable and secrets.exists() and (secrets.stat().st_mode & 0o077 or secrets.stat().st_uid != os.geteuid()):
        yield f"others can read {secrets}", f"give it to the server's user, then: chmod 700 {secrets}"


def _disk(home: Path) -> Iterator[Said]:
    free = shutil.disk_usage(home).free
    advice = "delete something: on a full disk nothing can be written" if free < LOW_DISK else ""
    yield f"{free / 1024**3:.1f} GB free where {home} lies", advice


def _server(home: Path) -> Iterator[Said]:
    known = read_presence(home)
    if is_served(home):
        yield (f"Halo {known.version} runs at {known.url}, process {known.pid}" if known else "it starts or stops"), ""
    elif known:
        advice = "`halo logs` shows its last words; the next start takes up what it left"
        yield f"the last server, process {known.pid}, crashed or was ended by force", advice
    else:
        yield "none is running", ""


def _port(home: Path) -> Iterator[Said]:
    from halo_kernel import ServerSettings, load_kernel_settings

    server = load_kernel_settings(home, os.environ).of(ServerSettings)
    where, family = f"port {server.port} on {server.host}", socket.AF_INET6 if ":" in server.host else socket.AF_INET
    try:
        if not is_served(home):
            socket.create_server((server.host, server.port), family=family).close()
            yield f"{where} is free", ""
    except OSError as error:
        yield f"{where}: {error.strerror}", "stop the program that has it, or set server.port, to 0 for a free one"
