"""The parts of a system prompt that come from files; two calls without a change in between give the same bytes."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from halo_kernel import AgentSpec, ContextPart, SessionInfo, Slot

from .catalog import Catalog, locate
from .files import Files, HomeFiles, WorkspaceFiles, open_workspace
from .versions import Seen

DEFAULT = "You are a helpful agent that works with the files of a workspace."
MOST_KEPT = 64
KNOWLEDGE = "What is known about this project. Read what it points to before you rely on it."
_PLACEHOLDER = re.compile(r"\{\{([\w.]+)\}\}")
_FRONT_MATTER = re.compile(r"---[ \t]*\n(.*?)\n---[ \t]*(?:\n|$)", re.DOTALL)
_FIELD = re.compile(r"(user_name|ai_name):[ \t]*(.*)")


def compose(info: SessionInfo, agent: AgentSpec, catalog: Catalog, seen: Seen | None = None) -> tuple[ContextPart, ...]:
    """Return a session's parts. Raises `BadFile` for a file that is there and cannot be read.

    `seen` is told of each file and folder that the parts depend on.
    """
    seen = seen or Seen()
    with open_workspace(info.folder, seen.look) as own:
        return tuple(_Composer(info, agent, catalog, own, HomeFiles(catalog.home, seen.look)).parts())


class Prompts:
    """Composes prompts, and keeps each for as long as nothing that it was made from has changed."""

    def __init__(self, catalog: Catalog) -> None:
        self.home = catalog.home
        self._catalog = catalog
        self._kept: dict[tuple[object, ...], tuple[Seen, tuple[ContextPart, ...]]] = {}

    def kept(self, info: SessionInfo, agent: AgentSpec) -> tuple[ContextPart, ...] | None:
        """Return a session's parts if they are known and still right; no file is opened for that."""
        seen, parts = self._kept.get(_key(info, agent), (None, None))
        return parts if seen is not None and seen.is_same() else None

    def compose(self, info: SessionInfo, agent: AgentSpec) -> tuple[ContextPart, ...]:
        """Read a session's parts. Raises `BadFile`."""
        seen, key = Seen(), _key(info, agent)
        parts = compose(info, agent, self._catalog, seen)
        self._kept.pop(key, None)
        if seen.settled:
            self._kept[key] = seen, parts
            for oldest in list(self._kept)[:-MOST_KEPT]:
                self._kept.pop(oldest, None)
        return parts


def _key(info: SessionInfo, agent: AgentSpec) -> tuple[object, ...]:
    """Return all that a prompt depends on beside files."""
    return info.folder, info.directory, bool(info.parent), agent.id, agent.name, agent.source, agent.internal


@dataclass(frozen=True)
class _Composer:
    info: SessionInfo
    agent: AgentSpec
    catalog: Catalog
    own: WorkspaceFiles
    home: HomeFiles

    def parts(self) -> Iterator[ContextPart]:
        """Yield the parts in the order of the slots. An internal agent has nothing but its own text."""
        layer = [part for part in self._layer() if part.text]
        yield from layer
        if not layer:
            prompt = self._system_prompt()
            yield _part("agent", "agent.yaml" if prompt else "default", prompt or DEFAULT)
            if prompt:
                return
        if not self.agent.internal:
            yield _part("place", "workspace", self._place())
            if not self.info.parent:
                yield self._folder("root")
            yield self._folder("all")

    def _layer(self) -> Iterator[ContextPart]:
        if not self.info.parent and not self.agent.internal:
            profile, text = self._profile()
            yield _part("profile", f"{profile.label}/USER.md", _headed("User Profile", text))
        yield self._agent_text()
        yield self._instructions()
        if not self.agent.internal:
            index = _text(self.own, "INDEX.md")
            knowledge = f"{KNOWLEDGE}\n\n{index}" if index else ""
            yield _part("knowledge", f"{self.own.label}/INDEX.md", _headed("Project Knowledge", knowledge))

    def _profile(self) -> tuple[Files, str]:
        text = _text(self.own, "USER.md")
        return (self.own, text) if text else (self.home, _text(self.home, "USER.md"))

    def _agent_text(self) -> ContextPart:
        name = f"agents/{self.agent.id}/AGENT.md"
        place = locate(self.own, self.home, self.agent.id) if self._is_ours() else None
        text = _text(place, name) if place else ""
        label = place.label if place else self.own.label
        return _part("agent", f"{label}/{name}", self._rendered(text))

    def _is_ours(self) -> bool:
        """Tell whether the agent comes from one of the two folders, and not from another source of agents."""
        name = f"agents/{self.agent.id}"
        return self.agent.source in (self.own.path(name), self.home.path(name))

    def _instructions(self) -> ContextPart:
        """Return the workspace's rules, else the home's, then those of the session's directory, outer ones first."""
        sections = list(self._directory_rules())
        own = self.own.read("INSTRUCTIONS.md")
        if not self.agent.internal:
            # An empty file of the workspace silences the home's as well.
            rules = own if own is not None else self.home.read("INSTRUCTIONS.md")
            sections.insert(0, (rules or "").strip())
        label = self.home.label if own is None else self.own.label
        text = "\n\n".join(filter(None, sections))
        return _part("instructions", f"{label}/INSTRUCTIONS.md", _headed("User Instructions", text))

    def _directory_rules(self) -> Iterator[str]:
        folder = ""
        for step in filter(None, self.info.directory.split("/")):
            folder = f"{folder}/{step}" if folder else step
            text = (self.own.read_any(f"{folder}/.halo/INSTRUCTIONS.md") or "").strip()
            if text:
                yield f"### {folder}\n\n{text}"

    def _place(self) -> str:
        root = self.info.folder
        lines = [f"The workspace root is: {root}" if self.info.parent else f"The project workspace is at: {root}"]
        if self.info.directory:
            lines.append(f"Working directory: {os.path.join(root, self.info.directory)}")
        return "\n".join(lines)

    def _folder(self, slot: Slot) -> ContextPart:
        """Return a prompts folder's texts by name. A folder of the workspace stands for the home's, even if empty."""
        files: Files = self.home if self.own.names(f"prompts/{slot}") is None else self.own
        names = files.names(f"prompts/{slot}")
        texts = [_text(files, f"prompts/{slot}/{name}") for name in texts_for(names or ())]
        return _part(slot, f"{files.label}/prompts/{slot}", "\n\n".join(filter(None, texts)))

    def _system_prompt(self) -> str:
        place = locate(self.own, self.home, self.agent.id) if self._is_ours() else None
        definition = self.catalog.read(place, self.agent.id) if place else None
        return self._rendered(definition.system_prompt) if definition else ""

    def _rendered(self, text: str) -> str:
        """Fill in the placeholders that are the same in every turn; any other stays as it is."""
        names = self._names()
        root = self.info.folder
        values = {
            "workspace_root": root,
            "working_dir": os.path.join(root, self.info.directory) if self.info.directory else root,
            "agent_name": self.agent.name,
            "user_name": names.get("user_name"),
            "ai_name": names.get("ai_name"),
        }
        return _PLACEHOLDER.sub(lambda match: values.get(match[1]) or match[0], text)

    def _names(self) -> dict[str, str]:
        """Return the names in the first USER.md that has front matter, the workspace's first."""
        for files in (self.own, self.home):
            front = _FRONT_MATTER.match(files.read("USER.md") or "")
            if front:
                found = (_FIELD.fullmatch(line.strip()) for line in front[1].split("\n"))
                return {match[1]: match[2].strip().strip("\"'") for match in found if match}
        return {}


def _text(files: Files, name: str) -> str:
    return (files.read(name) or "").strip()


def _part(slot: Slot, source: str, text: str) -> ContextPart:
    return ContextPart(slot=slot, source=source, text=text.strip())


def _headed(heading: str, text: str) -> str:
    return f"## {heading}\n\n{text}" if text else ""


def texts_for(names: tuple[str, ...], system: str = sys.platform) -> list[str]:
    """Return the prompt files for this system: `x.windows.md` stands for `x.md` on Windows and is nothing elsewhere."""
    texts = [name for name in names if name.endswith(".md")]
    special = [name for name in texts if name.endswith(".windows.md")]
    if system != "win32":
        return sorted(set(texts) - set(special))
    replaced = {name.removesuffix(".windows.md") + ".md" for name in special}
    return sorted(set(texts) - replaced)
