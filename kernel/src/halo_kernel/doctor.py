"""What is well and what is not in a running kernel. Each check stands alone: one that fails says so."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from . import hookspecs
from .errors import HaloError
from .records import HealthCheck
from .sqlite.filesystems import is_network

if TYPE_CHECKING:
    from .runtime import Kernel

LOW_DISK = 200 * 1024 * 1024
_CLOCK_SLACK = 60_000


async def examine(kernel: Kernel) -> Sequence[HealthCheck]:
    """Return what is to be said of a running kernel, its plugins' own reports among it."""
    found: list[HealthCheck] = []
    for check in (_clock, _databases, _reports):
        try:
            found += [each async for each in check(kernel)]
        except Exception as error:
            text = error.message if isinstance(error, HaloError) else f"{type(error).__name__}: {error}"
            advice = getattr(error, "advice", "") or "correct what it names, then look again"
            found.append(_check(check.__name__.strip("_"), text, advice))
    return found


def _check(name: str, text: str, advice: str = "") -> HealthCheck:
    return HealthCheck(name=name, ok=not advice, text=text, advice=advice)


async def _clock(kernel: Kernel) -> AsyncIterator[HealthCheck]:
    registry = await kernel.data.open_home()
    newest = await registry.read(lambda tx: tx.one("SELECT max(used_at) FROM workspaces"))
    now, last = kernel.clock.now(), int(newest[0] or 0) if newest else 0
    yield _check("clock", f"it is {_time(now)}")
    if now + _CLOCK_SLACK < last:
        text = f"that is before {_time(last)}, when this home was written to"
        yield _check("clock", text, "set the clock of this machine")


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(sep=" ", timespec="seconds")


async def _databases(kernel: Kernel) -> AsyncIterator[HealthCheck]:
    open_now = {each.workspace.path: each.database for each in kernel.workspaces.seats.values()}
    for where, database in {str(kernel.home): await kernel.data.open_home(), **open_now}.items():
        row = await database.read(lambda tx: tx.one("SELECT max(version), max(min_reader) FROM schema"))
        free, kind = shutil.disk_usage(where).free, "network" if is_network(Path(where)) else "local"
        text = f"{where}: schema {row and row[0]}, for readers from {row and row[1]} on, on a {kind} file system"
        advice = "delete something: on a full disk nothing can be written" if free < LOW_DISK else ""
        yield _check("databases", f"{text}, {free / 1024**3:.1f} GB free", advice)


async def _reports(kernel: Kernel) -> AsyncIterator[HealthCheck]:
    for _, each in await kernel.hooks.gather(hookspecs.report_health, host=kernel.host):
        yield each
