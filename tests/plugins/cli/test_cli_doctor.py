"""`halo doctor`: each thing that can be wrong is named, with what to do, and hinders no other."""

from __future__ import annotations

import json
import platform
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from halo_cli import doctor
from halo_cli.doctor import examine_home, examine_kernel
from halo_cli.start import start
from halo_kernel import HealthCheck, ensure_home, is_served, read_presence


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of this process, for a server on any free port."""
    monkeypatch.setenv("HALO_PORT", "0")
    monkeypatch.setenv("HALO_PLUGINS", "api")
    monkeypatch.setenv("HALO_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def bad(checks: Any) -> dict[str, HealthCheck]:
    """Return what is not well, by name; each says what to do."""
    found = {check.name: check for check in checks if not check.ok}
    assert [check.name for check in found.values() if not check.advice] == []
    return found


def run() -> tuple[int, dict[str, dict[str, Any]]]:
    """Run `halo doctor --json`; return its exit code and the checks by name, bad ones first."""
    command = [sys.executable, "-m", "halo_kernel", "doctor", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert "Traceback" not in done.stderr
    checks = sorted(json.loads(done.stdout)["checks"], key=lambda each: not each["ok"])
    return done.returncode, {each["name"]: each for each in checks}


@pytest.fixture
def server(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """A server that runs, with a plugin that the command would not load."""
    with monkeypatch.context() as other:
        other.setenv("HALO_PLUGINS", "api,cli")
        process, _ = start([], home=home)
    yield process
    process.send_signal(signal.SIGCONT)
    process.terminate()
    process.wait(timeout=15)


# of a home


def test_a_home_that_is_a_file(home: Path) -> None:
    """The command says so, twice with different eyes, and ends with 1."""
    home.write_text("not a folder")
    code, checks = run()
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
    record = {"url": "http://127.0.0.1:1", "token": "t", "pid": 4_194_305, "version": "0", "started": 0}
    (home / "secrets" / "server.json").write_text(json.dumps(record))
    assert "4194305" in bad(examine_home(home))["server"].text
    (home / "secrets" / "server.json").unlink()
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
    code, checks = run()
    assert code == 1
    assert "settings.yaml:" in checks["settings_file"]["text"] and "settings.yaml:" in checks["kernel"]["text"]
    assert "port" not in checks, "it is the settings that are broken"
    assert checks["home"]["ok"] and checks["disk"]["ok"]


@pytest.mark.parametrize("broken", ["newer", "garbage"])
def test_a_database_that_cannot_be_opened(home: Path, broken: str) -> None:
    """A registry of a newer version, or one that is no database, is named by its path; the rest is looked at."""
    ensure_home(home)
    path = home / "global" / "kernel.db"
    assert run()[1]["databases"]["ok"]
    if broken == "newer":
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("INSERT INTO schema(version, min_reader) VALUES (99, 99)")
    else:
        path.write_bytes(b"this is no database" * 1000)
    code, checks = run()
    assert code == 1
    assert str(path) in checks["kernel"]["text"] and checks["kernel"]["advice"]
    assert checks["home"]["ok"]


def test_settings_that_nobody_knows(home: Path) -> None:
    """An unknown key is named with its line."""
    ensure_home(home)
    (home / "secrets" / "settings.yaml").write_text("server:\n  prot: 1\n")
    found = bad(examine_kernel())["settings"]
    assert "server.prot" in found.text and "line 2" in found.text


def test_a_plugin_that_is_not_there(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was asked for and is missing is named with what to install; the other checks are shown."""
    monkeypatch.setenv("HALO_PLUGINS", "api,slck")
    checks = examine_kernel()
    found = bad(checks)["plugins"]
    assert "slck" in found.text and "is missing" in found.text and found.advice == "pip install halo-slck"
    assert {"clock", "databases", "models", "plugins"} <= {check.name for check in checks}


def test_a_new_home_is_made_and_well(home: Path) -> None:
    """Where nothing is yet, the command sets it up as any other does, and finds what to do next."""
    code, checks = run()
    assert code == 1
    assert [name for name, check in checks.items() if not check["ok"]] == ["models"]
    assert {"versions", "home", "disk", "server", "port", "clock", "databases", "plugins"} <= checks.keys()


def test_without_a_model_it_says_how_to_get_one(home: Path) -> None:
    """The kernel alone has no model: that is not well, and the advice names what to install."""
    code, checks = run()
    assert code == 1
    assert not checks["models"]["ok"] and checks["models"]["advice"]
    assert checks["plugins"]["ok"] and "sqlite" in checks["plugins"]["text"]


# of a server


def test_a_running_server_looks(home: Path, server: subprocess.Popen[bytes]) -> None:
    """The command shows what the server sees, its plugins among it."""
    _, checks = run()
    presence = read_presence(home)
    assert presence is not None
    assert [name for name, check in checks.items() if not check["ok"]] == ["models"]
    assert presence.url in checks["server"]["text"] and str(server.pid) in checks["server"]["text"]
    assert "cli" in checks["plugins"]["text"]
    assert "port" not in checks


def test_a_server_that_does_not_answer(
    home: Path, server: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that hangs is waited for, for a while, then named; the home is looked at without it."""
    monkeypatch.setattr(doctor, "PATIENCE", 0.5)
    server.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    checks = [*examine_home(home), *examine_kernel()]
    assert time.monotonic() - began < 20
    assert is_served(home)
    assert "does not answer" in bad(checks)["kernel"].text
    assert "halo stop --force" in bad(checks)["kernel"].advice
    assert {check.name for check in checks if check.ok} >= {"home", "disk", "server"}
