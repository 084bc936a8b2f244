"""`halo sessions`: listed, shown, exported, changed."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from halo_cli import sessions
from halo_cli.follow import follow
from halo_kernel import BadInput, NotFound
from halo_lib_client import Client


@pytest.fixture
def said(client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A session in which something was said, in the workspace `w`; commands speak to its server."""
    (tmp_path / "w").mkdir()
    workspace = client.post("/api/workspaces", {"path": str(tmp_path / "w")})["id"]
    base = f"/api/workspaces/{quote(workspace)}/sessions"
    session: str = client.post(base, {"title": "a talk"})["id"]
    receipt = client.post(f"{base}/{session}/messages", {"text": "say \x1b[31mred"})
    follow(client.stream(f"{base}/{session}/stream"), receipt["row"], watch=lambda text: None)

    @contextmanager
    def reach() -> Iterator[Client]:
        yield client

    monkeypatch.setattr(sessions, "reach", reach)
    monkeypatch.chdir(tmp_path / "w")
    return session


def test_a_session_is_shown(said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`show` prints who said what; with `--json`, what people see of it."""
    assert sessions.command(["show", said]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"{said}  a talk\n") and "\nyou, " in text and "echo: say" in text
    assert sessions.command(["show", said, "--json"]) == 0
    assert [item["kind"] for item in json.loads(capsys.readouterr().out)["items"]] == ["user", "assistant"]


def test_a_session_is_exported(said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`export` prints markdown, or JSON; into a file it takes nobody's place, and only the owner reads it."""
    assert sessions.command(["export", said, "-w", str(tmp_path / "w")]) == 0
    assert capsys.readouterr().out.startswith("# a talk\n")
    out = tmp_path / "talk.json"
    assert sessions.command(["-w", str(tmp_path / "w"), "export", said, "--format", "json", "-o", str(out)]) == 0
    assert json.loads(out.read_text())["messages"][0]["role"] == "user"
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    before = out.read_bytes()
    with pytest.raises(BadInput, match="is there already"):
        sessions.command(["export", said, "-o", str(out)])
    assert out.read_bytes() == before
    with pytest.raises(BadInput, match="cannot be written"):
        sessions.command(["export", said, "-o", str(tmp_path / "nowhere" / "x")])


def test_a_session_that_is_not_there(said: str) -> None:
    """An unknown one is named."""
    with pytest.raises(NotFound, match="there is no session nothing"):
        sessions.command(["show", "nothing"])
    assert sessions.command([]) == 0


def test_what_becomes_of_a_session(said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A session is renamed, forked, stopped, archived and deleted; stdout has what a script needs next."""

    def run(*words: str) -> str:
        assert sessions.command(words) == 0
        return capsys.readouterr().out.strip()

    def listed() -> dict[str, dict[str, Any]]:
        return {row["id"]: row for row in json.loads(run("list", "--json"))}

    assert run("rename", said, "Herons at dawn") == "" and listed()[said]["title"] == "Herons at dawn"
    copy, named = run("fork", said), run("fork", said, "--title", "Another")
    assert (listed()[copy]["title"], listed()[named]["title"]) == ("Herons at dawn", "Another")
    run("stop", copy)
    run("archive", named)
    assert (listed()[copy]["stopped"], listed()[named]["archived"], listed()[said]["stopped"]) == (True, True, False)
    run("delete", copy)
    assert copy not in listed() and run("list") == run()
    with pytest.raises(NotFound, match=f"there is no session {copy}"):
        sessions.command(["delete", copy])
    before = listed()
    with pytest.raises(BadInput, match="title"):
        sessions.command(["rename", said, " "])
    assert listed() == before


def test_a_command_that_looks_begins_no_workspace(said: str, tmp_path: Path) -> None:
    """In a folder where nothing was said yet nothing is listed, other verbs say so, and nothing is there afterwards."""
    (tmp_path / "empty").mkdir()
    for verb in ([], ["list"]):
        assert sessions.command(["-w", str(tmp_path / "empty"), *verb]) == 0
    for verb in (["show", said], ["delete", said]):
        with pytest.raises(NotFound, match="is no workspace: nothing was said there yet"):
            sessions.command(["-w", str(tmp_path / "empty"), *verb])
    assert list((tmp_path / "empty").iterdir()) == []
