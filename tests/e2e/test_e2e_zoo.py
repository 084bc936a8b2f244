"""A zoo of broken plugins, all installed at once as wheels in the home's site directory: everything else works."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from .commands import Halo
from .conftest import a_person
from .trees import QUESTION, Tree, grow
from .visitors import Visitor, text_of

pytestmark = [pytest.mark.no_model, pytest.mark.needs("uv"), pytest.mark.timeout(300)]
SECONDS = 90.0
FINE = 'kernel = ">=0.1,<0.2"'
ROUTE = """
from halo_kernel import Route, hook
async def answer(exchange): return {}
@hook
def provide_routes(host): return [Route(method="GET", path="/api/zoo", handler=answer, summary="")]
"""


@dataclass(frozen=True)
class Animal:
    """A distribution `halo-<name>` 1.2.3: what becomes of its plugin, words of the reason, the line of the fault."""

    name: str
    code: str
    state: str = "failed"
    reason: str = ""
    line: int = 0
    toml: str = FINE
    plugin: str = ""
    points: str = ""

    @property
    def distribution(self) -> str:
        return f"halo-{self.name}"

    @property
    def package(self) -> str:
        return f"halo_{self.name}"

    @property
    def place(self) -> str:
        return f"{self.package}/__init__.py:{self.line}" if self.line else ""

    def wheel(self, folder: Path) -> str:
        """Build the wheel and return its path."""
        info = f"{self.package}-1.2.3.dist-info"
        plugin = self.plugin or self.name
        with zipfile.ZipFile(folder / f"{self.package}-1.2.3-py3-none-any.whl", "w") as archive:
            archive.writestr(f"{self.package}/__init__.py", textwrap.dedent(self.code).lstrip("\n"))
            archive.writestr(f"{self.package}/halo.toml", self.toml)
            archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {self.distribution}\nVersion: 1.2.3\n")
            archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            points = self.points or f"[halo.plugins]\n{plugin} = {self.package}\n"
            archive.writestr(f"{info}/entry_points.txt", points)
            archive.writestr(f"{info}/RECORD", "")
            return str(archive.filename)


ZOO = [
    Animal("aimport", "raise RuntimeError('boom')", reason="its import failed: RuntimeError: boom", line=1),
    Animal("slow", "import time; time.sleep(60)", reason="its import took longer than 10 s"),
    Animal("exits", "import sys\nsys.exit(0)", reason="its import failed: SystemExit: 0", line=2),
    Animal("sdk", "import acme_sdk.client", reason="needs acme_sdk: pip install halo-sdk"),
    Animal("register", "def __dir__(): raise RuntimeError('no list')", reason="it cannot be registered: no list"),
    Animal(
        "plain",
        "from halo_kernel import hook\n@hook\ndef run_started(turn): ...",
        reason="run_started must be async def",
        line=2,
    ),
    Animal(
        "coloured",
        "from halo_kernel import hook\n\n@hook\nasync def provide_models(): ...",
        reason="provide_models must be a plain def",
        line=3,
    ),
    Animal(
        "argument",
        "from halo_kernel import hook\n@hook\ndef provide_models(setings): return []",
        reason="provide_models cannot have the argument setings",
        line=2,
    ),
    Animal(
        "hooked",
        "from halo_kernel import hook\n@hook\ndef provide_modles(): return []",
        reason="there is no hook provide_modles, did you mean provide_models?",
        line=2,
    ),
    Animal(
        "raises",
        "from halo_kernel import hook\n@hook\ndef provide_routes(host):\n    raise ValueError('boom')",
        "degraded",
        "failed in provide_routes: ValueError: boom",
        4,
    ),
    Animal(
        "hangs",
        "import time\nfrom halo_kernel import hook\n@hook\ndef provide_agents(host): time.sleep(60)",
        "degraded",
        "failed in provide_agents: it gave no answer within 5 s",
        3,
    ),
    Animal(
        "typed",
        "from halo_kernel import hook\n@hook\ndef provide_models(): return 42",
        "degraded",
        "failed in provide_models: it answered with int",
        2,
    ),
    Animal(
        "cancels",
        """
        import asyncio
        from halo_kernel import hook
        @hook
        async def workspace_opened():
            asyncio.current_task().cancel()
            await asyncio.sleep(0)
        """,
        "degraded",
        "failed in workspace_opened: it cancelled itself",
        3,
    ),
    Animal(
        "blocks", "import time\nfrom halo_kernel import hook\n@hook\nasync def run_started(): time.sleep(2)", "loaded"
    ),
    Animal("old", "", "incompatible", "needs halo-kernel >=9, and this is 0.1.0", toml='kernel = ">=9"'),
    Animal("toml", "", reason="halo.toml: ", toml=f"{FINE}\nprovides = ["),
    Animal("twina", "", reason="the plugin name twin is claimed by halo-twina and halo-twinb", plugin="twin"),
    Animal("twinb", "", reason="the plugin name twin is claimed by halo-twina and halo-twinb", plugin="twin"),
    Animal("routea", ROUTE, "degraded", "GET /api/zoo is claimed by routea and routeb", 3),
    Animal("routeb", ROUTE, "degraded", "GET /api/zoo is claimed by routea and routeb", 3),
    Animal("points", "", reason="its metadata cannot be read"),
]
KEEPER = Animal(
    "keeper",
    "def command(argv):\n    print('fed', *argv)\n    return 0",
    "loaded",
    points="[halo.plugins]\nkeeper = halo_keeper\n[halo.commands]\nfeed = halo_keeper:command\n",
)
LATE = ("cancels",)  # asked only once a workspace is opened


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Halo]:
    """A person in whose home all of them are installed."""
    folder = tmp_path_factory.mktemp("wheels")
    wheels = [animal.wheel(folder) for animal in [*ZOO, KEEPER]]
    for person in a_person(tmp_path_factory.mktemp("zoo")):
        target = str(person.halo_home / "plugins")
        install = ["uv", "pip", "install", "--quiet", "--offline", "--no-deps", "--python", sys.executable]
        subprocess.run([*install, "--target", target, *wheels], check=True, timeout=60)
        damaged = person.halo_home / "plugins" / "halo_points-1.2.3.dist-info" / "entry_points.txt"
        damaged.write_text("[halo.plugins]\npoints = = =\n[\n")
        yield person


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    return grow(tmp_path_factory.mktemp("trees"))


@pytest.fixture(scope="module")
def visitor(person: Halo, tree: Tree) -> Iterator[Visitor]:
    """Somebody at the page of a server with all of them."""
    up = person.start("up", "--no-browser", "--port", "0", "-w", str(tree.path))
    up.expect(r"Ctrl-C to stop\.", seconds=SECONDS)
    yield Visitor(up.link)
    up.close()


def listed(rows: list[dict[str, Any]], animal: Animal) -> dict[str, Any]:
    (found,) = [row for row in rows if row["distribution"] == animal.distribution]
    return found


def named(rows: list[dict[str, Any]], animals: list[Animal]) -> None:
    """Each is listed with its distribution, version, state and reason, and the place where there is one."""
    for animal in animals:
        row = listed(rows, animal)
        assert (row["version"], row["state"]) == ("1.2.3", animal.state), row
        assert animal.reason in row["reason"] and animal.place in row["reason"], row
        assert row["advice"] or animal.state == "loaded", row


def only_progress(text: str) -> bool:
    """Tell whether nothing stands there but how long something takes."""
    return all(re.fullmatch(r"(Waiting for the server|Looking) … \d+ s", line) for line in text.splitlines())


def test_help_and_version_import_none(person: Halo) -> None:
    """Both work at once, and `--help` lists the commands of the site directory beside those of the environment."""
    assert person.run("--version", seconds=10).code == 0
    done = person.run("--help", seconds=10)
    assert (done.code, done.err) == (0, "")
    assert {"feed", "up", "plugins", "doctor"} <= set(done.out.replace(",", "").split())
    assert person.run("feed", "hay", seconds=10).out == "fed hay\n"


def test_plugins_names_each_culprit(person: Halo) -> None:
    """`halo plugins` without a server: each broken one has its state, reason, place and advice; the rest are loaded."""
    done = person.run("plugins", "list", "--json", seconds=SECONDS)
    assert done.code == 0 and only_progress(done.err)
    rows = json.loads(done.out)
    named(rows, [animal for animal in [*ZOO, KEEPER] if animal.name not in LATE])
    ours = {"api", "cli", "offline", "openai", "signin", "sqlite", "tools", "web", "workspace"}
    assert {row["name"] for row in rows if row["state"] == "loaded"} >= ours


def test_doctor_names_each_culprit(person: Halo) -> None:
    """`halo doctor` ends with 1 and names what is broken with distribution and version; its other checks are well."""
    done = person.run("doctor", "--json", seconds=SECONDS)
    assert done.code == 1 and only_progress(done.err)
    bad = [check for check in json.loads(done.out)["checks"] if not check["ok"] and check["name"] != "sandbox"]
    assert {check["name"] for check in bad} == {"plugins"}
    for animal in ZOO:
        if animal.state == "loaded" or animal.name in LATE:
            continue
        (check,) = [each for each in bad if f"({animal.distribution} 1.2.3)" in each["text"]]
        assert animal.reason in check["text"] and check["advice"]


def test_a_check_ends_with_one(person: Halo) -> None:
    """`halo plugins check NAME` says what is wrong with one, and passes another."""
    done = person.run("plugins", "check", "argument")
    assert done.code == 1
    assert "provide_models cannot have the argument setings" in done.out and "__init__.py:2" in done.out
    assert person.run("plugins", "check", "keeper").code == 0


def test_the_server_answers_and_names_each_culprit(person: Halo, visitor: Visitor, tree: Tree) -> None:
    """A message is answered from the files with all of them installed, and the server shows every culprit."""
    frames = visitor.ask(QUESTION)
    assert tree.title in text_of(frames)
    assert frames[-1]["type"] == "complete"
    named(visitor.get("/api/server")["plugins"], [*ZOO, KEEPER])
    assert visitor.get("/api/health")["status"] == "ok"
    log = (person.halo_home / "global" / "logs" / "server.log").read_text()
    for animal in ZOO:
        if animal.state in ("failed", "incompatible"):
            assert f"distribution={animal.distribution}" in log and animal.reason.split(":")[0] in log


def test_the_command_shows_what_the_server_sees(person: Halo, visitor: Visitor) -> None:
    """Beside a running server `halo plugins` and `halo doctor` ask it, and answer at once."""
    done = person.run("plugins", "list", "--json", seconds=10)
    named(json.loads(done.out), [animal for animal in ZOO if animal.name not in LATE])
    assert "halo-slow 1.2.3" in person.run("doctor", seconds=20).out


def test_strict_ends_at_the_first(person: Halo, tmp_path: Path) -> None:
    """`halo serve --strict` ends with 1 and the reason of the first that cannot be loaded."""
    home = tmp_path / "other"
    home.mkdir()
    (home / "plugins").symlink_to(person.halo_home / "plugins")
    done = person.run("serve", "--strict", "--port", "0", "--home", str(home))
    assert done.code == 1
    assert done.err.splitlines()[-1].startswith(
        "halo: plugin 'aimport' was not loaded: its import failed: RuntimeError"
    )


@pytest.mark.parametrize("how", ["only", "without"])
def test_what_is_left_out_costs_nothing(person: Halo, tmp_path: Path, how: str) -> None:
    """With `HALO_PLUGINS` or `--without` a server comes up without any of the zoo's code, and says why."""
    home = tmp_path / "other"
    home.mkdir()
    (home / "plugins").symlink_to(person.halo_home / "plugins")
    words = [word for animal in ZOO for word in ("--without", animal.plugin or animal.name)]
    env = {**person.env, "HALO_HOME": str(home), **({"HALO_PLUGINS": "web,offline"} if how == "only" else {})}
    other = Halo(person.home, env=env)
    server = other.start("serve", "--port", "0", *(words if how == "without" else []))
    server.expect("ready on", seconds=20)
    rows = json.loads(other.run("plugins", "list", "--json").out)
    server.close()
    reason = "left out by --without" if how == "without" else "not named by HALO_PLUGINS"
    for animal in ZOO:
        if animal.name not in ("points", "twina", "twinb"):
            assert (listed(rows, animal)["state"], listed(rows, animal)["reason"]) == ("disabled", reason)
    assert {row["name"] for row in rows if row["state"] == "loaded"} >= {"web", "offline", "sqlite"}
