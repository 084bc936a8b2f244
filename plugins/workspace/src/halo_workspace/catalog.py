"""The agents of a workspace: its own folders over the home's, whole folders at a time."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from halo_kernel import AgentSpec, BadFile, WorkspaceInfo

from .definition import Definition, read_definition
from .files import Files, HomeFiles, open_workspace
from .versions import Version, is_settled

_ID = re.compile(r"[\w-]+")


class Log(Protocol):
    """Where findings go that stop nothing."""

    def warning(self, event: str, *args: Any, **facts: Any) -> Any:
        """Log one line."""
        ...


@dataclass(frozen=True)
class Cached:
    """What a version of a file was read as; `settled`: not so soon after a change that the next might not show."""

    version: Version
    settled: bool
    outcome: Definition | BadFile


class Catalog:
    """Reads `<workspace>/.halo/agents/<id>/` and `HALO_HOME/global/agents/<id>/`; unchanged files are read once."""

    def __init__(self, home: Path, log: Log) -> None:
        self.home = home
        self._log = log
        self._cached: dict[str, Cached] = {}

    def find(self, workspace: WorkspaceInfo, agent: str) -> AgentSpec | None:
        """Return the agent that counts here, or None. Raises `BadFile` when its definition is broken or missing."""
        with open_workspace(workspace.path) as own:
            place = locate(own, HomeFiles(self.home), agent)
            return self.read(place, agent).spec if place else None

    def list(self, workspace: WorkspaceInfo) -> Sequence[AgentSpec]:
        """Return all agents that can be read: highest priority first, the workspace's own first among equals."""
        found: list[tuple[int, bool, str, AgentSpec]] = []
        with open_workspace(workspace.path) as own:
            home = HomeFiles(self.home)
            for agent in sorted({*_folders(own), *_folders(home)}):
                place = locate(own, home, agent)
                try:
                    definition = self.read(place, agent) if place else None
                except BadFile as error:
                    self._log.warning("agent left out", agent=agent, reason=error.message)
                    continue
                if definition and place:
                    found.append((-definition.spec.priority, place is home, agent, definition.spec))
        return [spec for *_, spec in sorted(found, key=lambda each: each[:3])]

    def read(self, place: Files, agent: str) -> Definition:
        """Return the whole definition of an agent that `place` has. Raises `BadFile`."""
        name = f"agents/{agent}/agent.yaml"
        now, known = place.version(name), self._cached.get(place.path(name))
        if known is None or known.version != now or not known.settled:
            before, known = known, Cached(now, is_settled(now), self._load(place, agent))
            self._cached[place.path(name)] = known
            if before is None or before.outcome != known.outcome:
                self._warn(known.outcome)
        if isinstance(known.outcome, BadFile):
            raise known.outcome.with_traceback(None)
        return known.outcome

    def _load(self, place: Files, agent: str) -> Definition | BadFile:
        folder = place.path(f"agents/{agent}")
        try:
            text = place.read(f"agents/{agent}/agent.yaml")
            if text is None:
                raise BadFile(
                    f"{folder} has no agent.yaml, so the agent {agent} cannot be used",
                    path=f"{folder}/agent.yaml",
                    advice="write one, or delete the folder",
                )
            return read_definition(text, agent=agent, folder=folder)
        except BadFile as error:
            return error

    def _warn(self, outcome: Definition | BadFile) -> None:
        if isinstance(outcome, BadFile):
            return
        for unknown in outcome.unknown:
            file = f"{outcome.spec.source}/agent.yaml"
            self._log.warning("unknown key ignored", file=file, line=unknown.line, key=unknown.key)


def locate(own: Files, home: Files, agent: str) -> Files | None:
    """Return the place that has the agent's folder: the workspace, else the home. Nothing is merged."""
    if not _ID.fullmatch(agent):
        return None
    return next((place for place in (own, home) if place.has(f"agents/{agent}")), None)


def _folders(place: Files) -> list[str]:
    names = place.names("agents") or ()
    return [name for name in names if _ID.fullmatch(name) and os.path.isdir(place.path(f"agents/{name}"))]
