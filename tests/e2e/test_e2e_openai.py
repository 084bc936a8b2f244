"""The same conversation with a model: a chat-completions server of the test's own, well and with faults."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from .commands import Halo, Running
from .conftest import a_person, in_chromium
from .models import ModelServer, Script
from .trees import QUESTION, Tree, grow

if find_spec("playwright") is None and not os.environ.get("HALO_CI"):
    pytest.skip("playwright is not installed here", allow_module_level=True)
from playwright.sync_api import Page, expect

KEY = "sk-e2e-7c1f0d9a3b5e"
ATTEMPTS = 3
LONG = " ".join(f"word{number}" for number in range(60))


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory, model: ModelServer) -> Iterator[Halo]:
    """A person who gave a key, a base URL and a model in the environment, and allows three attempts."""
    env = {"OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": KEY, "OPENAI_MODEL": "scripted"}
    env["HALO_AGENT_MAX_RETRIES"] = str(ATTEMPTS)
    yield from a_person(tmp_path_factory.mktemp("openai"), env=env)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """The folder that all conversations are about."""
    return grow(tmp_path_factory.mktemp("tree"))


@pytest.fixture(scope="module")
def up(person: Halo, tree: Tree) -> Running:
    """A server that all tests share."""
    return person.up(tree.path)


@pytest.fixture(autouse=True)
def fresh(model: ModelServer) -> None:
    """No script and no request of another test."""
    model.forget()


@pytest.fixture
def chat(up: Running, person: Halo, tree: Tree, page: Page) -> Page:
    """The page with a new conversation, let in by a link of its own."""
    again = person.run("up", "--no-browser", "-w", str(tree.path))
    page.goto(re.search(r"http://\S+token=\S+", again.out)[0])  # type: ignore[index]
    return page


def send(page: Page, text: str) -> None:
    page.get_by_test_id("composer").fill(text)
    page.get_by_test_id("composer").press("Enter")


def ended(page: Page, outcome: str = "succeeded") -> None:
    expect(page.get_by_test_id("turn-end")).to_have_attribute("data-outcome", outcome, timeout=30_000)


def test_up_says_which_model_answers_and_why(up: Running, model: ModelServer) -> None:
    """`halo up` names the model, the address and the key's name, never the key."""
    assert "Model: custom/scripted" in up.out
    assert model.url in up.out
    assert KEY not in up.out + up.err


@in_chromium
def test_a_model_answers_from_the_files_through_tools(chat: Page, model: ModelServer, tree: Tree) -> None:
    """The model gets the tools and the key; its calls run, and its answer tells what they really returned."""
    send(chat, QUESTION)
    ended(chat)
    answer = chat.get_by_test_id("message-assistant").last.inner_text()
    assert [name for name in tree.names if name.rstrip("/") not in answer] == []
    assert tree.title in answer and tree.opening in answer
    calls = chat.get_by_test_id("tool-call")
    assert [call.get_attribute("data-tool") for call in calls.all()] == ["file_list", "file_read"]
    assert {call.get_attribute("data-outcome") for call in calls.all()} == {"ok"}
    expect(chat.get_by_test_id("answer-model")).to_have_text("scripted")
    expect(chat.get_by_test_id("no-model")).to_have_count(0)
    first, second, third = model.requests
    assert first.headers["authorization"] == f"Bearer {KEY}"
    assert first.question.endswith(QUESTION)
    assert first.tool("file_read") and first.tool("shell_exec")
    assert (len(first.results), len(second.results), len(third.results)) == (0, 1, 2)
    assert tree.opening in third.results[1]


@in_chromium
def test_an_answer_is_on_the_page_before_it_ends(chat: Page, model: ModelServer) -> None:
    """Words are shown while the model still speaks."""
    model.say(Script(text=LONG, pieces=60, delay=0.05))
    send(chat, "speak slowly")
    expect(chat.get_by_test_id("message-assistant")).to_contain_text("word9 ")
    shown, unfinished = chat.get_by_test_id("message-assistant").inner_text(), model.requests[-1].ended == ""
    assert unfinished
    assert "word59" not in shown
    ended(chat)
    assert chat.get_by_test_id("message-assistant").inner_text() == LONG


@in_chromium
def test_a_cut_stream_is_said_and_asked_for_again(chat: Page, model: ModelServer) -> None:
    """An answer that breaks off is said to have failed, its words go, and the next attempt answers, once."""
    model.say(Script(text="half of " + LONG, pieces=20, delay=0.02, cut_at=12, cut="abort"), Script(text=LONG))
    send(chat, "speak")
    expect(chat.get_by_test_id("discarded")).to_contain_text("Attempt 1 failed")
    ended(chat)
    expect(chat.get_by_test_id("message-assistant")).to_have_text(LONG)
    assert len(model.requests) == 2
    assert model.requests[0].body["messages"] == model.requests[1].body["messages"]


@in_chromium
def test_a_busy_provider_is_asked_again_when_it_said(chat: Page, model: ModelServer) -> None:
    """After a 429 the page says so, and the next attempt comes no sooner than Retry-After."""
    model.say(Script(status=429, headers={"retry-after": "1"}), Script(text=LONG))
    send(chat, "speak")
    expect(chat.get_by_test_id("discarded")).to_contain_text("Attempt 1 failed")
    expect(chat.get_by_test_id("discarded")).to_contain_text("429")
    ended(chat)
    expect(chat.get_by_test_id("message-assistant")).to_have_text(LONG)
    first, second = model.times
    assert 1.0 <= second - first < 5.0


@in_chromium
@pytest.mark.parametrize(
    ("script", "kind", "words"),
    [
        pytest.param(Script(status=429, headers={"retry-after": "0"}), "throttle", "429", id="429"),
        pytest.param(Script(text=LONG, pieces=20, cut_at=6, cut="abort"), "network", "broke off", id="cut"),
    ],
)
def test_a_fault_that_stays_ends_in_a_typed_error(
    chat: Page, model: ModelServer, script: Script, kind: str, words: str
) -> None:
    """After the bounded number of attempts the turn fails with one sentence of its kind, and what to do."""
    model.always(script)
    send(chat, "speak")
    error = chat.get_by_test_id("error")
    expect(error).to_have_attribute("data-kind", kind, timeout=30_000)
    ended(chat, "failed")
    assert words in error.inner_text()
    assert "Traceback" not in error.inner_text()
    assert len(model.requests) == ATTEMPTS
    model.forget()
    send(chat, "and now")
    expect(chat.get_by_test_id("turn-end")).to_have_count(2)
    expect(chat.get_by_test_id("turn-end").last).to_have_attribute("data-outcome", "succeeded")


@in_chromium
def test_a_wrong_key_is_said_at_once(chat: Page, model: ModelServer) -> None:
    """A 401 is asked once, and said in a sentence that tells what to do and never the key, which the server repeats."""
    model.always(Script(status=401, body=json.dumps({"error": {"message": f"Incorrect API key: {KEY}"}})))
    send(chat, "speak")
    error = chat.get_by_test_id("error")
    expect(error).to_have_attribute("data-kind", "account")
    assert "401" in error.inner_text() and "The key is wrong or has expired: set a valid one." in error.inner_text()
    assert KEY not in chat.content()
    assert len(model.requests) == 1
    expect(chat.get_by_test_id("discarded")).to_have_count(0)


@pytest.mark.parametrize(
    ("script", "words", "attempts"),
    [
        pytest.param(Script(status=429, headers={"retry-after": "0"}), "429", ATTEMPTS, id="429"),
        pytest.param(Script(text=LONG, pieces=20, cut_at=6, cut="abort"), "broke off", ATTEMPTS, id="cut"),
        pytest.param(Script(status=401, body=f"wrong key {KEY}"), "The key is wrong", 1, id="401"),
    ],
)
def test_the_command_line_shows_attempts_and_the_error(
    up: Running, person: Halo, tree: Tree, model: ModelServer, script: Script, words: str, attempts: int
) -> None:
    """`halo run -v` shows each failed attempt, then one sentence on stderr and the exit code 1."""
    model.always(script)
    done = person.run("run", "--new", "-v", "-w", str(tree.path), "speak")
    assert done.code == 1
    assert len(model.requests) == attempts
    assert len(re.findall(r"\[attempt \d failed: ", done.err)) == attempts
    last = done.err.strip().splitlines()[-1]
    assert last.startswith("halo: ") and words in last
    assert KEY not in done.out + done.err
    assert "Traceback" not in done.err


def test_the_command_line_survives_faults(up: Running, person: Halo, tree: Tree, model: ModelServer) -> None:
    """A cut stream and a 429 in one conversation cost `halo run` nothing but time; stdout is the answer alone."""
    model.say(Script(text="half", pieces=4, cut_at=2, cut="abort"), Script(status=429, headers={"retry-after": "0"}))
    done = person.run("run", "--new", "-v", "-w", str(tree.path), QUESTION)
    assert done.code == 0, done
    assert [name for name in tree.names if name.rstrip("/") not in done.out] == []
    assert tree.opening in done.out
    assert "half" not in done.out
    assert "[attempt 1 failed: " in done.err and "[attempt 2 failed: " in done.err
    assert "[tool: file_list]" in done.err and "[tool: file_read]" in done.err
    assert len(model.requests) == 5


def test_the_key_is_nowhere(person: Halo, tree: Tree, up: Running) -> None:
    """After all these faults no file of the home or of the workspace holds the key."""
    places = [path for root in (person.home, tree.path) for path in root.rglob("*") if path.is_file()]
    assert places
    assert [str(path) for path in places if _holds(path, KEY)] == []


def _holds(path: Path, text: str) -> bool:
    return text.encode() in path.read_bytes()
