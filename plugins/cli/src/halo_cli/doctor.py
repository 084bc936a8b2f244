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
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from msgspec import convert, to_builtins

from halo_kernel import (
    BadInput,
    HaloError,
    HealthCheck,
    Stopping,
    __version__,
    default_home,
    is_served,
    read_presence,
    read_sets,
)
from halo_lib_client import Client

from .progress import waiting
from .terminal import answer
from .workspaces import needs, reach

T = TypeVar("T")
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
    found: list[HealthCheck] = []
    try:
        with reach() as client, waiting("Looking"):
            asking = threading.Thread(target=_ask, args=(client, found), name="halo.doctor", daemon=True)
            asking.start()
            asking.join(PATIENCE)
            if asking.is_alive():
                raise Stopping("the server does not answer", advice="`halo stop --force` ends it")
    except Exception as error:
        found.append(_failed("kernel", error))
    return found


def _ask(client: Client, found: list[HealthCheck]) -> None:
    try:
        with needs(client, "api"):
            found += convert(client.get("/api/doctor")["checks"], list[HealthCheck])
    except Exception as error:
        found.append(_failed("kernel", error))
    for check in (_settings, _models, _plugins):  # a plugin whose report failed shows in the last
        found += _examined(check, client)


def examine_home(home: Path) -> Sequence[HealthCheck]:
    """Return what is to be said of a home, whatever state it is in; a check that fails says so."""
    return [
        each
        for check in (_versions, _home, _disk, _server, _settings_file, _sets, _port)
        for each in _examined(check, home)
    ]


def _examined(check: Callable[[T], Iterator[Said]], what: T) -> Iterator[HealthCheck]:
    try:
        for said in check(what):
            yield _check(check.__name__, said)
    except Exception as error:
        yield _failed(check.__name__, error)


def _check(name: str, said: Said) -> HealthCheck:
    return HealthCheck(name=name.strip("_"), ok=not said[1], text=said[0], advice=said[1])


def _failed(name: str, error: Exception) -> HealthCheck:
    text = error.message if isinstance(error, HaloError) else f"{type(error).__name__}: {error}"
    return _check(name, (text, getattr(error, "advice", "") or "correct what it names, then look again"))


# of a home


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


def _settings_file(home: Path) -> Iterator[Said]:
    """Say nothing of a file that can be read; one that is broken fails here, by its own name."""
    from halo_kernel import load_kernel_settings

    load_kernel_settings(home, os.environ)
    yield from ()


def _sets(home: Path) -> Iterator[Said]:
    """Say nothing of the plugins that are installed in a home, unless the file that names them is damaged."""
    read_sets(home)
    yield from ()


def _port(home: Path) -> Iterator[Said]:
    from halo_kernel import ServerSettings, load_kernel_settings

    try:
        server = load_kernel_settings(home, os.environ).of(ServerSettings)
    except BadInput:  # the settings say so themselves
        return
    where, family = f"port {server.port} on {server.host}", socket.AF_INET6 if ":" in server.host else socket.AF_INET
    try:
        if not is_served(home):
            socket.create_server((server.host, server.port), family=family).close()
            yield f"{where} is free", ""
    except OSError as error:
        yield f"{where}: {error.strerror}", "stop the program that has it, or set server.port, to 0 for a free one"


# of a kernel


def _settings(client: Client) -> Iterator[Said]:
    with needs(client, "api"):
        found = client.get("/api/settings")["findings"]
    for each in found:
        yield f"{each['text']} (line {each['line']})" if each["line"] else each["text"], "correct it in settings.yaml"


def _models(client: Client) -> Iterator[Said]:
    with needs(client, "api"):
        status = client.get("/api/models")
    chosen = next((each for each in status["models"] if each["model"] == status["chosen"]), None)
    if chosen is None:
        text, _, advice = status["reason"].partition(": ")
        yield text, advice
    else:
        what = f"{chosen['model']} answers" if chosen["is_model"] else "none is running, and built-in rules answer"
        ready = ", ".join(each["model"] for each in status["models"] if each["ready"])
        yield f"{what}: {status['reason']} (ready: {ready})", ""


def _plugins(client: Client) -> Iterator[Said]:
    rows = client.get("/api/server")["plugins"]
    yield f"loaded: {', '.join(each['name'] for each in rows if each['state'] == 'loaded')}", ""
    for each in rows:
        if each["state"] not in ("loaded", "disabled"):
            whose = f"{each['name']} ({each['distribution']} {each['version']})"
            yield f"{whose} is {each['state']}: {each['reason']}", each["advice"] or "`halo plugins check` says more"
