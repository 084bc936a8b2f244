"""The routes over a real kernel, through the real application."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

import halo_api
from halo_kernel import OPERATOR, Exchange, Kernel, ServerEvent, Stream
from halo_kernel.testing import Calls, Hang, Pieces, ScriptedModel, front, running_kernel


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel()


@pytest.fixture
async def kernel(tmp_path: Path, model: ScriptedModel) -> AsyncIterator[Kernel]:
    async with running_kernel(tmp_path / "home", model=model, extra={"api": halo_api}) as kernel:
        yield kernel


@pytest.fixture
async def client(kernel: Kernel) -> AsyncIterator[httpx.AsyncClient]:
    face = front(kernel)
    transport = httpx.ASGITransport(face.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost:9527", headers=face.headers) as client:
        yield client


async def test_models_are_listed_with_the_choice(client: httpx.AsyncClient) -> None:
    """The offers come with the one a new turn takes, and why."""
    answer = (await client.get("/api/models")).json()
    assert answer["chosen"] == answer["models"][0]["model"]
    assert answer["reason"]


@pytest.fixture
async def sessions(client: httpx.AsyncClient, tmp_path: Path) -> str:
    """The address of an open workspace's sessions."""
    folder = tmp_path / "place"
    folder.mkdir()
    reply = await client.post("/api/workspaces", json={"path": str(folder)})
    assert reply.status_code == 201
    return f"/api/workspaces/{reply.json()['id']}/sessions"


@pytest.fixture
async def session(client: httpx.AsyncClient, sessions: str) -> str:
    """The address of a new session."""
    reply = await client.post(sessions, json={})
    assert reply.status_code == 201
    return f"{sessions}/{reply.json()['id']}"


async def events_until_end(client: httpx.AsyncClient, session: str) -> list[dict[str, object]]:
    for _ in range(500):
        events = (await client.get(f"{session}/events")).json()["events"]
        if events[-1]["kind"] == "turn.ended":
            return list(events)
        await asyncio.sleep(0.01)
    raise TimeoutError


async def stream(kernel: Kernel, session: str, *, last: str | None = None, **query: str) -> AsyncIterator[ServerEvent]:
    """Open the session's stream by its handler, since the in-process transport shows no stream before its end."""
    _, _, _, workspace, _, name = session.split("/")
    route = next(route for _, route in kernel.routes if route.path.endswith("/stream"))
    answer = await route.handler(
        Exchange(
            principal=OPERATOR,
            body=None,
            params={"workspace": workspace, "session": name},
            query=query,
            last_event_id=last,
            address="",
            raw=None,  # type: ignore[arg-type]
        )
    )
    assert isinstance(answer, Stream)
    return answer.events


async def test_a_message_is_acknowledged_and_answered(client: httpx.AsyncClient, session: str) -> None:
    """A message gets 202 and a receipt; the turn that it causes is in the session's events."""
    reply = await client.post(f"{session}/messages", json={"text": "hello", "key": "k1"})
    assert reply.status_code == 202
    assert reply.json()["key"] == "k1"
    kinds = [event["kind"] for event in await events_until_end(client, session)]
    assert kinds[0] == "session.created"
    assert kinds.index("input.added") < kinds.index("assistant.message") < kinds.index("turn.ended")


@pytest.mark.parametrize("header", [False, True])
async def test_a_repeated_key_answers_the_first_receipt(client: httpx.AsyncClient, session: str, header: bool) -> None:
    """A message that is sent twice with one key, in the body or the header, is one message with one turn."""
    keyed = {"headers": {"Idempotency-Key": "k"}} if header else {}
    body = {"text": "hello"} if header else {"text": "hello", "key": "k"}
    first = await client.post(f"{session}/messages", json=body, **keyed)
    second = await client.post(f"{session}/messages", json=body, **keyed)
    assert first.json() == second.json()
    events = await events_until_end(client, session)
    assert [event["kind"] for event in events].count("input.added") == 1


async def test_a_key_belongs_to_its_session(client: httpx.AsyncClient, sessions: str) -> None:
    """Two sessions may use one key for two messages."""
    one = (await client.post(sessions, json={})).json()["id"]
    two = (await client.post(sessions, json={})).json()["id"]
    receipts = [
        (await client.post(f"{sessions}/{name}/messages", json={"text": "hi", "key": "k"})).json()
        for name in (one, two)
    ]
    assert [receipt["session"] for receipt in receipts] == [one, two]
    assert receipts[0]["row"] != receipts[1]["row"]


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("", {"access": "root"}, "access"),
        ("", {"agnet": "x"}, "agnet"),
        ("", {"id": "mine", "title": "x"}, "title"),
        ("", {"id": "../x"}, "session"),
        ("/messages", {"text": "  "}, "text"),
        ("/messages", {}, "text"),
        ("/messages", {"text": "x", "mode": "later"}, "mode"),
        ("/messages", {"text": "x", "key": ""}, "key"),
    ],
)
async def test_a_bad_body_names_its_field(
    client: httpx.AsyncClient, sessions: str, session: str, path: str, body: dict[str, str], field: str
) -> None:
    """A body that breaks a rule is answered 400 with the field's name."""
    reply = await client.post((session + path) if path else sessions, json=body)
    assert (reply.status_code, reply.json()["field"]) == (400, field)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=501", "limit"),
        ("limit=-1", "limit"),
        ("limit=ten", "limit"),
        ("limit=٣", "limit"),
        ("before=yesterday", "before"),
        ("before=-5", "before"),
    ],
)
async def test_a_bad_query_names_its_field(client: httpx.AsyncClient, sessions: str, query: str, field: str) -> None:
    """A limit outside 1 to 500 and a time that is not digits are answered 400 with the parameter's name."""
    reply = await client.get(f"{sessions}?{query}")
    assert (reply.status_code, reply.json()["field"]) == (400, field)


@pytest.mark.parametrize("where", ["events", "stream"])
async def test_cursors_are_checked_before_the_answer_begins(
    client: httpx.AsyncClient, session: str, where: str
) -> None:
    """What is no cursor is 400, and a cursor of another journal 410, on a stream too."""
    bad = await client.get(f"{session}/{where}?after=here")
    assert (bad.status_code, bad.json()["field"]) == (400, "after")
    gone = await client.get(f"{session}/{where}?after={'0' * 32}.1")
    assert gone.status_code == 410


async def test_a_path_must_be_absolute(client: httpx.AsyncClient) -> None:
    """A relative folder would mean another place on the server than to the caller, so it is refused."""
    reply = await client.post("/api/workspaces", json={"path": "here"})
    assert (reply.status_code, reply.json()["field"]) == (400, "path")


async def test_a_workspace_that_is_open_is_kept(client: httpx.AsyncClient, sessions: str, tmp_path: Path) -> None:
    """While it is open it is neither forgotten nor gets a new id; what is not known is not found."""
    workspace = sessions.removesuffix("/sessions")
    refused = [
        await client.delete(workspace),
        await client.post("/api/workspaces", json={"path": str(tmp_path / "place"), "new_id": True}),
    ]
    assert [reply.status_code for reply in refused] == [409, 409]
    assert all("halo stop" in reply.json()["advice"] for reply in refused)
    assert (await client.delete("/api/workspaces/none")).status_code == 404
    assert len((await client.get("/api/workspaces")).json()["workspaces"]) == 1


async def test_lists_are_newest_first_and_go_on(client: httpx.AsyncClient, sessions: str) -> None:
    """Pages of sessions by `before` show every session once, the newest first."""
    made = []
    for number in range(5):
        made.append((await client.post(sessions, json={"title": f"n{number}"})).json())
        await asyncio.sleep(0.003)
    seen: list[dict[str, object]] = []
    before = ""
    while True:
        page = (await client.get(f"{sessions}?limit=2{before}")).json()["sessions"]
        if not page:
            break
        seen += page
        before = f"&before={page[-1]['updated_at']}"
    assert [row["title"] for row in seen] == ["n4", "n3", "n2", "n1", "n0"]
    assert [row["id"] for row in seen] == [row["id"] for row in reversed(made)]


async def test_a_session_can_have_a_name_of_ones_own(client: httpx.AsyncClient, sessions: str) -> None:
    """A session with a given id is made once and found after that."""
    first = await client.post(sessions, json={"id": "nightly", "agent": "default"})
    second = await client.post(sessions, json={"id": "nightly"})
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["id"] == second.json()["id"] == "nightly"
    assert (await client.get(f"{sessions}/nightly")).json()["agent"] == "default"


async def test_what_is_not_there_is_404(client: httpx.AsyncClient, sessions: str) -> None:
    """Unknown workspaces, sessions and agents are not found."""
    assert (await client.get("/api/workspaces/none/sessions")).status_code == 404
    assert (await client.get(f"{sessions}/none")).status_code == 404
    assert (await client.post(sessions, json={"agent": "none"})).status_code == 404


async def test_agents_and_workspaces_are_listed(client: httpx.AsyncClient, sessions: str, tmp_path: Path) -> None:
    """The workspace that was opened and the agent in it are listed."""
    workspaces = (await client.get("/api/workspaces")).json()["workspaces"]
    assert [row["path"] for row in workspaces] == [str(tmp_path / "place")]
    agents = (await client.get(sessions.replace("/sessions", "/agents"))).json()["agents"]
    assert [agent["id"] for agent in agents] == ["default"]


async def test_events_come_in_pages(client: httpx.AsyncClient, session: str) -> None:
    """Events with a limit and the cursor of the page before are all events, once; at the end the cursor stays."""
    await client.post(f"{session}/messages", json={"text": "hello"})
    events = await events_until_end(client, session)
    paged: list[dict[str, object]] = []
    after = ""
    while page := (await client.get(f"{session}/events?limit=2{after}")).json():
        if not page["events"]:
            assert after == f"&after={page['cursor']}"
            break
        paged += page["events"]
        after = f"&after={page['cursor']}"
    assert paged == events
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))


async def test_a_stream_resumes_after_its_last_event(
    kernel: Kernel, client: httpx.AsyncClient, session: str, model: ScriptedModel
) -> None:
    """A stream that is opened anew with the last id goes on with the next event; that id is newer than the address."""
    model.then(Pieces(["one ", "two"], delay=0.02))
    await client.post(f"{session}/messages", json={"text": "go"})
    events = await events_until_end(client, session)
    first = await stream(kernel, session)
    head = [await anext(first) for _ in range(2)]
    await first.aclose()  # type: ignore[attr-defined]
    second = await stream(kernel, session, last=head[-1].id, after=str(head[0].id))
    rest = [await anext(second) for _ in range(len(events) - 2)]
    await second.aclose()  # type: ignore[attr-defined]
    assert json.loads(json.dumps([event.data for event in head + rest])) == events
    assert {event.event for event in rest} == {"event"}


async def test_deltas_are_the_answer_in_pieces(
    kernel: Kernel, client: httpx.AsyncClient, session: str, model: ScriptedModel
) -> None:
    """While a model answers, deltas carry reply and offset, and together they are the answer."""
    model.then(Pieces(["un ", "deux ", "trois"], delay=0.05))
    live = await stream(kernel, session)
    await client.post(f"{session}/messages", json={"text": "count"})
    text = ""
    async for event in live:
        assert isinstance(event.data, dict)
        if event.event == "delta":
            assert event.id is None
            assert event.data["offset"] == len(text)
            text += event.data["text"]
        elif event.data["kind"] == "turn.ended":
            break
    await live.aclose()  # type: ignore[attr-defined]
    assert text == "un deux trois"


async def test_interrupt_cancels_the_running_turn(
    client: httpx.AsyncClient, session: str, model: ScriptedModel
) -> None:
    """Interrupt says whether a turn was running, and ends it as cancelled."""
    assert (await client.post(f"{session}/interrupt")).json() == {"interrupted": False}
    model.then(Hang("I begin"))
    await client.post(f"{session}/messages", json={"text": "go"})
    for _ in range(500):
        if model.active:
            break
        await asyncio.sleep(0.01)
    assert (await client.post(f"{session}/interrupt")).json() == {"interrupted": True}
    events = await events_until_end(client, session)
    assert events[-1]["body"]["outcome"] == "cancelled"  # type: ignore[index]


async def test_compact_says_whether_it_did(client: httpx.AsyncClient, session: str, model: ScriptedModel) -> None:
    """A session where nobody shortens a history stays as it is; one that runs refuses; a foreign one is not there."""
    assert (await client.post(f"{session}/compact")).json() == {"compacted": False}
    model.then(Hang("I begin"))
    await client.post(f"{session}/messages", json={"text": "go"})
    for _ in range(500):
        if model.active:
            break
        await asyncio.sleep(0.01)
    refused = await client.post(f"{session}/compact")
    assert (refused.status_code, refused.json()["type"]) == (409, "Conflict")
    assert (await client.post(f"{session}x/compact")).status_code == 404
    await client.post(f"{session}/interrupt")
    await events_until_end(client, session)


async def test_tool_calls_are_in_the_events(client: httpx.AsyncClient, session: str, model: ScriptedModel) -> None:
    """A call that cannot run is in the events with its arguments and its outcome."""
    model.then(Calls([("no_such_tool", {"x": 1})]))
    await client.post(f"{session}/messages", json={"text": "go"})
    events = await events_until_end(client, session)
    finished = next(event for event in events if event["kind"] == "tool.finished")
    assert finished["body"]["name"] == "no_such_tool"  # type: ignore[index]
    assert finished["body"]["outcome"] != "ok"  # type: ignore[index]


async def test_only_the_operator_may_ask(client: httpx.AsyncClient, sessions: str) -> None:
    """Without credentials every route answers 401."""
    del client.headers["Authorization"]
    assert (await client.get(sessions)).status_code == 401
    assert (await client.get("/api/workspaces")).status_code == 401


async def test_a_session_is_about_a_part_of_its_workspace(
    client: httpx.AsyncClient, sessions: str, tmp_path: Path
) -> None:
    """A directory of the workspace can be given to a new session and to one that exists; another one is refused."""
    (tmp_path / "place" / "docs").mkdir()
    assert (await client.post(sessions, json={"directory": "docs"})).json()["directory"] == "docs"
    await client.post(sessions, json={"id": "mine"})
    assert (await client.post(sessions, json={"id": "mine", "directory": "docs"})).json()["directory"] == "docs"
    outside = await client.post(sessions, json={"directory": "../.."})
    assert (outside.status_code, outside.json()["field"]) == (400, "directory")
