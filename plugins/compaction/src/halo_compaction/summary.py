"""What stands in place of the messages that go: a model's summary, or without a model their beginnings."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from halo_kernel import Message, ModelRequest, Text

from .plan import Side

# Other programs look for this beginning: it stays as it is.
_MARK = "[Conversation Summary — "
_NO_TEXT = "(the earlier messages had no text)"
INSTRUCTION = """\
[System] This conversation has grown too long. Your answer to this message will stand in place of nearly all of it, so
write down everything that is needed to go on without it:

1. what was asked for, with every wish, limit and correction, in the words used where they matter
2. what was found out and decided, with exact names, paths, numbers, commands and errors
3. what was done and what came of it: files read, written and changed, calls that failed
4. what is under way now, what is open, and the next step

If the conversation begins with an earlier summary, carry over what still counts of it. Write in the language of the
conversation. Call no tool, and answer with the summary alone."""


def summary_request(request: ModelRequest) -> ModelRequest:
    """Return the call that has the same agent summarise the conversation of `request`.

    It begins as that one does, so that a provider's cache of the beginning serves both.
    """
    ask, messages = Text(INSTRUCTION), request.messages
    if messages and messages[-1].role == "user":
        return replace(request, messages=(*messages[:-1], Message("user", (*messages[-1].content, ask))))
    return replace(request, messages=(*messages, Message("user", (ask,))))


def by_model(older: Sequence[Side], answer: str) -> str:
    """Return a model's summary of some messages as it stands in the history."""
    return f"{_MARK}{len(older)} messages compacted]\n{answer.strip()}"


def without_model(older: Sequence[Side], *, slice_chars: int, chars: int) -> str:
    """Return the beginnings of some messages, `slice_chars` of each, as they stand in the history.

    There are `chars` in all: the newest are kept, and up to half of it for a summary that they begin with.
    """
    texts = [(side.role, side.text.strip()) for side in older]
    former = ""
    if texts and texts[0][1].startswith(_MARK):
        former = texts.pop(0)[1].partition("\n")[2][: chars // 2]
    lines = _last([f"[{role}]: {text[:slice_chars]}" for role, text in texts if text], chars - len(former))
    said = "\n".join(filter(None, (former, *lines)))
    return f"{_MARK}{len(older)} messages compacted (local fallback)]\n{said or _NO_TEXT}"


def _last(lines: Sequence[str], chars: int) -> Sequence[str]:
    """Return the last of `lines` that have `chars` in all, one at least, as far as it fits."""
    begin, room = len(lines), chars
    while begin and len(lines[begin - 1]) < room:
        begin -= 1
        room -= len(lines[begin]) + 1
    return lines[begin:] or [line[:chars] for line in lines[-1:]]
