"""A session as a document: for its owner alone, valid whatever its history is, without secrets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import halo_api
from halo_api.export import _fenced, masked
from halo_kernel import Incoming, Kernel, Message, Principal, Text, ToolCall, ToolResult, repair_history
from halo_kernel.testing import Calls, Hang, NoteTool, ScriptedModel, a_session, front, running_kernel, until
from halo_lib_settings import keep_secret


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel([Calls([("note", {"text": "```\nfenced\n```"})], text="I note it")])


@pytest.fixture
async def kernel(tmp_path: Path, model: ScriptedModel) -> AsyncIterator[Kernel]:
    async with running_kernel(tmp_path / "home", model=model, tools=[NoteTool()], extra={"api": halo_api}) as kernel:
        yield kernel


@pytest.fixture
async def client(kernel: Kernel) -> AsyncIterator[httpx.AsyncClient]:
    face = front(kernel)
    base = "http://localhost:9527/api/workspaces"
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(face.app), base_url=base, headers=face.headers
    ) as client:
        yield client


async def test_a_session_as_json_and_as_markdown(kernel: Kernel, client: httpx.AsyncClient, tmp_path: Path) -> None:
    """JSON has what people see and a history that any provider takes; markdown has each text, and fences that hold."""
    session = await a_session(kernel, tmp_path / "w")
    await session.prompt(Incoming(text="# note this")).result
    path = f"/{session.info.workspace}/sessions/{session.info.id}/export"
    found = (await client.get(path)).json()
    assert (found["format"], found["session"]["id"]) == (1, session.info.id)
    assert [item["kind"] for item in found["items"]] == ["user", "assistant", "tool", "assistant"]
    assert [message["role"] for message in found["messages"]] == ["user", "assistant", "user", "assistant"]
    reply = await client.get(path, params={"format": "md"})
    assert reply.headers["content-type"].startswith("text/markdown")
    for text in ("## You, ", "# note this", "I note it", "**Tool** `note`: ok", "fenced"):
        assert text in reply.text


async def test_a_session_that_was_cut_is_exported(
    kernel: Kernel, client: httpx.AsyncClient, tmp_path: Path, model: ScriptedModel
) -> None:
    """One that runs, or was cut in a call, is exported at once, with each call answered; nothing is changed by it."""
    session = await a_session(kernel, tmp_path / "w")
    await session.prompt(Incoming(text="note this")).result
    model.then(Hang("it begins"))
    await session.submit(Incoming(text="and this"))
    await until(lambda: model.active)
    head = session.info.head
    path = f"/{session.info.workspace}/sessions/{session.info.id}/export"
    found = (await client.get(path)).json()
    calls = [block for message in found["messages"] for block in message["content"] if block["type"] == "tool_call"]
    results = [block for message in found["messages"] for block in message["content"] if block["type"] == "tool_result"]
    assert [call["id"] for call in calls] == [result["call"] for result in results]
    assert session.info.head == head


async def test_a_secret_is_not_exported(kernel: Kernel, client: httpx.AsyncClient, tmp_path: Path) -> None:
    """A secret that became one after it was said is masked too, in both kinds of document."""
    session = await a_session(kernel, tmp_path / "w")
    await session.prompt(Incoming(text="my key is tr0ub4dor-and-3")).result
    keep_secret(kernel.host.seen_by("api"), "key", "tr0ub4dor-and-3")
    path = f"/{session.info.workspace}/sessions/{session.info.id}/export"
    for kind in ("json", "md"):
        text = (await client.get(path, params={"format": kind})).text
        assert "my key is" in text and "tr0ub4dor" not in text


async def test_a_foreign_session_is_not_found(kernel: Kernel, client: httpx.AsyncClient, tmp_path: Path) -> None:
    """Whose session it is not, for them it does not exist; so it is with one that does not."""
    other = Principal(name="somebody", kind="person", access="full")
    foreign = await a_session(kernel, tmp_path / "w", other)
    for name in (foreign.info.id, "nothing"):
        reply = await client.get(f"/{foreign.info.workspace}/sessions/{name}/export")
        assert (reply.status_code, reply.json()["type"]) == (404, "NotFound")
    odd = await client.get(f"/{foreign.info.workspace}/sessions/{foreign.info.id}/export?format=xml")
    assert (odd.status_code, odd.json()["field"]) == (400, "format")


@given(st.text(alphabet="`\na ", max_size=40))
def test_a_fence_is_longer_than_any_in_it(text: str) -> None:
    """A code block ends where it should: no line of its text can close it."""
    first, *lines, end = _fenced(text).split("\n")
    assert first == end == "`" * len(end)
    assert "\n".join(lines) == text
    assert end not in text


@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_masking_changes_texts_alone(value: object) -> None:
    """Each text is masked wherever it is; names of fields, numbers and the shape stay."""
    assert masked(value, lambda text: text) == value
    assert masked({"secret": ["secret", 1]}, lambda text: text.replace("secret", "***")) == {"secret": ["***", 1]}


def test_a_history_is_repaired_as_the_kernel_does() -> None:
    """A call without its result has one, as before a model is called."""
    call = ToolCall("1", "note", {})
    history = repair_history([Message("user", (Text("x"),)), Message("assistant", (call,))])
    assert isinstance(history[-1].content[0], ToolResult)
