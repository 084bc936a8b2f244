"""Rules about what people can read."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .project import Project

# What a README has a heading for, and the words that such a heading has.
HEADINGS = {
    "Install": r"install",
    "First result": r"first (?:result|answer)",
    "What it may do and reach": r"reach",
}
_HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
_TABLE = re.compile(r"^\|.*\bwhat to do\b.*\|\n\|[ :|-]+\|\n\|.+\|", re.MULTILINE | re.IGNORECASE)


def readme(project: Project) -> Iterator[str]:
    """Somebody who has never seen it can begin."""
    if not project.readme.startswith("# "):
        yield "the README does not begin with a heading"
    found = _HEADING.findall(project.readme)
    for heading, words in HEADINGS.items():
        if not any(re.search(words, each, re.IGNORECASE) for each in found):
            yield f"the README has no heading {heading}"


def error_table(project: Project) -> Iterator[str]:
    """Somebody who reads an error finds what to do."""
    if not any(_TABLE.search(page) for page in (project.readme, *project.pages)):
        yield "no page has a table with a column what to do"


def documented_settings(project: Project) -> Iterator[str]:
    """Every setting is told of."""
    text = "\n".join((project.readme, *project.pages))
    yield from (f"{each.name} is on no page" for each in project.verdict.settings if f"`{each.name}`" not in text)
