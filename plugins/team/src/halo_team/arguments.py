"""Arguments of the tools: one struct a tool is its JSON Schema and the check of what a model gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from halo_kernel import BadInput

A = TypeVar("A", bound=Struct)
MOST_TEXT = 400_000
Text = Annotated[str, Meta(max_length=MOST_TEXT)]


class Arguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every tool's arguments have in common; without more, none are taken."""


class StartArguments(Arguments, frozen=True, kw_only=True):
    """Of `start_session`."""

    agent_id: Annotated[str, Meta(description="The agent to give the work to, one of your team.")]
    message: Annotated[Text, Meta(description="The task, whole: the new session knows nothing of this conversation.")]
    system_prompt_context: Annotated[Text, Meta(description="Background that goes before the task.")] = ""
    working_dir: Annotated[
        str | None, Meta(description="The folder in the workspace that it is about; absent: the one of this session.")
    ] = None
    title: Annotated[str, Meta(description="A short name for lists; absent: the beginning of the message.")] = ""


class SendArguments(Arguments, frozen=True, kw_only=True):
    """Of `query_session`."""

    target_session_id: Annotated[str, Meta(description="A session of your tree.")]
    message: Annotated[Text, Meta(description="What to tell or to ask it.")]


class InterruptArguments(Arguments, frozen=True, kw_only=True):
    """Of `interrupt_session`."""

    session_id: Annotated[str, Meta(description="A session of your tree.")]
    message: Annotated[Text, Meta(description="What it is to do instead.")]


class SessionArguments(Arguments, frozen=True, kw_only=True):
    """Of the tools that are about one session."""

    session_id: Annotated[str, Meta(description="A session of your tree.")]


class AgentArguments(Arguments, frozen=True, kw_only=True):
    """Of `query_agent`."""

    agent_id: Annotated[str, Meta(description="An agent of your team.")]


def schema(arguments: type[Arguments]) -> dict[str, Any]:
    """Return the JSON Schema object that a model sees."""
    found: dict[str, Any] = dict(msgspec.json.schema(arguments)["$defs"][arguments.__name__])
    return {name: value for name, value in found.items() if name not in ("title", "description")}


def decode(given: Mapping[str, object], arguments: type[A]) -> A:
    """Return the checked arguments; null counts as not given. Raises `BadInput` that names what is wrong."""
    present = {name: value for name, value in given.items() if value is not None}
    needed = [field.encode_name for field in msgspec.structs.fields(arguments) if field.required]
    if any(name not in present or _is_blank(present[name]) for name in needed):
        raise BadInput(f"{' and '.join(needed)} {'is' if len(needed) == 1 else 'are'} required")
    try:
        return msgspec.convert(present, arguments)
    except msgspec.ValidationError as error:
        raise BadInput(f"the arguments are wrong: {error}") from error


def _is_blank(value: object) -> bool:
    return isinstance(value, str) and not value.strip()
