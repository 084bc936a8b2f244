"""The chat that other pages embed, in a real browser: a page of another origin, a token, a real server."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import pytest

if find_spec("playwright") is None and not os.environ.get("HALO_CI"):
    pytest.skip("playwright is not installed here", allow_module_level=True)
from playwright.sync_api import Browser, BrowserContext, FrameLocator, Page, expect

pytestmark = [pytest.mark.browser, pytest.mark.needs("chromium")]

PICTURES = Path(__file__).parents[3] / "docs" / "images"
LONG = "".join(f"{number} 号🍎 " for number in range(60)).strip()
SHOP = """<!doctype html><html lang="en"><head><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Orchard</title></head><body style="font-family: sans-serif; margin: 2rem; color: #555">
<h1>The orchard</h1><p>Apples, pears, and somebody to ask about them.</p>{body}
<script src="{url}/web/halo-chat.js" {data}></script></body></html>"""


class Quiet(SimpleHTTPRequestHandler):
    """Serves a folder, and says nothing of it."""

    def log_message(self, *_: object) -> None:
        pass


@dataclass
class Shop:
    """Somebody's own web site, which embeds the chat."""

    url: str
    folder: Path

    def page(self, at, name: str = "shop", *, body: str = "", data: str = "", token: str | None = None) -> str:
        """Write a page with the snippet; return its address."""
        given = f'data-token="{at.visitor if token is None else token}" {data}'
        (self.folder / f"{name}.html").write_text(SHOP.format(body=body, url=at.url, data=given))
        return f"{self.url}/{name}.html"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("shop")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield Shop(f"http://localhost:{server.server_port}", folder)
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def visitor(browser: Browser) -> Iterator[BrowserContext]:
    """The browser of somebody who was never here."""
    context = browser.new_context(locale="en-US", viewport={"width": 1100, "height": 800})
    context.set_default_timeout(15_000)
    yield context
    context.close()


def opened(page: Page, address: str) -> FrameLocator:
    """Open a page and its chat in the corner."""
    page.goto(address)
    page.get_by_role("button", name="Ask the orchard").click()
    return page.frame_locator("iframe")


def inside(page: Page, address: str) -> FrameLocator:
    """Open a page whose chat fills an element."""
    page.goto(address)
    return page.frame_locator("iframe")


TITLE = 'data-title="Ask the orchard"'
FILLED = f'{TITLE} data-target="#chat"'
ROOM = '<div id="chat" style="height: 520px; border: 1px solid #ddd"></div>'


def say(chat: FrameLocator, text: str) -> None:
    chat.get_by_test_id("composer").fill(text)
    chat.get_by_test_id("composer").press("Enter")


def ended(chat: FrameLocator, count: int = 1) -> None:
    expect(chat.get_by_test_id("turn-end")).to_have_count(count, timeout=20_000)


def picture(page: Page, name: str) -> None:
    """Make the picture of the docs, where that is asked for."""
    if os.environ.get("DOCS_PICTURES"):
        PICTURES.mkdir(exist_ok=True)
        page.screenshot(path=PICTURES / f"{name}.png")


def test_one_line_puts_a_chat_into_a_page(shared_site, shop: Shop, visitor: BrowserContext) -> None:
    """The snippet adds a button; behind it a question is sent and its answer streams. The token is in no address."""
    page, asked = visitor.new_page(), []
    page.on("request", lambda request: asked.append(request.url))
    chat = opened(page, shop.page(shared_site, data=TITLE))
    expect(chat.locator("h1")).to_have_text("Ask the orchard")
    say(chat, "hold 60")
    answer = chat.get_by_test_id("message-assistant")
    expect(answer).to_contain_text("3 号🍎")
    expect(chat.get_by_test_id("working")).to_be_visible()
    shared_site.sign("go").touch()
    ended(chat)
    assert answer.inner_text() == LONG
    assert not [url for url in asked if shared_site.visitor in url]
    own = {f"{urlsplit(url).scheme}://{urlsplit(url).netloc}" for url in asked}
    assert own <= {shop.url, shared_site.url}


def test_the_pictures_of_the_docs(shared_site, shop: Shop, visitor: BrowserContext) -> None:
    """A chat in the corner of a page, and the same on a phone, look as the docs show them."""
    page = visitor.new_page()
    chat = opened(page, shop.page(shared_site, data=TITLE))
    say(chat, "When are apples ripe?")
    ended(chat)
    say(chat, "look README.md")
    ended(chat, 2)
    picture(page, "embedded-chat")
    page.set_viewport_size({"width": 390, "height": 740})
    expect(chat.get_by_test_id("composer")).to_be_visible()
    picture(page, "embedded-chat-phone")


def test_stop_ends_the_turn(shared_site, shop: Shop, visitor: BrowserContext) -> None:
    """Stop ends a turn that would never end, keeps what came, and the next message is answered."""
    chat = inside(visitor.new_page(), shop.page(shared_site, body=ROOM, data=FILLED))
    say(chat, "hang")
    expect(chat.get_by_test_id("message-assistant")).to_contain_text("I begin,")
    chat.get_by_test_id("stop").click()
    expect(chat.get_by_test_id("turn-end")).to_have_attribute("data-outcome", "cancelled")
    say(chat, "hello")
    ended(chat, 2)
    expect(chat.get_by_test_id("message-assistant").last).to_contain_text("You said:")


def test_a_reload_in_the_middle_loses_and_repeats_nothing(shared_site, shop: Shop, visitor: BrowserContext) -> None:
    """A page that is loaded anew while an answer streams comes back to it, whole and once."""
    page = visitor.new_page()
    chat = inside(page, shop.page(shared_site, body=ROOM, data=FILLED))
    say(chat, "count 60")
    expect(chat.get_by_test_id("message-assistant")).to_contain_text("9 号🍎")
    page.reload()
    expect(chat.get_by_test_id("message-assistant")).to_contain_text("9 号🍎")
    ended(chat)
    assert chat.get_by_test_id("message-assistant").inner_text() == LONG
    expect(chat.get_by_test_id("message-user")).to_have_count(1)


def test_two_tabs_are_one_conversation(shared_site, shop: Shop, visitor: BrowserContext) -> None:
    """What is asked in one tab is seen in the other as it streams; one that was open before comes along."""
    address = shop.page(shared_site, body=ROOM, data=FILLED)
    first, second = (inside(visitor.new_page(), address) for _ in range(2))
    expect(second.get_by_test_id("composer")).to_be_visible()
    say(first, "count 20")
    expect(second.get_by_test_id("message-user")).to_have_text("count 20")
    ended(first)
    ended(second)
    say(second, "hello")
    ended(first, 2)
    assert first.get_by_test_id("message-user").all_inner_texts() == ["count 20", "hello"]
    third = inside(visitor.new_page(), address)
    ended(third, 2)


def test_visitors_do_not_share_a_conversation_unasked(shared_site, shop: Shop, browser: Browser) -> None:
    """Another browser with the same page begins a conversation of its own."""
    address = shop.page(shared_site, body=ROOM, data=FILLED)
    for text in ("first", "second"):
        context = browser.new_context(locale="en-US")
        chat = inside(context.new_page(), address)
        say(chat, text)
        ended(chat)
        expect(chat.get_by_test_id("message-user")).to_have_text([text])
        context.close()


def test_it_fits_a_phone(shared_site, shop: Shop, visitor: BrowserContext) -> None:
    """At the width of a phone nothing is wider than the screen, in the page and in the chat, and it can be closed."""
    page = visitor.new_page()
    page.set_viewport_size({"width": 360, "height": 640})
    chat = opened(page, shop.page(shared_site, data=TITLE))
    say(chat, "markdown")
    ended(chat)
    frame = next(each for each in page.frames if each.url.endswith("/web/embed.html"))
    for each in (page, frame):
        assert each.evaluate("document.documentElement.scrollWidth") <= 360
    expect(chat.get_by_test_id("composer")).to_be_in_viewport()
    page.get_by_role("button", name="Ask the orchard").click()
    expect(page.locator("iframe")).not_to_be_visible()


def test_a_new_conversation_begins_on_request(shared_site, shop: Shop, visitor: BrowserContext) -> None:
    """The plus begins a conversation without the former one, after a reload too."""
    page = visitor.new_page()
    chat = inside(page, shop.page(shared_site, body=ROOM, data=FILLED))
    say(chat, "hello")
    ended(chat)
    chat.get_by_test_id("new-session").click()
    expect(chat.get_by_test_id("message-user")).to_have_count(0)
    say(chat, "again")
    ended(chat)
    page.reload()
    expect(chat.get_by_test_id("message-user")).to_have_text(["again"])


def test_a_question_is_answered_in_the_chat(shared_site, shop: Shop, visitor: BrowserContext) -> None:
    """A question that keeps a turn waiting is a card, and its answer lets the turn go on."""
    chat = inside(visitor.new_page(), shop.page(shared_site, body=ROOM, data=FILLED))
    say(chat, "buy lamp")
    expect(chat.get_by_test_id("question-text")).to_have_text("Buy lamp?")
    chat.get_by_test_id("option").first.click()
    ended(chat)
    expect(chat.get_by_test_id("question")).to_have_attribute("data-state", "approved")


@pytest.mark.parametrize("token", ["", "wrong"])
def test_a_bad_token_is_said(mortal_site, shop: Shop, visitor: BrowserContext, token: str) -> None:
    """Without a token that is accepted the chat says so, at the latest when something is asked."""
    chat = inside(visitor.new_page(), shop.page(mortal_site, body=ROOM, data=FILLED, token=token))
    if token:
        say(chat, "hello")
    expect(chat.get_by_test_id("refused-token")).to_contain_text("token")


def test_a_killed_server_is_waited_for(mortal_site, shop: Shop, visitor: BrowserContext) -> None:
    """A server that is killed is said to be lost; what was asked meanwhile is answered once when it is back."""
    chat = inside(visitor.new_page(), shop.page(mortal_site, body=ROOM, data=FILLED))
    say(chat, "hello")
    ended(chat)
    mortal_site.stop(signal.SIGKILL)
    expect(chat.get_by_test_id("connection")).to_have_attribute("data-state", "lost")
    say(chat, "are you there")
    expect(chat.get_by_test_id("message-outgoing")).to_have_attribute("data-state", "unsent")
    mortal_site.start()
    ended(chat, 2)
    expect(chat.get_by_test_id("message-user")).to_have_text(["hello", "are you there"])
    expect(chat.get_by_test_id("connection")).to_have_count(0)


def test_a_page_of_another_origin_uses_the_routes_itself(shared_site, shop: Shop, visitor: BrowserContext) -> None:
    """A page without the snippet may call the routes with the token: the browser lets it read the stream."""
    page = visitor.new_page()
    (shop.folder / "plain.html").write_text("<!doctype html><title>Plain</title>")
    page.goto(f"{shop.url}/plain.html")
    script = """async ([url, token]) => {
      const headers = { "x-token": token, "Content-Type": "application/json" };
      const options = { method: "POST", headers, body: JSON.stringify({ message: "hello", clientMsgId: "k" }) };
      const reply = await fetch(`${url}/api/web/chat`, options);
      const other = fetch(`${url}/api/page/workspaces`, { credentials: "include" });
      const page = await other.then(() => "read", () => "kept");
      return [reply.status, await reply.text(), page];
    }"""
    status, text, page_routes = page.evaluate(script, [shared_site.url, shared_site.visitor])
    assert status == 200
    assert '"type":"complete"' in text
    assert page_routes == "kept"


def test_the_operators_page_is_not_framed(shared_site, shop: Shop, visitor: BrowserContext) -> None:
    """Only the chat that is made for it may stand in a frame of another page."""
    page = visitor.new_page()
    (shop.folder / "trap.html").write_text(f'<iframe src="{shared_site.url}/web/"></iframe>')
    page.goto(f"{shop.url}/trap.html")
    page.wait_for_timeout(500)
    assert all(frame.locator("#app").count() == 0 for frame in page.frames)
