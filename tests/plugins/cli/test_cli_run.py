"""`halo run`: which session it speaks to, at which level, and commands in the place of a prompt."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import halo_api
from halo_cli import run
from halo_kernel import Command, CommandResult, CommandSpec, Host, Incoming, Session, WorkspaceInfo, hook
from halo_kernel.testing import Answer, Fail, ScriptedModel, SimplePlugin
from halo_lib_client import Client, connect


class Go:
    """The command `/go`: tells its words, fails without one, and with `new` goes on in a new session."""

    spec = CommandSpec(name="go", summary="Go.")
    host: Host

    async def run(self, verb: str, arguments: str, message: Incoming, session: Session) -> CommandResult:
        info = session.info
        if arguments != "new":
            return CommandResult(text=f"{arguments} at {message.access}", ok=bool(arguments))
        made = await self.host.sessions.create(workspace=info.workspace, principal=message.principal, origin="web")
        return CommandResult(text="moved", session=made.info.id)

    @hook
    async def resolve_command(self, name: str, session: Session) -> Command | None:
        return self if name == "go" else None

    @hook
    async def workspace_opened(self, workspace: WorkspaceInfo, host: Host) -> None:
        self.host = host


@pytest.fixture
def client(tmp_path: Path, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """A client of a kernel that has the command; `halo run` speaks to it, in the folder `w`."""
    (tmp_path / "w").mkdir()
    monkeypatch.chdir(tmp_path / "w")
    monkeypatch.setattr("sys.stdin", None)
    go = Go()
    extra = {"test": SimplePlugin(model), "api": halo_api, "go": go}
    with connect(tmp_path / "kernel", local=True, extra=extra, discover=False) as client:

        @contextmanager
        def reach(*, local: bool) -> Iterator[Client]:
            yield client

        monkeypatch.setattr(run, "reach", reach)
        yield client


@pytest.fixture
def say(client: Client, capsys: pytest.CaptureFixture[str]) -> Any:
    def say(*words: str, code: int = 0) -> dict[str, Any]:
        """Run `halo run --format json` and return what it prints."""
        assert run.command(["--format", "json", *words]) == code
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    return say


def test_a_command_is_answered_as_text_and_as_json(say: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """What a command answers is printed; a refusal is said on stderr with exit code 1; no model is asked."""
    assert run.command(["/go", "far"]) == 0
    assert capsys.readouterr().out == "far at None\n"
    assert say("/go far") == {"text": "far at None", "sessionId": say("/go x")["sessionId"]} | {
        "toolCalls": [],
        "usage": None,
        "error": None,
    }
    assert run.command(["/go"]) == 1
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "halo:  at None\n")
    assert say("/nothing", code=1)["error"].startswith("There is no command /nothing.")


def test_the_next_run_goes_on_where_a_command_said(say: Any, client: Client) -> None:
    """After such a command its session is spoken to, whatever it is called, until another is named or begun."""
    first = say("hello")["sessionId"]
    moved = say("/go new")["sessionId"]
    assert moved.startswith("web_") and moved != first
    assert say("hello")["sessionId"] == moved
    again = say("/go new")["sessionId"]
    assert again != moved and say("hello")["sessionId"] == again
    begun = say("--new", "hello")["sessionId"]
    assert begun not in (first, moved, again) and say("hello")["sessionId"] == begun
    say("-s", first, "/go new")
    assert say("-s", first, "hello")["sessionId"] == first == say("hello")["sessionId"]


def test_a_session_that_is_gone_is_not_gone_on_in(say: Any, client: Client) -> None:
    """Where the session that a command named is archived or deleted, the newest of the command line goes on."""
    first = say("hello")["sessionId"]
    workspace = client.get("/api/workspaces")["workspaces"][0]["id"]
    for method, path in (("POST", "/archive"), ("DELETE", "")):
        moved = say("/go new")["sessionId"]
        client.request(method, f"/api/workspaces/{workspace}/sessions/{moved}{path}", {} if path else None)
        assert say("hello")["sessionId"] == first


def test_access_is_the_most_that_the_turn_may(say: Any, client: Client) -> None:
    """`--access` holds for this turn, for a command too, and leaves the session's own level as it is."""
    assert say("--access", "readonly", "/go far")["text"] == "far at readonly"
    session = say("--access", "workspace", "hello")["sessionId"]
    workspace = client.get("/api/workspaces")["workspaces"][0]["id"]
    base = f"/api/workspaces/{workspace}/sessions/{session}"
    events = client.get(f"{base}/events")["events"]
    assert [each["body"]["access"] for each in events if each["kind"] == "turn.started"] == ["workspace"]
    assert client.get(base)["access"] == "full"


def test_exactly_that_session_is_made_and_any_error_is_1(say: Any, model: ScriptedModel) -> None:
    """72: `-s newid` makes a session with exactly that id; a turn that ends with an error is exit code 1."""
    assert say("-s", "newid", "hello")["sessionId"] == "newid"
    assert say("-s", "newid", "again")["sessionId"] == "newid"
    model.then(Fail("account", "401: the key is wrong", text="half an answer"))
    assert say("-s", "newid", "more", code=1)["error"].startswith("401: the key is wrong")


def test_piped_output_is_the_last_answer_as_markdown(
    say: Any, model: ScriptedModel, capsys: pytest.CaptureFixture[str]
) -> None:
    """73: Piped, stdout is raw markdown of the last turn alone; `text` of the JSON is the same."""
    markdown = "# Birds\n\n**three** `herons`"
    model.then(Answer(markdown), Answer(markdown))
    assert run.command(["which?"]) == 0
    assert capsys.readouterr().out == f"{markdown}\n"
    assert say("which?")["text"] == markdown
