"""What commands print: the answer on stdout, everything about it on stderr."""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from typing import Any, TextIO

from halo_kernel import BadInput, HaloError

# C0 but for tab and newline, DEL, C1, and what turns the direction of writing: they would act instead of being read.
_ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class Unwritable(HaloError):
    """Standard output takes nothing more, such as on a full disk."""


def note(text: str) -> None:
    """Say something about what happens."""
    print(shown(text, sys.stderr), file=sys.stderr, flush=True)


def say(text: str) -> None:
    """Print a line on stdout for whoever listens: when the reader has gone, it and what follows are lost quietly."""
    with suppress(BrokenPipeError):
        answer(text)


def answer(text: str) -> None:
    """Print on stdout what was asked for. Raises `BrokenPipeError`, or `Unwritable` for one that takes nothing more."""
    try:
        print(shown(text, sys.stdout), flush=True)
    except OSError as error:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())  # what is left must not fail again at exit
        os.close(nowhere)
        if isinstance(error, BrokenPipeError):
            raise
        raise Unwritable(f"the output cannot be written: {error.strerror}") from error


def shown(text: str, stream: TextIO | None) -> str:
    """Return what to write to a stream for others' text: on a terminal it is `visible`, elsewhere as it is."""
    return visible(text) if stream is not None and stream.isatty() else text


def visible(text: str) -> str:
    """Return a text in which characters that a terminal would obey are written out, such as `\\x1b`.

    Tab and newline stay. From DEL on it is `\\u009b`, which JSON may hold: in JSON the others are written out already.
    """
    return _ACTING.sub(_written_out, text.replace("\r\n", "\n"))


def _written_out(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x20 else f"\\u{code:04x}"


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
