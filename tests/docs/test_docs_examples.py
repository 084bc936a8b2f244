"""Every example of the documentation is run, and shows what comes of it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
from ruamel.yaml import YAML

from halo_kernel import Plugins
from halo_kernel.manifests import Manifest
from halo_lib_client import connect

from .pages import ROOT, Block, blocks, pages
from .sandbox import Sandbox, is_shown

LANGUAGES = {"python", "console", "sh", "toml", "yaml", "json", "text"}
MOST_NOT_RUN = 12
EVERY = [block for page in pages() for block in blocks(page)]
PROGRAMS = ("curl", "git")


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def runnable() -> Iterator[Any]:
    """Yield each page with something to run, marked with the programs that it needs."""
    for page in pages():
        commands = [each.text for each in blocks(page) if each.language in ("console", "sh") and not each.why]
        if commands or any(each.language == "python" for each in blocks(page)):
            needed = [name for name in PROGRAMS if re.search(rf"\b{name} ", "\n".join(commands))]
            yield pytest.param(page, id=named(page), marks=pytest.mark.needs("uv", "bash", *needed))


def of(*languages: str) -> Sequence[Block]:
    return [block for block in EVERY if block.language in languages and not block.why]


@pytest.fixture(scope="module")
def vendors() -> Iterator[Mapping[str, str]]:
    """Scripted servers of both wires, by the plugin that speaks it."""
    started = {
        plugin: subprocess.Popen(
            [sys.executable, "-m", f"halo_kernel.testing.{plugin}_server", "--port", "0"],
            stdout=subprocess.PIPE,
            text=True,
        )
        for plugin in ("openai", "anthropic")
    }
    yield {plugin: process.stdout.readline().strip() for plugin, process in started.items() if process.stdout}
    for process in started.values():
        process.terminate()
        process.wait(10)
        assert process.stdout
        process.stdout.close()


@pytest.fixture
def sandbox(tmp_path: Path, vendors: Mapping[str, str]) -> Sandbox:
    return Sandbox(tmp_path, vendors)


def load(path: Path, name: str) -> ModuleType:
    spec = spec_from_file_location(name, path)
    assert spec and spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", list(runnable()))
def test_a_page_does_what_it_says(page: Path, sandbox: Sandbox, tmp_path: Path) -> None:
    """A page's commands print what it shows, its tests pass, its programs run, and its hooks are hooks."""
    found = [block for block in blocks(page) if not block.why]
    for block, step, printed, code in sandbox.run(
        [each for each in found if each.language in ("console", "sh") or each.path]
    ):
        assert code == step.code, f"{block.place}: {step.command!r} ended with {code}:\n{printed}"
        assert is_shown(step.shown, printed), f"{block.place}: {step.command!r} printed\n{printed}"
    tests: list[str] = []
    for block in found:
        if block.language != "python" or block.path:
            continue
        file = sandbox.work / f"{'test' if block.is_test else 'program'}_line_{block.line}.py"
        file.write_text(block.text, encoding="utf-8")
        if block.is_test:
            tests.append(file.name)
            continue
        done = sandbox.python(file.name)
        assert done.returncode == 0, f"{block.place}: {done.stderr}"
        if re.search(r"^@hook", block.text, re.MULTILINE):
            Plugins().load(extra={file.stem: load(file, file.stem)}, discover=False, strict=True)
    if tests:
        done = sandbox.pytest(*tests)
        assert done.returncode == 0, f"{named(page)}:\n{done.stdout}"


def test_what_is_not_run_is_little_and_has_a_reason() -> None:
    """Every fence says what it holds; few examples are not run, each for a reason; commands are not called text."""
    assert [block.place for block in EVERY if block.language not in LANGUAGES] == []
    left_out = [block for block in EVERY if block.why]
    assert len(left_out) <= MOST_NOT_RUN, [block.place for block in left_out]
    assert [block.place for block in left_out if len(block.why.split()) < 3] == []
    hidden = re.compile(r"^(\$ |halo |pip |uv |python |import |from \w+ import )", re.MULTILINE)
    assert [block.place for block in of("text") if hidden.search(block.text)] == []


@pytest.mark.parametrize("block", of("toml", "json"), ids=lambda block: block.place)
def test_data_can_be_read(block: Block) -> None:
    """TOML and JSON are such, and a `halo.toml` has keys that the kernel knows."""
    if block.language == "json":
        json.loads(block.text)
        return
    table = tomllib.loads(block.text)
    if "kernel" in table:
        msgspec.convert(table, Manifest)
        assert table.keys() <= set(Manifest.__struct_fields__)


def settings(home: Path) -> Mapping[str, Any]:
    """Return what a kernel with all plugins says of a home's settings."""
    with connect(home, local=True) as client:
        found: Mapping[str, Any] = client.get("/api/settings")
        return found


@pytest.fixture(scope="module")
def sections(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names of all sections of settings."""
    return {each["key"].partition(".")[0] for each in settings(tmp_path_factory.mktemp("home"))["settings"]}


@pytest.mark.parametrize("block", of("yaml"), ids=lambda block: block.place)
def test_yaml_can_be_read(block: Block, sections: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """YAML is such, and settings are what the plugins provide, with values that count."""
    document = YAML(typ="safe").load(block.text)
    if not set(document) <= sections or block.path.endswith("agent.yaml"):
        return
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "settings.yaml").write_text(block.text, encoding="utf-8")
    for name in re.findall(r"<<(\w+)>>", block.text):
        monkeypatch.setenv(name, "a-value")
    assert settings(tmp_path)["findings"] == []
