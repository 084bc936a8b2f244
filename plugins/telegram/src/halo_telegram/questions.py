"""A question with buttons: each says what a person would have to type."""

from __future__ import annotations

from collections.abc import Sequence

from halo_kernel import Host, Part, Principal, QuestionInfo

Keyboard = dict[str, list[list[dict[str, str]]]]
NONE: Keyboard = {"inline_keyboard": []}
_LABEL = 60  # characters; a longer one is cut by people's screens


async def buttons(host: Host, part: Part, *, workspace: str, owner: str) -> Keyboard | None:
    """Return the buttons below a part, None for one that is no end of an open question; numbers answer it anyway."""
    if part.debt != "question":
        return None
    asker = Principal(name=owner)
    found = await host.questions.list(workspace=workspace, principal=asker, session=part.session)
    return next((keyboard(each) for each in reversed(found) if _ends(part.text, each)), None)


def _ends(text: str, question: QuestionInfo) -> bool:
    """Tell whether a part ends with the last choice of a question: its beginning may be in another part."""
    choices = ["✅", "❌", *question.options]
    return text.rstrip().endswith(f"{len(choices)}. {choices[-1]}".rstrip())


def keyboard(question: QuestionInfo) -> Keyboard:
    """Return a row that allows or refuses, and a row for each further choice."""

    def button(label: str, number: int) -> dict[str, str]:
        return {"text": label, "callback_data": f"/answer {question.id} {number}"}

    options: Sequence[str] = question.options
    more = [[button(each[:_LABEL].strip() or str(number), number)] for number, each in enumerate(options, 3)]
    return {"inline_keyboard": [[button("✅", 1), button("❌", 2)], *more]}
