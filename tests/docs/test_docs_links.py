"""Pages lead where they say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")


def pages() -> Iterator[Path]:
    yield from sorted(ROOT.glob("*.md"))
    yield from sorted((ROOT / "docs").rglob("*.md"))
    yield from sorted((ROOT / "plugins").glob("*/README.md"))
    yield from sorted((ROOT / "examples").glob("*/README.md"))


def anchors(page: Path) -> set[str]:
    """Name the headings of a page as links do: lower case, words joined by dashes."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).strip().replace(" ", "-") for each in headings}


@pytest.mark.parametrize("page", list(pages()), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_resolve(page: Path) -> None:
    """A relative link points at a file, and at a heading in it if it names one."""
    broken = []
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        target, _, anchor = link.partition("#")
        if "://" in link or link.startswith("mailto:"):
            continue
        file = (page.parent / target).resolve() if target else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_the_two_commands_are_the_promised_ones(page: str) -> None:
    """The README starts Halo, and CONTRIBUTING the tests, with the command that is promised."""
    verb = {"README.md": "halo up", "CONTRIBUTING.md": "tox"}[page]
    assert f"\npip install uv && uv run {verb}\n" in (ROOT / page).read_text(encoding="utf-8")


def test_every_page_is_reached_from_the_index() -> None:
    """docs/index.md leads to every page of docs/, directly or through another page."""
    index = ROOT / "docs" / "index.md"
    seen, waiting = set[Path](), [index]
    while waiting:
        page = waiting.pop()
        if page in seen or page.suffix != ".md" or not page.exists():
            continue
        seen.add(page)
        links = (link.partition("#")[0] for link in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link)
        waiting += [(page.parent / link).resolve() for link in links if link]
    assert set((ROOT / "docs").rglob("*.md")) - seen == set()
