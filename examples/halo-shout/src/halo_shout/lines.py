"""The protocol: lines of UTF-8, ended by LF or CRLF."""

from __future__ import annotations

import re
from asyncio import IncompleteReadError, LimitOverrunError, StreamReader
from collections.abc import AsyncGenerator

LIMIT = 2000
"""Bytes of a message, in either direction."""
LONGEST = LIMIT + 100
"""Bytes of a line that is read: `KEY <key> ` comes on top of a message."""
_HELLO = re.compile(r"HELLO ([A-Za-z0-9_.-]{1,64}) (\S+)")
_KEYED = re.compile(r"KEY ([!-~]{1,64}) (.*)")


async def read_lines(reader: StreamReader) -> AsyncGenerator[bytes | None, None]:
    """Yield lines without their end, and None for each that is longer than `LONGEST`, the reader's own limit."""
    long = False
    while True:
        try:
            line = await reader.readuntil(b"\n")
        except LimitOverrunError as error:
            await reader.readexactly(error.consumed)
            long = True
        except IncompleteReadError:
            return
        else:
            yield None if long else line.rstrip(b"\r\n")
            long = False


def read_hello(line: bytes | None) -> tuple[str, str]:
    """Return who says HELLO, and with which token; two empty texts for any other line."""
    found = _HELLO.fullmatch((line or b"").decode("utf-8", "replace"))
    return (found[1], found[2]) if found else ("", "")


def read_message(line: bytes | None) -> tuple[str, str]:
    """Return a message's key, '' where its sender gave none, and its text. Raises `ValueError` with a sentence."""
    try:
        said = line.decode() if line is not None else "x" * LONGEST
    except UnicodeDecodeError:
        raise ValueError("a message is UTF-8") from None
    found = _KEYED.fullmatch(said)
    key, text = (found[1], found[2]) if found else ("", said)
    if len(text.encode()) > LIMIT:
        raise ValueError(f"a message has at most {LIMIT} bytes")
    if not text.strip():
        raise ValueError("a message has a text")
    return key, text


def write_message(text: str) -> bytes:
    """Return the lines that a message of the agent is."""
    return b"<- " + text.replace("\r\n", "\n").replace("\n", "\n<| ").encode() + b"\n"


def split(text: str) -> list[str]:
    """Cut a text into messages, after a line or a word where one ends in the second half of what fits."""
    parts: list[str] = []
    rest = text.encode("utf-8", "replace")
    while len(rest) > LIMIT:
        end = max(rest.rfind(b"\n", LIMIT // 2, LIMIT), rest.rfind(b" ", LIMIT // 2, LIMIT)) + 1 or LIMIT
        while rest[end] & 0xC0 == 0x80:  # within a character
            end -= 1
        parts.append(rest[:end].decode())
        rest = rest[end:]
    return [*parts, rest.decode()]
