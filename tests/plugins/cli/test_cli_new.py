"""`halo plugins new`: names, what is written, and that nothing is written over or by half."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from halo_cli import new
from halo_cli.new import LONGEST, kinds, write_project
from halo_kernel import BadInput, Conflict, NotFound


def halo(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `halo plugins` in a folder."""
    command = [sys.executable, "-m", "halo_kernel", "plugins", *words]
    env = {**os.environ, "HALO_HOME": str(folder / "home")}
    return subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, timeout=120)


def test_the_kinds_are_those_of_the_kit() -> None:
    """There is a template for each kind that the kit has a contract for."""
    assert sorted(kinds()) == ["channel", "dispatcher", "model", "protocol", "service", "storage", "tool"]


@pytest.mark.parametrize("kind", kinds())
def test_a_project_is_whole(tmp_path: Path, kind: str) -> None:
    """Each kind is a distribution with an entry point, halo.toml, README and tests, and no field is left open."""
    folder = write_project("weather-now", kind=kind, into=tmp_path)
    assert folder == tmp_path / "halo-weather-now"
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert project["name"] == "halo-weather-now"
    assert project["entry-points"] == {"halo.plugins": {"weather-now": "halo_weather_now"}}
    package = folder / "src" / "halo_weather_now"
    assert {"__init__.py", "halo.toml", "py.typed"} <= {each.name for each in package.iterdir()}
    assert {"conftest.py", "test_rules.py", "test_contract.py"} <= {each.name for each in (folder / "tests").iterdir()}
    files = [each for each in folder.rglob("*") if each.is_file()]
    assert [each for each in files if "{{" in each.read_text() or each.suffix == ".txt"] == []
    for each in files:
        if each.suffix == ".py":
            compile(each.read_text(), str(each), "exec")


@pytest.mark.parametrize("kind", kinds())
def test_no_line_is_too_long(tmp_path: Path, kind: str) -> None:
    """However long the name is, lines stay within what the project's own ruff allows."""
    folder = write_project("x" * LONGEST, kind=kind, into=tmp_path)
    lines = [line for each in folder.rglob("*.py") for line in each.read_text().splitlines()]
    assert [line for line in lines if len(line) > 120] == []


@pytest.mark.parametrize("name", ["x" * LONGEST, "a", "Halo_Some.Thing", "halo-halo-x"])
def test_names_are_made_one_way(tmp_path: Path, name: str) -> None:
    """Capitals, `_` and `.` become what a distribution's name has; `halo-` before it may be left out."""
    folder = write_project(name, kind="tool", into=tmp_path)
    assert re.fullmatch(r"halo-[a-z][a-z0-9-]*", folder.name)
    assert write_project(name, kind="tool", into=make(tmp_path / "other")).name == folder.name


def make(folder: Path) -> Path:
    """Return a new folder."""
    folder.mkdir()
    return folder


WRONG = {
    "": "distribution",
    "-x": "distribution",
    "x y": "distribution",
    "../x": "distribution",
    "ä": "distribution",
    "x/": "distribution",
    "9lives": "begins with a letter",
    "x" * (LONGEST + 1): "at most 32 characters",
    "halo-": "distribution",
    "kernel": "Halo's own",
    "halo-agent": "Halo's own",
    "lib-text": "Halo's own",
    "class": "word of Python",
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_name_is_refused(tmp_path: Path, name: str) -> None:
    """The error says which rule the name breaks, and nothing is written."""
    with pytest.raises(BadInput, match=WRONG[name]) as refused:
        write_project(name, kind="tool", into=tmp_path)
    assert refused.value.field == "name"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("there", ["folder", "file", "link"])
def test_what_is_there_stays(tmp_path: Path, there: str) -> None:
    """A target that exists is refused and left as it is, also when it is a link to nowhere."""
    target = tmp_path / "halo-x"
    if there == "folder":
        make(target)
    elif there == "file":
        target.write_text("mine")
    else:
        target.symlink_to(tmp_path / "nowhere")
    with pytest.raises(Conflict, match="halo-x exists"):
        write_project("x", kind="tool", into=tmp_path)
    assert list(tmp_path.iterdir()) == [target]
    assert there != "file" or target.read_text() == "mine"


def test_nothing_is_written_by_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails in the middle leaves nothing."""
    fill, seen = new._filled, list[str]()

    def fails(text: str, fields: dict[str, str]) -> str:
        seen.append(text)
        if len(seen) > 3:
            raise OSError("the disk is full")
        return fill(text, fields)

    monkeypatch.setattr(new, "_filled", fails)
    with pytest.raises(OSError, match="full"):
        write_project("x", kind="tool", into=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_into_a_folder_that_is_not_there(tmp_path: Path) -> None:
    """It is refused, and not made."""
    with pytest.raises(NotFound, match="there is no folder"):
        write_project("x", kind="tool", into=tmp_path / "gone")
    assert list(tmp_path.iterdir()) == []


def test_the_command_says_what_comes_next(tmp_path: Path) -> None:
    """It writes into the current folder, and tells how to install and check what it wrote."""
    done = halo(tmp_path, "new", "weather", "--kind", "tool")
    assert done.returncode == 0, done.stderr
    assert "pip install -e halo-weather" in done.stdout
    assert (tmp_path / "halo-weather" / "pyproject.toml").is_file()
    again = halo(tmp_path, "new", "weather", "--kind", "model")
    assert (again.returncode, again.stdout) == (1, "")
    assert "halo-weather exists, and stays as it is" in again.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["new", "x"], "--kind"),
        (["new", "--kind", "tool"], "needs a NAME"),
        (["new", "x", "y", "--kind", "tool"], "one NAME"),
        (["new", "x", "--kind", "teapot"], "invalid choice"),
        (["check", "cli", "--tier", "brass"], "invalid choice"),
    ],
)
def test_wrong_words_are_refused(tmp_path: Path, words: list[str], told: str) -> None:
    """The usage comes before anything happens."""
    done = halo(tmp_path, *words)
    assert done.returncode == 2
    assert told in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_tier_is_about_projects(tmp_path: Path) -> None:
    """The name of an installed plugin has no folder that could be looked at."""
    done = halo(tmp_path, "check", "cli", "--tier", "gold")
    assert done.returncode == 1
    assert "--tier is about folders of projects" in done.stderr
