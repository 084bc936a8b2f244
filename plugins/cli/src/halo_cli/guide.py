"""One value after the other, each tried as soon as it can be, and asked for again when its platform refuses it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from halo_kernel import BadInput, DeliveryFailed, HaloError, PluginFailed

from .progress import waiting
from .terminal import note
from .values import Body, Field, ask, pipe_in, place, type_in

ASKING = "Asking the platform"


def settle(
    body: Body, fields: Sequence[Field], store: Callable[[], Any], trial: Callable[[], object] | None = None
) -> Any:
    """Have a person type what is missing in `body`, and return what `store` gives; where nobody is, lines are read.

    Once nothing needed is missing, each further value has its `trial`. A value that either refuses is asked for again.
    Raises what is no value's fault, and anything when nobody is there to answer.
    """
    asked = [each for each in fields if each["name"] not in place(body, each)]
    if not can_ask():
        pipe_in(asked, body)
        with waiting(ASKING):
            return store()
    is_due = False
    while True:
        is_new, is_due = is_due or (bool(asked) and ask(asked.pop(0), body)), False
        if asked and not (trial and is_new and all(each["optional"] for each in asked)):
            continue
        try:
            with waiting(ASKING):
                if not trial or not asked:
                    return store()
                trial()
        except BadInput as error:
            again = next((each for each in fields if each["name"] == error.field), None)
            if again is None:
                raise
            note(told(error))
            asked = [again, *(each for each in asked if each is not again)]
        except (PluginFailed, DeliveryFailed) as error:
            note(told(error))
            type_in("Enter tries again, Ctrl-C ends this: ", "answer")
            is_due = True


def can_ask() -> bool:
    """Tell whether somebody is there to answer."""
    return sys.stdin is not None and sys.stdin.isatty()


def told(error: HaloError) -> str:
    """Return an error as a person reads it."""
    return f"{error.message.rstrip('.')}. {error.advice[:1].upper()}{error.advice[1:]}".rstrip()
