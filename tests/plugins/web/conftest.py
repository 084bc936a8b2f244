"""A server process with the page, and a real browser in front of it."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

HERE = Path(__file__).parent
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync"]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "browser: drives the page in a real Chromium")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Site:
    """A server process on a port of its own that can be stopped, killed and started again."""

    def __init__(self, home: Path, folder: Path, kind: str) -> None:
        self.home = home
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._arguments = [str(home), str(folder), str(self.port), kind]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it knows its workspace."""
        log = (self.home.parent / "site.log").open("ab")
        command = [sys.executable, str(HERE / "site.py"), *self._arguments]
        self._process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            assert self._process.poll() is None, (self.home.parent / "site.log").read_text()
            try:
                if self.get("/api/web/workspaces")["workspaces"]:
                    return
            except OSError:
                pass
            time.sleep(0.05)
        raise TimeoutError((self.home.parent / "site.log").read_text())

    def stop(self, sign: signal.Signals = signal.SIGTERM) -> None:
        """End it: SIGTERM says goodbye to its readers, SIGKILL does not."""
        if self._process is not None:
            self._process.send_signal(sign)
            self._process.wait(15)
            self._process = None

    @property
    def token(self) -> str:
        """The local token of the server that runs now."""
        return str(json.loads((self.home / "secrets" / "server.json").read_text())["token"])

    def ask(self, path: str, body: object | None = None) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, headers=headers)
        with urllib.request.urlopen(request, timeout=10) as reply:
            found: dict[str, Any] = json.load(reply)
            return found

    def get(self, path: str) -> dict[str, Any]:
        return self.ask(path)

    @property
    def workspace(self) -> str:
        """The id of the workspace."""
        rows = self.get("/api/web/workspaces")["workspaces"]
        return next(str(row["id"]) for row in rows if row["path"] == str(self.folder))

    def link(self, path: str = "/web/") -> str:
        """Make a one-time link to the page."""
        return str(self.ask("/api/auth/link", {"next": path})["url"])

    def messages(self, session: str) -> list[dict[str, Any]]:
        """Read a session's history."""
        return list(self.get(f"/api/web/history?workspace={self.workspace}&session={session}")["messages"])


def new_site(folder: Path, kind: str = "model") -> Site:
    """Start a server with one workspace in which a README lies."""
    place = folder / "orchard"
    place.mkdir()
    (place / "README.md").write_text("# Orchard\n" + "An orchard of apples.\n" * 60)
    site = Site(folder / "home", place, kind)
    site.start()
    return site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A server whose model is one."""
    site = new_site(tmp_path)
    yield site
    site.stop()


@pytest.fixture
def site_of_rules(tmp_path: Path) -> Iterator[Site]:
    """A server on which built-in rules answer."""
    site = new_site(tmp_path, "rules")
    yield site
    site.stop()


@pytest.fixture(scope="module")
def shared_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server for tests that leave it as it is."""
    site = new_site(tmp_path_factory.mktemp("shared"))
    yield site
    site.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A real Chromium. Its driver keeps an event loop running, so no asynchronous test may share its module."""
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page in a fresh profile that must not log an error of its own."""
    context = browser.new_context(locale="en-US", viewport={"width": 1100, "height": 800})
    page = context.new_page()
    page.set_default_timeout(10_000)
    broken: list[str] = []
    page.on("pageerror", lambda error: broken.append(str(error)))
    page.on("console", lambda line: broken.append(line.text) if "Content Security Policy" in line.text else None)
    yield page
    context.close()
    assert broken == []
