"""Which folder a command works in."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from halo_cli import init, sessions, settings
from halo_cli.workspaces import choose_folder, open_workspace, session_path
from halo_kernel import BadInput, NotFound, WorkspaceUnusable, default_home
from halo_lib_client import Client, connect


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person's home directory, with Halo's below it."""
    home = tmp_path / "person"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("HALO_HOME", str(home / ".halo"))
    return home


def test_a_folder_that_is_named_is_taken(home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A named folder is taken as it is, even the home directory; `~` is the home."""
    monkeypatch.chdir(tmp_path)
    assert choose_folder("some where") == Path("some where")
    assert choose_folder("~/work") == home / "work"
    assert choose_folder(str(home)) == home


def test_without_a_name_it_is_where_we_are(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current folder is the workspace."""
    place = home / "work"
    place.mkdir()
    monkeypatch.chdir(place)
    assert choose_folder(None) == place
    assert not (home / ".halo").exists()


@pytest.mark.parametrize("where", ["home", "root"])
def test_the_home_directory_and_the_disk_are_no_workspace(
    home: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """There a folder of our own is made, with a note that a person may change for good."""
    monkeypatch.chdir(home if where == "home" else home.anchor)
    chosen = choose_folder(None)
    assert chosen == home / ".halo" / "workspaces" / "default"
    assert (chosen / "README.md").read_text().startswith("# Your workspace")
    (chosen / "README.md").write_text("mine")
    assert choose_folder(None) == chosen
    assert (chosen / "README.md").read_text() == "mine"


def test_a_folder_that_was_deleted_is_an_error(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A current folder that is gone is said so."""
    place = home / "gone"
    place.mkdir()
    monkeypatch.chdir(place)
    place.rmdir()
    with pytest.raises(WorkspaceUnusable, match="has been deleted"):
        choose_folder(None)


def test_a_home_that_cannot_be_written_is_an_error(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of our own that cannot be made is one sentence, not a traceback."""
    default_home({"HALO_HOME": str(home / ".halo")}).write_text("a file")
    monkeypatch.chdir(home)
    with pytest.raises(WorkspaceUnusable, match="cannot be made"):
        choose_folder(None)


def test_a_workspace_is_opened_under_its_real_path(client: Client, tmp_path: Path, monkeypatch) -> None:
    """A relative path is that of the command, not of the server; twice the same folder is the same workspace."""
    (tmp_path / "place").mkdir()
    monkeypatch.chdir(tmp_path)
    workspace, path = open_workspace(client, Path("place"))
    assert path == str(tmp_path / "place")
    assert open_workspace(client, tmp_path / "place") == (workspace, path)
    with pytest.raises(WorkspaceUnusable, match="does not exist"):
        open_workspace(client, tmp_path / "missing")


def test_a_path_that_is_no_text_is_an_error(client: Client, tmp_path: Path) -> None:
    """A folder whose name is not UTF-8 cannot be a workspace, and that is said."""
    with pytest.raises(BadInput, match="not UTF-8 text"):
        open_workspace(client, tmp_path / os.fsdecode(b"\xff"))


def test_ids_are_quoted_in_paths() -> None:
    """An id cannot leave its place in a path."""
    assert session_path("w/../x", "a/b?c") == "/api/workspaces/w%2F..%2Fx/sessions/a%2Fb%3Fc"
    assert session_path("w") == "/api/workspaces/w/sessions"


@pytest.mark.parametrize(
    ("env", "written", "why", "advice"),
    [
        ({"HALO_PLUGINS": "cli"}, "", "disabled: not named by HALO_PLUGINS", "add api to HALO_PLUGINS"),
        ({}, "plugins:\n  disabled: [api]\n", "disabled by the setting plugins.disabled", "halo plugins enable api"),
        ({}, "plugins:\n  require_enable: true\n", "plugins.require_enable asks for", "halo plugins enable api"),
    ],
)
def test_a_command_names_the_plugin_that_it_lacks(
    home: Path, monkeypatch: pytest.MonkeyPatch, env: dict[str, str], written: str, why: str, advice: str
) -> None:
    """Without the plugin whose routes a command asks for, the error says why it is not there and what to do."""
    (home / ".halo" / "secrets").mkdir(parents=True)
    (home / ".halo" / "secrets" / "settings.yaml").write_text(written)
    monkeypatch.chdir(home / ".halo")
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    for command in (sessions.command, init.command, settings.command):
        with pytest.raises(NotFound, match="this needs the plugin api, which is disabled") as refused:
            command([])
        assert why in refused.value.message
        assert refused.value.advice == f"try: {advice}"


def test_a_plugin_that_is_not_installed_is_named_by_its_distribution(tmp_path: Path) -> None:
    """What pip has to install is said."""
    client = connect(tmp_path / "home", local=True, discover=False)
    with client, pytest.raises(NotFound, match="the plugin api, which is missing: not installed") as refused:
        open_workspace(client, tmp_path)
    assert refused.value.advice == "try: pip install halo-api"
