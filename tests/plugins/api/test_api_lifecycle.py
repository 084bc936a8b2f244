"""What becomes of sessions, over HTTP: each act, each refusal, and that a refusal changes nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import httpx
import pytest

import halo_api
from halo_kernel import Command, CommandSpec, Incoming, Kernel, Principal, Session, hook
from halo_kernel.testing import Hang, ScriptedModel, a_session, front, journal, running_kernel, until


class Birds:
    """A plugin with a command that lists have and nobody runs."""

    @hook
    async def list_commands(self, session: Session) -> Sequence[CommandSpec]:
        return [CommandSpec(name="bird", summary="Birds.")]

    @hook
    async def resolve_command(self, name: str, session: Session) -> Command | None:
        return None


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel()


@pytest.fixture
async def kernel(tmp_path: Path, model: ScriptedModel) -> AsyncIterator[Kernel]:
    async with running_kernel(tmp_path / "home", model=model, extra={"api": halo_api, "birds": Birds()}) as kernel:
        yield kernel


@pytest.fixture
async def session(kernel: Kernel, tmp_path: Path) -> Session:
    session = await a_session(kernel, tmp_path / "w")
    await session.prompt(Incoming(text="hello")).result
    return session


@pytest.fixture
async def client(kernel: Kernel, session: Session) -> AsyncIterator[httpx.AsyncClient]:
    """A client whose paths begin behind the session's workspace."""
    face = front(kernel)
    base = f"http://localhost:9527/api/workspaces/{session.info.workspace}/sessions/"
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(face.app), base_url=base, headers=face.headers
    ) as client:
        yield client


async def test_a_session_gets_a_title(client: httpx.AsyncClient, session: Session) -> None:
    """PATCH gives a title; lists show it, and what breaks its rule is refused by its field."""
    reply = await client.patch(f"/{session.info.id}", json={"title": "the herons"})
    assert (reply.status_code, reply.json()["title"]) == (200, "the herons")
    assert [each["title"] for each in (await client.get("../sessions")).json()["sessions"]] == ["the herons"]
    before = await journal(session)
    refused = await client.patch(f"/{session.info.id}", json={"title": " "})
    assert (refused.status_code, refused.json()["field"]) == (400, "title") and await journal(session) == before


async def test_a_session_is_forked(client: httpx.AsyncClient, session: Session) -> None:
    """POST fork answers 201 with a session that has the same history and its own id."""
    reply = await client.post(f"/{session.info.id}/fork", json={"title": "another way"})
    copy = reply.json()
    assert (reply.status_code, copy["title"], copy["root"]) == (201, "another way", copy["id"])
    events = (await client.get(f"/{copy['id']}/events")).json()["events"]
    assert "echo: hello" in str(events) and events[-1]["kind"] == "session.forked"
    assert (await client.post(f"/{session.info.id}/fork", json={})).json()["title"] == "hello"


async def test_a_session_is_stopped_and_archived(
    client: httpx.AsyncClient, session: Session, model: ScriptedModel
) -> None:
    """Stop cancels what runs and lets the next message go on; archive takes no message any more."""
    model.responder = lambda request: Hang()
    await client.post(f"/{session.info.id}/messages", json={"text": "go"})
    await until(lambda: model.active)
    stopped = (await client.post(f"/{session.info.id}/stop")).json()
    assert (stopped["stopped"], stopped["archived"], model.active) == (True, False, 0)
    archived = (await client.post(f"/{session.info.id}/archive")).json()
    assert archived["archived"]
    refused = await client.post(f"/{session.info.id}/messages", json={"text": "more"})
    assert (refused.status_code, refused.json()["type"]) == (409, "SessionClosed")


async def test_a_session_is_deleted(client: httpx.AsyncClient, session: Session) -> None:
    """DELETE answers 204; afterwards every path of it is 404 and no list has it."""
    assert (await client.delete(f"/{session.info.id}")).status_code == 204
    for act in (client.get, client.delete):
        assert (await act(f"/{session.info.id}")).status_code == 404
    assert (await client.get("../sessions")).json()["sessions"] == []
    assert (await client.post("../sessions", json={"id": session.info.id})).status_code == 404, (
        "its id is never used again"
    )


async def test_children_and_commands_are_listed(client: httpx.AsyncClient, session: Session) -> None:
    """What was started from a session, oldest first, and what people can ask for in it."""
    made = [(await session.start_child("default")).info.id for _ in range(2)]
    listed = (await client.get(f"/{session.info.id}/children")).json()["sessions"]
    assert [each["id"] for each in listed] == made
    (spec,) = (await client.get(f"/{session.info.id}/commands")).json()["commands"]
    assert (spec["name"], spec["summary"]) == ("bird", "Birds.")


async def test_an_exchange_is_deleted(client: httpx.AsyncClient, session: Session) -> None:
    """DELETE exchanges/<row> hides a message and its answer; again, and what is no number, is refused."""
    row = (await client.post(f"/{session.info.id}/messages", json={"text": "secret"})).json()["row"]
    await until(lambda: session.info.state == "idle" and session.info.head > 12)
    reply = await client.delete(f"/{session.info.id}/exchanges/{row}")
    assert (reply.status_code, reply.json()["kind"]) == (200, "exchange.deleted")
    assert "secret" not in (await client.get(f"/{session.info.id}/export?format=md")).text
    assert (await client.delete(f"/{session.info.id}/exchanges/{row}")).status_code == 404
    for bad in ("x", "-1", "1" * 30, "٣"):
        refused = await client.delete(f"/{session.info.id}/exchanges/{bad}")
        assert (refused.status_code, refused.json()["field"]) == (400, "row")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PATCH", "", {"title": "mine"}),
        ("DELETE", "", None),
        ("POST", "/fork", {}),
        ("POST", "/stop", None),
        ("POST", "/archive", None),
        ("GET", "/children", None),
        ("GET", "/commands", None),
        ("DELETE", "/exchanges/1", None),
    ],
)
async def test_foreign_and_unknown_sessions_are_not_found(
    client: httpx.AsyncClient, kernel: Kernel, session: Session, method: str, path: str, body: object
) -> None:
    """A session of another principal is answered like one that is not there, and stays as it is."""
    other = await kernel.host.sessions.create(
        workspace=session.info.workspace, principal=Principal(name="somebody else")
    )
    before = (await journal(other), other.info)
    for name in (other.info.id, "sid_nothing"):
        reply = await client.request(method, f"/{name}{path}", json=body)
        assert (reply.status_code, reply.json()["type"]) == (404, "NotFound")
    assert (await journal(other), other.info) == before
