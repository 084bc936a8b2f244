"""Questions and erasing on the chat page, in a real browser against a real server."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from urllib.parse import parse_qs, urlsplit

import pytest

if find_spec("playwright") is None and not os.environ.get("HALO_CI"):
    pytest.skip("playwright is not installed here", allow_module_level=True)
from playwright.sync_api import Locator, Page, Route, expect

pytestmark = [pytest.mark.browser, pytest.mark.needs("chromium")]


def say(page: Page, text: str) -> None:
    page.get_by_test_id("composer").fill(text)
    page.get_by_test_id("composer").press("Enter")


def asked(page: Page) -> Locator:
    """Wait for the card of an open question."""
    card = page.get_by_test_id("question")
    expect(card).to_have_attribute("data-state", "open", timeout=20_000)
    return card


def ended(page: Page, count: int = 1) -> None:
    expect(page.get_by_test_id("turn-end")).to_have_count(count, timeout=20_000)


def session_of(page: Page) -> str:
    expect(page).to_have_url(re.compile("session="))
    return parse_qs(urlsplit(page.url).query)["session"][0]


def bought(page: Page) -> Locator:
    """Return the result of the tool that asks."""
    return page.locator("[data-tool=buy]").get_by_test_id("tool-result")


def test_a_question_is_a_card_that_the_keyboard_answers(shared_site, page: Page) -> None:
    """A card shows tool, arguments, text and time; the keyboard answers it, and Enter in its field does nothing."""
    page.goto(shared_site.link())
    say(page, "get lamp")
    card = asked(page)
    expect(page.get_by_role("group", name="Your answer is needed buy")).to_be_visible()
    expect(page.get_by_test_id("question-text")).to_have_text("Buy lamp?")
    expect(page.get_by_test_id("question-arguments")).to_contain_text('"thing": "lamp"')
    expect(page.get_by_test_id("question-state")).to_contain_text("Unanswered by ")
    expect(page.get_by_test_id("tool-call")).to_have_attribute("data-outcome", "waiting")
    expect(page.get_by_test_id("working")).to_have_count(0)
    expect(page.get_by_test_id("option")).to_have_count(0)
    expect(page.get_by_test_id("composer")).to_be_focused()
    expect(page.locator(".hidden[role=status]")).to_have_text("Your answer is needed: Buy lamp?")
    page.get_by_role("button", name="Show the question").press("Enter")
    expect(card).to_be_focused()
    page.keyboard.press("Tab")  # the arguments, which may scroll
    page.keyboard.press("Tab")
    page.keyboard.type("the red one")
    page.keyboard.press("Enter")
    expect(card).to_have_attribute("data-state", "open")
    page.keyboard.press("Tab")
    expect(page.get_by_test_id("allow")).to_be_focused()
    page.keyboard.press("Enter")
    expect(card).to_have_attribute("data-state", "approved")
    expect(card).to_be_focused()
    expect(page.get_by_test_id("question-state")).to_have_text("Allowed by operator: the red one")
    ended(page)
    expect(bought(page)).to_have_text("Bought: lamp, the red one")
    expect(card.locator("button, input")).to_have_count(0)
    expect(page.get_by_test_id("behind")).to_have_count(0)


def test_an_option_is_an_answer(shared_site, page: Page) -> None:
    """The card stands at the call that waits, before those behind it, and an option allows the call with its words."""
    page.goto(shared_site.link())
    say(page, "buy lamp")
    asked(page)
    lines = page.locator("[data-testid=tool-call], [data-testid=question]")
    found = [line.get_attribute("data-tool") for line in lines.all()]
    assert found == ["look", "buy", None, "look"]
    expect(page.get_by_test_id("own-answer")).to_have_count(0)
    expect(page.get_by_test_id("option")).to_have_text(["cheap", "good"])
    page.get_by_test_id("option").first.click()
    ended(page)
    expect(page.get_by_test_id("question-state")).to_have_text("Allowed by operator: cheap")
    expect(bought(page)).to_have_text("Bought: lamp, cheap")


def test_a_refused_call_does_not_run_and_its_words_are_only_words(shared_site, page: Page) -> None:
    """What a model wrote is shown as text in the card; refused, the call has not run."""
    page.goto(shared_site.link())
    trap = "<img src=x onerror='document.body.dataset.broken=1'>"
    say(page, f"wipe {trap}")
    card = asked(page)
    expect(page.get_by_test_id("question-text")).to_have_text(f"May I wipe {trap}?")
    assert card.locator("img").count() == 0
    page.get_by_test_id("refuse").click()
    ended(page)
    expect(card).to_have_attribute("data-state", "denied")
    expect(page.get_by_test_id("question-state")).to_have_text("Refused by operator")
    expect(page.get_by_test_id("tool-call")).to_have_attribute("data-outcome", "denied")
    assert page.locator("[data-broken]").count() == 0


def test_a_model_call_can_be_asked_about(shared_site, page: Page) -> None:
    """A question about the model call itself names no tool; allowed, the model answers."""
    page.goto(shared_site.link())
    say(page, "think")
    card = asked(page)
    expect(page.get_by_test_id("question-text")).to_have_text("May I think?")
    expect(card.locator("code, pre")).to_have_count(0)
    page.get_by_test_id("allow").click()
    ended(page)
    expect(page.get_by_test_id("message-assistant")).to_have_text("You said: think")


def test_a_question_comes_into_view_on_a_phone(shared_site, page: Page) -> None:
    """At the end of a long chat on a narrow page the buttons of a new question can be seen, and nothing is too wide."""
    page.set_viewport_size({"width": 360, "height": 640})
    page.goto(shared_site.link())
    say(page, "markdown")
    ended(page)
    say(page, f"wipe {'x' * 200}")
    asked(page)
    expect(page.get_by_test_id("refuse")).to_be_in_viewport(ratio=1)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.get_by_test_id("refuse").click()
    ended(page, 2)


def test_a_question_that_nobody_answers_expires(shared_site, page: Page) -> None:
    """After its time the card says that it counts as refused, and the turn goes on."""
    page.goto(shared_site.link())
    say(page, "hurry lamp")
    card = page.get_by_test_id("question")
    expect(card).to_have_attribute("data-state", "expired", timeout=20_000)
    expect(page.get_by_test_id("question-state")).to_have_text("Nobody answered in time, so it counts as refused")
    ended(page)
    expect(bought(page)).to_contain_text("Not bought: lamp")


def test_stop_ends_a_turn_that_waits(shared_site, page: Page) -> None:
    """A turn that waits can be stopped: its question is refused, and the page takes the next message."""
    page.goto(shared_site.link())
    say(page, "get lamp")
    card = asked(page)
    page.get_by_test_id("stop").click()
    expect(card).to_have_attribute("data-state", "denied")
    expect(page.get_by_test_id("turn-end")).to_have_attribute("data-outcome", "cancelled")
    say(page, "hello")
    ended(page, 2)


def test_messages_wait_behind_a_question(shared_site, page: Page) -> None:
    """The composer and a message that is sent meanwhile say that the question goes first."""
    page.goto(shared_site.link())
    say(page, "get lamp")
    asked(page)
    expect(page.get_by_test_id("behind")).to_contain_text("Messages wait behind the question")
    expect(page.get_by_test_id("composer")).to_have_attribute("aria-describedby", "behind")
    expect(page.get_by_test_id("session").first).to_contain_text("asks you")
    say(page, "and this")
    expect(page.get_by_test_id("message-outgoing")).to_contain_text("after the question above is answered")
    page.get_by_test_id("refuse").click()
    expect(page.get_by_test_id("message-assistant").last).to_have_text("You said: and this", timeout=20_000)
    expect(page.get_by_test_id("message-outgoing")).to_have_count(0)
    expect(page.get_by_test_id("session").first).not_to_contain_text("asks you")


def test_a_question_outlives_reload_and_restart(mortal_site, page: Page) -> None:
    """The card is there again after a reload, and after a restart of the server it can still be answered, once."""
    page.goto(mortal_site.link())
    say(page, "get lamp")
    asked(page)
    session_of(page)
    page.reload()
    asked(page)
    mortal_site.stop()
    expect(page.get_by_test_id("connection")).to_have_count(1)
    page.get_by_test_id("allow").click()
    expect(page.get_by_test_id("question-error")).to_have_text("The server cannot be reached.")
    mortal_site.start()
    expect(page.get_by_test_id("connection")).to_have_count(0, timeout=20_000)
    asked(page)
    page.reload()
    asked(page)
    page.get_by_test_id("allow").click()
    expect(page.get_by_test_id("question")).to_have_attribute("data-state", "approved")
    ended(page)
    page.reload()
    ended(page)
    expect(page.get_by_test_id("question-state")).to_have_text("Allowed by operator")
    expect(page.get_by_test_id("question-error")).to_have_count(0)


def test_another_window_sees_the_answer(shared_site, page: Page) -> None:
    """What one window answers is settled in the other; the buttons are dead as soon as one is pressed."""
    page.goto(shared_site.link())
    say(page, "buy lamp")
    asked(page)
    other = page.context.new_page()
    other.goto(shared_site.link(session_of(page)))
    asked(other)
    held: list[Route] = []
    page.route("**/api/page/answer", lambda route: held.append(route))
    page.get_by_test_id("option").last.click()
    for name in ("option", "allow", "refuse"):
        expect(page.get_by_test_id(name).first).to_be_disabled()
    expect(page.get_by_test_id("question")).to_have_attribute("data-state", "open")
    held.pop().continue_()
    for window in (page, other):
        expect(window.get_by_test_id("question-state")).to_have_text("Allowed by operator: good")
        ended(window)
    other.close()


def test_the_second_answer_is_refused_in_a_sentence(shared_site, page: Page) -> None:
    """Who answers a question that another window has just settled is told so, and sees how it was settled."""
    page.goto(shared_site.link())
    say(page, "get lamp")
    asked(page)
    number = int(str(page.get_by_test_id("question").get_attribute("id")).removeprefix("question-"))

    def be_late(route: Route) -> None:
        answer = {"workspace": shared_site.workspace, "question": number, "approved": False, "text": "too dear"}
        shared_site.ask("/api/page/answer", answer)
        route.continue_()

    page.route("**/api/page/answer", be_late)
    page.get_by_test_id("allow").click()
    expect(page.get_by_test_id("question-error")).to_contain_text("was denied already. Look at the conversation")
    expect(page.get_by_test_id("question-state")).to_have_text("Refused by operator: too dear")
    ended(page)


def test_what_is_erased_leaves_an_open_page(shared_site, page: Page) -> None:
    """When a conversation is erased its words leave the page that shows it, without a reload, and it can go on."""
    page.goto(shared_site.link())
    say(page, "the heron nests here")
    ended(page)
    session = session_of(page)
    other = page.context.new_page()
    other.goto(shared_site.link())
    say(other, f"erase {session}")
    ended(other)
    expect(page.get_by_test_id("message-user")).to_have_count(0)
    expect(page.get_by_test_id("turn-end")).to_have_count(0)
    expect(page.get_by_test_id("title")).not_to_contain_text("heron")
    expect(page.locator("body")).not_to_contain_text("heron")
    expect(page.get_by_test_id("connection")).to_have_count(0)
    say(page, "hello")
    ended(page)
    page.reload()
    expect(page.get_by_test_id("message-user")).to_have_text(["hello"])
    ended(page)
    other.close()
