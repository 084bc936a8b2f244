"""`halo plugins install|remove|rollback`: real wheels, a real installer, and sets that change at once or not at all."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halo_cli import installs
from halo_cli.installs import install, remove, roll_back
from halo_kernel import BadInput, Conflict, HaloError, NotFound, Plugins, is_served, locked, read_sets

needs_uv = pytest.mark.needs("uv")
KERNEL = "halo-kernel>=0.1,<0.2"
CODE = "from halo_kernel import hook\n\n\n@hook\nasync def run_started(turn): ...\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with the plugin `zoo` 1.0, to be copied."""
    folder = tmp_path_factory.mktemp("template")
    install(folder / "home", [wheel(folder)])
    return folder / "home"


@pytest.fixture
def zoo(home: Path, template: Path) -> Path:
    """A home with the plugin `zoo` 1.0."""
    shutil.copytree(template, home)
    return home


def wheel(
    folder: Path,
    name: str = "zoo",
    version: str = "1.0",
    *,
    code: str = CODE,
    toml: str = "",
    needs: Iterable[str] = (KERNEL,),
    plugin: bool = True,
    files: Iterable[str] = (),
) -> str:
    """Build a wheel of `halo-<name>` and return its path."""
    package, info = f"halo_{name}", f"halo_{name}-{version}.dist-info"
    content = {
        f"{package}/__init__.py": code,
        f"{package}/halo.toml": f'kernel = ">=0.1,<0.2"\n{toml}',
        **{f"{package}/{file}": "" for file in files},
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: halo-{name}\nVersion: {version}\n"
        + "".join(f"Requires-Dist: {each}\n" for each in needs),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    if plugin:
        content[f"{info}/entry_points.txt"] = f"[halo.plugins]\n{name} = {package}\n"
    content[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*content, f"{info}/RECORD"])
    path = folder / f"halo_{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in content.items():
            archive.writestr(file, text)
    return str(path)


def current(home: Path) -> Path:
    """Return the folder of the set that counts."""
    return home / "plugins" / str(read_sets(home)[0])


def plugins(home: Path) -> dict[str, str]:
    """Return the plugins that a home adds, by name, with their versions."""
    path = [str(current(home)), str(home / "plugins")]
    return {each.name: each.version for each in Plugins(path=path).discover()}


def sets(home: Path) -> list[str]:
    """Return the names of everything in the folder of sets but what locks it."""
    return sorted(each.name for each in (home / "plugins").iterdir() if not each.name.startswith("."))


def halo(home: Path, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command on a home."""
    command = [sys.executable, "-m", "halo_kernel", *words]
    env = {**os.environ, "HALO_HOME": str(home)}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, **options)


# what is laid out


@needs_uv
def test_a_wheel_is_installed_listed_and_taken_out(home: Path, tmp_path: Path) -> None:
    """The plugin is there for discovery, what the environment has is not laid out too, and `remove` leaves nothing."""
    assert install(home, [wheel(tmp_path, needs=[KERNEL, "msgspec"])]) == ["halo-zoo 1.0"]
    assert plugins(home) == {"zoo": "1.0"}
    assert {each.name for each in current(home).iterdir() if not each.name.startswith(".")} == {
        "halo_zoo",
        "halo_zoo-1.0.dist-info",
    }
    remove(home, ["halo_zoo"])
    assert plugins(home) == {}
    assert sets(home) == ["1", "2", "current"]
    assert [each for each in (home / "plugins" / "2").iterdir() if not each.name.startswith(".")] == []


@needs_uv
def test_a_home_can_be_moved(zoo: Path, template: Path) -> None:
    """No file of a set holds the path of the home or of the wheel, and a home elsewhere has its plugins."""
    files = [each for each in (zoo / "plugins").rglob("*") if each.is_file() and each.suffix != ".pyc"]
    assert [each for each in files if str(template.parent) in each.read_text()] == []
    moved = zoo.rename(zoo.with_name("moved"))
    assert plugins(moved) == {"zoo": "1.0"}
    assert "zoo: loaded (halo-zoo 1.0" in halo(moved, "plugins", "list", "zoo").stdout


@needs_uv
def test_an_update_replaces_and_can_be_undone_and_redone(home: Path, tmp_path: Path) -> None:
    """A new version leaves nothing of the old one; `rollback` goes back and forth between the two sets."""
    install(home, [wheel(tmp_path, files=["old.txt"])])
    install(home, [wheel(tmp_path, version="2.0")])
    assert plugins(home) == {"zoo": "2.0"}
    assert not (current(home) / "halo_zoo" / "old.txt").exists()
    assert len(list(current(home).glob("*.dist-info"))) == 1
    assert roll_back(home) == ["halo-zoo 1.0"]
    assert plugins(home) == {"zoo": "1.0"}
    assert roll_back(home) == ["halo-zoo 2.0"]
    assert plugins(home) == {"zoo": "2.0"}


@needs_uv
def test_what_others_need_stays(home: Path, tmp_path: Path) -> None:
    """A library comes with its plugin, and cannot be taken out, or replaced by one that does not fit, under it."""
    library = wheel(tmp_path, "lib_nut", plugin=False, needs=())
    install(home, [wheel(tmp_path, needs=[KERNEL, "halo-lib-nut<2"]), library])
    with pytest.raises(Conflict, match=r"halo-zoo 1\.0 needs halo-lib-nut<2, and there is none"):
        remove(home, ["halo-lib-nut"])
    newer = wheel(tmp_path, "lib_nut", "2.0", plugin=False, needs=())
    with pytest.raises(Conflict, match=r"needs halo-lib-nut<2, and there is 2\.0"):
        install(home, [wheel(tmp_path, "owl"), newer])
    assert plugins(home) == {"zoo": "1.0"}
    assert sets(home) == ["1", "current"]


def test_there_is_a_way_back_only_after_a_change(home: Path) -> None:
    """Without a former set `rollback` says so."""
    with pytest.raises(NotFound, match="no former set"):
        roll_back(home)


@needs_uv
def test_the_first_change_can_be_undone(zoo: Path) -> None:
    """What was there before the first plugin is the empty set."""
    assert roll_back(zoo) == []
    assert plugins(zoo) == {}
    assert roll_back(zoo) == ["halo-zoo 1.0"]


@needs_uv
def test_a_running_server_keeps_what_it_may_import_from(zoo: Path, tmp_path: Path) -> None:
    """While a server runs no older set is deleted; afterwards the next change does it."""
    with locked(zoo / "global" / "server.lock"):
        assert is_served(zoo)
        remove(zoo, ["halo-zoo"])
        install(zoo, [wheel(tmp_path, version="2.0")])
        assert sets(zoo) == ["1", "2", "3", "current"]
    remove(zoo, ["halo-zoo"])
    assert sets(zoo) == ["3", "4", "current"]


# what is refused

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "import error": ({"code": "raise RuntimeError('boom')"}, r"zoo 2\.0: its import failed: RuntimeError: boom \("),
    "exit on import": ({"code": "raise SystemExit(0)"}, "SystemExit: 0"),
    "end of the process": (
        {"code": "import os; os._exit(0)"},
        r"2\.0: the process that tried it out was ended, with the exit code 0",
    ),
    "output": ({"code": "print('[]'); raise RuntimeError('boom')"}, "RuntimeError: boom"),
    "wrong colour": ({"code": "from halo_kernel import hook\n@hook\ndef run_started(): ..."}, r"async def \(.*:2\)"),
    "another kernel": ({"toml": "", "code": CODE, "needs": ["halo-kernel>=9"]}, "the reason is above"),
    "another version of what is here": ({"needs": [KERNEL, "msgspec>=99"]}, "the reason is above"),
    "no plugin": ({"plugin": False}, "there is no plugin in"),
}


@needs_uv
@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_work_leaves_the_former_set(
    zoo: Path, tmp_path: Path, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """A new version that fails in any step is named with the reason, and the one before goes on."""
    options, reason = REFUSED[name]
    with pytest.raises(HaloError, match=reason):
        install(zoo, [wheel(tmp_path, version="2.0", **options)])
    assert plugins(zoo) == {"zoo": "1.0"}
    assert sets(zoo) == ["1", "current"]
    if reason == "the reason is above":
        assert options["needs"][-1] in capfd.readouterr().err


@needs_uv
def test_what_the_environment_has_is_not_shadowed(home: Path, tmp_path: Path) -> None:
    """A distribution that the environment has comes from there; a second copy is refused, not laid out in vain."""
    version = installs._environment(home)["halo-kernel"]
    with pytest.raises(HaloError):
        install(home, [wheel(tmp_path), wheel(tmp_path, "kernel", version)])
    assert plugins(home) == {}


def test_what_was_not_installed_here_is_not_removed(home: Path) -> None:
    """`remove` knows its own set alone, and says where else to look."""
    with pytest.raises(NotFound, match="has installed no msgspec") as raised:
        remove(home, ["msgspec"])
    assert "pip uninstall msgspec" in raised.value.advice
    assert sets(home) == []


def test_without_an_installer_nothing_happens(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is neither pip nor uv, that is what it says."""
    monkeypatch.setattr(installs, "find_spec", lambda name: None)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(HaloError, match="neither pip nor uv"):
        install(home, ["halo-zoo"])
    assert sets(home) == []


# a damaged pointer


@needs_uv
@pytest.mark.parametrize("text", ["", "garbage", "9 1"])
def test_a_damaged_pointer_is_told_until_it_is_rolled_back(zoo: Path, tmp_path: Path, text: str) -> None:
    """`halo plugins`, `halo doctor` and the log name the file and the way back, which leads to the newest set.

    Until then nothing is installed, so that no set is lost.
    """
    pointer = zoo / "plugins" / "current"
    pointer.write_text(text)
    told = f"{pointer} names no set of plugins"
    listed = halo(zoo, "plugins")
    assert "zoo:" not in listed.stdout
    assert told in listed.stderr and "halo plugins rollback" in listed.stderr
    doctor = halo(zoo, "doctor")
    assert doctor.returncode == 1
    assert f"BAD  sets: {told}" in doctor.stdout and "`halo plugins rollback`" in doctor.stdout
    assert told in halo(zoo, "sessions", "-w", str(tmp_path)).stderr, "the log of a kernel that starts"
    refused = halo(zoo, "plugins", "install", wheel(tmp_path, version="2.0"))
    assert (refused.returncode, sets(zoo)) == (1, ["1", "current"])
    assert "halo-zoo 1.0" in halo(zoo, "plugins", "rollback").stdout
    assert "zoo: loaded (halo-zoo 1.0" in halo(zoo, "plugins", "list", "zoo").stdout


# whatever ends it


@needs_uv
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("part", [0.3, 0.6, 0.9])
def test_an_end_at_any_moment_leaves_a_whole_set(
    zoo: Path, tmp_path: Path, number: signal.Signals, part: float
) -> None:
    """Ctrl-C and `kill -9`, early and late: what counts afterwards is the former set or the new one, and it loads."""
    path = wheel(tmp_path, version="2.0")
    command = [sys.executable, "-m", "halo_kernel", "plugins", "install", path]
    env = {**os.environ, "HALO_HOME": str(zoo)}
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        process.wait(4 * part)
    except subprocess.TimeoutExpired:
        process.send_signal(number)
    said, _ = process.communicate(timeout=30)
    assert process.returncode in (0, 130, -number), said
    (found,) = plugins(zoo).values()
    assert found == "2.0" if process.returncode == 0 else found in ("1.0", "2.0")
    assert f"zoo: loaded (halo-zoo {found}" in halo(zoo, "plugins", "list", "zoo").stdout
    remove(zoo, ["halo-zoo"])
    assert plugins(zoo) == {}
    assert len(sets(zoo)) == 3, "what an ended change left is gone"


@settings(deadline=None, max_examples=50)
@given(st.lists(st.sampled_from(["change", "failure", "loss", "rollback"]), max_size=12))
def test_sets_change_at_once_or_not_at_all(steps: Sequence[str]) -> None:
    """Any order of changes, failures, lost writes and ways back: what counts and what is kept is what a model says."""

    with tempfile.TemporaryDirectory() as room:
        home, now, former = Path(room), "", ""
        for number, step in enumerate(steps):
            if step == "rollback":
                if read_sets(home) != (0, 0):
                    roll_back(home)
                    now, former = former, now
                continue
            try:
                with installs._new_set(home) as new, pytest.MonkeyPatch.context() as patch:
                    assert _text(new) == now
                    (new / "text").write_text(str(number))
                    if step == "loss":
                        patch.setattr(installs, "write_secret", _full_disk)
                    if step == "failure":
                        raise BadInput("no")
                    if step == "loss":
                        installs.write_secret(home, "")
                now, former = str(number), now
            except (BadInput, OSError):
                assert step != "change"
            numbers = read_sets(home)
            assert [_text(home / "plugins" / str(each)) for each in numbers] == [now, former]
            assert set(sets(home)) - {"current"} <= {str(each) for each in numbers}


def _text(folder: Path) -> str:
    return (folder / "text").read_text() if (folder / "text").exists() else ""


def _full_disk(path: Path, text: str) -> None:
    raise OSError(28, "No space left on device")


# the command


@needs_uv
def test_the_command_says_what_it_does(home: Path, tmp_path: Path) -> None:
    """One plain line before, one after; new capabilities are named when they are new, and not again."""
    first = halo(home, "plugins", "install", wheel(tmp_path, toml='capabilities = ["network"]'))
    assert (first.returncode, first.stderr) == (0, "")
    assert "zoo says that it may reach what it did not before: network." in first.stdout
    again = halo(home, "plugins", "install", wheel(tmp_path, version="1.1", toml='capabilities = ["network", "shell"]'))
    assert "did not before: shell." in again.stdout
    same = halo(home, "plugins", "install", wheel(tmp_path, version="1.2", toml='capabilities = ["network", "shell"]'))
    assert "may reach" not in same.stdout
    assert "Installed: halo-zoo 1.2." in same.stdout and "next start" in same.stdout
    gone = halo(home, "plugins", "remove", "zoo")
    assert (gone.returncode, plugins(home)) == (0, {})
    back = halo(home, "plugins", "rollback")
    assert "counts again: halo-zoo 1.2." in back.stdout
    failed = halo(home, "plugins", "install", wheel(tmp_path, version="2.0", code="raise RuntimeError('boom')"))
    assert failed.returncode == 1
    assert failed.stderr.startswith("halo: the plugins stay as they were: halo-zoo 2.0: its import failed: Runtime")


@needs_uv
def test_plugins_are_switched_in_the_settings_file(zoo: Path) -> None:
    """`disable` and `enable` write names, keep comments and what else there is, and refuse names that nobody has."""
    file = zoo / "secrets" / "settings.yaml"
    file.write_text("# mine\nserver:\n  port: 0  # any\n")
    assert halo(zoo, "plugins", "disable", "zoo").returncode == 0
    assert "# mine" in file.read_text() and "port: 0  # any" in file.read_text() and "zoo" in file.read_text()
    assert "zoo: disabled" in halo(zoo, "plugins", "list", "zoo").stdout
    assert "next start" in halo(zoo, "plugins", "enable", "zoo").stdout
    assert "zoo: loaded" in halo(zoo, "plugins", "list", "zoo").stdout
    unknown = halo(zoo, "plugins", "enable", "zo")
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert unknown.stderr == "halo: there is no plugin zo, did you mean zoo? `halo plugins` lists them.\n"
    file.write_text("plugins:\n  require_enable: true\n")
    assert "zoo: disabled" in halo(zoo, "plugins", "list", "zoo").stdout
    halo(zoo, "plugins", "enable", "zoo")
    assert "zoo: loaded" in halo(zoo, "plugins", "list", "zoo").stdout


@pytest.mark.parametrize("verb", ["check", "install"])
@pytest.mark.parametrize("word", ["./nowhere", "halo_nowhere-1.0-py3-none-any.whl"])
def test_a_path_that_is_not_there_is_named(home: Path, verb: str, word: str) -> None:
    """A mistyped path is one sentence; pip is not asked."""
    done = halo(home, "plugins", verb, word)
    assert (done.returncode, done.stderr) == (1, f"halo: there is no file or folder {word}.\n")


@needs_uv
def test_the_folder_that_we_are_in_is_checked(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`.` and a wheel beside us are paths, and no names."""
    place = Path(wheel(tmp_path))
    monkeypatch.chdir(place.parent)
    assert halo(home, "plugins", "check", place.name).stdout.startswith("zoo: passes")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    assert "there is no plugin in" in halo(home, "plugins", "check", ".").stderr


@needs_uv
def test_a_check_judges_what_is_not_installed(home: Path, tmp_path: Path) -> None:
    """A wheel is judged with file and line and the exit code 1, a good one passes, and neither is installed."""
    code = "import halo_bad.client\nimport acme_sdk\nfrom halo_kernel import hook\n@hook\ndef provide_modles(): ..."
    bad = halo(home, "plugins", "check", wheel(tmp_path, "bad", code="", files=["client.py"]), "--json")
    assert bad.returncode == 0, bad.stdout
    bad = halo(home, "plugins", "check", wheel(tmp_path, "bad", "2.0", code=code, files=["client.py"]))
    assert bad.returncode == 1
    assert "\n  halo_bad/__init__.py:1: imports halo_bad.client by its full name" in bad.stdout
    assert "\n  halo_bad/__init__.py:2: imports acme_sdk, which halo-bad does not declare" in bad.stdout
    good = halo(home, "plugins", "check", wheel(tmp_path))
    assert (good.returncode, good.stderr) == (0, "")
    assert good.stdout.startswith("zoo: passes (halo-zoo 1.0")
    assert plugins(home) == {}


@pytest.mark.parametrize("words", [["enable"], ["install"], ["sideload", "x"], ["list", "--nothing"]])
def test_wrong_usage_is_two(home: Path, words: list[str]) -> None:
    """A verb that nobody knows, and one without the names that it needs, end with the usage."""
    done = halo(home, "plugins", *words)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: halo plugins")
    assert not home.exists()
