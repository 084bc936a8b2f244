"""Questions and deliveries over HTTP: what waits for a person is answered, what did not arrive is sent again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import halo_api
from halo_kernel import OPERATOR, Call, Exchange, Forbidden, Incoming, Kernel, Owed, Principal, Question, ToolSpec
from halo_kernel.testing import Calls, Front, Postbox, Refused, ScriptedModel, front, running_kernel, until


class Asking:
    """A tool that asks first."""

    spec = ToolSpec(name="ask", description="Ask.", parameters={"type": "object"}, effect="write")

    async def run(self, call: Call) -> str:
        if call.answer is None:
            call.ask(Question(text="Really?", options=("yes", "no")))
        return f"answered {call.answer and call.answer.text}"


@pytest.fixture
def post() -> Postbox:
    return Postbox()


@pytest.fixture
async def kernel(tmp_path: Path, post: Postbox) -> AsyncIterator[Kernel]:
    model = ScriptedModel([Calls([("ask", {"about": "lamps"})])])
    extra = {"api": halo_api, "post": post}
    async with running_kernel(tmp_path / "home", model=model, tools=[Asking()], extra=extra) as kernel:
        yield kernel


@pytest.fixture
async def client(kernel: Kernel) -> AsyncIterator[httpx.AsyncClient]:
    face = front(kernel)
    async with _client(face) as client:
        yield client


def _client(face: Front, **headers: str) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(face.app)
    return httpx.AsyncClient(transport=transport, base_url="http://localhost:9527", headers={**face.headers, **headers})


@pytest.fixture
async def workspace(kernel: Kernel, tmp_path: Path) -> str:
    (tmp_path / "place").mkdir()
    return (await kernel.host.workspaces.open(tmp_path / "place")).id


async def until_some(client: httpx.AsyncClient, address: str, name: str) -> list[dict[str, Any]]:
    """Return what is listed once there is something."""
    for _ in range(500):
        reply = await client.get(address)
        assert reply.status_code == 200, reply.text
        if found := reply.json()[name]:
            return list(found)
        await asyncio.sleep(0.01)
    raise AssertionError(f"nothing at {address}")


# Questions


async def test_a_question_is_listed_and_answered(client: httpx.AsyncClient, kernel: Kernel, workspace: str) -> None:
    """An open question is shown with its call, answered once, and listed with the settled ones afterwards."""
    session = await kernel.host.sessions.create(workspace=workspace, principal=OPERATOR)
    handle = session.prompt(Incoming(text="go"))
    questions = f"/api/workspaces/{workspace}/questions"
    (asked,) = await until_some(client, questions, "questions")
    assert (asked["tool"], asked["arguments"], asked["text"]) == ("ask", {"about": "lamps"}, "Really?")
    assert (asked["options"], asked["state"], asked["session"]) == (["yes", "no"], "pending", session.info.id)
    assert (await client.get(questions, params={"session": "sid_other"})).json() == {"questions": []}

    assert (await client.get(f"{questions}/{asked['id']}")).json() == asked
    assert (await client.get(f"{questions}/99")).status_code == 404
    reply = await client.post(f"{questions}/{asked['id']}/answer", json={"approved": True, "text": "yes"})
    assert reply.status_code == 200
    assert (reply.json()["state"], reply.json()["answer"], reply.json()["answered_by"]) == (
        "approved",
        "yes",
        "operator",
    )
    assert (await asyncio.wait_for(handle.result, 5)).outcome == "succeeded"

    assert (await client.get(questions)).json() == {"questions": []}
    everything = {"all": "true", "session": session.info.id}
    (settled,) = (await client.get(questions, params=everything)).json()["questions"]
    assert settled == reply.json()
    again = await client.post(f"{questions}/{asked['id']}/answer", json={"approved": False})
    assert again.status_code == 409 and "approved already" in again.json()["error"]


async def test_a_question_of_somebody_else_is_not_there(
    client: httpx.AsyncClient, kernel: Kernel, workspace: str
) -> None:
    """Questions of other people's sessions are neither listed nor answered."""
    somebody = Principal(name="somebody")
    session = await kernel.host.sessions.create(workspace=workspace, principal=somebody)
    session.prompt(Incoming(text="go", principal=somebody))
    for _ in range(500):
        if session.info.state == "waiting":
            break
        await asyncio.sleep(0.01)
    assert (await client.get(f"/api/workspaces/{workspace}/questions")).json() == {"questions": []}
    reply = await client.post(f"/api/workspaces/{workspace}/questions/1/answer", json={"approved": True})
    assert reply.status_code == 404 and session.info.state == "waiting"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "approved"),
        ({"approved": "yes"}, "approved"),
        ({"approved": True, "text": 5}, "text"),
        ({"approved": True, "text": "a\0b"}, "text"),
        ({"approved": True, "texts": ""}, "texts"),
    ],
)
async def test_an_answer_that_is_none(
    client: httpx.AsyncClient, kernel: Kernel, workspace: str, body: dict[str, object], field: str
) -> None:
    """An answer that breaks a rule names the field and leaves the question open."""
    session = await kernel.host.sessions.create(workspace=workspace, principal=OPERATOR)
    session.prompt(Incoming(text="go"))
    (asked,) = await until_some(client, f"/api/workspaces/{workspace}/questions", "questions")
    reply = await client.post(f"/api/workspaces/{workspace}/questions/{asked['id']}/answer", json=body)
    assert reply.status_code == 400 and field in reply.json()["error"]
    assert (await client.get(f"/api/workspaces/{workspace}/questions")).json() == {"questions": [asked]}


# Deliveries


async def test_a_delivery_is_listed_and_sent_again(
    client: httpx.AsyncClient, kernel: Kernel, workspace: str, post: Postbox
) -> None:
    """A delivery is shown with its parts; one that failed is sent again, and one that arrived is not."""
    post._fates = iter([Refused(permanent=True)])
    deliveries = f"/api/workspaces/{workspace}/deliveries"
    for key, session in (("a", "sid_a"), ("b", "sid_b")):
        owed = Owed(key=key, dispatcher="post", target=f"post:me:{key}", text=key, session=session)
        await kernel.host.outbox.owe(owed, workspace=workspace)
        for _ in range(500):
            if not (await client.get(deliveries, params={"unsettled": "true"})).json()["deliveries"]:
                break
            await asyncio.sleep(0.01)
    second, first = (await client.get(deliveries)).json()["deliveries"]
    assert (first["key"], first["target"], first["text"], first["debt"]) == ("a", "post:me:a", "a", "notice")
    (part,) = first["parts"]
    assert (part["state"], part["attempt"], part["error"]) == ("failed", 1, "refused by the test")
    assert second["parts"][0]["state"] == "sent"
    assert (await client.get(deliveries, params={"session": "sid_a"})).json() == {"deliveries": [first]}
    assert (await client.get(deliveries, params={"limit": "1"})).json() == {"deliveries": [second]}

    reply = await client.post(f"{deliveries}/{first['id']}/retry")
    assert reply.status_code == 200 and reply.json()["parts"][0]["state"] in ("pending", "sending", "sent")
    for _ in range(500):
        if len(post.arrived) == 2:
            break
        await asyncio.sleep(0.01)
    assert [part.text for part in post.arrived] == ["b", "a"]
    reply = await client.post(f"{deliveries}/{second['id']}/retry")
    assert reply.status_code == 409 and "no part that failed" in reply.json()["error"]


@pytest.mark.parametrize("number", ["7", "seven", "-1", "9" * 30])
async def test_a_delivery_or_question_that_is_not_there(client: httpx.AsyncClient, workspace: str, number: str) -> None:
    """A number that nothing has is answered with 404, whatever it looks like."""
    for address, body in ((f"deliveries/{number}/retry", None), (f"questions/{number}/answer", {"approved": True})):
        reply = await client.post(f"/api/workspaces/{workspace}/{address}", json=body)
        assert reply.status_code == 404, address


@pytest.mark.parametrize(
    ("address", "field"),
    [("deliveries?unsettled=perhaps", "unsettled"), ("deliveries?limit=0", "limit"), ("questions?all=2", "all")],
)
async def test_a_parameter_that_is_none(client: httpx.AsyncClient, workspace: str, address: str, field: str) -> None:
    """A parameter that breaks its rule is named."""
    reply = await client.get(f"/api/workspaces/{workspace}/{address}")
    assert reply.status_code == 400 and reply.json()["field"] == field
    assert (await client.get("/api/workspaces/none/deliveries")).status_code == 404


async def test_deliveries_take_full_access(kernel: Kernel, workspace: str) -> None:
    """What all sessions owe is shown to somebody with full access, and nobody else."""
    routes = {route.path: route for _, route in kernel.routes if "/deliveries" in route.path}
    assert len(routes) == 2
    for route in routes.values():
        exchange = Exchange(
            principal=Principal(name="guest", access="workspace"),
            body=None,
            params={"workspace": workspace, "delivery": "1"},
            query={},
            last_event_id=None,
            address="",
            raw=None,  # type: ignore[arg-type]
        )
        with pytest.raises(Forbidden):
            await route.handler(exchange)


async def test_dead_letters_are_found_by_the_state_of_a_part(
    client: httpx.AsyncClient, kernel: Kernel, workspace: str, post: Postbox
) -> None:
    """`state` keeps the deliveries of which a part is in one of these states; another word is refused by name."""
    post._fates = iter([Refused(permanent=True)])
    deliveries = f"/api/workspaces/{workspace}/deliveries"
    for key in "ab":
        owed = Owed(key=key, dispatcher="post", target="post:me:c", text=key)
        await kernel.host.outbox.owe(owed, workspace=workspace)
    await until(lambda: len(post.attempts) == 2)
    await until(lambda: len(post.arrived) == 1)
    found = {}
    for state in ("failed", "sent", "uncertain", "uncertain,failed", ""):
        reply = await client.get(deliveries, params={"state": state})
        found[state] = "".join(each["key"] for each in reply.json()["deliveries"])
    assert found == {"failed": "a", "sent": "b", "uncertain": "", "uncertain,failed": "a", "": "ba"}
    assert (await client.get(deliveries, params={"state": "sent,failed", "limit": "1"})).json()["deliveries"][0][
        "key"
    ] == "b"
    reply = await client.get(deliveries, params={"state": "dead"})
    assert (reply.status_code, reply.json()["field"]) == (400, "state")
