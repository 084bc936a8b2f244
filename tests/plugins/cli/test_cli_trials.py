"""`halo plugins check`: a plugin that ends or blocks the process that imports it is found out, and hurts no other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from halo_cli import trials
from halo_cli.trials import tried

FINE = "from halo_kernel import hook\n\n\n@hook\nasync def run_started(turn): ...\n"
# What a plugin does when it is imported, and what is said of it.
ENDINGS = {
    "exits at once": ("import os; os._exit(3)", "was ended, with the exit code 3"),
    "exits at once, content": ("import os; os._exit(0)", "was ended, with the exit code 0"),
    "is killed": ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "was ended, with SIGSEGV"),
    "exits": ("import sys; sys.exit('no such luck')", "its import failed: SystemExit: no such luck ("),
    "fails": ("raise RuntimeError('boom')", "its import failed: RuntimeError: boom ("),
    "is interrupted": ("raise KeyboardInterrupt", "its import failed: KeyboardInterrupt"),
}


def lay_out(folder: Path, name: str, code: str = FINE, **files: str) -> None:
    """Lay a plugin out in a folder of distributions."""
    package, info = folder / f"halo_{name}", folder / f"halo_{name}-1.0.dist-info"
    for each in (package, info):
        each.mkdir(parents=True)
    (package / "__init__.py").write_text(code)
    for file, text in files.items():
        (package / f"{file}.py").write_text(text)
    (package / "halo.toml").write_text('kernel = ">=0.1,<0.2"\n')
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: halo-{name}\nVersion: 1.0\nRequires-Dist: halo-kernel>=0.1,<0.2\n"
    )
    (info / "entry_points.txt").write_text(f"[halo.plugins]\n{name} = halo_{name}\n")


def check(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `halo plugins check` on a home."""
    command = [sys.executable, "-m", "halo_kernel", "plugins", "check", *words]
    env = {**os.environ, "HALO_HOME": str(home)}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A home's own site directory."""
    return tmp_path / "home" / "plugins"


@pytest.mark.parametrize("name", ENDINGS)
def test_what_ends_the_process_is_told_and_hurts_no_other(site: Path, name: str) -> None:
    """Of a plugin that ends the process, however, the check says how; those after it are judged all the same."""
    code, said = ENDINGS[name]
    lay_out(site, "bad", code)
    lay_out(site, "zoo")
    done = check(site.parent, "--json", "bad", "zoo")
    bad, zoo = json.loads(done.stdout)
    assert done.returncode == 1
    assert (bad["name"], bad["distribution"], bad["version"], bad["state"]) == ("bad", "halo-bad", "1.0", "fails")
    assert said in bad["faults"][0]
    assert (zoo["state"], zoo["hooks"]) == ("passes", ["run_started"])


def test_what_blocks_the_process_is_told(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plugin that keeps the interpreter for itself is given up after a time, with what it has started."""
    sleeper = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
    lay_out(site, "bad", f"{sleeper}import re; re.match('(a+)+$', 'a' * 64 + 'b')")
    lay_out(site, "zoo")
    monkeypatch.setattr(trials, "SECONDS", 10.0)
    began = time.monotonic()
    bad, zoo = tried(site.parent, [], ["bad", "zoo"])
    assert "did not go on within 10 s" in bad.faults[0]
    assert not zoo.faults
    assert time.monotonic() - began < 60


def test_what_a_plugin_prints_is_no_verdict(site: Path) -> None:
    """What goes to stdout while a plugin is imported, past Python too, does not get into the answer."""
    lay_out(site, "loud", "import os; print('[]'); os.write(1, b'[]\\n')\n" + FINE)
    done = check(site.parent, "--json", "loud")
    assert [each["state"] for each in json.loads(done.stdout)] == ["passes"]
    assert done.stderr.count("[]") == 2


# A package whose module has the fault, and the place that is named.
SYNTAX: dict[str, tuple[dict[str, Any], str]] = {
    "in the package itself": ({"code": "import os\ndef broken(:\n"}, "__init__.py:2"),
    "in a module that it imports": (
        {"code": "import os\nfrom . import inner\n", "inner": "\n\nx = = 1\n"},
        "inner.py:3",
    ),
    "an encoding that nobody knows": (
        {"code": "from . import inner\n", "inner": "# -*- coding: nonsense -*-\n"},
        "inner.py",
    ),
}


@pytest.mark.parametrize("name", SYNTAX)
def test_a_syntax_error_is_located_in_the_plugin(site: Path, name: str) -> None:
    """File and line of the fault are the plugin's, once, and never the import machinery's."""
    files, place = SYNTAX[name]
    lay_out(site, "bad", **files)
    said = check(site.parent, "bad").stdout
    assert "its import failed: SyntaxError: " in said
    assert f"({site}/halo_bad/{place}" in said
    assert "importlib" not in said


def test_a_module_that_nothing_imports_yet_is_looked_at_too(site: Path) -> None:
    """A syntax error in a module that is imported later only is remarked on, with file and line."""
    lay_out(site, "late", FINE, later="x = 1\nx = = 2\n")
    done = check(site.parent, "late")
    assert done.returncode == 1
    assert f"{site}/halo_late/later.py:2: invalid syntax" in done.stdout


def test_a_folder_without_a_plugin_is_an_error(tmp_path: Path) -> None:
    """A path in which there is no plugin is told, and not passed over."""
    done = check(tmp_path / "home", f"{tmp_path}/")
    assert done.returncode == 1
    assert done.stderr.startswith("halo: there is no plugin in")


ONCE = "import sys\nif hasattr(sys, 'seen'):\n    raise RuntimeError('once is enough')\nsys.seen = True\n"
SETTINGS = """
from typing import Annotated

from halo_kernel import Secret, Section, hook
from msgspec import Meta, Struct


class Some(Struct, frozen=True):
    port: Annotated[int, Meta(ge=0, description="The port.")] = 0
    token: Secret | None = None
    name: str | None = None
    share: float = 0.5


@hook
def provide_settings():
    yield Section("some", Some)
"""


def test_what_can_be_loaded_only_once_is_told(site: Path) -> None:
    """Where it is asked for, a plugin is loaded once more, as a reload does, and what is in the way is told."""
    lay_out(site / "1", "once", ONCE + FINE)
    lay_out(site / "1", "often")
    found = {each.name: each.stays for each in tried(site.parent, [str(site / "1")], anew=True)}
    assert "once is enough" in found["once"]
    assert found["often"] == ""
    assert [each.stays for each in tried(site.parent, [str(site / "1")])] == ["", ""]


def test_settings_are_told(site: Path) -> None:
    """A verdict has each setting with its description, what it is, and whether a number has a bound."""
    lay_out(site / "1", "some", SETTINGS)
    (found,) = tried(site.parent, [str(site / "1")])
    assert [(each.name, each.description, each.kind, each.bounded) for each in found.settings] == [
        ("some.port", "The port.", "number", True),
        ("some.token", "", "secret", True),
        ("some.name", "", "text", True),
        ("some.share", "", "number", False),
    ]


def test_settings_that_cannot_be_told_are_a_fault(site: Path) -> None:
    """A hook that fails is told, and the other plugins are judged all the same."""
    lay_out(site / "1", "some", SETTINGS.replace("yield", "raise RuntimeError('no settings')\n    yield"))
    lay_out(site / "1", "well")
    some, well = tried(site.parent, [str(site / "1")])
    assert some.faults == ("provide_settings failed: RuntimeError('no settings')",)
    assert well.faults == ()
