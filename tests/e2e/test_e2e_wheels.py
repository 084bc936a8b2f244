"""The wheels of `standard` in a virtual environment of their own, far from any clone."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from .commands import Halo
from .conftest import a_person
from .trees import QUESTION, grow
from .visitors import Visitor, text_of, tools_of

ROOT = Path(__file__).resolve().parents[2]
# What an interpreter looks for by itself, and the standard library on Jython.
ENVIRONMENT = {"_virtualenv", "sitecustomize", "usercustomize", "org"}
pytestmark = [pytest.mark.no_model, pytest.mark.needs("uv"), pytest.mark.timeout(400)]


def builder() -> ModuleType:
    """Return the module that builds wheels."""
    spec = spec_from_file_location("wheels", ROOT / "tests" / "envs" / "wheels.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def standard() -> list[str]:
    """Return the distributions of `halo-agent[standard]`, as the project file lists them."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (everything,) = extras["standard"]
    return [f"halo-{name}" for name in everything.removeprefix("halo-agent[").removesuffix("]").split(",")]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with `halo-agent[standard]`, each part of ours from its wheel."""
    wheels = builder()
    wheels.build()

    def wheel(name: str) -> str:
        (found,) = wheels.WHEELS.glob(f"{name.replace('-', '_')}-*.whl")
        return str(found)

    parts = {"halo-kernel": None} | dict.fromkeys(name for each in standard() for name in wheels.ours(each))
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run(["uv", "venv", "--quiet", "--python", sys.executable, str(folder)], check=True)
    install = ["uv", "pip", "install", "--quiet", "--python", str(folder / "bin" / "python")]
    wanted = [f"halo-agent[standard] @ file://{wheel('halo-agent')}", *map(wheel, parts)]
    subprocess.run([*install, *wanted], check=True, cwd=folder)
    return folder


@pytest.fixture
def person(installed: Path, tmp_path: Path) -> Iterator[Halo]:
    """A person who uses that environment."""
    yield from a_person(tmp_path, program=[str(installed / "bin" / "halo")])


def test_the_wheels_lead_to_a_page_that_answers(person: Halo, installed: Path, tmp_path: Path) -> None:
    """`halo up` works outside a clone: every plugin is loaded, and the page answers from the files through tools."""
    tree = grow(tmp_path)
    up = person.up(tree.path)
    visitor = Visitor(up.link)
    assert "<title>Halo</title>" in visitor.page
    plugins = visitor.get("/api/server")["plugins"]
    assert {f"halo-{plugin['name']}" for plugin in plugins} >= set(standard())
    assert [plugin for plugin in plugins if plugin["state"] != "loaded"] == []
    frames = visitor.ask(QUESTION)
    assert tools_of(frames) == ["file_list", "file_read"]
    assert [name for name in tree.names if name not in text_of(frames)] == []
    assert tree.title in text_of(frames) and tree.opening in text_of(frames)


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_version_and_help_import_nothing_but_the_kernel(person: Halo, installed: Path, option: str) -> None:
    """`halo --version` and `halo --help` import no SDK, no plugin and no library: the standard library is enough."""
    command = [str(installed / "bin" / "python"), "-X", "importtime", str(installed / "bin" / "halo"), option]
    done = subprocess.run(command, env=person.env, cwd=person.home, capture_output=True, text=True, check=True)
    lines = [line.split("|")[-1].strip() for line in done.stderr.splitlines() if line.startswith("import time:")]
    modules = {line.partition(".")[0] for line in lines[1:]}
    assert modules - sys.stdlib_module_names - ENVIRONMENT == {"halo_kernel"}
    assert "0.1" in done.stdout if option == "--version" else "commands: " in done.stdout


def test_nothing_is_taken_from_the_clone(person: Halo, installed: Path) -> None:
    """Every module of ours lies in the environment itself."""
    code = "import sys, halo_kernel, halo_web, halo_cli.up, halo_lib_files\n"
    code += "print(*(module.__file__ for name, module in sys.modules.items() if name.startswith('halo_')), sep='\\n')"
    python = [str(installed / "bin" / "python"), "-c", code]
    files = subprocess.run(python, env=person.env, capture_output=True, text=True, check=True).stdout.split()
    assert files
    assert [file for file in files if not file.startswith(f"{installed}{os.sep}")] == []
