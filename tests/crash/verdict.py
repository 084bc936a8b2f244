"""What journals say about messages: none lost, none answered twice, each child's work reported once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
TOKEN = re.compile(r"<[mhw]\d+>")  # a message, one to be handed on, and the work of a child


@dataclass
class Verdict:
    """What went wrong, a line each."""

    lost: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    children: list[str] = field(default_factory=list)
    shut: list[str] = field(default_factory=list)

    @property
    def table(self) -> str:
        """The result as people read it."""
        counts = {
            "acknowledged messages lost": self.lost,
            "answered twice": self.twice,
            "children reported twice or never": self.children,
            "sessions that cannot be opened": self.shut,
        }
        return "\n".join(f"| {what} | {len(found)} |" for what, found in counts.items())

    @property
    def faults(self) -> list[str]:
        """All that went wrong."""
        return [*self.lost, *self.twice, *self.children, *self.shut]

    def messages(self, events: Sequence[Json], tokens: Sequence[str]) -> None:
        """Look for what was sent to one session: consumed once, and answered in one whole answer."""
        taken = [token for body in inputs(events, "message") for token in TOKEN.findall(body["text"])]
        said = [token for text in finals(events) for token in TOKEN.findall(text)]
        for token in tokens:
            if not taken.count(token) or not said.count(token):
                self.lost.append(f"{token} is not answered: {around(events, token)}")
            elif taken.count(token) + said.count(token) > 2:
                self.twice.append(f"{token} is answered twice: {around(events, token)}")

    def child(self, name: str, its: Sequence[Json], parents: Sequence[Json]) -> None:
        """Compare the work that a child was given with the reports that its parent read."""
        given = sum("<w" in body["text"] for body in inputs(its, "message"))
        told = [body["text"] for body in inputs(parents, "report") if body["sender"] == f"session:{name}"]
        if given != len(told):
            self.children.append(f"{name} was given work {given} times, and its reports were {told}")


def inputs(events: Sequence[Json], cause: str) -> list[Json]:
    bodies = (event["body"] for event in events if event["kind"] == "input.added")
    return [body for body in bodies if body["cause"] == cause]


def finals(events: Sequence[Json]) -> list[str]:
    """Return the texts of answers that called for nothing more."""
    contents = [event["body"]["content"] for event in events if event["kind"] == "assistant.message"]
    whole = (content for content in contents if not any(block["type"] == "tool_call" for block in content))
    return ["".join(block["text"] for block in content if block["type"] == "text") for content in whole]


def answered(events: Sequence[Json]) -> bool:
    """Tell whether the last turn came to its end."""
    ends = [event["body"]["outcome"] for event in events if event["kind"] == "turn.ended"]
    return bool(ends) and ends[-1] == "succeeded"


def check_order(events: Sequence[Json]) -> int:
    """Check that a journal has no gap and one turn at a time; return the number of turns that a crash cut."""
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1)), "no gap in the journal"
    open_turn, cut = "", 0
    for event in events:
        if event["kind"] == "turn.started":
            assert not open_turn, "one turn at a time"
            open_turn = event["turn"]
        elif event["kind"] == "turn.ended":
            assert open_turn == event["turn"]
            open_turn, cut = "", cut + (event["body"]["error_kind"] == "crash")
    return cut


def around(events: Sequence[Json], token: str) -> str:
    """Return what happened from a message on."""
    first = next((at for at, event in enumerate(events) if token in str(event["body"].get("text", ""))), 0)
    part = events[max(0, first - 3) : first + 30]
    return "\n".join(f"{event['seq']} {event['kind']} {str(event['body'])[:300]}" for event in part)
