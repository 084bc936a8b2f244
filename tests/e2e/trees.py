"""Trees of files that no answer can know beforehand: names and contents are drawn anew for each test."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

QUESTION = "Which files are here, and what is README.md about?"
_SYLLABLES = ["ba", "ce", "di", "fo", "gu", "ka", "le", "mi", "no", "pu", "ra", "se", "ti", "vo", "zu"]
_FOREIGN = ["äpfel", "ñandú", "žába", "果园", "山川", "цвет", "ελιά", "🍎kern"]


@dataclass(frozen=True)
class Tree:
    """A folder; `names` are what lies at its top, folders with a slash."""

    path: Path
    names: frozenset[str]
    readme: str = ""
    title: str = ""
    opening: str = ""

    @property
    def contents(self) -> dict[str, bytes]:
        """What a person's own files hold, by path; Halo's folder is not theirs."""
        files = (path for path in self.path.rglob("*") if path.is_file() and ".halo" not in path.parts)
        return {str(path.relative_to(self.path)): path.read_bytes() for path in files}


def grow(folder: Path, *, readme: bool = True, foreign: bool = False, seed: int | None = None) -> Tree:
    """Make a tree below `folder`. `foreign` gives it spaces and letters of many scripts."""
    seed = random.randrange(2**32) if seed is None else seed
    print(f"the tree's seed: {seed}")  # pytest shows it when a test fails
    draw = _Draw(random.Random(seed), foreign)
    path = folder / draw.name()
    path.mkdir(parents=True)
    names = {f"{draw.name()}{draw.random.choice(['.txt', '.md', '.csv', '.py', ''])}" for _ in range(5)}
    for name in names:
        (path / name).write_text(f"{draw.sentence(6)}\n", encoding="utf-8")
    inner = path / draw.name()
    inner.mkdir()
    (inner / f"{draw.name()}.md").write_text(draw.sentence(4), encoding="utf-8")
    everything = frozenset({*names, f"{inner.name}/"})
    if not readme:
        return Tree(path, everything)
    title, opening = draw.words(3).title(), draw.sentence(9)
    text = f"# {title}\n\n{opening}\n\n## {draw.words(2).title()}\n\n{draw.sentence(12)}\n"
    (path / "README.md").write_text(text, encoding="utf-8")
    return Tree(path, everything | {"README.md"}, readme=text, title=title, opening=opening)


class _Draw:
    def __init__(self, source: random.Random, foreign: bool) -> None:
        self.random = source
        self._foreign = foreign
        self._used: set[str] = set()

    def word(self) -> str:
        """Return a word that was not drawn before."""
        while True:
            word = "".join(self.random.choices(_SYLLABLES, k=self.random.randint(3, 4)))
            if word not in self._used:
                self._used.add(word)
                return word

    def words(self, count: int) -> str:
        words = [self.word() for _ in range(count)]
        if self._foreign:
            words.insert(self.random.randrange(count), self.random.choice(_FOREIGN))
        return " ".join(words)

    def sentence(self, count: int) -> str:
        return f"{self.words(count).capitalize()}."

    def name(self) -> str:
        """Return a name of a file or folder, without an ending."""
        return self.words(2) if self._foreign else self.word()
