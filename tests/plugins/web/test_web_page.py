"""The chat page in a real browser against a real server."""

from __future__ import annotations

import os
import re
import signal
import threading
from importlib.util import find_spec
from urllib.parse import parse_qs, urlsplit

import pytest

if find_spec("playwright") is None and not os.environ.get("HALO_CI"):
    pytest.skip("playwright is not installed here", allow_module_level=True)
from playwright.sync_api import Page, Route, expect

pytestmark = [pytest.mark.browser, pytest.mark.needs("chromium")]

LONG = "".join(f"{number} 号🍎 " for number in range(60)).strip()


def say(page: Page, text: str) -> None:
    page.get_by_test_id("composer").fill(text)
    page.get_by_test_id("composer").press("Enter")


def session_of(page: Page) -> str:
    expect(page).to_have_url(re.compile("session="))
    return parse_qs(urlsplit(page.url).query)["session"][0]


def ended(page: Page, count: int = 1) -> None:
    """Wait for the end of the turn, from frame to frame: `expect` looks half a second apart."""
    page.get_by_test_id("turn-end").nth(count - 1).wait_for(timeout=20_000)
    expect(page.get_by_test_id("turn-end")).to_have_count(count, timeout=20_000)


def test_a_link_signs_in_and_an_answer_streams(site, stranger: Page) -> None:
    """The one-time link opens the page signed in; an answer grows on it and names its model."""
    stranger.goto(site.link())
    expect(stranger.get_by_test_id("model-name")).to_have_text("Scripted 1")
    expect(stranger.get_by_test_id("workspace").locator("option:checked")).to_have_text(site.folder.name)
    say(stranger, "hold 60")
    answer = stranger.get_by_test_id("message-assistant")
    expect(answer).to_contain_text("3 号🍎")
    early = answer.inner_text()
    expect(stranger.get_by_test_id("working")).to_be_visible()
    site.sign("go").touch()
    ended(stranger)
    assert len(early) < len(LONG)
    assert answer.inner_text() == LONG
    expect(stranger.get_by_test_id("answer-model")).to_have_text("Scripted 1")
    expect(stranger.get_by_test_id("title")).to_have_text("hold 60")
    expect(stranger.get_by_test_id("session")).to_have_count(1)


def test_a_tool_call_shows_name_arguments_and_result(shared_site, page: Page) -> None:
    """A tool call is one folded line; open, it shows what was asked and the first of what came back."""
    page.goto(shared_site.link())
    say(page, "look README.md")
    ended(page)
    tool = page.get_by_test_id("tool-call")
    expect(tool).to_have_attribute("data-outcome", "ok")
    expect(tool).to_contain_text("README.md 3")
    expect(page.get_by_test_id("tool-result")).not_to_be_visible()
    tool.locator("summary").click()
    expect(page.get_by_test_id("tool-arguments")).to_contain_text('"path": "README.md"')
    expect(page.get_by_test_id("tool-result")).to_contain_text("# Orchard")
    expect(tool).to_contain_text("The first 500 of")
    expect(page.get_by_test_id("message-assistant").last).to_have_text("It begins with # Orc, and that is all.")


def test_stop_ends_the_turn_and_keeps_what_came(shared_site, page: Page) -> None:
    """Stop ends a turn that would never end; the page says so and takes the next message."""
    page.goto(shared_site.link())
    say(page, "hang")
    expect(page.get_by_test_id("message-assistant")).to_contain_text("I begin,")
    page.get_by_test_id("stop").click()
    expect(page.get_by_test_id("turn-end")).to_have_attribute("data-outcome", "cancelled")
    expect(page.get_by_test_id("stop")).to_have_count(0)
    expect(page.get_by_test_id("message-assistant")).to_contain_text("I begin,")
    say(page, "hello")
    ended(page, 2)
    expect(page.get_by_test_id("message-assistant").last).to_have_text("You said: hello")


def test_a_reload_in_the_middle_loses_and_repeats_nothing(shared_site, page: Page) -> None:
    """A page that is loaded anew while an answer streams shows exactly that answer in the end."""
    page.goto(shared_site.link())
    say(page, "count 60")
    expect(page.get_by_test_id("message-assistant")).to_contain_text("9 号🍎")
    page.reload()
    expect(page.get_by_test_id("message-assistant")).to_contain_text("9 号🍎")
    ended(page)
    assert page.get_by_test_id("message-assistant").inner_text() == LONG
    expect(page.get_by_test_id("message-user")).to_have_count(1)


def test_a_lost_connection_is_said_and_mended(mortal_site, page: Page) -> None:
    """When the server is killed the page says so, keeps what it shows, and goes on when the server is back."""
    page.goto(mortal_site.link())
    expect(page.get_by_test_id("workspace")).to_have_text("orchard-0")
    say(page, "hello")
    ended(page)
    mortal_site.stop(signal.SIGKILL)
    expect(page.get_by_test_id("connection")).to_have_attribute("data-state", "lost")
    say(page, "are you there")
    expect(page.get_by_test_id("message-outgoing")).to_have_attribute("data-state", "unsent")
    mortal_site.start()
    expect(page.get_by_test_id("message-assistant").last).to_have_text("You said: are you there", timeout=20_000)
    expect(page.get_by_test_id("connection")).to_have_count(0)
    ended(page, 2)
    expect(page.get_by_test_id("message-user")).to_have_text(["hello", "are you there"])


def test_a_server_that_stops_says_goodbye(mortal_site, page: Page) -> None:
    """A server that is stopped in order is shown as stopped, and the turn it landed goes on after its next start."""
    page.goto(mortal_site.link())
    say(page, "count 40")
    expect(page.get_by_test_id("message-assistant")).to_contain_text("2 号🍎")
    mortal_site.stop()
    expect(page.get_by_test_id("connection")).to_have_attribute("data-state", "stopped")
    mortal_site.start()
    expect(page.get_by_test_id("connection")).to_have_count(0, timeout=20_000)
    expect(page.get_by_test_id("turn-end").last).to_have_attribute("data-outcome", "succeeded", timeout=20_000)
    expect(page.get_by_test_id("message-user")).to_have_count(1)


def test_a_lost_receipt_does_not_double_the_message(site, page: Page) -> None:
    """A message whose receipt was lost is sent again with the same key and is answered once, in one session."""
    page.goto(site.link())
    lost = threading.Event()

    def lose(route: Route) -> None:
        if lost.is_set():
            route.continue_()
            return
        lost.set()
        route.fetch()
        route.abort()

    page.route("**/api/page/chat", lose)
    say(page, "once")
    ended(page)
    assert lost.is_set()
    session = session_of(page)
    expect(page.get_by_test_id("message-outgoing")).to_have_count(0)
    assert [row["kind"] for row in site.messages(session)] == ["user", "assistant"]
    expect(page.get_by_test_id("session")).to_have_count(1)


def test_a_message_to_a_busy_session_waits_its_turn(shared_site, page: Page) -> None:
    """Sending while an answer streams queues the message, shown as such, and it is answered next."""
    page.goto(shared_site.link())
    say(page, "hold 50")
    expect(page.get_by_test_id("message-assistant")).to_contain_text("1 号🍎")
    say(page, "and this")
    expect(page.get_by_test_id("message-outgoing")).to_contain_text("Waiting")
    shared_site.sign("go").touch()
    expect(page.get_by_test_id("message-assistant").last).to_have_text("You said: and this", timeout=20_000)
    expect(page.get_by_test_id("message-outgoing")).to_have_count(0)
    expect(page.get_by_test_id("message-user")).to_have_text(["hold 50", "and this"])


def test_an_error_is_a_sentence_with_advice(shared_site, page: Page) -> None:
    """A failed turn shows what went wrong and what to do."""
    page.goto(shared_site.link())
    say(page, "fail")
    ended(page)
    error = page.get_by_test_id("error")
    expect(error).to_contain_text("401: the key is wrong")
    expect(error).to_have_attribute("data-kind", "account")
    assert len(error.locator("p").all()) >= 1


def test_markdown_is_shown_and_its_traps_are_not(shared_site, page: Page) -> None:
    """Tables, code and links are shown; HTML, scripts, script links and pictures from elsewhere do nothing."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(shared_site.link())
    say(page, "markdown")
    ended(page)
    answer = page.get_by_test_id("message-assistant")
    expect(answer.locator("h1")).to_have_text("Notes")
    expect(answer.locator("td").first).to_have_text("apple")
    expect(answer.locator("pre code")).to_contain_text('print("3 < 4")')
    expect(answer.locator("a").first).to_have_attribute("href", "https://example.org/a?b=1&c=2")
    assert answer.locator("img, script, input").count() == 0
    assert "broken" not in page.title()
    assert all(url.startswith(shared_site.url) for url in asked)
    assert not answer.locator("a[href^=javascript]").count()


def test_rules_are_never_shown_as_a_model(site_of_rules, page: Page) -> None:
    """Without a model the page says so, and how to get one with what was found on this machine."""
    page.goto(site_of_rules.link())
    banner = page.get_by_test_id("no-model")
    expect(banner).to_contain_text("No model is running — built-in rules answer")
    expect(page.get_by_test_id("model-name")).to_have_text("Built-in rules")
    banner.locator("summary").click()
    expect(page.get_by_test_id("offers")).to_contain_text("no server answers at localhost:11434")
    say(page, "hello")
    ended(page)
    expect(page.get_by_test_id("answer-model")).to_have_text("Built-in rules")


def test_sessions_are_listed_opened_and_begun(site, page: Page) -> None:
    """The side lists sessions; one opens with its history, the back button leads to the former one."""
    page.goto(site.link())
    say(page, "first")
    ended(page)
    page.get_by_test_id("new-session").click()
    expect(page.get_by_test_id("message-user")).to_have_count(0)
    say(page, "second")
    ended(page)
    expect(page.get_by_test_id("session")).to_have_count(2)
    page.get_by_test_id("session").filter(has_text="first").click()
    expect(page.get_by_test_id("message-user")).to_have_text("first")
    page.go_back()
    expect(page.get_by_test_id("message-user")).to_have_text("second")


def test_enter_sends_and_shift_enter_breaks_the_line(shared_site, page: Page) -> None:
    """Shift+Enter starts a line, Enter sends all lines, and an empty message is not sent."""
    page.goto(shared_site.link())
    box = page.get_by_test_id("composer")
    box.press("Enter")
    box.press_sequentially("one")
    box.press("Shift+Enter")
    box.press_sequentially("two")
    expect(page.get_by_test_id("message-user")).to_have_count(0)
    box.press("Enter")
    expect(page.get_by_test_id("message-user")).to_have_text("one\ntwo")
    expect(box).to_have_value("")


def test_who_is_not_signed_in_is_told_how(shared_site, stranger: Page) -> None:
    """Without a cookie the page says how to get in and shows nothing else."""
    stranger.goto(f"{shared_site.url}/web/")
    expect(stranger.get_by_test_id("signed-out")).to_contain_text("halo up")
    expect(stranger.get_by_test_id("password")).to_have_count(0)
    expect(stranger.get_by_test_id("composer")).to_have_count(0)


def test_a_password_signs_in(shared_site, stranger: Page) -> None:
    """Where a password is asked for, a wrong one is said to be wrong and the right one opens the page."""
    link = shared_site.link()
    stranger.route(
        "**/api/auth/check", lambda route: route.fulfill(status=200 if stranger.context.cookies() else 401, json={})
    )

    def login(route: Route) -> None:
        if route.request.post_data_json != {"password": "apple-tree-7"}:
            route.fulfill(status=401, json={"error": "Invalid password"})
            return
        stranger.request.get(link)  # sets the cookie, as the sign-in plugin would
        route.fulfill(status=200, json={"ok": True})

    stranger.route("**/api/auth/login", login)
    stranger.goto(f"{shared_site.url}/web/")
    stranger.get_by_test_id("password").fill("wrong")
    stranger.get_by_test_id("sign-in").click()
    expect(stranger.get_by_test_id("sign-in-error")).to_have_text("That is not the password.")
    stranger.get_by_test_id("password").fill("apple-tree-7")
    stranger.get_by_test_id("sign-in").click()
    expect(stranger.get_by_test_id("composer")).to_be_visible()


def test_a_narrow_page_has_its_chats_in_a_drawer(shared_site, page: Page) -> None:
    """On a phone the side is a drawer, and nothing is wider than the screen."""
    page.set_viewport_size({"width": 360, "height": 640})
    page.goto(shared_site.link())
    say(page, "markdown")
    ended(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    expect(page.get_by_test_id("new-session")).not_to_be_visible()
    page.get_by_test_id("menu").click()
    page.get_by_test_id("new-session").click()
    expect(page.get_by_test_id("new-session")).not_to_be_visible()
    expect(page.get_by_test_id("message-user")).to_have_count(0)


def test_the_page_speaks_chinese_to_a_chinese_browser(shared_site, browser) -> None:
    """The browser's language decides the page's."""
    context = browser.new_context(locale="zh-CN")
    page = context.new_page()
    page.goto(shared_site.link())
    expect(page.get_by_test_id("new-session")).to_have_text("新对话")
    assert page.evaluate("document.documentElement.lang") == "zh-CN"
    context.close()


def test_an_unknown_session_leads_to_a_new_chat(shared_site, page: Page) -> None:
    """A session in the address that is not there is said so, and a new chat is open."""
    page.goto(shared_site.link(session="web-gone"))
    expect(page.get_by_test_id("complaint")).to_contain_text("does not exist")
    say(page, "hello")
    ended(page)
    expect(page.get_by_test_id("message-assistant")).to_have_text("You said: hello")


def test_everything_on_the_page_has_a_name(shared_site, page: Page) -> None:
    """Every button, field and picture has a name for a screen reader."""
    page.goto(shared_site.link())
    say(page, "look README.md")
    ended(page)
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("button, textarea, select, input, img")].filter((one) =>
          !(one.getAttribute("aria-label") || one.textContent.trim() || one.getAttribute("alt") !== null
            || document.querySelector(`label[for="${one.id}"]`) || one.closest("label"))).map((one) => one.outerHTML)"""
    )
    assert nameless == []


def test_the_page_lives_under_any_prefix(shared_site, stranger: Page) -> None:
    """Behind a proxy that puts the server under a path, everything the page asks for is under that path."""
    outside: list[str] = []

    def strip(route: Route) -> None:
        path = urlsplit(route.request.url).path
        if not path.startswith("/halo/"):
            outside.append(path)
        route.continue_(url=route.request.url.replace("/halo/", "/", 1))

    stranger.request.get(shared_site.link())
    stranger.route("**/*", strip)
    stranger.goto(f"{shared_site.url}/halo/web/")
    say(stranger, "hello")
    ended(stranger)
    expect(stranger.get_by_test_id("message-assistant")).to_have_text("You said: hello")
    assert outside == []
