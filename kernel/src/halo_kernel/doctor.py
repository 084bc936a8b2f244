"""What is well and what is not, of a home and of a kernel on it. Each check stands alone: one that fails says so."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import socket
import stat
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from . import __version__, hookspecs
from .errors import HaloError
from .presence import is_served, read_presence
from .records import HealthCheck
from .settings import ServerSettings, load_kernel_settings
from .sqlite.filesystems import is_network

if TYPE_CHECKING:
    from .runtime import Kernel

LOW_DISK = 200 * 1024 * 1024
_CLOCK_SLACK = 60_000
Said = tuple[str, str]  # what was found, and what to do if that is not well, else ''


async def examine(kernel: Kernel) -> Sequence[HealthCheck]:
    """Return what is to be said of a running kernel and its home, its plugins' own reports among it."""
    found = [*await asyncio.to_thread(examine_home, kernel.home)]
    for check in (_clock, _databases, _settings, _models):
        try:
            found += [_check(check.__name__, said) async for said in check(kernel)]
        except Exception as error:
            found.append(failed(check.__name__, error))
    found += [each for _, each in await kernel.hooks.gather(hookspecs.report_health, host=kernel.host)]
    return [*found, *(_check("plugins", said) for said in _plugins(kernel))]  # last: a failed report shows there


def examine_home(home: Path) -> Sequence[HealthCheck]:
    """Return what is to be said of a home, whatever state it is in."""
    found: list[HealthCheck] = []
    for check in (_versions, _home, _disk, _server, _port):
        try:
            found += [_check(check.__name__, said) for said in check(home)]
        except Exception as error:
            found.append(failed(check.__name__, error))
    return found


def failed(name: str, error: Exception) -> HealthCheck:
    """Return what an exception says as a check that is not well."""
    text = error.message if isinstance(error, HaloError) else f"{type(error).__name__}: {error}"
    return _check(name, (text, getattr(error, "advice", "") or "correct what it names, then look again"))


def _check(name: str, said: Said) -> HealthCheck:
    return HealthCheck(name=name.strip("_"), ok=not said[1], text=said[0], advice=said[1])


# of a home


def _versions(home: Path) -> Iterator[Said]:
    yield f"Halo {__version__}, Python {platform.python_version()}, {platform.platform(terse=True)}", ""


def _home(home: Path) -> Iterator[Said]:
    mode, secrets = home.stat().st_mode, home / "secrets"
    usable = stat.S_ISDIR(mode) and os.access(home, os.R_OK | os.W_OK | os.X_OK)
    where = "a network file system, for one process at a time" if is_network(home) else "a local file system"
    advice = "" if usable else "set HALO_HOME to a folder that you may write to"
    yield f"{home}, mode {stat.S_IMODE(mode):o}, on {where}", advice
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
    server = load_kernel_settings(home, os.environ).of(ServerSettings)
    where, family = f"port {server.port} on {server.host}", socket.AF_INET6 if ":" in server.host else socket.AF_INET
    try:
        if not is_served(home):
            socket.create_server((server.host, server.port), family=family).close()
            yield f"{where} is free", ""
    except OSError as error:
        yield f"{where}: {error.strerror}", "stop the program that has it, or set server.port, to 0 for a free one"


# of a kernel


async def _clock(kernel: Kernel) -> AsyncIterator[Said]:
    registry = await kernel.data.open_home()
    newest = await registry.read(lambda tx: tx.one("SELECT max(used_at) FROM workspaces"))
    now, last = kernel.clock.now(), int(newest[0] or 0) if newest else 0
    yield f"it is {_time(now)}", ""
    if now + _CLOCK_SLACK < last:
        yield f"that is before {_time(last)}, when this home was written to", "set the clock of this machine"


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(sep=" ", timespec="seconds")


async def _databases(kernel: Kernel) -> AsyncIterator[Said]:
    open_now = {each.workspace.path: each.database for each in kernel.workspaces.seats.values()}
    for where, database in {str(kernel.home): await kernel.data.open_home(), **open_now}.items():
        row = await database.read(lambda tx: tx.one("SELECT max(version), max(min_reader) FROM schema"))
        yield f"{where}: schema {row and row[0]}, for readers from {row and row[1]} on", ""


async def _settings(kernel: Kernel) -> AsyncIterator[Said]:
    for each in kernel.settings.at().findings:
        yield f"{each.text} (line {each.line})" if each.line else each.text, "correct it in settings.yaml"


async def _models(kernel: Kernel) -> AsyncIterator[Said]:
    offers, chosen, why = await kernel.models()
    if chosen is None:
        text, _, advice = why.partition(": ")
        yield text, advice
    else:
        what = f"{chosen.model} answers" if chosen.is_model else "none is running, and built-in rules answer"
        yield f"{what}: {why} (ready: {', '.join(offer.model for offer in offers if offer.ready)})", ""


def _plugins(kernel: Kernel) -> Iterator[Said]:
    rows = kernel.plugins.list()
    yield f"loaded: {', '.join(each.name for each in rows if each.state == 'loaded')}", ""
    for each in rows:
        if each.state not in ("loaded", "disabled"):
            whose = f"{each.name} ({each.distribution} {each.version})"
            yield f"{whose} is {each.state}: {each.reason}", each.advice or "`halo plugins check` says more"
