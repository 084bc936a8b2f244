"""How the platform says no."""

from __future__ import annotations

from typing import Any


class Refused(Exception):
    """A method's refusal in Slack's words.

    `messages` go to `response_metadata.messages`; `facts` stand beside the error.
    """

    def __init__(self, error: str, *messages: str, **facts: Any) -> None:
        super().__init__(error)
        self.error = error
        self.messages = messages
        self.facts = facts

    def body(self) -> dict[str, Any]:
        """Return the answer's body."""
        body: dict[str, Any] = {"ok": False, "error": self.error, **self.facts}
        if self.messages:
            body["response_metadata"] = {"messages": list(self.messages)}
        return body


class Limited(Refused):
    """A refusal with status 429; `wait` is in whole seconds."""

    def __init__(self, wait: int) -> None:
        super().__init__("ratelimited")
        self.wait = wait
