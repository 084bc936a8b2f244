"""The next step of an answer: a function of the request alone."""

from __future__ import annotations

from collections.abc import Sequence

from halo_kernel import ModelRequest, ToolCall

from .answers import Writer
from .desk import Desk
from .finding import fits, names_or_none
from .phrases import phrases
from .question import find_question
from .wishes import Wish, find_wishes, language_of, mask, mentions_file

_NAME_WORDS = 4


def respond(request: ModelRequest) -> str | tuple[ToolCall, ...]:
    """Return the whole answer, or the calls that have to run before it."""
    question = find_question(request.messages)
    desk = Desk(results=question.results, tools={tool.name for tool in request.tools})
    answer = _answer(question.text, desk, question.last_file)
    return answer or tuple(
        ToolCall(id=f"rules_{question.calls + at}", name=tool, arguments=arguments)
        for at, (tool, arguments) in enumerate(desk.calls.values(), 1)
    )


def _answer(text: str, desk: Desk, last_file: str | None) -> str:
    """Return the answer, or nothing when the desk has calls to make first."""
    masked = mask(text)
    wishes = find_wishes(masked)
    if mentions_file(text) or any(wish.kind not in ("help", "other") for wish in wishes) or _is_name(wishes):
        names = names_or_none(desk, text)
        if desk.calls:
            return ""
        masked = mask(text, names)
        wishes = tuple(_as_name(wish, names) for wish in find_wishes(masked))
    say = phrases(language_of(masked))
    body = Writer(desk, say, last_file).write(wishes)
    if desk.calls:
        return ""
    understood = any(wish.kind != "other" for wish in wishes)
    return "\n\n".join(filter(None, [body, "" if understood else say.able, say.closing]))


def _is_name(wishes: Sequence[Wish]) -> bool:
    """Tell whether the whole text may be nothing but a file's name."""
    return len(wishes) == 1 and wishes[0].kind == "other" and len(wishes[0].targets[0].split()) <= _NAME_WORDS


def _as_name(wish: Wish, names: Sequence[str]) -> Wish:
    """Make a wish to hear about a file of what is nothing but its name or the stem of it."""
    if wish.kind == "other" and any(fits(name, wish.targets[0]) for name in names):
        return Wish("about", wish.targets)
    return wish
