"""The kernel's own routes: health, links, the front page; refused upgrades."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from halo_kernel import Kernel, Plugin
from halo_kernel.testing import Front, VirtualClock, front, running_kernel


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def kernel(tmp_path: Path, clock: VirtualClock) -> AsyncIterator[Kernel]:
    async with running_kernel(tmp_path / "home", clock=clock) as kernel:
        yield kernel


@pytest.fixture
def face(kernel: Kernel) -> Front:
    return front(kernel)


@pytest.fixture
async def browser(face: Front) -> AsyncIterator[httpx.AsyncClient]:
    """A browser that has not signed in."""
    transport = httpx.ASGITransport(face.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost:9527") as client:
        yield client


async def make_link(browser: httpx.AsyncClient, face: Front, target: str = "/web/") -> str:
    answer = await browser.post("/api/auth/link", json={"next": target}, headers=face.headers)
    assert answer.status_code == 200
    assert answer.json()["expires_in"] == 300
    return answer.json()["url"]


async def test_health_is_public(browser: httpx.AsyncClient) -> None:
    """Anyone on this machine may ask whether the server answers."""
    answer = (await browser.get("/api/health")).json()
    assert answer["status"] == "ok"
    assert answer.keys() == {"status", "version", "pid", "uptime"}


async def test_the_server_describes_itself(
    browser: httpx.AsyncClient, face: Front, clock: VirtualClock, kernel: Kernel
) -> None:
    """The operator sees home, uptime and plugins."""
    clock.advance(90)
    answer = (await browser.get("/api/server", headers=face.headers)).json()
    assert answer["home"] == str(kernel.home)
    assert answer["uptime"] == 90
    (found,) = [each for each in answer["plugins"] if each["name"] == "test"]
    assert (found["distribution"], found["version"], found["state"]) == ("halo-kernel", "0.1.0", "loaded")
    assert (found["reason"], found["advice"], found["capabilities"]) == ("", "", [])
    assert "provide_models" in found["hooks"]


async def test_a_link_signs_a_browser_in_once(browser: httpx.AsyncClient, face: Front) -> None:
    """The link sets the cookie and leads on, once; the browser that used it may click it again, no other."""
    link = await make_link(browser, face, "/web/?workspace=a")
    assert link.startswith("http://localhost:9527/auth/link?token=")
    first = await browser.get(link)
    assert (first.status_code, first.headers["location"]) == (303, "/web/?workspace=a")
    assert first.headers["referrer-policy"] == "no-referrer"
    assert (await browser.get("/api/server")).status_code == 200
    again = await browser.get(link)
    assert (again.status_code, again.headers["location"]) == (303, "/web/?workspace=a")
    browser.cookies.clear()
    stranger = await browser.get(link)
    assert stranger.status_code == 401
    assert "set-cookie" not in stranger.headers
    assert "used already" in stranger.json()["error"]


async def test_a_link_ends(browser: httpx.AsyncClient, face: Front, clock: VirtualClock) -> None:
    """After five minutes a link signs nobody in, and says so to a person in plain text."""
    link = await make_link(browser, face)
    clock.advance(300)
    answer = await browser.get(link, headers={"Accept": "text/html"})
    assert answer.status_code == 401
    assert answer.headers["content-type"].startswith("text/plain")
    assert "halo up" in answer.text


async def test_looking_at_a_link_does_not_use_it(browser: httpx.AsyncClient, face: Front) -> None:
    """A preview or a prefetch leaves the link good."""
    link = await make_link(browser, face)
    assert (await browser.head(link)).status_code == 204
    assert (await browser.get(link, headers={"Sec-Purpose": "prefetch"})).status_code == 204
    assert (await browser.get(link)).status_code == 303


async def test_made_up_links_keep_nobody_out(browser: httpx.AsyncClient, face: Front) -> None:
    """Any page can send this browser to made-up links; a good one works all the same."""
    link = await make_link(browser, face)
    for _ in range(8):
        assert (await browser.get("/auth/link?token=guess")).status_code == 401
    assert (await browser.get(link)).status_code == 303


async def test_a_link_without_a_token_lets_nobody_in(browser: httpx.AsyncClient) -> None:
    """What is no link is no credential."""
    answer = await browser.get("/auth/link")
    assert (answer.status_code, answer.json()["type"]) == (401, "Unauthorized")


@pytest.mark.parametrize(
    "target", ["https://evil.example", "//evil.example", "/\\evil.example", "web", "", "/a\r\nSet-Cookie: x=1", "/a\\b"]
)
async def test_a_link_leads_nowhere_else(browser: httpx.AsyncClient, face: Front, target: str) -> None:
    """A link leads to a path of this server and nowhere else, whoever wrote it."""
    made = await browser.post("/api/auth/link", json={"next": target}, headers=face.headers)
    followed = await browser.get("/auth/link", params={"next": target}, headers=face.headers)
    for answer in (made, followed):
        assert (answer.status_code, answer.json()["field"]) == (400, "next")


async def test_only_the_operator_makes_links(browser: httpx.AsyncClient) -> None:
    """A stranger makes no link."""
    assert (await browser.post("/api/auth/link", json={})).status_code == 401


async def test_a_kernel_in_a_command_makes_no_links(kernel: Kernel) -> None:
    """No browser reaches a private socket, so there is no link to it."""
    face = front(kernel, url="unix:/nowhere")
    transport = httpx.ASGITransport(face.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.post("/api/auth/link", json={}, headers=face.headers)
    assert (answer.status_code, answer.json()["type"]) == (409, "Conflict")


async def test_the_front_page_says_what_is_missing(browser: httpx.AsyncClient) -> None:
    """Without any plugin that has a page, `/` is one sentence that says what to do."""
    answer = await browser.get("/", headers={"Accept": "text/html"})
    assert answer.status_code == 404
    assert "pip install halo-web" in answer.text


@pytest.mark.parametrize(
    ("pages", "setting", "leads_to"),
    [
        ({"web": "/web/"}, "", "/web/"),
        ({"web": "/web/", "admin": "/admin/"}, "", "/admin/"),
        ({"web": "/web/", "admin": "/admin/", "notes": "/notes/"}, "notes", "/notes/"),
        ({"web": "/web/"}, "gone", "/web/"),
    ],
)
async def test_the_front_page_leads_on(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, pages: dict[str, str], setting: str, leads_to: str
) -> None:
    """`/` is the page of the plugin that the setting names, else of admin, else of web; below the proxy's path."""
    rows = [Plugin(name=name, pages=(page,), state="degraded") for name, page in pages.items()]
    rows += [Plugin(name="admin", pages=("/gone/",), state="failed")] if "admin" not in pages else []
    monkeypatch.setattr(kernel.plugins, "list", lambda: rows)
    (kernel.home / "secrets" / "settings.yaml").write_text(f"server: {{home: '{setting}', root_path: /halo}}\n")
    transport = httpx.ASGITransport(front(kernel).app, root_path="/halo")
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.get("/halo/")
        assert (answer.status_code, answer.headers["location"]) == (303, f"/halo{leads_to}")
        assert (await client.get("/api/health")).status_code == 200


async def test_upgrades_are_refused(face: Front) -> None:
    """No path takes a WebSocket, one that answers HTTP neither."""
    for path in ("/ws", "/api/health"):
        sent: list[Any] = []

        async def send(message: Any, sent: list[Any] = sent) -> None:
            sent.append(message)

        scope = {"type": "websocket", "path": path, "root_path": "", "query_string": b"", "headers": []}
        await face.app(scope, send, send)
        assert [each["type"] for each in sent] == ["websocket.close"]


# OpenAPI
