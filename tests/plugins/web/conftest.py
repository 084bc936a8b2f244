"""A server process with the page, and a real browser in front of it."""

from __future__ import annotations

import copy
import json
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

import halo_web
from halo_kernel import Account, Kernel, Tool
from halo_kernel.testing import ScriptedModel, listening, running_kernel

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

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
    """A server process on a port of its own that can be stopped, killed and started again, seen in one workspace."""

    def __init__(self, home: Path, folders: Sequence[Path]) -> None:
        self.home = home
        self.folder = folders[0]
        self.unused = list(folders[1:])
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._arguments = [str(home), str(self.port), *map(str, folders)]
        self._process: subprocess.Popen[bytes] | None = None

    def elsewhere(self) -> Site:
        """Return the same server seen in a workspace in which nothing has happened yet."""
        other = copy.copy(self)
        other.folder = self.unused.pop()
        return other

    def start(self) -> None:
        """Start it, unless it runs, and wait until it knows its workspaces."""
        if self._process is not None:
            return
        log = (self.home.parent / "site.log").open("ab")
        command = [sys.executable, str(HERE / "site.py"), *self._arguments]
        self._process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            assert self._process.poll() is None, (self.home.parent / "site.log").read_text()
            try:
                tokens = json.loads((self.home.parent / "tokens.json").read_text())
                count = len(self._arguments) - 2
                if len(tokens) == len(self.get("/api/page/workspaces")["workspaces"]) == count:
                    return
            except (OSError, ValueError):
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
        rows = self.get("/api/page/workspaces")["workspaces"]
        return next(str(row["id"]) for row in rows if row["path"] == str(self.folder))

    @property
    def visitor(self) -> str:
        """The token of the workspace's account of the channel."""
        return str(json.loads((self.home.parent / "tokens.json").read_text())[self.folder.name])

    def link(self, session: str = "") -> str:
        """Make a one-time link to the page of the workspace."""
        path = f"/web/?workspace={self.workspace}" + (f"&session={session}" if session else "")
        return str(self.ask("/api/auth/link", {"next": path})["url"])

    def sign(self, name: str) -> Path:
        """Return the file that is a sign to the model: `go` for the answer that it holds, `rules` to be no model."""
        return self.home.parent / name

    def messages(self, session: str) -> list[dict[str, Any]]:
        """Read a session's history."""
        return list(self.get(f"/api/page/history?workspace={self.workspace}&session={session}")["messages"])


def new_site(base: Path, *, workspaces: int = 1) -> Iterator[Site]:
    """Run a server with workspaces in each of which a README lies."""
    folders = [base / f"orchard-{number}" for number in range(workspaces)]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "README.md").write_text("# Orchard\n" + "An orchard of apples.\n" * 60)
    site = Site(base / "home", folders)
    site.start()
    yield site
    site.stop()


@pytest.fixture(scope="session")
def shared_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server for all tests that leave it running."""
    yield from new_site(tmp_path_factory.mktemp("shared"), workspaces=6)


@pytest.fixture
def site(shared_site: Site) -> Site:
    """The shared server, seen in a workspace of the test's own."""
    return shared_site.elsewhere()


@pytest.fixture(scope="session")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server for all tests that stop one."""
    yield from new_site(tmp_path_factory.mktemp("mortal"))


@pytest.fixture
def mortal_site(mortal: Site) -> Site:
    """A server that runs, and may be stopped and killed."""
    mortal.start()
    return mortal


@pytest.fixture
def site_of_rules(mortal: Site) -> Iterator[Site]:
    """A server on which built-in rules answer."""
    mortal.stop()
    mortal.sign("rules").touch()
    mortal.start()
    yield mortal
    mortal.sign("rules").unlink()
    mortal.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A real Chromium. Its driver keeps an event loop running, so no asynchronous test may share its module."""
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def profile(browser: Browser, shared_site: Site) -> Iterator[BrowserContext]:
    """A browser profile for all tests to which it is all one who was here before."""
    context = new_profile(browser)
    # While one tab of the site stays open, the others share its process: half the work of a page is to start one.
    context.new_page().goto(f"{shared_site.url}/web/")
    yield context
    context.close()


def new_profile(browser: Browser) -> BrowserContext:
    return browser.new_context(locale="en-US", viewport={"width": 1100, "height": 800})


@pytest.fixture
def page(profile: BrowserContext) -> Iterator[Page]:
    """A new page that must not log an error of its own."""
    yield from sound_page(profile)


@pytest.fixture
def stranger(browser: Browser) -> Iterator[Page]:
    """The same in a profile of its own, that knows no server."""
    context = new_profile(browser)
    yield from sound_page(context)
    context.close()


def sound_page(context: BrowserContext) -> Iterator[Page]:
    page = context.new_page()
    page.set_default_timeout(10_000)
    broken: list[str] = []
    page.on("pageerror", lambda error: broken.append(str(error)))
    page.on("console", lambda line: broken.append(line.text) if "Content Security Policy" in line.text else None)
    yield page
    page.close()
    assert broken == []


Seen = tuple[dict[str, Any], str | None]


@dataclass(kw_only=True)
class Visitor:
    """Whoever has the token of an account, before a server of this process."""

    kernel: Kernel
    folder: Path
    url: str
    token: str
    http: httpx.AsyncClient

    async def frames(self, method: str, path: str, *, last: str | None = None, **more: Any) -> AsyncIterator[Seen]:
        """Yield each frame of a stream with its id, until the server or the reader ends it."""
        headers = {} if last is None else {"Last-Event-ID": last}
        async with self.http.stream(method, path, headers=headers, **more) as reply:
            assert reply.status_code == 200, (reply.status_code, await reply.aread())
            mark = None
            async for line in reply.aiter_lines():
                if line.startswith("id: "):
                    mark = line[4:]
                elif line.startswith("data: "):
                    yield json.loads(line[6:]), mark
                    mark = None

    async def chat(self, message: str, *, last: str | None = None, count: int = 1_000_000, **more: Any) -> list[Seen]:
        """Send a message and return the first `count` frames of its answer."""
        body = {"message": message, **more}
        return await first(self.frames("POST", "/api/web/chat", last=last, json=body), count)

    async def follow(self, *, last: str | None = None, count: int = 1_000_000, **query: str) -> list[Seen]:
        """Follow a session until a turn ends, for `count` frames at most."""
        return await first(self.frames("GET", "/api/web/subscribe", last=last, params=query), count)

    async def get(self, path: str, **query: str) -> Any:
        reply = await self.http.get(path, params=query)
        assert reply.status_code == 200, reply.text
        return reply.json()

    async def post(self, path: str, **body: Any) -> Any:
        reply = await self.http.post(path, json=body)
        assert reply.status_code in (200, 201), reply.text
        return reply.json()

    async def other(self, id: str, **account: Any) -> Visitor:
        """Return somebody with another account of the same server."""
        accounts = self.kernel.host.accounts
        folder = str(account.pop("workspace", self.folder))
        await accounts.put(Account(type="web", id=id, workspace=folder, **{"access": "workspace", **account}))
        token = await accounts.issue_token("web", id)
        http = httpx.AsyncClient(base_url=self.url, headers={"x-token": token}, timeout=20)
        return Visitor(kernel=self.kernel, folder=Path(folder), url=self.url, token=token, http=http)


async def first(frames: AsyncIterator[Seen], count: int) -> list[Seen]:
    found: list[Seen] = []
    async with aclosing(frames) as each:  # type: ignore[type-var]
        async for one in each:
            found.append(one)
            if len(found) == count or (one[0]["type"] in ("complete", "error") and count == 1_000_000):
                break
    return found


Serve = Callable[..., AbstractAsyncContextManager[Visitor]]


@pytest.fixture
def visiting(tmp_path: Path) -> Serve:
    """Run a server with one account of the channel, and give whoever has its token."""

    @asynccontextmanager
    async def serve(
        *,
        model: ScriptedModel | None = None,
        tools: Sequence[Tool] = (),
        extra: dict[str, object] | None = None,
        env: dict[str, str] | None = None,
        **account: Any,
    ) -> AsyncGenerator[Visitor]:
        folder = tmp_path / "w"
        folder.mkdir(exist_ok=True)
        plugins = {"web": halo_web, **(extra or {})}
        async with running_kernel(tmp_path / "home", model=model, tools=tools, extra=plugins, env=env) as kernel:
            await kernel.work()
            async with listening(kernel) as found, httpx.AsyncClient(timeout=20) as http:
                nobody = Visitor(kernel=kernel, folder=folder, url=found.url, token="", http=http)
                visitor = await nobody.other("site", **account)
                async with visitor.http:
                    yield visitor

    return serve
