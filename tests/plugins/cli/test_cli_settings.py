"""`halo settings` over a kernel of its own process."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from msgspec import Struct

import halo_api
from halo_cli import settings
from halo_kernel import BadInput, Secret, Section, hook
from halo_lib_client import connect

KEY, SECRET = "acme.api_key", "sk-0123456789abcdef"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, and a current folder to work in."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("HALO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HALO_PLUGINS", "api,cli,signin")
    for name in ("HALO_PASSWORD", "HALO_PORT", "HALO_LOG_LEVEL", "HALO_BADGE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "home"


class Acme(Struct, frozen=True, kw_only=True):
    """A plugin's settings."""

    api_key: Secret | None = None


class AcmePlugin:
    """A plugin with a secret."""

    @hook
    def provide_settings(self) -> Iterable[Section]:
        return [Section("acme", Acme)]


@pytest.fixture
def acme(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the commands find a plugin with a secret."""
    wanted = {"local": True, "extra": {"acme": AcmePlugin(), "api": halo_api}, "discover": False}
    monkeypatch.setattr(settings, "reach", lambda: connect(home, **wanted))


def written(home: Path) -> str:
    return (home / "secrets" / "settings.yaml").read_text()


def test_settings_are_listed_with_values_and_sources(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line a setting on stdout, what is odd about the file on stderr; with `--json` all of it."""
    (home / "secrets").mkdir(parents=True)
    (home / "secrets" / "settings.yaml").write_text("agent:\n  max_steps: 7\n  max_stops: 8\n")
    monkeypatch.setenv("HALO_PORT", "8081")
    assert settings.command([]) == 0
    said = capsys.readouterr()
    lines = said.out.splitlines()
    assert "agent.max_steps = 7  (file)" in lines
    assert "server.host = 127.0.0.1  (default)" in lines
    assert "server.port = 8081  (environment HALO_PORT)" in lines
    assert "line 3: there is no setting agent.max_stops, did you mean agent.max_steps?" in said.err.splitlines()
    assert settings.command(["list", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {field["key"] for field in found["settings"]} == {line.partition(" = ")[0] for line in lines}


@pytest.mark.parametrize(
    ("key", "typed", "line"),
    [
        ("agent.max_steps", "7", "max_steps: 7"),
        ("server.trust_proxy", "true", "trust_proxy: true"),
        ("model.default", "5", 'default: "5"'),
        ("server.allowed_hosts", "a.example, b.example", 'allowed_hosts: ["a.example", "b.example"]'),
        ("server.allowed_hosts", '["a.example"]', 'allowed_hosts: ["a.example"]'),
        ("model.idle_timeout", "1.5", "idle_timeout: 1.5"),
    ],
)
def test_a_value_is_written_as_its_type(
    home: Path, capsys: pytest.CaptureFixture[str], key: str, typed: str, line: str
) -> None:
    """What was typed becomes a number, a list or text as the setting wants it; `unset` goes back to the default."""
    assert settings.command(["get", key]) == 0
    default = capsys.readouterr().out
    assert settings.command(["set", key, typed]) == 0
    assert line in written(home)
    settings.command(["unset", key])
    capsys.readouterr()
    assert settings.command(["get", key]) == 0
    assert capsys.readouterr().out == default


@pytest.mark.usefixtures("acme")
def test_a_secret_is_not_typed_where_others_see_it(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read from standard input, and shown masked only; of words, one that only refers to it is taken."""
    with pytest.raises(BadInput, match="is a secret, which others would see") as refused:
        settings.command(["set", KEY, SECRET])
    assert "`halo settings set acme.api_key`" in refused.value.advice
    assert not (home / "secrets" / "settings.yaml").exists()
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{SECRET}\nmore\n"))
    assert settings.command(["set", KEY]) == 0
    assert f"api_key: {SECRET}\n" in written(home)
    assert settings.command(["get", KEY]) == 0
    assert capsys.readouterr().out == "sk****ef\n"
    assert settings.command(["set", KEY, "<<MY_KEY>>"]) == 0
    assert 'api_key: "<<MY_KEY>>"\n' in written(home)


@pytest.mark.usefixtures("acme")
@pytest.mark.parametrize(("given", "rule"), [(b"", "nothing was given"), (b"\n", "nothing"), (b"\xff\n", "not UTF-8")])
def test_a_secret_is_text(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: bytes, rule: str) -> None:
    """An empty pipe, an empty line, and bytes that are no text change nothing."""
    (tmp_path / "pipe").write_bytes(given)
    with (tmp_path / "pipe").open(encoding="utf-8") as pipe:
        monkeypatch.setattr("sys.stdin", pipe)
        with pytest.raises(BadInput, match=rule):
            settings.command(["set", KEY])
    assert not (home / "secrets" / "settings.yaml").exists()


@pytest.mark.parametrize("words", [["secret-2-keep"], [], ["<<PASSWORD>>"]])
def test_the_password_is_set_by_its_own_command(home: Path, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rules are those of `halo password`, which is named before anything is asked; to unset it needs no rule."""
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(BadInput, match=r"server\.password has rules of its own") as refused:
        settings.command(["set", "server.password", *words])
    assert refused.value.advice == "Set it with `halo password`."
    assert not (home / "secrets" / "settings.yaml").exists()
    assert settings.command(["unset", "server.password"]) == 0


def test_a_workspace_has_its_own(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With `-w` the file of that workspace is read and written."""
    assert settings.command(["set", "agent.max_steps", "7", "-w", "."]) == 0
    assert Path(".halo/settings.yaml").read_text() == "agent:\n  max_steps: 7\n"
    assert settings.command(["get", "agent.max_steps", "-w", "."]) == 0
    assert settings.command(["get", "agent.max_steps"]) == 0
    assert capsys.readouterr().out == "7\n100\n"
    with pytest.raises(BadInput, match="counts for the whole server"):
        settings.command(["set", "server.port", "1", "-w", "."])


def test_what_goes_before_is_said(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value that a variable hides is written, and the variable named."""
    monkeypatch.setenv("HALO_PORT", "8081")
    assert settings.command(["set", "server.port", "8082"]) == 0
    assert "The environment HALO_PORT goes before it." in capsys.readouterr().err.splitlines()
    assert "port: 8082" in written(home)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["get", "agent.max_stops"], "there is no setting agent.max_stops, did you mean agent.max_steps?"),
        (["set", "agent.max_steps", "none"], "agent.max_steps is not valid: Expected `int`, got `str`"),
        (["set", "agent.max_steps"], "agent.max_steps needs a value"),
        (["set", "egress.allow", "[a, b]"], r"egress.allow is not valid: \[a, b\] begins as JSON does, and is none"),
        (["set", "egress.allow", '{"a": 1'], "begins as JSON does, and is none"),
        (["unset", "nothing"], "there is no setting nothing"),
    ],
)
def test_what_is_wrong_is_said_by_name(home: Path, argv: list[str], words: str) -> None:
    """Key and rule are named, and nothing is written."""
    with pytest.raises(BadInput, match=words.replace("?", r"\?")):
        settings.command(argv)
    assert not (home / "secrets" / "settings.yaml").exists()


@pytest.mark.parametrize("argv", [["get"], ["set"], ["list", "agent.default"], ["get", "agent.default", "x"], ["drop"]])
def test_wrong_usage_ends_with_two(home: Path, argv: list[str]) -> None:
    """What makes no sense ends before anything happens."""
    with pytest.raises(SystemExit) as ended:
        settings.command(argv)
    assert ended.value.code == 2
    assert not home.exists()
