"""What the platform answers instead of a result."""

from __future__ import annotations

from typing import Any


class Refused(Exception):
    """An answer with `ok: false`; `parameters` is the machine-readable part that some refusals have."""

    def __init__(self, code: int, description: str, parameters: dict[str, Any] | None = None) -> None:
        super().__init__(description)
        self.code = code
        self.description = description
        self.parameters = parameters or {}

    @property
    def record(self) -> dict[str, Any]:
        """The answer's body."""
        said = {"ok": False, "error_code": self.code, "description": self.description}
        return said | ({"parameters": self.parameters} if self.parameters else {})


def bad_request(reason: str) -> Refused:
    """Make a refusal of what was asked for."""
    return Refused(400, f"Bad Request: {reason}")


def cant_parse(reason: str) -> Refused:
    """Make a refusal of a text's markup."""
    return bad_request(f"can't parse entities: {reason}")


def forbidden(reason: str) -> Refused:
    """Make a refusal because of the bot's standing in a chat."""
    return Refused(403, f"Forbidden: {reason}")


def conflict(reason: str) -> Refused:
    """Make a refusal because somebody else receives this bot's updates."""
    return Refused(409, f"Conflict: {reason}")


def too_many_requests(seconds: int) -> Refused:
    """Make a refusal that says when to ask again."""
    return Refused(429, f"Too Many Requests: retry after {seconds}", {"retry_after": seconds})


def migrated(chat_id: int) -> Refused:
    """Make a refusal that names the supergroup which a group has become."""
    return Refused(400, "Bad Request: group chat was upgraded to a supergroup chat", {"migrate_to_chat_id": chat_id})


UNAUTHORIZED = Refused(401, "Unauthorized")
TOO_LARGE = Refused(413, "Request Entity Too Large")
