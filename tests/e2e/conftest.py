"""People with homes of their own, a model server, a real browser."""

from __future__ import annotations

import shutil
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .commands import Halo
from .models import ModelServer

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync"]
LOCAL_SERVERS = ("http://127.0.0.1:11434/v1", "http://127.0.0.1:1234/v1", "http://127.0.0.1:8000/v1")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "browser: drives the page in a real Chromium")
    config.addinivalue_line("markers", "no_model: a model server on this machine would answer in the rules' place")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("no_model"):
        for url in LOCAL_SERVERS:
            if _answers(f"{url}/models"):
                pytest.skip(f"a model server answers at {url}, and this test is about a machine without one")


def in_chromium(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test that drives the page in a real Chromium."""
    return pytest.mark.browser(pytest.mark.needs("chromium")(test))


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=1).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


@pytest.fixture
def halo(tmp_path: Path) -> Iterator[Halo]:
    """A person with a new HOME."""
    yield from a_person(tmp_path)


def a_person(folder: Path, **options: object) -> Iterator[Halo]:
    """Make a person with a HOME below `folder`; what the person left running is ended."""
    home = folder / "person"
    home.mkdir(parents=True)
    halo = Halo(home, **options)  # type: ignore[arg-type]
    yield halo
    halo.close()


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    """A model server that speaks chat completions."""
    with ModelServer() as server:
        yield server


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A real Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def new_page(browser: Browser) -> Iterator[Callable[[], Page]]:
    """Make pages, each in a fresh profile, none of which may log an error of its own."""
    broken: list[str] = []
    contexts = []

    def make() -> Page:
        context = browser.new_context(locale="en-US", viewport={"width": 1100, "height": 800})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: broken.append(str(error)))
        return page

    yield make
    for context in contexts:
        context.close()
    assert broken == []


@pytest.fixture
def page(new_page: Callable[[], Page]) -> Page:
    """A page in a fresh profile."""
    return new_page()
