"""Commands on the chat page, in a real browser against a real server."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from urllib.parse import parse_qs, urlsplit

import pytest

if find_spec("playwright") is None and not os.environ.get("HALO_CI"):
    pytest.skip("playwright is not installed here", allow_module_level=True)
from playwright.sync_api import Page, expect

pytestmark = [pytest.mark.browser, pytest.mark.needs("chromium")]


def say(page: Page, text: str) -> None:
    page.get_by_test_id("composer").fill(text)
    page.get_by_test_id("composer").press("Enter")


def session_of(page: Page) -> str:
    expect(page).to_have_url(re.compile("session="))
    return parse_qs(urlsplit(page.url).query)["session"][0]


def test_a_command_is_a_line_and_its_answer(shared_site, page: Page) -> None:
    """What a person asked and the answer are shown, line by line and as text, once, and after a reload too."""
    page.goto(shared_site.link())
    say(page, "/go")
    for _ in range(2):
        expect(page.get_by_test_id("notice")).to_have_text("One line\nand <b>another</b>", use_inner_text=True)
        expect(page.get_by_test_id("message-user")).to_have_text("/go")
        expect(page.get_by_test_id("message-outgoing")).to_have_count(0)
        expect(page.get_by_test_id("working")).to_have_count(0)
        page.reload()
    say(page, "hello")
    expect(page.get_by_test_id("message-assistant")).to_have_text("You said: hello")


def test_the_page_goes_on_where_a_command_says(shared_site, page: Page) -> None:
    """The page that asked opens the session that the answer names; who looks at the old one stays there."""
    page.goto(shared_site.link())
    say(page, "hello")
    expect(page.get_by_test_id("turn-end")).to_have_count(1, timeout=20_000)
    old = session_of(page)
    other = page.context.new_page()
    other.goto(shared_site.link(old))
    expect(other.get_by_test_id("message-user")).to_have_text("hello")
    say(page, "/go new")
    expect(page).not_to_have_url(re.compile(f"session={old}"))
    expect(page.get_by_test_id("message-user")).to_have_count(0)
    expect(other.get_by_test_id("notice")).to_have_text(f"On to {session_of(page)}")
    assert session_of(other) == old
    say(page, "again")
    expect(page.get_by_test_id("message-assistant")).to_have_text("You said: again")
    page.go_back()
    expect(page.get_by_test_id("message-user")).to_have_text(["hello", "/go new"])
    assert session_of(page) == old
    other.close()
