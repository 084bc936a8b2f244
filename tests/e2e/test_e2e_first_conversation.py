"""From nothing to an answered question: `halo up`, its link in a real browser, the page, the end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from urllib.error import HTTPError

import pytest

from .commands import Halo, Running
from .conftest import in_chromium
from .trees import QUESTION, Tree, grow
from .visitors import Visitor, text_of, tools_of

if find_spec("playwright") is None and not os.environ.get("HALO_CI"):
    pytest.skip("playwright is not installed here", allow_module_level=True)
from playwright.sync_api import Page, expect

pytestmark = [pytest.mark.no_model]


def ask(page: Page, question: str) -> str:
    """Ask on the page and return the answer's text when it is whole."""
    before = page.get_by_test_id("turn-end").count()
    page.get_by_test_id("composer").fill(question)
    page.get_by_test_id("composer").press("Enter")
    expect(page.get_by_test_id("turn-end")).to_have_count(before + 1, timeout=60_000)
    expect(page.get_by_test_id("turn-end").last).to_have_attribute("data-outcome", "succeeded")
    return page.get_by_test_id("message-assistant").last.inner_text()


def whole_conversation(page: Page) -> list[str]:
    """Return all that is shown of the conversation, item by item, but for times."""
    found = page.get_by_test_id("conversation").locator("> article, > details").all_inner_texts()
    return [text.strip() for text in found]


def shows_the_files(page: Page, tree: Tree) -> None:
    """The list on the page is what lies there, neither more nor less; `.halo` is the workspace's own."""
    entries = page.get_by_test_id("message-assistant").last.locator("ul").first.locator("li code")
    assert set(entries.all_inner_texts()) - {".halo/"} == tree.names


def shows_the_calls(page: Page, tree: Tree) -> None:
    """The answer came through tools: the calls are shown, and open to what they really returned."""
    calls = page.get_by_test_id("tool-call")
    names = [call.get_attribute("data-tool") for call in calls.all()]
    assert names[:1] == ["file_list"]
    assert ("file_read" in names) == bool(tree.readme)
    assert {call.get_attribute("data-outcome") for call in calls.all()} == {"ok"}
    if tree.readme:
        reading = page.locator('[data-tool="file_read"]')
        reading.locator("summary").click()
        expect(reading.get_by_test_id("tool-arguments")).to_contain_text("README.md")
        expect(reading.get_by_test_id("tool-result")).to_contain_text(tree.title)
        reading.locator("summary").click()


def says_that_no_model_runs(page: Page, answer: str) -> None:
    """Rules are never shown as a model: the page and the answer say so, and how to get one."""
    assert "No model is running" in answer
    assert "OPENAI_API_KEY" in answer
    banner = page.get_by_test_id("no-model")
    expect(banner).to_contain_text("No model is running")
    banner.locator("summary").click()
    expect(banner).to_contain_text("Ollama")
    expect(banner).to_contain_text("OPENAI_API_KEY")
    expect(page.get_by_test_id("model-name")).to_have_text("Built-in rules")


def ends_on_ctrl_c(halo: Halo, up: Running) -> None:
    """Ctrl-C on the terminal ends the command and its server, quietly and with 0."""
    pids = halo.processes()
    assert len(pids) == 2, pids
    up.press("\x03")
    done = up.end()
    assert done.code == 0
    assert halo.gone()
    assert "Traceback" not in done.out
    assert not (halo.halo_home / "secrets" / "server.json").exists()


@in_chromium
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param({}, id="a tree"),
        pytest.param({"readme": False}, id="without a readme"),
        pytest.param({"foreign": True}, id="names of many scripts"),
    ],
)
def test_a_question_about_real_files_is_answered_on_the_page(
    halo: Halo, new_page: Callable[[], Page], tmp_path: Path, kind: dict[str, bool]
) -> None:
    """From `halo up` on a terminal to an answer from the real files, through tools, and to the end by Ctrl-C."""
    tree = grow(tmp_path, **kind)
    before = tree.contents
    up = halo.up(tree.path, terminal=True)
    assert "No model is running: built-in rules answer" in up.out
    assert str(tree.path) in up.out
    page, stranger = new_page(), new_page()

    page.goto(up.link)
    expect(page.get_by_test_id("workspace")).to_have_text(tree.path.name)
    answer = ask(page, QUESTION)
    shows_the_files(page, tree)
    if tree.readme:
        assert tree.title in answer and tree.opening in answer
    else:
        assert re.search(r"no file or folder called README\.md", answer)
    shows_the_calls(page, tree)
    says_that_no_model_runs(page, answer)

    refused = stranger.goto(up.link)
    assert refused is not None and refused.status == 401
    expect(stranger.locator("body")).to_contain_text("was used already or is older than 5 minutes. Run `halo up`")

    said = whole_conversation(page)
    page.reload()
    expect(page.get_by_test_id("turn-end")).to_have_count(1)
    assert whole_conversation(page) == said
    assert tree.contents == before
    ends_on_ctrl_c(halo, up)
    expect(page.get_by_test_id("connection")).to_have_attribute("data-state", "stopped")


def test_a_server_in_the_background_is_found_shown_and_stopped(halo: Halo, tmp_path: Path) -> None:
    """`-d` leaves a server running; `status` shows it, a second `up` in another folder uses it, `stop` ends it."""
    first, second = grow(tmp_path / "one"), grow(tmp_path / "two", readme=False)
    down = halo.run("status")
    assert (down.code, down.out) == (1, "")
    assert "`halo up`" in down.err
    begun = halo.run("up", "-d", "--no-browser", "--port", "0", "-w", str(first.path))
    assert begun.code == 0, begun
    assert "`halo stop` stops it" in begun.out
    presence = json.loads((halo.halo_home / "secrets" / "server.json").read_text())

    status = halo.run("status")
    assert status.code == 0
    assert presence["url"] in status.out and f"pid {presence['pid']}" in status.out
    assert "No model is running" in status.out

    again = halo.run("up", "--no-browser", cwd=second.path)
    assert again.code == 0
    assert f"runs already at {presence['url']}" in again.out
    supervisor = json.loads((halo.halo_home / "global" / "supervisor.json").read_text())["pid"]
    assert sorted(halo.processes()) == sorted([presence["pid"], supervisor])
    visitor = Visitor(re.search(r"http://\S+token=\S+", again.out)[0])  # type: ignore[index]
    frames = visitor.ask(QUESTION)
    assert tools_of(frames)[0] == "file_list"
    assert all(name in text_of(frames) for name in second.names)
    assert "no file or folder called" in text_of(frames)

    stopped = halo.run("stop")
    assert (stopped.code, stopped.out) == (0, "Stopped.\n")
    assert halo.gone(1)
    assert halo.run("status").code == 1
    late = halo.run("stop")
    assert late.code == 1 and "No server" in late.err


def deaf(halo: Halo, *words: str, cwd: Path) -> subprocess.Popen[bytes]:
    """Start a command whose reader has gone already."""
    ear, mouth = os.pipe()
    os.close(ear)
    command = [*halo.program, *words]
    try:
        return subprocess.Popen(
            command, env=halo.env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=mouth, stderr=subprocess.PIPE
        )
    finally:
        os.close(mouth)


def test_a_reader_that_goes_leaves_the_server_in_the_background(halo: Halo, tmp_path: Path) -> None:
    """`halo up -d | head -1` is done with 0, and the server stays; so is a second `up` that finds it."""
    tree = grow(tmp_path)
    words = ("up", "-d", "--no-browser", "--port", "0")
    for _ in range(2):
        up = deaf(halo, *words, cwd=tree.path)
        assert (up.communicate(timeout=60)[1], up.returncode) == (b"", 0)
        assert len(halo.processes()) == 2  # it, and its supervisor
    shown = subprocess.run(
        f"set -o pipefail; '{halo.program[-1]}' up --no-browser | head -1",
        shell=True,
        executable="/bin/bash",
        env=halo.env,
        cwd=tree.path,
        capture_output=True,
    )
    assert (shown.returncode, shown.stderr, shown.stdout.count(b"\n")) == (0, b"", 1)
    assert halo.run("status").code == 0
    assert halo.run("stop").code == 0


def test_a_reader_that_goes_leaves_the_server_in_the_foreground(halo: Halo, tmp_path: Path) -> None:
    """`halo up | head -1` goes on serving until it is stopped, and then ends with 0."""
    up = deaf(halo, "up", "--no-browser", "--port", "0", cwd=grow(tmp_path).path)
    presence = halo.halo_home / "secrets" / "server.json"
    while not presence.exists():
        assert up.poll() is None
        time.sleep(0.1)
    with pytest.raises(subprocess.TimeoutExpired):
        up.wait(2)
    assert halo.run("status").code == 0
    up.send_signal(signal.SIGTERM)
    assert up.communicate(timeout=30)[1].count(b"Traceback") == 0
    assert up.returncode == 0
    assert halo.gone(1)


def test_a_link_is_good_for_one_visitor(halo: Halo, tmp_path: Path) -> None:
    """The visitor that a link let in may follow it again; nobody else may."""
    up = halo.up(grow(tmp_path).path)
    visitor = Visitor(up.link)
    assert visitor.get("/api/server")["url"] in up.link
    with pytest.raises(HTTPError, match="401"):
        Visitor(up.link)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_command_alone_ends_its_server(halo: Halo, tmp_path: Path, number: signal.Signals) -> None:
    """A signal that reaches `halo up` only, as from a supervisor, ends both with 0."""
    up = halo.up(grow(tmp_path).path)
    up.signal(number)
    assert up.end().code == 0
    assert halo.gone(1)


def test_a_killed_command_takes_its_server_along(halo: Halo, tmp_path: Path) -> None:
    """A server that `halo up` started in the foreground does not outlive it, however it ends."""
    up = halo.up(grow(tmp_path).path)
    up.signal(signal.SIGKILL)
    up.end()
    assert halo.gone()


def test_ctrl_c_before_the_server_is_ready_leaves_nothing_running(halo: Halo, tmp_path: Path) -> None:
    """Ctrl-C while the server starts ends both, with 130 and without a traceback."""
    up = halo.start("up", "--no-browser", "--port", "0", "-w", str(grow(tmp_path).path), terminal=True)
    while len(halo.processes()) < 2:
        assert up.process.poll() is None, up.out
    up.press("\x03")
    done = up.end()
    assert done.code == 130
    assert "Traceback" not in done.out
    assert halo.gone()
