"""A small agent loop over a real folder, with tools that answer as the file tools do."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import translate
from pathlib import Path

import pytest

from halo_kernel import (
    Message,
    ModelProvider,
    ModelRequest,
    Stop,
    Text,
    TextDelta,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
)
from halo_offline import provide_models

TOOLS = ("file_read", "file_list", "grep", "glob")
STAMP = "[2026-11-30T12:00:00.000Z] "
MOST_STEPS = 40


class ToolFailed(Exception):
    """What a tool raises; the loop makes an error result of it."""


def file_read(root: Path, path: str, offset: int = 1, limit: int = 2000) -> str:
    target = root / path
    if not target.is_file():
        raise ToolFailed(f"{path}: no such file")
    lines = target.read_text(encoding="utf-8").splitlines()
    if offset > len(lines):
        return f"(empty: file has {len(lines)} lines, offset={offset} is past end)"
    shown = lines[offset - 1 : offset - 1 + limit]
    width = len(str(offset + len(shown) - 1))
    text = "\n".join(f"{number:>{width}}\t{line}" for number, line in enumerate(shown, offset))
    left = len(lines) - (offset - 1 + len(shown))
    return text + (f"\n... {left} more line(s) — use offset={offset + len(shown)} to continue." if left else "")


def walk(root: Path, folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        yield path
        if path.is_dir():
            yield from walk(root, path)


def file_list(root: Path, path: str = ".", recursive: bool = False) -> str:
    target = root / path
    if not target.is_dir():
        raise ToolFailed(f"{path}: no such folder")
    found = list(walk(root, target)) if recursive else sorted(target.iterdir())
    lines = [f"{'📁' if each.is_dir() else '📄'} {each.relative_to(target)}" for each in found[:500]]
    return "\n".join(lines + ["[truncated]"] * (len(found) > 500)) or "(empty)"


def grep(root: Path, pattern: str, path: str = ".", include: str = "", max_results: int = 50) -> str:
    target = root / path
    expression = re.compile(pattern)
    hits = [
        f"{file.relative_to(root)}:{number}:{line}"
        for file in ([target] if target.is_file() else [each for each in walk(root, target) if each.is_file()])
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if expression.search(line)
    ]
    note = ["... more lines match: narrow the pattern, path or include."] if len(hits) > max_results else []
    return "\n".join(hits[:max_results] + note) or f'No matches found for pattern "{pattern}"'


def glob(root: Path, pattern: str, path: str = ".") -> str:
    name = re.compile(translate(pattern.removeprefix("**/").replace("[!]", "!")))
    files = [each for each in walk(root, root) if each.is_file()]
    found = sorted(str(file.relative_to(root)) for file in files if name.fullmatch(file.name))
    return "\n".join(found) or f"No files found matching pattern {pattern}"


RUN: Mapping[str, Callable[..., str]] = {"file_read": file_read, "file_list": file_list, "grep": grep, "glob": glob}


def cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    told = f"[Content truncated: {len(text)} chars total, showing first {most}. Re-run with a narrower scope]"
    return f"{text[:most]}\n{told}"


@dataclass
class Agent:
    """Asks the provider, runs its calls in `root`, and keeps the conversation."""

    root: Path
    tools: Sequence[str] = TOOLS
    broken: Mapping[str, str] = field(default_factory=dict)
    cap: int = 8000
    messages: list[Message] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    deltas: list[str] = field(default_factory=list)
    provider: ModelProvider = field(default_factory=lambda: next(iter(provide_models())))

    async def ask(self, text: str) -> str:
        """Return the answer, running tool calls until there are none."""
        self.messages.append(Message("user", (Text(STAMP + text),)))
        for _ in range(MOST_STEPS):
            answer = await self.step()
            if answer is not None:
                return answer
        raise AssertionError(f"no answer after {MOST_STEPS} steps")

    def request(self) -> ModelRequest:
        specs = tuple(ToolSpec(name=name, description=name, parameters={}, effect="read") for name in self.tools)
        return ModelRequest(model="rules", system="", messages=tuple(self.messages), tools=specs)

    async def step(self) -> str | None:
        chunks = [chunk async for chunk in self.provider.stream(self.request())]
        self.deltas = [chunk.text for chunk in chunks if isinstance(chunk, TextDelta)]
        calls = tuple(chunk for chunk in chunks if isinstance(chunk, ToolCall))
        assert chunks[-2:] == [Usage(), Stop("tools" if calls else "end")]
        assert not (calls and self.deltas)
        text = "".join(self.deltas)
        self.messages.append(Message("assistant", calls or (Text(text),)))
        if not calls:
            return text
        self.calls += calls
        self.messages.append(Message("user", tuple(self.run(call) for call in calls)))
        return None

    def run(self, call: ToolCall) -> ToolResult:
        assert call.name in self.tools
        if call.name in self.broken:
            return ToolResult(call.id, self.broken[call.name], error=True)
        try:
            return ToolResult(call.id, cut(RUN[call.name](self.root, **call.arguments), self.cap))
        except ToolFailed as failure:
            return ToolResult(call.id, str(failure), error=True)


_numbers = itertools.count()


@pytest.fixture
def new_agent(tmp_path: Path) -> Callable[..., Agent]:
    """Make an agent in a folder of its own that holds the given files."""

    def make(files: Mapping[str, str], **options: object) -> Agent:
        root = tmp_path / f"workspace-{next(_numbers)}"
        root.mkdir()
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
        return Agent(root, **options)  # type: ignore[arg-type]

    return make
