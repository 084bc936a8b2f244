"""`halo approvals` over a kernel in this process."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import halo_api
from halo_cli import approvals
from halo_kernel import Call, Conflict, NotFound, Question, ToolSpec
from halo_kernel.testing import Calls, ScriptedModel, SimplePlugin
from halo_lib_client import Client, connect


class Asking:
    """A tool that asks first."""

    spec = ToolSpec(name="buy", description="Buy.", parameters={"type": "object"}, effect="write")

    async def run(self, call: Call) -> str:
        if call.answer is None:
            call.ask(Question(text="Buy a lamp?\nIt is the last one.", options=("cheap", "good")))
        return f"{call.answer and call.answer.approved} {call.answer and call.answer.text}"


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """A client of a kernel whose model buys a lamp, which the command uses too."""
    model = ScriptedModel([Calls([("buy", {"thing": "lamp"})])])
    extra = {"test": SimplePlugin(model, [Asking()]), "api": halo_api}
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    with connect(tmp_path / "kernel", local=True, extra=extra, discover=False) as client:

        @contextmanager
        def reach() -> Iterator[Client]:
            yield client

        monkeypatch.setattr(approvals, "reach", reach)
        yield client


def state(client: Client, path: str) -> str:
    return str(client.get(path)["state"])


@pytest.fixture
def session(client: Client, tmp_path: Path) -> str:
    """The path of a session that waits for an answer."""
    workspace = client.post("/api/workspaces", {"path": str(tmp_path / "work")})["id"]
    made = client.post(f"/api/workspaces/{workspace}/sessions", {})
    path = f"/api/workspaces/{workspace}/sessions/{made['id']}"
    client.post(f"{path}/messages", {"text": "Buy me a lamp."})
    for _ in range(300):
        if state(client, path) == "waiting":
            return path
        time.sleep(0.02)
    raise AssertionError("it does not wait")


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert approvals.command(list(words)) == 0
    return capsys.readouterr().out


def last_result(client: Client, session: str) -> Any:
    events = client.get(f"{session}/events")["events"]
    return [event["body"]["text"] for event in events if event["kind"] == "tool.finished"][-1]


def test_a_question_is_listed_shown_and_approved(
    client: Client, session: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line a question; whole with its call and options; the answer lets the session go on, and is kept."""
    line = said(capsys)
    assert line.startswith("1  ")
    assert line.endswith("buy: Buy a lamp?\n")
    whole = said(capsys, "show", "1")
    assert whole.startswith('Buy a lamp?\nIt is the last one.\nOptions: cheap, good\nCall: buy {"thing": "lamp"}\n')
    assert said(capsys, "approve", "1", "--text", "good") == "Question 1 is approved.\n"
    assert state(client, session) == "idle"
    assert last_result(client, session) == "True good"
    assert approvals.command([]) == 0
    assert capsys.readouterr().err == "Nothing waits for you here.\n"
    assert "(approved)" in said(capsys, "list", "--all")
    assert "It was approved by operator: good." in said(capsys, "show", "1")


def test_a_question_is_denied_once(client: Client, session: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A no reaches the call; a second answer is refused and changes nothing."""
    assert json.loads(said(capsys, "deny", "1", "--json"))["state"] == "denied"
    assert last_result(client, session).startswith("False")
    with pytest.raises(Conflict):
        approvals.command(["approve", "1"])
    with pytest.raises(NotFound):
        approvals.command(["show", "7"])


@pytest.mark.parametrize(
    "words", [["show"], ["approve"], ["list", "1"], ["approve", "one"], ["show", "1", "--text", "x"]]
)
def test_wrong_usage_ends_with_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be meant is told with the usage before anything happens."""
    with pytest.raises(SystemExit) as ended:
        approvals.command(words)
    assert ended.value.code == 2
    assert "usage: halo approvals" in capsys.readouterr().err
