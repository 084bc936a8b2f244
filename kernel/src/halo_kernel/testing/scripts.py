"""What a scripted model server says to one request, and how it fails at it, on whichever wire."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType


class ScriptedCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool call; `arguments` as text is sent as it is. `id` None leaves the id out, `index` None the index (chat)."""

    name: str
    arguments: dict[str, Any] | str = {}
    id: str | None = ""
    index: int | None = -1


class Script(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One answer.

    It streams `pings` keep-alives, then `thinking`, then `text` in `pieces` chunks, then `calls` with their arguments
    in `fragments` chunks each (`parallel`: the calls' fragments take turns), then the finish reason, usage and, unless
    `done` is false, the wire's last word. '' as `finish` is the one that fits, None leaves it out; so does None as
    `usage`.

    Delays are in seconds: `first_delay` before the first chunk, `delay` before each other one. A `status` other than
    200 answers with `body` and `headers` instead. Faults count chunks from 0: at `damage_at` a chunk is broken JSON, at
    `error_at` an error object; from `hang_at` on nothing comes any more; at `cut_at`, or after `cut_after_bytes` bytes
    of the body, the answer ends in the way `cut` says: `close` inside the HTTP body, `abort` with a reset, `end` as if
    it were whole. `write_size` sends that many bytes at a time. `whole` ignores the wish for a stream.

    On the chat wire, `thinking_field` is where thinking goes. On the Messages wire, `redacted` comes as a block of its
    own after the thinking; thinking is signed so that the server knows it again.
    """

    text: str = ""
    pieces: int = 1
    thinking: str = ""
    thinking_field: str = "reasoning_content"
    redacted: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    fragments: int = 2
    parallel: bool = False
    finish: str | None = ""
    usage: dict[str, Any] | UnsetType | None = UNSET
    done: bool = True
    pings: int = 0
    first_delay: float = 0.0
    delay: float = 0.0
    status: int = 200
    headers: dict[str, str] = {}
    body: str = ""
    damage_at: int | None = None
    error_at: int | None = None
    hang_at: int | None = None
    cut_at: int | None = None
    cut_after_bytes: int | None = None
    cut: Literal["close", "abort", "end"] = "close"
    write_size: int | None = None
    whole: bool = False


def read_scripts(raw: bytes) -> tuple[Script, ...]:
    """Read a JSON array of scripts. Raises `msgspec.ValidationError`, which names the field and the rule."""
    return msgspec.json.decode(raw, type=tuple[Script, ...])


def cut(text: str, pieces: int) -> list[str]:
    """Cut `text` into at most `pieces` pieces of about one length."""
    size = max(1, -(-len(text) // max(1, pieces)))
    return [text[begin : begin + size] for begin in range(0, len(text), size)]


def written(call: ScriptedCall) -> str:
    """Return a call's arguments as the text that is sent."""
    return call.arguments if isinstance(call.arguments, str) else msgspec.json.encode(call.arguments).decode()
