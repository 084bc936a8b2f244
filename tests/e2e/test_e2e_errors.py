"""Every error on the way to a first conversation: one clear sentence, what to do next, nothing half written."""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from .commands import Done, Halo, unavailable
from .conftest import a_person
from .models import ModelServer, Script
from .trees import Tree, grow

KEY = "sk-e2e-5e6f7a8b9c"
# What a running kernel rewrites as it pleases: databases beside their contents, logs, locks.
_MOVING = (".db", ".db-wal", ".db-shm", ".members", ".lock", "logs")
STARTERS = [
    pytest.param(["serve", "--port", "0"], id="serve"),
    pytest.param(["up", "--no-browser", "--port", "0"], id="up"),
    pytest.param(["up", "-d", "--no-browser", "--port", "0"], id="up -d"),
]
COMMANDS = [*STARTERS, pytest.param(["run", "hello"], id="run")]


def snapshot(*roots: Path) -> dict[str, bytes | None]:
    """Return every folder (None) and every file with its contents, but for what moves."""
    found: dict[str, bytes | None] = {}
    for root in roots:
        for path in root.rglob("*"):
            if not any(part.endswith(_MOVING) for part in path.relative_to(root).parts):
                found[str(path)] = path.read_bytes() if path.is_file() else None
    return found


def told(done: Done, *words: str, code: int = 1) -> None:
    """The command failed with one line on stderr that holds all words, and printed nothing else."""
    assert done.code == code, done
    assert done.out == ""
    assert done.err.startswith("halo: ") and done.err.endswith(".\n") and done.err.count("\n") == 1, done.err
    assert [word for word in words if word not in done.err] == [], done.err


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Halo]:
    """A person whose home is set up."""
    for person in a_person(tmp_path_factory.mktemp("settled")):
        folder = tmp_path_factory.mktemp("first")
        assert person.run("init", str(folder)).code == 0
        yield person


@pytest.fixture
def person(settled: Halo, tmp_path: Path) -> Iterator[Halo]:
    """A person of this test's own whose home is set up."""
    for person in a_person(tmp_path):
        shutil.copytree(settled.halo_home, person.halo_home)
        yield person


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return grow(tmp_path / "trees")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, model: ModelServer) -> Iterator[tuple[Halo, Tree]]:
    """A person with a server and a model, and a workspace that is open there."""
    env = {"OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": KEY, "OPENAI_MODEL": "scripted"}
    tree = grow(tmp_path_factory.mktemp("open"))
    for person in a_person(tmp_path_factory.mktemp("served"), env=env):
        person.start("serve", "--port", "0").expect("ready on")
        assert person.run("init", str(tree.path)).code == 0
        yield person, tree


@pytest.mark.parametrize("command", [["serve"], ["up", "--no-browser"], ["up", "-d", "--no-browser"]], ids=" ".join)
def test_a_port_that_is_taken(halo: Halo, tree: Tree, command: list[str]) -> None:
    """A taken port is named with the way out; a new home gets no database, no key and no sign of a server."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = halo.run(*command, "--port", port, cwd=tree.path)
    told(done, f"Port {port} on 127.0.0.1 is taken", "`--port`")
    assert halo.gone()
    assert not list(halo.home.rglob("*.db"))
    assert not list((halo.halo_home / "secrets").iterdir())
    assert not (tree.path / ".halo").exists()


def test_a_port_that_is_none(halo: Halo) -> None:
    """A number that is no port is wrong usage, told by the command that was typed, before anything is made."""
    for command in (["serve"], ["up", "--no-browser"]):
        done = halo.run(*command, "--port", "99999")
        assert done.code == 2
        assert f"halo {command[0]}: error: argument -p/--port: '99999' is not a port" in done.err
    assert not halo.halo_home.exists()


@pytest.mark.parametrize("command", COMMANDS[1:])
@pytest.mark.parametrize("what", ["missing", "file", "read-only"])
def test_a_workspace_that_cannot_be_one(person: Halo, tmp_path: Path, command: list[str], what: str) -> None:
    """A workspace that is missing, a file, or not writable is named with the rule; no server stays, nothing is made."""
    place = tmp_path / "a place"
    words = {
        "missing": ["does not exist", "Create the folder, or name another"],
        "file": ["is a file, not a folder", "Name a folder"],
        "read-only": ["is not writable for this user", "Change its permissions, or name another folder"],
    }
    if what == "file":
        place.write_text("not a folder")
    if what == "read-only":
        place.mkdir(mode=0o555)
        person.program[:0] = without_power_over_files()
    before = snapshot(person.home, tmp_path)
    told(person.run(*command, "-w", str(place)), str(place), *words[what])
    assert person.gone()
    assert snapshot(person.home, tmp_path) == before


def without_power_over_files() -> list[str]:
    """Return the words that run a program under the rules that hold for ordinary users; root writes everywhere."""
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        unavailable("root without setpriv writes everywhere")
    return ["setpriv", "--bounding-set", "-dac_override,-dac_read_search,-fowner"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_home_that_cannot_be_one(halo: Halo, tree: Tree, tmp_path: Path, command: list[str]) -> None:
    """A home that is a file is named with what to set."""
    place = tmp_path / "a file"
    place.write_text("mine")
    halo.env["HALO_HOME"] = str(place)
    told(halo.run(*command, cwd=tree.path), str(place), "cannot be used", "Set HALO_HOME to a folder")
    assert place.read_text() == "mine"
    assert not (tree.path / ".halo").exists()
    assert halo.gone()


def test_an_agent_that_is_unknown(server: tuple[Halo, Tree]) -> None:
    """An unknown agent is an error that lists the known ones; no session begins."""
    person, tree = server
    before = snapshot(person.home, tree.path)
    told(person.run("run", "-a", "nope", "hello", cwd=tree.path), "no agent 'nope'", "there are: default")
    told(person.run("run", "-s", "mine", "-a", "nope", "hello", cwd=tree.path), "no agent 'nope'")
    assert sessions(tree) == []
    assert snapshot(person.home, tree.path) == before


def sessions(tree: Tree) -> list[str]:
    """Return the sessions that are written down in a workspace."""
    with closing(sqlite3.connect(f"file:{tree.path}/.halo/halo.db?mode=ro", uri=True)) as database:
        return [name for (name,) in database.execute("SELECT id FROM sessions")]


def test_a_key_that_is_wrong(person: Halo, tree: Tree, model: ModelServer) -> None:
    """A key that the provider refuses is said once, with what to do, and is not tried again."""
    model.forget()
    model.always(Script(status=401))
    person.env |= {"OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": KEY, "OPENAI_MODEL": "scripted"}
    words = "401", "the key in OPENAI_API_KEY", "The key is wrong or has expired: set a valid one."
    told(person.run("run", "hello", cwd=tree.path), *words)
    assert len(model.requests) == 1
    model.forget()


def test_a_model_that_is_down(person: Halo, tree: Tree) -> None:
    """A model that is asked for by name and does not answer is an error with its address; nothing answers instead."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        person.env |= {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": KEY, "OPENAI_MODEL": "scripted"}
        person.env["HALO_AGENT_MAX_RETRIES"] = "2"
        done = person.run("run", "-v", "hello", cwd=tree.path)
    assert (done.code, done.out) == (1, "")
    last = done.err.strip().splitlines()[-1]
    assert last.startswith("halo: ") and f"{url} cannot be reached" in last and last.endswith("Check that it runs.")
    assert done.err.count("failed: ") == 2
    assert "Traceback" not in done.err


def test_a_model_that_is_unknown(person: Halo, tree: Tree) -> None:
    """A provider that is not installed is an error that lists those that are."""
    person.env["HALO_MODEL_DEFAULT"] = "nope/x"
    done = person.run("run", "hello", cwd=tree.path)
    assert (done.code, done.out) == (1, "")
    assert "no provider 'nope' is installed" in done.err and "offline" in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        pytest.param(
            "agent:\n  # how often\n  max_steps: many\n", 3, ["agent.max_steps", "Expected `int`"], id="value"
        ),
        pytest.param("server:\n  port: 1\n bad: [1\n", 3, ["not valid YAML"], id="syntax"),
    ],
)
def test_settings_that_are_wrong(
    person: Halo, tree: Tree, command: list[str], text: str, line: int, words: list[str]
) -> None:
    """A settings file with a mistake is named with its line and key; it and everything else stays as it is."""
    file = person.halo_home / "secrets" / "settings.yaml"
    file.write_text(text)
    file.chmod(0o600)
    before = snapshot(person.home, tree.path)
    told(person.run(*command, cwd=tree.path), f"{file}:{line}: ", *words)
    assert person.gone()
    assert snapshot(person.home, tree.path) == before


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        pytest.param("name: X\nmodel:\n  provider: openai\n  id: [1]\n", 4, ["model.id", "must be text"], id="value"),
        pytest.param("name: Y\ntools: [a\nfoo: }\n", 3, ["not YAML"], id="syntax"),
    ],
)
def test_an_agent_file_that_is_wrong(server: tuple[Halo, Tree], text: str, line: int, words: list[str]) -> None:
    """An agent's file with a mistake is named with its line and key; the other agents work on."""
    person, tree = server
    file = tree.path / ".halo" / "agents" / "odd" / "agent.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    before, known = snapshot(person.home, tree.path), sessions(tree)
    told(person.run("run", "-a", "odd", "hello", cwd=tree.path), str(file), f"line {line}", *words)
    assert sessions(tree) == known
    assert snapshot(person.home, tree.path) == before
    assert person.run("run", "--new", "hello", cwd=tree.path).code == 0


def test_a_second_server(server: tuple[Halo, Tree]) -> None:
    """A second server of one home is refused with the address of the first, which goes on undisturbed."""
    person, tree = server
    before, running = snapshot(person.home, tree.path), person.processes()
    url = person.run("status").out.split(" runs at ")[1].split()[0]
    told(person.run("serve", "--port", "0"), f"runs already at {url}", "`halo stop`", "HALO_HOME")
    told(person.run("serve"), f"runs already at {url}")
    assert snapshot(person.home, tree.path) == before
    assert person.processes() == running
    assert person.run("status").code == 0


def test_a_host_that_needs_a_password(halo: Halo, tree: Tree) -> None:
    """Without a password nothing listens for others."""
    for command in (["serve"], ["up", "--no-browser"]):
        done = halo.run(*command, "--port", "0", "--host", "0.0.0.0", cwd=tree.path)
        told(done, "Without a password", "`halo password`", "127.0.0.1")
    assert halo.gone()
