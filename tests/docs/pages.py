"""The pages of the documentation, and the examples in them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_FENCE = re.compile(r"```(\w*)$")
_MARK = re.compile(r"<!-- not run: (.+) -->$")
_NAMED = re.compile(r"`((?:~/)?[\w./-]+\.\w+)`[^\n]*:$", re.DOTALL)
_TEST = re.compile(r"^(?:async )?def test_|^class Test", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Block:
    """A fenced example: `line` is its first one, `path` the file that it is, `why` the reason why it is not run.

    It is a file when the paragraph before it begins with a path in backticks and ends with a colon.
    """

    page: Path
    line: int
    language: str
    text: str
    path: str = ""
    why: str = ""

    @property
    def place(self) -> str:
        """Where it is, for people."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def is_test(self) -> bool:
        """Whether it holds tests for pytest."""
        return self.language == "python" and _TEST.search(self.text) is not None


def pages() -> Sequence[Path]:
    """Return every page, the READMEs of the plugins and examples among them."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    found += [*ROOT.glob("plugins/*/README.md"), *ROOT.glob("examples/*/README.md")]
    return sorted([*found, ROOT / "kernel" / "README.md"])


def blocks(page: Path) -> Iterator[Block]:
    """Yield the examples of a page in their order."""
    lines = iter(enumerate(page.read_text(encoding="utf-8").splitlines(), start=1))
    before: list[str] = []
    for number, line in lines:
        if not (fence := _FENCE.match(line)):
            before = [*before, line] if line else before if not before or before[-1] == "" else [*before, ""]
            continue
        text = []
        for _, inner in lines:
            if inner == "```":
                break
            text.append(inner)
        said = "\n".join(before).rstrip().rpartition("\n\n")[2]
        mark, named = _MARK.search(said), _NAMED.match(said)
        yield Block(
            page=page,
            line=number + 1,
            language=fence[1],
            text="\n".join(text) + "\n",
            path=named[1] if named else "",
            why=mark[1] if mark else "",
        )
        before = []
