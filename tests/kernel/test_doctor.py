"""`halo doctor` and `GET /api/doctor`: each thing that can be wrong is named, with what to do, and hinders no other."""

from __future__ import annotations

import json
import os
import platform
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from halo_kernel import HealthCheck, Kernel, doctor, hook, verbs
from halo_kernel.doctor import examine, examine_home
from halo_kernel.presence import Presence, is_served, published, read_presence
from halo_kernel.secrets import ensure_home
from halo_kernel.testing import VirtualClock, front, running_kernel

SERVER = Path(__file__).with_name("server_process.py")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of this process, for a server on any free port."""
    monkeypatch.setenv("HALO_PORT", "0")
    monkeypatch.setenv("HALO_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
async def kernel(home: Path) -> AsyncIterator[Kernel]:
    async with running_kernel(home) as kernel:
        yield kernel


def bad(checks: Any) -> dict[str, HealthCheck]:
    """Return what is not well, by name; each says what to do."""
    found = {check.name: check for check in checks if not check.ok}
    assert [check.name for check in found.values() if not check.advice] == []
    return found


def run(home: Path, *words: str, **env: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """Run `halo doctor --json` with the kernel alone; return its exit code and the checks by name, bad ones first."""
    environment = {**os.environ, "HALO_HOME": str(home), "HALO_PLUGINS": "", **env}
    command = [sys.executable, "-m", "halo_kernel", "doctor", "--json", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    checks = sorted(json.loads(done.stdout)["checks"], key=lambda each: not each["ok"])
    return done.returncode, {each["name"]: each for each in checks}


async def test_a_healthy_kernel_is_well(kernel: Kernel) -> None:
    """Every check says something, and nothing is to be done."""
    checks = await examine(kernel)
    names = {check.name for check in checks}
    assert names == {"versions", "home", "disk", "server", "port", "clock", "databases", "models", "plugins"}
    assert bad(checks) == {}
    assert [check for check in checks if not check.text or check.advice] == []


async def test_the_operator_asks_over_http(kernel: Kernel) -> None:
    """`GET /api/doctor` answers what `examine` finds, and only to the operator."""
    face = front(kernel)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(face.app), base_url="http://localhost:9527") as browser:
        assert (await browser.get("/api/doctor")).status_code == 401
        answer = (await browser.get("/api/doctor", headers=face.headers)).json()
    assert answer["ok"] is True
    assert {"name", "ok", "text", "advice"} == answer["checks"][0].keys()


# of a home


def test_a_home_that_is_a_file(home: Path) -> None:
    """The command says so, twice with different eyes, and ends with 1."""
    home.write_text("not a folder")
    code, checks = run(home)
    assert code == 1
    assert "HALO_HOME" in checks["home"]["advice"]
    assert "cannot be used" in checks["kernel"]["text"]


def test_secrets_that_others_can_read(home: Path) -> None:
    """A folder of secrets with too many rights is named with the command that mends it."""
    ensure_home(home)
    (home / "secrets").chmod(0o755)
    assert f"chmod 700 {home}/secrets" in bad(examine_home(home))["home"].advice


def test_a_disk_that_is_nearly_full(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too little free space is named before it ends a write."""
    ensure_home(home)
    monkeypatch.setattr(doctor, "LOW_DISK", 1 << 80)
    assert "GB free" in bad(examine_home(home))["disk"].text


def test_a_port_that_is_taken(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program on our port is named, and the setting that chooses another."""
    ensure_home(home)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        monkeypatch.setenv("HALO_PORT", str(port))
        found = bad(examine_home(home))["port"]
    assert str(port) in found.text
    assert "server.port" in found.advice


def test_what_a_killed_server_left(home: Path) -> None:
    """The file of a server that no longer lives is named; one that lives, or ended well, is well."""
    ensure_home(home)
    presence = Presence(url="http://127.0.0.1:1", token="t", pid=4_194_305, version="0", started=0)
    with published(home, presence):
        assert "4194305" in bad(examine_home(home))["server"].text
    assert bad(examine_home(home)) == {}


def test_a_check_that_fails_hinders_no_other(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception inside a check is that check's finding."""
    ensure_home(home)
    monkeypatch.setattr(platform, "platform", lambda **_: 1 / 0)
    checks = examine_home(home)
    assert bad(checks)["versions"].text == "ZeroDivisionError: division by zero"
    assert {"home", "disk", "server", "port"} <= {check.name for check in checks}


# of a kernel


def test_a_broken_settings_file(home: Path) -> None:
    """The kernel does not come up, the line is named, and what needs no settings is looked at all the same."""
    ensure_home(home)
    (home / "secrets" / "settings.yaml").write_text("server:\n  port: [\n")
    code, checks = run(home)
    assert code == 1
    assert "settings.yaml:" in checks["kernel"]["text"]
    assert checks["home"]["ok"] and checks["disk"]["ok"]


async def test_settings_that_nobody_knows(home: Path) -> None:
    """An unknown key is named with its line."""
    ensure_home(home)
    (home / "secrets" / "settings.yaml").write_text("server:\n  prot: 1\n")
    async with running_kernel(home) as kernel:
        found = bad(await examine(kernel))["settings"]
    assert "server.prot" in found.text and "line 2" in found.text


@pytest.mark.parametrize("broken", ["newer", "garbage"])
def test_a_database_that_cannot_be_opened(home: Path, broken: str) -> None:
    """A registry of a newer version, or one that is no database, is named by its path; the rest is looked at."""
    ensure_home(home)
    path = home / "global" / "kernel.db"
    assert run(home)[1]["databases"]["ok"]
    if broken == "newer":
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("INSERT INTO schema(version, min_reader) VALUES (99, 99)")
    else:
        path.write_bytes(b"this is no database" * 1000)
    code, checks = run(home)
    assert code == 1
    assert str(path) in checks["kernel"]["text"] and checks["kernel"]["advice"]
    assert checks["home"]["ok"]


async def test_a_clock_before_the_newest_entry(home: Path, tmp_path: Path) -> None:
    """A clock that stands before what this home was last used is named; a minute makes no difference."""
    clock = VirtualClock()
    async with running_kernel(home, clock=clock) as kernel:
        (tmp_path / "place").mkdir()
        await kernel.workspaces.open(tmp_path / "place")
        clock.advance(-30)
        assert bad(await examine(kernel)) == {}
        clock.advance(-86_400)
        assert "before" in bad(await examine(kernel))["clock"].text


async def test_open_workspaces_show_their_schema(kernel: Kernel, tmp_path: Path) -> None:
    """Every database that is open is listed with its schema version."""
    (tmp_path / "place").mkdir()
    await kernel.workspaces.open(tmp_path / "place")
    texts = [check.text for check in await examine(kernel) if check.name == "databases"]
    assert len(texts) == 2
    assert all("schema " in text for text in texts)
    assert any(str(tmp_path / "place") in text for text in texts)


def test_without_a_model_it_says_how_to_get_one(home: Path) -> None:
    """The kernel alone has no model: that is not well, and the advice names what to install."""
    code, checks = run(home)
    assert code == 1
    assert not checks["models"]["ok"] and checks["models"]["advice"]
    assert checks["plugins"]["ok"] and "sqlite" in checks["plugins"]["text"]


async def test_a_plugin_reports_itself_or_is_named(home: Path) -> None:
    """What plugins report is shown as it is; one whose report fails is shown as degraded, with the place."""

    async def fine() -> list[HealthCheck]:
        return [HealthCheck(name="lamp", ok=False, text="the lamp is out", advice="change it")]

    async def broken() -> list[HealthCheck]:
        raise RuntimeError("boom")

    extra = {"fine": SimpleNamespace(report_health=hook(fine)), "broken": SimpleNamespace(report_health=hook(broken))}
    async with running_kernel(home, extra=extra) as kernel:
        found = bad(await examine(kernel))
    assert found.keys() == {"lamp", "plugins"}
    assert "broken (halo-kernel 0.1.0) is degraded" in found["plugins"].text
    assert f"RuntimeError: boom ({__file__}:" in found["plugins"].text


# of a server


@pytest.fixture
def server(home: Path) -> Iterator[subprocess.Popen[str]]:
    """A server that runs."""
    process = subprocess.Popen([sys.executable, str(SERVER), str(home), "{}"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and "ready" in process.stdout.readline()
    yield process
    process.send_signal(signal.SIGCONT)
    process.terminate()
    process.communicate(timeout=15)


def test_a_running_server_looks(home: Path, server: subprocess.Popen[str]) -> None:
    """The command shows what the server sees, its plugins among it."""
    code, checks = run(home)
    presence = read_presence(home)
    assert presence is not None
    assert code == 0, checks
    assert presence.url in checks["server"]["text"] and str(server.pid) in checks["server"]["text"]
    assert "routes" in checks["plugins"]["text"]
    assert "port" not in checks


def test_a_server_that_does_not_answer(
    home: Path, server: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that hangs is waited for, for a while, then named; the home is looked at without it."""
    monkeypatch.setattr(verbs, "PATIENCE", 0.5)
    server.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    checks = verbs._examined(home)
    assert time.monotonic() - began < 20
    assert is_served(home)
    assert "does not answer" in bad(checks)["kernel"].text
    assert "halo stop --force" in bad(checks)["kernel"].advice
    assert {check.name for check in checks if check.ok} >= {"home", "disk", "server"}
