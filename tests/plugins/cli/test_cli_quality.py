"""The quality scale: each rule finds what breaks it, and a plugin stands where its rules and reasons put it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import convert

from halo_cli.new import kinds, write_project
from halo_cli.quality.project import read_project
from halo_cli.quality.rules import RULES
from halo_cli.quality.scale import TIERS, read_scale
from halo_cli.quality.standing import Standing, stand
from halo_kernel import BadFile, BadInput, Verdict

MOST = {"name": "x.most_bytes", "description": "The most.", "kind": "number", "bounded": True}
FOUND: dict[str, Any] = {
    "name": "x",
    "distribution": "halo-x",
    "version": "0.1.0",
    "hooks": ["provide_settings", "provide_tools"],
    "settings": [MOST],
    "seconds": 0.01,
    **dict.fromkeys(("faults", "remarks", "capabilities"), ()),
}
PROVEN = "from hypothesis import given, strategies\n\n\n@given(strategies.text())\ndef test_it(text): ...\n"
Change = Callable[[Path], None]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The folder of a tool that keeps every rule."""
    folder = write_project("x", kind="tool", into=tmp_path)
    (folder / "tests" / "test_made_up.py").write_text(PROVEN)
    (folder / "tests" / "test_bench_count.py").touch()
    return folder


def standing(folder: Path, **found: Any) -> Standing:
    """Return where a project stands, of which this was found."""
    return stand(read_project(folder, [convert({**FOUND, **found}, Verdict)]))


def broken(found: Standing) -> list[str]:
    """Return the rules that are broken."""
    return [each.rule for each in found.rules if each.state == "broken"]


def swapped(path: str, old: str, new: str) -> Change:
    """Return what writes something else into a file."""

    def change(folder: Path) -> None:
        file = folder / path
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))

    return change


def added(path: str, text: str) -> Change:
    """Return what writes to the end of a file."""

    def change(folder: Path) -> None:
        with (folder / path).open("a") as file:
            file.write(text)

    return change


def gone(*paths: str) -> Change:
    """Return what takes files out."""

    def change(folder: Path) -> None:
        for path in paths:
            (folder / path).unlink()

    return change


def untested(folder: Path) -> None:
    """Take all tests out."""
    gone(*(f"tests/{each.name}" for each in (folder / "tests").iterdir()))(folder)


COUNT, TESTS = "src/halo_x/count.py", "tests/test_count.py"
# What breaks each rule: a change of the project, or something else that was found.
BREAKS: dict[str, Change | dict[str, Any]] = {
    "loads": {"faults": ["there is no hook provide_tool"]},
    "clean-imports": {"remarks": ["imports halo_kernel.hooks"]},
    "import-budget": {"seconds": 0.6},
    "kernel-range": swapped("src/halo_x/halo.toml", "<0.2", "<0.3"),
    "apart": swapped("pyproject.toml", '"msgspec>=0.19"', '"msgspec>=0.19", "halo-cli"'),
    "metadata": swapped("pyproject.toml", 'license = "MIT"\n', ""),
    "typed": gone("src/halo_x/py.typed"),
    "readme": swapped("README.md", "## Install", "## Other"),
    "described-settings": {"settings": [{**MOST, "description": ""}]},
    "contracts": gone("tests/test_contract.py"),
    "real-kernel": untested,
    "nothing-left": added(TESTS, '\n\n@pytest.mark.halo_may_leak("thread")\ndef test_more() -> None: ...\n'),
    "bounded-settings": {"settings": [{**MOST, "bounded": False}]},
    "secrets": {"settings": [MOST, {**MOST, "name": "x.api_key", "kind": "text"}]},
    "honest-errors": added(COUNT, '\n\ndef fail() -> None:\n    """Fail."""\n    raise Exception("no")\n'),
    "capabilities": added(COUNT, "\n\nimport socket\n"),
    "error-table": swapped("README.md", "what to do", "why"),
    "documented-settings": swapped("README.md", "`x.most_bytes`", "a setting"),
    "user-level": untested,
    "crash-tested": added(
        COUNT, '\n\nasync def keep(host: Host) -> None:\n    """Keep."""\n    await host.data.open("x")\n'
    ),
    "reload": {"stays": "plugin 'x' stays as it is: its import failed"},
    "docstrings": added(COUNT, "\n\ndef more() -> None: ...\n"),
    "strict-types": swapped("pyproject.toml", "strict = true", "strict = false"),
    "no-blocking": added(COUNT, '\n\nasync def wait() -> None:\n    """Wait."""\n    time.sleep(1)\n'),
    "stateless-modules": added(COUNT, "\n\n_seen: dict[str, str] = {}\n"),
    "property-tests": gone("tests/test_made_up.py"),
    "benchmark": gone("tests/test_bench_count.py"),
}
# What such a change breaks beside the rule.
ALSO = {"secrets": ["documented-settings"]}


def test_the_scale_is_whole() -> None:
    """Each rule has a program and each program a rule; there are at least 15, and some of each tier, in their order."""
    rules = read_scale()
    assert [each.id for each in rules] == list(RULES)
    assert len(rules) >= 15
    assert [TIERS.index(each.tier) for each in rules] == sorted(TIERS.index(each.tier) for each in rules)
    assert {each.tier for each in rules} == {*TIERS}
    assert [each.id for each in rules if not each.says.endswith(".") or not each.advice] == []
    assert list(BREAKS) == list(RULES)


def test_what_keeps_every_rule_is_at_the_top(project: Path) -> None:
    """Nothing is asked for beyond platinum."""
    found = standing(project)
    assert broken(found) == []
    assert (found.tier, found.next, list(found.lines())) == ("platinum", "", ["quality: platinum"])


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_finds_what_breaks_it(project: Path, rule: str) -> None:
    """A plugin that keeps all others stands just below the rule's tier, and is told what breaks it and what to do."""
    change = BREAKS[rule]
    found = standing(project, **change) if isinstance(change, dict) else (change(project), standing(project))[1]
    assert rule in broken(found)
    assert change is untested or {*broken(found)} <= {rule, *ALSO.get(rule, ())}
    (decided,) = [each for each in found.rules if each.rule == rule]
    assert decided.why and decided.advice
    assert not found.reaches(decided.tier)


@pytest.mark.parametrize("kind", kinds())
def test_a_new_project_stands_at_silver(tmp_path: Path, kind: str) -> None:
    """What can be read of a project that was just written is as silver asks for it."""
    hooks = [f"provide_{kind}s"] if kind in ("tool", "model", "channel", "dispatcher", "service") else []
    folder = write_project("x", kind=kind, into=tmp_path)
    found = standing(folder, settings=[], hooks=[*hooks, *(["provide_storage"] if kind == "storage" else [])])
    assert found.reaches("silver"), list(found.lines())


def notes(project: Path, text: str) -> None:
    (project / "quality.toml").write_text(text)


def test_a_reason_exempts(project: Path) -> None:
    """A rule with a reason is not in the way, and the reason is told."""
    swapped("README.md", "what to do", "why")(project)
    assert standing(project).tier == "silver"
    notes(project, '[exempt]\nerror-table = "It has no errors of its own to speak of."\n')
    found = standing(project)
    assert found.tier == "platinum"
    assert "  exempt from error-table: It has no errors of its own to speak of." in found.lines()


def test_a_needless_exemption_counts_as_broken(project: Path) -> None:
    """An exemption from a rule that is kept would hide what goes wrong later."""
    notes(project, '[exempt]\nerror-table = "It has no errors of its own to speak of."\n')
    found = standing(project)
    assert (found.tier, broken(found)) == ("silver", ["error-table"])
    assert "take the exemption out" in "".join(found.lines())


WRONG = {
    '[exempt]\nerror-table = ""\n': "say in a sentence why error-table",
    '[exempt]\nerror-table = "because"\n': "say in a sentence why error-table",
    '[exempt]\nerrors-table = "It has no errors of its own."\n': "there is no rule errors-table",
    'exempt = ["error-table"]\n': "Expected `object`",
    "test = []\n": "unknown field `test`",
    'tests = ["../nowhere"]\n': "there is no ../nowhere",
    "tests = [": "quality.toml",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_file_is_refused(project: Path, text: str) -> None:
    """The error names the file, and the rule or the key."""
    notes(project, text)
    with pytest.raises(BadFile, match=WRONG[text]) as refused:
        standing(project)
    assert refused.value.path == str(project / "quality.toml")


def test_tests_and_pages_may_lie_elsewhere(project: Path) -> None:
    """Paths are from the project's folder on."""
    (project / "tests").rename(project.parent / "elsewhere")
    assert standing(project).tier == "bronze"
    notes(project, 'tests = ["../elsewhere"]\n')
    assert standing(project).tier == "platinum"


@pytest.mark.parametrize("text", ["", '[project]\nname = "halo-x"\n', '[project]\nname = "halo-y"\n'])
def test_what_is_no_plugin_is_refused(project: Path, text: str) -> None:
    """A project without an entry point has no place on the scale."""
    (project / "pyproject.toml").write_text(text)
    with pytest.raises(BadInput, match="is no project of a plugin"):
        standing(project)


def test_what_is_no_python_is_told(project: Path) -> None:
    """A module that cannot be read is an error with its line."""
    added(COUNT, "\n\ndef (:\n")(project)
    with pytest.raises(BadFile, match=r"halo_x/count.py:\d+: invalid syntax"):
        standing(project)


@pytest.mark.needs("uv")
def test_the_command_tells_and_judges(project: Path, tmp_path: Path) -> None:
    """A project's folder is told where it stands, as JSON too, and `--tier` fails below one."""
    gone("tests/test_bench_count.py")(project)

    def check(*options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "halo_kernel", "plugins", "check", f"{project}{os.sep}", *options]
        env = {**os.environ, "HALO_HOME": str(tmp_path / "home")}
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)

    done = check("--tier", "gold")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "quality: gold; platinum asks for:" in done.stdout
    done = check("--tier", "platinum", "--json")
    assert done.returncode == 1
    (row,) = json.loads(done.stdout)
    assert (row["state"], row["quality"]["tier"], row["quality"]["next"]) == ("fails", "gold", "platinum")
    assert {each["rule"]: each["state"] for each in row["quality"]["rules"]}.keys() == RULES.keys()
    notes(project, "tests = [")
    done = check()
    assert done.returncode == 0, "what cannot be placed is judged as before"
    assert "it has no place on the quality scale: " in done.stderr
    assert check("--tier", "bronze").returncode == 1
