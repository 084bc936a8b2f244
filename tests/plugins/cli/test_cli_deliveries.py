"""`halo deliveries` beside a real server: what did not arrive is seen, and sent again."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from halo_cli import deliveries
from halo_kernel import Conflict, NotFound, is_served
from halo_lib_client import Client


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert deliveries.command(list(words)) == 0
    return capsys.readouterr().out


@pytest.fixture
def workspace(channel_server: Client) -> str:
    """The id of the workspace of the current folder, in which three things are owed: 1 arrives, 2 fails, 3 is lost."""
    workspace: str = channel_server.post("/api/workspaces", {"path": str(Path.cwd())})["id"]
    (channel_server.home / "targets").write_text("post:me:known\n")
    for target in ("post:me:known", "post:me:gone", "vague:me:c"):
        owed = {"key": target, "dispatcher": target.partition(":")[0], "target": target, "text": f"To\n{target}"}
        channel_server.post("/t/owe", {"workspace": workspace, "owed": owed})
    settle(channel_server, workspace, ["uncertain", "failed", "sent"])
    return workspace


def settle(client: Client, workspace: str, wanted: list[str]) -> None:
    """Wait until the deliveries are in these states, newest first."""
    states: list[Any] = []
    for _ in range(300):
        found = client.get(f"/api/workspaces/{workspace}/deliveries")["deliveries"]
        states = [part["state"] for each in found for part in each["parts"]]
        if states == wanted:
            return
        time.sleep(0.02)
    raise AssertionError(states)


@pytest.mark.usefixtures("workspace")
def test_deliveries_are_listed_by_what_became_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    """One line each, newest first, and why a part did not arrive; filters keep what is asked for."""
    lines = said(capsys).splitlines()
    assert [line.split("  ")[0] for line in lines if not line.startswith(" ")] == ["3", "2", "1"]
    failed = said(capsys, "list", "--failed").splitlines()
    assert failed[0].startswith("2  ") and failed[0].endswith("  post:me:gone  failed  To post:me:gone")
    assert failed[1:] == ["    attempt 1: there is no post:me:gone"]
    uncertain = said(capsys, "--uncertain").splitlines()
    assert uncertain[0].endswith("  vague:me:c  uncertain  To vague:me:c") and len(uncertain) == 2
    both = json.loads(said(capsys, "--failed", "--uncertain", "--json"))["deliveries"]
    assert [each["id"] for each in both] == [3, 2]
    assert deliveries.command(["--open"]) == 0
    assert capsys.readouterr() == ("", "There is no such delivery here.\n")
    assert deliveries.command(["-s", "sid_none"]) == 0
    assert capsys.readouterr().out == ""


def test_a_dead_letter_is_sent_again(
    workspace: str, channel_server: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once what kept it is mended, it arrives; what has arrived, or is not there, is refused and changes nothing."""
    (channel_server.home / "targets").write_text("post:me:gone\n")
    assert said(capsys, "retry", "2") == "Delivery 2 is to be sent again, to post:me:gone.\n"
    settle(channel_server, workspace, ["uncertain", "sent", "sent"])
    with pytest.raises(Conflict, match="delivery 2 has no part that failed or is uncertain"):
        deliveries.command(["retry", "2"])
    with pytest.raises(NotFound, match="there is no delivery 9"):
        deliveries.command(["retry", "9"])
    assert json.loads(said(capsys, "retry", "3", "--json"))["deliveries"][0]["id"] == 3


@pytest.mark.usefixtures("channel_server")
def test_a_folder_where_nothing_is_owed(capsys: pytest.CaptureFixture[str]) -> None:
    """A folder that is no workspace has nothing to list, does not become one, and nothing to send."""
    assert deliveries.command([]) == 0
    assert capsys.readouterr().err == "Nothing was owed to anybody here yet.\n"
    with pytest.raises(NotFound, match="is no workspace"):
        deliveries.command(["retry", "1"])
    assert not Path(".halo").exists()


@pytest.mark.usefixtures("workspace")
def test_without_a_server_it_waits_for_one(
    channel_server: Client, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel of the command's own shows deliveries too, and says that it sends none."""
    channel_server.post("/api/server/stop")
    while is_served(channel_server.home):
        time.sleep(0.02)
    monkeypatch.setenv("HALO_PLUGINS", "api")
    assert deliveries.command(["retry", "2"]) == 0
    assert "No server is running. It is sent once one is" in capsys.readouterr().err
    assert said(capsys, "--open").splitlines()[0].endswith("  post:me:gone  pending  To post:me:gone")


@pytest.mark.parametrize("words", [["retry"], ["list", "1"], ["retry", "one"], ["drop", "1"]])
def test_wrong_usage_ends_with_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be meant is told with the usage before anything happens."""
    with pytest.raises(SystemExit) as ended:
        deliveries.command(words)
    assert ended.value.code == 2
    assert "usage: halo deliveries" in capsys.readouterr().err
