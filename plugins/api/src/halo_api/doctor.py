"""What is well and what is not in a running kernel. Each check stands alone: one that fails says so."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import cast

from msgspec import Struct

from halo_kernel import Exchange, HaloError, HealthCheck, Host, Kernel, Route, is_network

LOW_DISK = 200 * 1024 * 1024
_CLOCK_SLACK = 60_000


class Diagnosis(Struct, frozen=True, kw_only=True):
    """All that was looked at."""

    ok: bool
    checks: Sequence[HealthCheck]


@dataclass(frozen=True)
class _Doctor:
    host: Host

    async def answer(self, exchange: Exchange) -> Diagnosis:
        checks = await examine(self.host)
        return Diagnosis(ok=all(check.ok for check in checks), checks=checks)


async def examine(host: Host) -> Sequence[HealthCheck]:
    """Return what is to be said of a running kernel, its plugins' own reports among it."""
    found: list[HealthCheck] = []
    for check in (_clock, _databases, _accounts, _reports):
        try:
            found += [each async for each in check(host, cast("Kernel", host.lookup("kernel", "")))]
        except Exception as error:
            text = error.message if isinstance(error, HaloError) else f"{type(error).__name__}: {error}"
            advice = getattr(error, "advice", "") or "correct what it names, then look again"
            found.append(_check(check.__name__.strip("_"), text, advice))
    return found


def _check(name: str, text: str, advice: str = "") -> HealthCheck:
    return HealthCheck(name=name, ok=not advice, text=text, advice=advice)


async def _clock(host: Host, kernel: Kernel) -> AsyncIterator[HealthCheck]:
    registry = (await kernel.databases())[host.settings.home]
    newest = await registry.read(lambda tx: tx.one("SELECT max(used_at) FROM workspaces"))
    now, last = host.clock.now(), int(newest[0] or 0) if newest else 0
    yield _check("clock", f"it is {_time(now)}")
    if now + _CLOCK_SLACK < last:
        text = f"that is before {_time(last)}, when this home was written to"
        yield _check("clock", text, "set the clock of this machine")


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(sep=" ", timespec="seconds")


async def _databases(host: Host, kernel: Kernel) -> AsyncIterator[HealthCheck]:
    for where, database in (await kernel.databases()).items():
        row = await database.read(lambda tx: tx.one("SELECT max(version), max(min_reader) FROM schema"))
        free, kind = shutil.disk_usage(where).free, "network" if is_network(where) else "local"
        text = f"{where}: schema {row and row[0]}, for readers from {row and row[1]} on, on a {kind} file system"
        advice = "delete something: on a full disk nothing can be written" if free < LOW_DISK else ""
        yield _check("databases", f"{text}, {free / 1024**3:.1f} GB free", advice)


async def _accounts(host: Host, kernel: Kernel) -> AsyncIterator[HealthCheck]:
    for account in await host.accounts.list():
        state, name = await host.accounts.readiness(account.type, account.id), f"{account.type}:{account.id}"
        if account.enabled and not state.ready:
            advice = f"`halo channels test {account.type} {account.id}` asks its platform"
            yield _check("accounts", f"{name} is not ready: {state.reason}", advice)
        else:
            yield _check("accounts", f"{name} is {state.reason.removeprefix('it is ') or 'ready'}")


async def _reports(host: Host, kernel: Kernel) -> AsyncIterator[HealthCheck]:
    for each in await kernel.reports():
        yield each


def doctor_routes(host: Host) -> list[Route]:
    """Return the route of the examination."""
    handler, summary = _Doctor(host).answer, "Say what is well and what not"
    return [Route(method="GET", path="/api/doctor", handler=handler, summary=summary, reply=Diagnosis)]
