"""Calls that an answer needs: looked up among those that were made, else asked for."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from .question import Key, key_of
from .results import Result


class Waiting(Exception):
    """The answer needs the result of a call that was not made yet; the desk has it on its list."""


class NotOffered(Exception):
    """The answer needs a tool that this session does not have."""

    def __init__(self, tool: str) -> None:
        super().__init__(tool)
        self.tool = tool


class Desk:
    """Answers with results that are there; `calls` lists what has to run first, in order and each once."""

    def __init__(self, *, results: Mapping[Key, Result], tools: Collection[str]) -> None:
        self._results = results
        self._tools = tools
        self.calls: dict[Key, tuple[str, dict[str, object]]] = {}

    def offers(self, tool: str) -> bool:
        """Tell whether this session has the tool."""
        return tool in self._tools

    def want(self, tool: str, **arguments: object) -> Result | None:
        """Return a call's result, or put the call on the list and return None. Raises `NotOffered`."""
        if not self.offers(tool):
            raise NotOffered(tool)
        key = key_of(tool, arguments)
        if key not in self._results:
            self.calls[key] = (tool, arguments)
        return self._results.get(key)

    def ask(self, tool: str, **arguments: object) -> Result:
        """Return a call's result. Raises `Waiting` when it has to run first, `NotOffered` when it cannot."""
        result = self.want(tool, **arguments)
        if result is None:
            raise Waiting
        return result
