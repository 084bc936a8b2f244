"""Erasing over HTTP, and what a reader gets whose cursor is gone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

import halo_api
from halo_kernel import Exchange, Forbidden, Incoming, Kernel, Principal, Session
from halo_kernel.testing import a_session, front, running_kernel


@pytest.fixture
async def kernel(tmp_path: Path) -> AsyncIterator[Kernel]:
    async with running_kernel(tmp_path / "home", extra={"api": halo_api}) as kernel:
        yield kernel


@pytest.fixture
async def session(kernel: Kernel, tmp_path: Path) -> Session:
    """A session with two turns."""
    session = await a_session(kernel, tmp_path / "w")
    for text in ("a secret", "something else"):
        await session.prompt(Incoming(text=text)).result
    return session


@pytest.fixture
async def client(kernel: Kernel, session: Session) -> AsyncIterator[httpx.AsyncClient]:
    face = front(kernel)
    base = f"http://localhost:9527/api/workspaces/{session.info.workspace}/sessions/{session.info.id}"
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(face.app), base_url=base, headers=face.headers
    ) as client:
        yield client


async def test_a_turn_is_erased(client: httpx.AsyncClient) -> None:
    """The answer is the event that tells of it; the turn's bodies say who and when, the other turn is as it was."""
    events = (await client.get("/events")).json()["events"]
    turn = [event["seq"] for event in events if event["turn"] == events[1]["turn"]]
    reply = await client.post("/erase", json={"start": turn[0], "end": turn[-1]})
    assert reply.status_code == 200
    assert reply.json()["kind"] == "context.erased"
    assert reply.json()["body"] == {
        "kind": "context.erased",
        "v": 1,
        "start": turn[0],
        "end": turn[-1],
        "by": "operator",
    }
    after = await client.get("/events")
    assert "a secret" not in after.text and "something else" in after.text
    (said,) = [event for event in after.json()["events"] if event["seq"] in turn and event["kind"] == "input.added"]
    assert said["body"] == {"erased": True, "by": "operator", "at": reply.json()["at"]}


@pytest.mark.parametrize(
    ("body", "field"),
    [({}, "start"), ({"start": 1}, "end"), ({"start": "1", "end": 2}, "start"), ({"start": 1, "end": 99}, "start")],
)
async def test_a_wrong_range_is_named(client: httpx.AsyncClient, body: dict[str, object], field: str) -> None:
    """Bad input is 400, names the field, and changes nothing."""
    before = (await client.get("/events")).json()
    reply = await client.post("/erase", json=body)
    assert (reply.status_code, reply.json()["field"]) == (400, field)
    assert (await client.get("/events")).json() == before


@pytest.mark.parametrize("path", ["/events", "/stream"])
async def test_a_cursor_that_is_gone_gets_what_people_see(client: httpx.AsyncClient, path: str) -> None:
    """The answer is 410 with the view and the cursor to go on after."""
    reply = await client.get(path, params={"after": "another.5"})
    assert reply.status_code == 410
    told = reply.json()
    texts = [item["text"] for item in told["view"]["items"].values()]
    assert texts == ["a secret", "echo: a secret", "something else", "echo: something else"]
    assert (told["view"]["title"], told["view"]["running"]) == ("a secret", "")
    rest = await client.get("/events", params={"after": told["cursor"]})
    assert rest.json()["events"] == []


async def test_a_session_at_work_answers_409(client: httpx.AsyncClient, kernel: Kernel, session: Session) -> None:
    """Who erases while a turn runs is told to wait."""
    database = kernel.workspaces.seats[session.info.workspace].database
    run = "INSERT INTO runs(session, root, turn, boot, started_at) VALUES (?, ?, 't', 'another', 0)"
    await database.write(lambda tx: tx.execute(run, (session.info.id, session.info.root)))
    reply = await client.post("/erase", json={"start": 1, "end": 1})
    assert (reply.status_code, reply.json()["type"]) == (409, "Conflict")


async def test_erasing_takes_full_access(kernel: Kernel) -> None:
    """Somebody with less is refused, whatever the session."""
    route = next(route for _, route in kernel.routes if route.path.endswith("/erase"))
    assert route.request is not None
    guest = Exchange(
        principal=Principal(name="guest", access="workspace"),
        body=route.request(start=1, end=1),
        params={"workspace": "w", "session": "s"},
        query={},
        last_event_id=None,
        address="",
        raw=None,  # type: ignore[arg-type]
    )
    with pytest.raises(Forbidden):
        await route.handler(guest)
