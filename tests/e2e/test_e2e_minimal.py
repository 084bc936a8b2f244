"""The kernel and the page alone: it starts, shows the page, and says what is missing and which command brings it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .commands import LINK, Halo
from .conftest import a_person, in_chromium

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.no_model, pytest.mark.needs("uv"), pytest.mark.timeout(300)]


class Installed:
    """A virtual environment of its own, and a person who uses it."""

    def __init__(self, folder: Path, person: Halo) -> None:
        self.person = person
        self._python = str(folder / "bin" / "python")

    def pip_install(self, *names: str) -> None:
        """Install folders of the clone, as `pip install` does, without looking at its workspace."""
        folders = [str(ROOT / name) for name in names]
        command = ["uv", "pip", "install", "--quiet", "--no-sources", "--python", self._python, *folders]
        subprocess.run(command, check=True, cwd=self.person.home, timeout=200)


@pytest.fixture
def minimal(tmp_path: Path) -> Iterator[Installed]:
    """`pip install ./kernel ./plugins/lib-files ./plugins/web`, and nothing else."""
    folder = tmp_path / "environment"
    subprocess.run(["uv", "venv", "--quiet", "--python", sys.executable, str(folder)], check=True, timeout=60)
    for person in a_person(tmp_path, program=[str(folder / "bin" / "halo")]):
        person.env.pop("PYTHONPATH", None)
        installed = Installed(folder, person)
        installed.pip_install("kernel", "plugins/lib-files", "plugins/web")
        yield installed


def opened(person: Halo, page: Page) -> None:
    """Start the server on a terminal and follow the link that it prints there."""
    server = person.start("serve", "--port", "0", terminal=True)
    page.goto(re.sub(r"\s", "", server.expect(LINK.pattern + r"\s")))


def ask(page: Page, text: str) -> None:
    page.get_by_test_id("composer").fill(text)
    page.get_by_test_id("composer").press("Enter")


@in_chromium
def test_each_hint_leads_on_to_an_answer(minimal: Installed, page: Page) -> None:
    """A message is answered with what is missing and the command for it, until the commands have made it an answer."""
    from playwright.sync_api import expect

    person = minimal.person
    assert person.run("--help").out.splitlines()[2] == "commands: serve"
    opened(person, page)
    page.get_by_test_id("open-folder").click()
    ask(page, "Which files are here?")
    refused = page.get_by_test_id("refused")
    expect(refused).to_contain_text("There is no agent in this workspace.")
    expect(refused).to_contain_text("pip install halo-workspace")
    expect(page.get_by_test_id("message-outgoing")).to_contain_text("Which files are here?")
    person.close()

    minimal.pip_install("plugins/workspace", "plugins/lib-files")
    opened(person, page)
    ask(page, "Which files are here?")
    failed = page.get_by_test_id("error")
    expect(failed).to_contain_text("no model can answer here")
    expect(failed).to_contain_text("pip install halo-openai")
    person.close()

    minimal.pip_install("plugins/offline")
    opened(person, page)
    ask(page, "Which files are here?")
    expect(page.get_by_test_id("message-assistant").last).to_be_visible()
    expect(page.get_by_test_id("turn-end").last).to_have_attribute("data-outcome", "succeeded")


def test_the_commands_for_people_can_be_added(minimal: Installed) -> None:
    """Without them `halo` says what to install; with them doctor does so for models, and plugins lists."""
    done = minimal.person.run("plugins")
    assert (done.code, done.out) == (1, "")
    assert "there is no command 'plugins'" in done.err and "pip install halo-cli" in done.err
    minimal.pip_install("plugins/api", "plugins/cli", "plugins/lib-client", "plugins/lib-settings")
    done = minimal.person.run("doctor")
    assert done.code == 1
    assert "BAD  models: no model can answer here" in done.out
    assert "pip install halo-offline" in done.out
    listed = minimal.person.run("plugins")
    assert (listed.code, listed.err) == (0, "")
    assert re.findall(r"^(\w+): loaded", listed.out, re.MULTILINE) == ["api", "cli", "sqlite", "web"]


@in_chromium
def test_a_folder_of_ones_own_is_opened_in_the_page(minimal: Installed, page: Page, tmp_path: Path) -> None:
    """A path that leads nowhere is refused with what to do; the next one is opened."""
    from playwright.sync_api import expect

    opened(minimal.person, page)
    (tmp_path / "notes").mkdir()
    page.get_by_test_id("folder").fill(str(tmp_path / "nowhere"))
    page.get_by_test_id("open-folder").click()
    expect(page.get_by_role("alert")).to_contain_text("does not exist")
    page.get_by_test_id("folder").fill(str(tmp_path / "notes"))
    page.get_by_test_id("folder").press("Enter")
    expect(page.get_by_test_id("workspace")).to_have_text("notes")
