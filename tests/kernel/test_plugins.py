"""A zoo of broken plugins, as installed distributions: each is listed with its reason, and the healthy one works."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from halo_kernel import BadFile, PluginFailed, Section, hook, hookspecs
from halo_kernel.hooks import Hooks
from halo_kernel.plugins import Plugin, Plugins
from halo_kernel.settings import AgentSettings, PluginSettings
from halo_kernel.sites import add_sites, read_sets

HEALTHY = """
from halo_kernel import Section, hook
from halo_kernel.settings import AgentSettings
IMPORTED = True
@hook
def provide_settings():
    return [Section("{name}", AgentSettings)]
"""
FINE = 'kernel = ">=0.1,<0.2"'


class Zoo:
    """A site directory that plugins are installed into."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def install(
        self,
        name: str,
        code: str = HEALTHY,
        *,
        toml: str | None = FINE,
        distribution: str = "",
        package: str = "",
        entry: str = "",
        version: str = "1.0",
    ) -> Path:
        """Lay a distribution out as an installer does and return its package."""
        distribution = distribution or f"halo-{name}"
        package = package or f"zoo_{distribution.replace('-', '_')}"
        root = self.folder / package
        root.mkdir()
        (root / "__init__.py").write_text(textwrap.dedent(code).replace("{name}", name))
        if toml is not None:
            (root / "halo.toml").write_text(toml)
        info = self.folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(entry or f"[halo.plugins]\n{name} = {package}\n")
        return root

    def plugins(self, *, budget: float = 5.0) -> Plugins:
        return Plugins(path=[str(self.folder)], import_budget=budget)


@pytest.fixture
def zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Zoo]:
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    before = set(sys.modules)
    yield Zoo(folder)
    for name in set(sys.modules) - before:
        if name.startswith("zoo_"):
            del sys.modules[name]


def row(plugins: Plugins, name: str) -> Plugin:
    (found,) = [each for each in plugins.list() if each.name == name]
    return found


def loaded(zoo: Zoo, **options: Any) -> Plugins:
    settings = {name: options.pop(name) for name in PluginSettings.__struct_fields__ if name in options}
    plugins = zoo.plugins()
    plugins.load(PluginSettings(**settings), **options)
    return plugins


def settings_of(plugins: Plugins) -> list[str]:
    hooks = Hooks(plugins.manager, on_failure=plugins.degrade, budget=0.3)
    return [section.name for _, section in asyncio.run(hooks.gather(hookspecs.provide_settings))]


# healthy


def test_a_plugin_is_loaded_with_its_metadata(zoo: Zoo) -> None:
    """What `halo.toml` says is in the list, and the plugin's hooks are called."""
    zoo.install(
        "ape",
        toml=f'{FINE}\nprovides = ["settings"]\ncapabilities = ["network"]\nprefixes = ["/ape"]\npages = ["/ape/"]',
    )
    plugins = loaded(zoo)
    found = row(plugins, "ape")
    assert (found.distribution, found.version, found.state) == ("halo-ape", "1.0", "loaded")
    assert (found.provides, found.capabilities) == (("settings",), ("network",))
    assert (found.prefixes, found.pages) == (("/ape",), ("/ape/",))
    assert settings_of(plugins) == ["ape"]


def test_discovery_imports_nothing(zoo: Zoo) -> None:
    """`discover` reads metadata and `halo.toml` without running a line of the plugin."""
    zoo.install("ape", "raise SystemExit('imported')", toml=f'{FINE}\nprovides = ["models"]')
    (found,) = zoo.plugins().discover()
    assert (found.name, found.state, found.provides) == ("ape", "loaded", ("models",))
    assert "zoo_halo_ape" not in sys.modules


@pytest.mark.needs("uv")
def test_a_wheel_installed_by_an_installer_is_found(zoo: Zoo, tmp_path: Path) -> None:
    """What a real installer lays out is discovered like the rest."""
    wheel = tmp_path / "halo_built-2.0-py3-none-any.whl"
    info = "halo_built-2.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("zoo_built/__init__.py", HEALTHY.replace("{name}", "built"))
        archive.writestr("zoo_built/halo.toml", FINE)
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: halo-built\nVersion: 2.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/entry_points.txt", "[halo.plugins]\nbuilt = zoo_built\n")
        archive.writestr(f"{info}/RECORD", "")
    command = ["uv", "pip", "install", "--quiet", "--offline", "--no-deps", "--target", str(zoo.folder), str(wheel)]
    subprocess.run([*command, "--python", sys.executable], check=True, timeout=60)
    assert row(loaded(zoo), "built").version == "2.0"


# broken: (what is installed, the state, words of the reason with ` … ` between them)

BROKEN: dict[str, tuple[Callable[[Zoo], object], str, str]] = {
    "import error": (
        lambda zoo: zoo.install("bad", "raise RuntimeError('boom')"),
        "failed",
        "its import failed: RuntimeError: boom (",
    ),
    "exits on import": (lambda zoo: zoo.install("bad", "raise SystemExit(1)"), "failed", "SystemExit: 1"),
    "syntax error": (lambda zoo: zoo.install("bad", "def ("), "failed", "SyntaxError"),
    "missing SDK": (
        lambda zoo: zoo.install("bad", "import acme_sdk.client"),
        "failed",
        "needs acme_sdk: pip install halo-bad",
    ),
    "own module missing": (
        lambda zoo: zoo.install("bad", "from . import client_of_mine"),
        "failed",
        "its import failed: ImportError",
    ),
    "package gone": (
        lambda zoo: zoo.install("bad", entry="[halo.plugins]\nbad = zoo_gone\n"),
        "failed",
        "its package zoo_gone is not there",
    ),
    "attribute gone": (
        lambda zoo: zoo.install("bad", entry="[halo.plugins]\nbad = zoo_halo_bad:nothing\n"),
        "failed",
        "has no attribute 'nothing'",
    ),
    "no halo.toml": (lambda zoo: zoo.install("bad", toml=None), "failed", "has no halo.toml"),
    "bad toml": (lambda zoo: zoo.install("bad", toml=f"{FINE}\nprovides = ["), "failed", "halo.toml: "),
    "no text": (lambda zoo: (zoo.install("bad") / "halo.toml").write_bytes(b"\xff"), "failed", "halo.toml: 'utf-8'"),
    "no end of brackets": (
        lambda zoo: zoo.install("bad", toml=f"provides = {'[' * 5000}"),
        "failed",
        "halo.toml: maximum recursion depth",
    ),
    "no range": (lambda zoo: zoo.install("bad", toml="provides = []"), "failed", "kernel: Object missing required"),
    "bad range": (
        lambda zoo: zoo.install("bad", toml='\nkernel = "new"'),
        "failed",
        "halo.toml:2: kernel: Invalid specifier: 'new'",
    ),
    "bad type": (
        lambda zoo: zoo.install("bad", toml=f"{FINE}\n\nprovides = 3"),
        "failed",
        "halo.toml:3: provides: Expected `array`",
    ),
    "host too old": (
        lambda zoo: zoo.install("bad", toml='kernel = ">=9"'),
        "incompatible",
        "needs halo-kernel >=9, and this is 0.1.0",
    ),
    "plain instead of async": (
        lambda zoo: zoo.install("bad", "from halo_kernel import hook\n\n@hook\ndef prepare_context(): return []"),
        "failed",
        "prepare_context must be async def … __init__.py:3)",
    ),
    "async instead of plain": (
        lambda zoo: zoo.install("bad", "from halo_kernel import hook\n@hook\nasync def provide_settings(): return []"),
        "failed",
        "provide_settings must be a plain def … __init__.py:2)",
    ),
    "unknown argument": (
        lambda zoo: zoo.install("bad", "from halo_kernel import hook\n@hook\ndef provide_models(setings): return []"),
        "failed",
        "provide_models cannot have the argument setings: it may take settings, host … __init__.py:2)",
    ),
    "default argument": (
        lambda zoo: zoo.install("bad", "from halo_kernel import hook\n@hook\ndef provide_models(settings=1): ..."),
        "failed",
        "provide_models cannot have the argument settings=1: it may take settings, host, without a default",
    ),
    "any arguments": (
        lambda zoo: zoo.install("bad", "from halo_kernel import hook\n@hook\ndef provide_models(**all): ..."),
        "failed",
        "provide_models cannot have the argument **all",
    ),
    "unknown hook": (
        lambda zoo: zoo.install("bad", "from halo_kernel import hook\n\n\n@hook\ndef provide_modles(): ..."),
        "failed",
        "there is no hook provide_modles, did you mean provide_models? … __init__.py:4)",
    ),
    "wrapper": (
        lambda zoo: zoo.install(
            "bad", "from halo_kernel import hook\n@hook(wrapper=True)\ndef provide_models(settings): yield"
        ),
        "failed",
        "provide_models is a wrapper",
    ),
    "unreadable entry points": (
        lambda zoo: zoo.install("bad", entry="[halo.plugins]\nbad = = =\n[\n"),
        "failed",
        "its metadata cannot be read",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_plugin_is_listed_and_hurts_no_other(zoo: Zoo, name: str) -> None:
    """Its state, reason and advice are shown, nothing is raised, and a healthy plugin answers; strict raises it."""
    install, state, reason = BROKEN[name]
    install(zoo)
    zoo.install("good")
    plugins = loaded(zoo)
    found = next(each for each in plugins.list() if each.distribution == "halo-bad")
    assert found.state == state
    assert all(part in found.reason for part in reason.split(" … "))
    assert row(plugins, "good").state == "loaded"
    assert settings_of(plugins) == ["good"]
    with pytest.raises(PluginFailed) as raised:
        loaded(zoo, strict=True)
    assert found.reason in str(raised.value)


def test_an_advice_says_what_to_do(zoo: Zoo) -> None:
    """What a person does next is a command."""
    zoo.install("bad", "import acme_sdk")
    zoo.install("old", toml='kernel = "<0.1"')
    plugins = loaded(zoo)
    assert row(plugins, "bad").advice == "pip install halo-bad"
    assert row(plugins, "old").advice == "pip install --upgrade halo-old halo-kernel"


def test_a_slow_import_is_left_after_its_budget(zoo: Zoo) -> None:
    """An import that takes too long costs its budget; the plugin is failed, the next one loads."""
    zoo.install("bad", "import time; time.sleep(3)", package="zoo_slow")
    zoo.install("good")
    plugins = zoo.plugins(budget=0.3)
    started = time.monotonic()
    plugins.load()
    assert time.monotonic() - started < 1.5
    assert (row(plugins, "bad").state, row(plugins, "bad").reason) == ("failed", "its import took longer than 0.3 s")
    assert settings_of(plugins) == ["good"]


def test_an_unknown_hook_may_be_optional(zoo: Zoo) -> None:
    """A hook that this kernel does not have is fine when `halo.toml` says so."""
    code = HEALTHY + "\n@hook\nasync def foresee(future): ...\n"
    zoo.install("new", code, toml=f'{FINE}\noptional_hooks = ["foresee"]')
    plugins = loaded(zoo)
    assert row(plugins, "new").state == "loaded"
    assert settings_of(plugins) == ["new"]


def test_unknown_keys_are_reported(zoo: Zoo) -> None:
    """A key that `halo.toml` does not have is named with its line, and the plugin loads."""
    zoo.install("ape", toml=f'{FINE}\n\nprovide = ["models"]')
    found = row(loaded(zoo), "ape")
    assert found.state == "loaded"
    (warning,) = found.unknown
    assert warning.endswith("halo.toml:3: unknown key provide, did you mean provides?")


# two claims on one thing


def test_two_distributions_of_one_name_are_both_refused(zoo: Zoo) -> None:
    """Neither is loaded, not even imported, and each row names both."""
    zoo.install("twin", distribution="halo-twin")
    zoo.install("twin", distribution="acme-twin")
    zoo.install("good")
    plugins = loaded(zoo)
    rows = [each for each in plugins.list() if each.name == "twin"]
    assert [(each.distribution, each.state) for each in rows] == [("acme-twin", "failed"), ("halo-twin", "failed")]
    assert all("the plugin name twin is claimed by acme-twin and halo-twin" in each.reason for each in rows)
    assert settings_of(plugins) == ["good"]
    assert "zoo_acme_twin" not in sys.modules


@pytest.mark.parametrize("claim", ['prefixes = ["/api/x"]', 'pages = ["/x/"]'])
def test_two_claims_on_one_path_are_both_refused(zoo: Zoo, claim: str) -> None:
    """A path prefix or a page has one owner; both claimants are named."""
    zoo.install("one", toml=f"{FINE}\n{claim}")
    zoo.install("two", toml=f"{FINE}\n{claim}")
    rows = loaded(zoo).list()
    assert [each.state for each in rows] == ["failed", "failed"]
    assert all("halo-one and halo-two" in each.reason for each in rows)


def test_a_name_of_this_process_is_not_taken_over(zoo: Zoo) -> None:
    """An installed plugin cannot stand in for one that the process itself provides."""
    zoo.install("sqlite")
    own = SimpleNamespace(provide_settings=hook(lambda: [Section("own", AgentSettings)]))
    plugins = loaded(zoo, extra={"sqlite": own})
    assert [(each.distribution, each.state) for each in plugins.list()] == [
        ("halo-kernel", "loaded"),
        ("halo-sqlite", "failed"),
    ]
    assert settings_of(plugins) == ["own"]


def test_the_first_copy_on_the_path_counts(zoo: Zoo, tmp_path: Path) -> None:
    """A distribution that lies twice on the path is one plugin, the copy that Python would import."""
    later = tmp_path / "later"
    later.mkdir()
    zoo.install("ape", version="2.0")
    Zoo(later).install("ape", version="1.0")
    plugins = Plugins(path=[str(zoo.folder), str(later)])
    plugins.load()
    assert (row(plugins, "ape").state, row(plugins, "ape").version) == ("loaded", "2.0")


@pytest.mark.parametrize("text", ["", "x", "1", "1 2 3", "\ufffd 1", "7 3", "-1 0"])
def test_a_pointer_that_is_no_pointer_is_told(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever stands in the file, discovery goes on with what the environment has, and the way back is named."""
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "current").write_text(text)
    monkeypatch.setattr(sys, "path", ["/environment", str(tmp_path / "plugins" / "7")])
    fault = add_sites(tmp_path)
    assert fault is not None
    assert str(tmp_path / "plugins" / "current") in fault.message
    assert "halo plugins rollback" in fault.advice
    assert sys.path == ["/environment", str(tmp_path / "plugins")]
    with pytest.raises(BadFile, match="names no set of plugins"):
        read_sets(tmp_path)


# what a person wants


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"without": ["bad"]}, "left out by --without"),
        ({"only": ["good"]}, "not named by HALO_PLUGINS"),
        ({"disabled": ["bad"]}, "disabled by the setting plugins.disabled"),
        ({"require_enable": True, "enabled": ["good"]}, "not enabled"),
    ],
)
def test_what_is_not_wanted_is_not_imported(zoo: Zoo, options: dict[str, Any], reason: str) -> None:
    """A plugin that is left out is listed as disabled with the reason, and none of its code runs."""
    zoo.install("bad", "raise SystemExit('imported')")
    zoo.install("good")
    plugins = loaded(zoo, **options)
    assert row(plugins, "bad").state == "disabled"
    assert reason in row(plugins, "bad").reason
    assert settings_of(plugins) == ["good"]


def test_leaving_one_twin_out_does_not_choose_the_other(zoo: Zoo) -> None:
    """Options name plugins, so leaving a name out leaves out both distributions that claim it."""
    zoo.install("twin", distribution="halo-twin")
    zoo.install("twin", distribution="acme-twin")
    assert {each.state for each in loaded(zoo, without=["twin"]).list()} == {"disabled"}


def test_what_is_asked_for_and_not_installed_is_missing(zoo: Zoo) -> None:
    """`HALO_PLUGINS=slck` is answered with what is missing and a likely name."""
    zoo.install("slack")
    found = row(loaded(zoo, only=["slack", "slck"]), "slck")
    assert (found.state, found.advice) == ("missing", "pip install halo-slck")
    assert "did you mean slack?" in found.reason


def test_without_discovery_only_own_objects_load(zoo: Zoo) -> None:
    """`discover=False` looks at nothing that is installed."""
    zoo.install("ape")
    assert loaded(zoo, discover=False).list() == []


# after loading


def test_a_failing_hook_degrades_its_plugin(zoo: Zoo) -> None:
    """A plugin that raises or hangs in a hook stays loaded, is shown as degraded, and others answer."""
    body = "from halo_kernel import hook\nimport time\n@hook\ndef provide_settings():\n    {}\n"
    zoo.install("hangs", body.format("time.sleep(2)"))
    zoo.install("raises", body.format("raise ValueError('boom')"))
    zoo.install("lacks", body.format("import acme_sdk"))
    zoo.install("good")
    plugins = loaded(zoo)
    assert settings_of(plugins) == ["good"]
    states = {each.name: (each.state, each.reason) for each in plugins.list()}

    def told(name: str, why: str, line: int) -> tuple[str, str]:
        place = zoo.folder / f"zoo_halo_{name}" / "__init__.py"
        return ("degraded", f"plugin '{name}' failed in provide_settings: {why} ({place}:{line})")

    assert states["good"] == ("loaded", "")
    assert states["hangs"] == told("hangs", "it gave no answer within 0.3 s", 3)
    assert states["raises"] == told("raises", "ValueError: boom", 5)
    assert states["lacks"] == ("degraded", "needs acme_sdk: pip install halo-lacks")


def test_a_failure_of_an_unloaded_plugin_changes_nothing(zoo: Zoo) -> None:
    """Only what is loaded can be degraded."""
    zoo.install("bad", "raise RuntimeError")
    plugins = loaded(zoo)
    before = plugins.list()
    plugins.degrade(PluginFailed("x", plugin="bad", hook="provide_models"))
    assert plugins.list() == before


def test_registering_fails_alone() -> None:
    """One object under two names is refused for the second, and the first keeps its hooks."""
    own = cast("Any", SimpleNamespace(provide_settings=hook(lambda: [Section("own", AgentSettings)])))
    plugins = Plugins(path=[])
    plugins.load(extra={"one": own, "two": own})
    assert [(each.name, each.state) for each in plugins.list()] == [("one", "loaded"), ("two", "failed")]
    assert settings_of(plugins) == ["own"]
