"""Answers that depend on the request: what a scripted model server says without a script."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from .scripts import Script, ScriptedCall


@dataclass
class Received:
    """A request that arrived, read the same on every wire.

    `ended` is `whole`, `cut` (by the script), `gone` (the client left), '' while it runs.
    """

    method: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any] = field(default_factory=dict[str, Any])
    ended: str = ""
    over: asyncio.Event = field(default_factory=asyncio.Event, repr=False, compare=False)

    def end(self, how: str) -> None:
        """Note how the answer ended, and wake who waits for `over`."""
        self.ended = how
        self.over.set()

    @property
    def record(self) -> dict[str, Any]:
        """The request as JSON can hold it."""
        names = ("method", "path", "headers", "body", "ended")
        return {name: getattr(self, name) for name in names}

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation that the client sent."""
        found: list[dict[str, Any]] = self.body.get("messages") or []
        return found

    @property
    def question(self) -> str:
        """The text of the last user message that has any."""
        said = (_text(each) for each in reversed(self.messages) if each.get("role") == "user")
        return next(filter(None, said), "")

    @property
    def results(self) -> list[str]:
        """The tool results that came after the last text of the user."""
        found: list[str] = []
        for message in reversed(self.messages):
            found[:0] = _results(message)
            if message.get("role") == "user" and _text(message):
                break
        return found

    def tool(self, name: str) -> dict[str, Any] | None:
        """Return the description of a tool that the client offers."""
        tools: list[dict[str, Any]] = self.body.get("tools") or []
        return next((tool for each in tools if (tool := each.get("function", each))["name"] == name), None)


Responder = Callable[[Received], Script | Awaitable[Script]]


def echo(request: Received) -> Script:
    """Repeat the question."""
    return Script(text=f"You said: {request.question}", pieces=4)


def files(request: Received) -> Script:
    """List the files, read a readme if there is one, then answer from what the tools said."""
    results = request.results
    if not results:
        return _calls(request, "file_list", ".") or Script(text="I have no tools here.")
    readme = re.search(r"\bREADME(?:\.\w+)?\b", results[0], re.IGNORECASE)
    if len(results) == 1 and readme:
        reading = _calls(request, "file_read", readme[0])
        if reading:
            return reading
    about = f"\n\nThe readme says:\n{results[1]}" if len(results) > 1 else "\n\nThere is no readme."
    return Script(text=f"These files are here:\n{results[0]}{about}", pieces=8)


RESPONDERS: dict[str, Responder] = {"echo": echo, "files": files}


def _calls(request: Received, name: str, path: str) -> Script | None:
    tool = request.tool(name)
    if tool is None:
        return None
    schema: dict[str, Any] = tool.get("parameters") or tool.get("input_schema") or {}
    known: dict[str, Any] = schema.get("properties") or {}
    parameter = "path" if "path" in known or not known else next(iter(known))
    return Script(calls=(ScriptedCall(name=name, arguments={parameter: path}),))


def _text(message: dict[str, Any]) -> str:
    return "".join(part.get("text", "") for part in _parts(message) if part.get("type", "text") == "text")


def _results(message: dict[str, Any]) -> list[str]:
    if message.get("role") == "tool":
        return [_text(message)]
    return [_text(part) for part in _parts(message) if part.get("type") == "tool_result"]


def _parts(message: dict[str, Any]) -> list[dict[str, Any]]:
    content: str | list[dict[str, Any]] = message.get("content") or []
    return [{"text": content}] if isinstance(content, str) else content
