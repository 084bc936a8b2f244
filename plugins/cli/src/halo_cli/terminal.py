"""What commands print: the answer on stdout, everything about it on stderr."""

from __future__ import annotations

import sys
from typing import Any

from halo_kernel import BadInput


def note(text: str) -> None:
    """Say something about what happens."""
    print(text, file=sys.stderr, flush=True)


def plain(text: str, field: str) -> str:
    """Return what a person typed, if it is text: bytes that are not UTF-8 reach us in disguise. Raises `BadInput`."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadInput(f"the {field} is not UTF-8 text", field=field) from None
    return text


def model_line(status: dict[str, Any]) -> str:
    """Return which model answers and why, from `GET /api/models`; rules are never called a model."""
    chosen = next((offer for offer in status["models"] if offer["model"] == status["chosen"]), None)
    if chosen is None:
        return f"No model can answer: {status['reason']}"
    if chosen["is_model"]:
        return f"Model: {chosen['model']} ({status['reason']})"
    missing = next((offer for offer in status["models"] if offer["is_model"]), None)
    why = f" First in line is {missing['model']} ({missing['reason']})." if missing else ""
    return f"No model is running: built-in rules answer.{why}"
