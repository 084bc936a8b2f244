"""`GET /api/doctor`: each thing that can be wrong in a kernel is named, with what to do, and hinders no other."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

import halo_api
from halo_api import doctor
from halo_api.doctor import examine
from halo_kernel import Account, HealthCheck, Kernel, hook
from halo_kernel.testing import LineChannel, VirtualClock, front, running_kernel


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
async def kernel(home: Path) -> AsyncIterator[Kernel]:
    async with running_kernel(home, extra={"api": halo_api}) as kernel:
        yield kernel


def bad(checks: Any) -> dict[str, HealthCheck]:
    """Return what is not well, by name; each says what to do."""
    found = {check.name: check for check in checks if not check.ok}
    assert [check.name for check in found.values() if not check.advice] == []
    return found


async def test_a_healthy_kernel_is_well(kernel: Kernel) -> None:
    """Every check says something, and nothing is to be done."""
    checks = await examine(kernel.host)
    assert {check.name for check in checks} == {"clock", "databases"}
    assert bad(checks) == {}
    assert [check for check in checks if not check.text or check.advice] == []


async def test_accounts_say_whether_they_hear_their_platform(home: Path, tmp_path: Path) -> None:
    """Each account of a channel is a line: ready, switched off, or not ready with the reason and what to do."""
    line = LineChannel()
    async with running_kernel(home, extra={"api": halo_api, "line": line}) as kernel:
        accounts = kernel.host.accounts
        for name, type in (("bot", "line"), ("off", "line"), ("lost", "ghost")):
            await accounts.put(Account(type=type, id=name, workspace=str(tmp_path), enabled=name != "off"))
        await kernel.work()
        await asyncio.wait_for(line.ready.wait(), 5)
        texts = [(check.ok, check.text) for check in await examine(kernel.host) if check.name == "accounts"]
        assert texts == [
            (False, "ghost:lost is not ready: no plugin brings the channel ghost"),
            (True, "line:bot is ready"),
            (True, "line:off is disabled"),
        ]
        (account,) = [each for each in await accounts.list() if each.id == "bot"]
        accounts.door(account).failed("its token was revoked")
        assert bad(await examine(kernel.host))["accounts"].advice
        texts = [check.text for check in await examine(kernel.host) if check.name == "accounts" and not check.ok]
        assert "line:bot is not ready: its token was revoked" in texts


async def test_the_operator_asks_over_http(kernel: Kernel) -> None:
    """`GET /api/doctor` answers what `examine` finds, and only to the operator."""
    face = front(kernel)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(face.app), base_url="http://localhost:9527") as browser:
        assert (await browser.get("/api/doctor")).status_code == 401
        answer = (await browser.get("/api/doctor", headers=face.headers)).json()
    assert answer["ok"] is True
    assert {"name", "ok", "text", "advice"} == answer["checks"][0].keys()


async def test_a_clock_before_the_newest_entry(home: Path, tmp_path: Path) -> None:
    """A clock that stands before what this home was last used is named; a minute makes no difference."""
    clock = VirtualClock()
    async with running_kernel(home, clock=clock) as kernel:
        (tmp_path / "place").mkdir()
        await kernel.workspaces.open(tmp_path / "place")
        clock.advance(-30)
        assert bad(await examine(kernel.host)) == {}
        clock.advance(-86_400)
        assert "before" in bad(await examine(kernel.host))["clock"].text


async def test_open_workspaces_show_their_schema(kernel: Kernel, tmp_path: Path) -> None:
    """Every database that is open is listed with its schema version, its file system and the space there."""
    (tmp_path / "place").mkdir()
    await kernel.workspaces.open(tmp_path / "place")
    texts = [check.text for check in await examine(kernel.host) if check.name == "databases"]
    assert len(texts) == 2
    assert all("schema " in text and "local file system" in text and "GB free" in text for text in texts)
    assert any(str(tmp_path / "place") in text for text in texts)


async def test_a_disk_that_is_nearly_full(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too little free space for a database is named before it ends a write."""
    monkeypatch.setattr(doctor, "LOW_DISK", 1 << 80)
    assert "GB free" in bad(await examine(kernel.host))["databases"].text


async def test_a_check_that_fails_hinders_no_other(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception inside a check is that check's finding."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: 1 / 0)
    checks = await examine(kernel.host)
    assert bad(checks)["databases"].text == "ZeroDivisionError: division by zero"
    assert [check.name for check in checks] == ["clock", "databases"]


async def test_a_plugin_reports_itself_or_is_named(home: Path) -> None:
    """What plugins report is shown as it is; one whose report fails is degraded, with the place."""

    async def fine() -> list[HealthCheck]:
        return [HealthCheck(name="lamp", ok=False, text="the lamp is out", advice="change it")]

    async def broken() -> list[HealthCheck]:
        raise RuntimeError("boom")

    extra = {"fine": SimpleNamespace(report_health=hook(fine)), "broken": SimpleNamespace(report_health=hook(broken))}
    async with running_kernel(home, extra=extra) as kernel:
        found = bad(await examine(kernel.host))
        (row,) = [each for each in kernel.plugins.list() if each.state != "loaded"]
    assert found.keys() == {"lamp"}
    assert (row.name, row.state) == ("broken", "degraded")
    assert f"RuntimeError: boom ({__file__}:" in row.reason
