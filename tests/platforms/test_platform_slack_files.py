"""Files come and go as on Slack: three steps up, and down with a token only."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import httpx
import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from .slack import SlackServer
from .slack_echo import client

CONTENT = b"\r\n--bound\x00" + bytes(range(256)) * 8


@pytest.fixture
async def slack() -> AsyncIterator[SlackServer]:
    """A Slack with Kim."""
    async with SlackServer() as slack:
        slack.people.add_user("kim")
        yield slack


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    """A client that follows no redirect."""
    async with httpx.AsyncClient(trust_env=False) as http:
        yield http


@pytest.mark.parametrize("way", ["raw", "multipart"])
async def test_the_three_steps(slack: SlackServer, http: httpx.AsyncClient, way: str) -> None:
    """Bytes that were announced and sent are shared in one message of a thread."""
    web, channel = client(slack), slack.people.add_channel("general", ["kim", "halo"])
    ts = slack.people.say("kim", channel, "send me something")
    announced = await web.files_getUploadURLExternal(filename="a.png", length=len(CONTENT))
    sent: dict[str, Any] = {"content": CONTENT} if way == "raw" else {"files": {"file": ("a.png", CONTENT)}}
    answer = await http.post(announced["upload_url"], **sent)
    assert (answer.status_code, answer.text) == (200, f"OK - {len(CONTENT)}")
    shared: dict[str, Any] = {"channel_id": channel, "thread_ts": ts, "initial_comment": "there"}
    done = await web.files_completeUploadExternal(files=[{"id": announced["file_id"], "title": "A"}], **shared)
    (message,) = slack.people.answers(channel, thread=ts)
    assert (message["shown"], message["files"][0]["name"]) == ("there", "a.png")
    assert slack.people.download(done["files"][0]["id"]) == CONTENT
    info = (await web.files_info(file=announced["file_id"]))["file"]
    assert (info["mimetype"], info["title"], info["channels"]) == ("image/png", "A", [channel])


async def test_an_address_takes_the_announced_bytes_once(slack: SlackServer, http: httpx.AsyncClient) -> None:
    """Another length, a second time and an unknown address are refused, and nothing half can be shared."""
    web = client(slack)
    announced = await web.files_getUploadURLExternal(filename="a.txt", length=3)
    files = [{"id": announced["file_id"], "title": "A"}]
    assert (await http.post(announced["upload_url"], content=b"four")).status_code == 400
    with pytest.raises(SlackApiError, match="file_not_found"):
        await web.files_completeUploadExternal(files=files)
    assert (await http.post(announced["upload_url"], content=b"one")).status_code == 200
    assert (await http.post(announced["upload_url"], content=b"two")).status_code == 404
    await web.files_completeUploadExternal(files=files)
    with pytest.raises(SlackApiError, match="file_not_found"):
        await web.files_completeUploadExternal(files=files)


@pytest.mark.parametrize("fault", ["none", "wrong", "app", "scope"])
async def test_no_token_sees_the_login_page(slack: SlackServer, http: httpx.AsyncClient, fault: str) -> None:
    """Whoever may not read files is led to a page of HTML, with status 200 at its end."""
    slack.people.upload("kim", slack.people.direct("kim", "halo"), "ä #1?.txt", CONTENT)
    (file,) = slack.platform.team.files.values()
    url = slack.platform.board.file_payload(file)["url_private"]
    if fault == "scope":
        slack.app.scopes.discard("files:read")
    tokens = {"wrong": "xoxb-wrong", "app": slack.app.app_token, "scope": slack.app.token}
    headers = {"Authorization": f"Bearer {tokens[fault]}"} if fault in tokens else {}
    assert (await http.get(url, headers=headers)).status_code == 302
    page = await http.get(url, headers=headers, follow_redirects=True)
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    slack.app.scopes.add("files:read")
    got = await http.get(url, headers={"Authorization": f"Bearer {slack.app.token}"})
    assert (got.content, got.headers["content-type"]) == (CONTENT, "text/plain")


async def test_a_lost_upload_can_be_told(slack: SlackServer) -> None:
    """An upload whose answer is lost fails at the client, though the bytes arrived."""
    slack.fault("upload", "lost_answer")
    web: AsyncWebClient = client(slack)
    with pytest.raises(aiohttp.ClientError):
        await web.files_upload_v2(filename="a.txt", content="abc")
    (file,) = slack.platform.team.files.values()
    assert (file.state, file.content) == ("uploaded", b"abc")
