"""`agent.yaml`: what it may say, and one clear error where it says something else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from halo_kernel import AgentSpec, BadFile, ModelChoice

from .lined import Lined, read_yaml

Text = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=1)]


class Thinking(Struct, frozen=True):
    """How much a model reasons before it answers."""

    enabled: bool = False
    effort: str | UnsetType = UNSET
    budget_tokens: Count | UnsetType = UNSET


class Model(Struct, frozen=True, rename="camel"):
    """Which model answers, and how; without this block the kernel chooses."""

    provider: Text
    id: Text
    endpoint: Text | None = None
    max_tokens: Count | None = None
    fallbacks: tuple[Text, ...] | None = None
    prompt_caching: bool | Literal["5m", "1h"] | UnsetType = UNSET
    thinking: Thinking | UnsetType = UNSET
    verbosity: Literal["low", "medium", "high"] | UnsetType = UNSET
    image: bool | UnsetType = UNSET
    video: bool | UnsetType = UNSET
    audio: bool | UnsetType = UNSET
    extra_body: dict[str, object] | UnsetType = msgspec.field(default=UNSET, name="extra_body")


class Context(Struct, frozen=True, rename="camel"):
    """How long the history may get, and at which part of that it is shortened."""

    max_tokens: Count | None = None
    compress_at: Annotated[float, Meta(gt=0, le=1)] | None = None


class AgentFile(Struct, frozen=True):
    """Everything that `agent.yaml` may say."""

    name: Text | None = None
    description: str = ""
    model: Model | None = None
    system_prompt: str = ""
    tools: tuple[Text, ...] = ()
    skills: tuple[Text, ...] = ()
    context: Context | None = None
    priority: int = 0
    internal: bool = False
    team: tuple[Text, ...] | None = None


@dataclass(frozen=True)
class Unknown:
    """A key that nothing reads, and its line."""

    key: str
    line: int


@dataclass(frozen=True)
class Definition:
    """An agent as its folder defines it."""

    spec: AgentSpec
    system_prompt: str
    unknown: tuple[Unknown, ...] = ()


def read_definition(text: str, *, agent: str, folder: str) -> Definition:
    """Read the text of `<folder>/agent.yaml`. Raises `BadFile` that names file, line, key and rule."""
    path = f"{folder}/agent.yaml"
    value, lines = read_yaml(text, path)
    try:
        file = msgspec.convert({} if value is None else value, AgentFile)
    except msgspec.ValidationError as error:
        raise _broken(str(error), lines, path) from None
    spec = AgentSpec(
        id=agent,
        name=file.name or agent,
        description=file.description,
        model=_choice(file.model),
        tools=file.tools,
        team=file.team,
        priority=file.priority,
        internal=file.internal,
        source=folder,
        context_tokens=file.context.max_tokens if file.context else None,
        compress_at=file.context.compress_at if file.context else None,
    )
    return Definition(spec, file.system_prompt.strip(), tuple(_unknown(lines, AgentFile)))


def _choice(model: Model | None) -> ModelChoice | None:
    if model is None:
        return None
    given: dict[str, object] = msgspec.to_builtins(model)
    ours = ("provider", "id", "endpoint", "maxTokens", "fallbacks")
    return ModelChoice(
        model=f"{model.provider}/{model.id}",
        fallbacks=model.fallbacks,
        endpoint=model.endpoint,
        max_tokens=model.max_tokens,
        options={key: value for key, value in given.items() if key not in ours},
    )


def _unknown(lines: Lined, kind: type[Struct], before: str = "") -> Iterator[Unknown]:
    fields = {field.encode_name for field in msgspec.structs.fields(kind)}
    inner: Mapping[str, type[Struct]] = {"model": Model, "context": Context, "thinking": Thinking}
    for name, (line, value) in lines.keys.items():
        if name not in fields:
            yield Unknown(before + name, line)
        elif name in inner:
            yield from _unknown(value, inner[name], f"{before}{name}.")


# Errors

_PLACE = re.compile(r"(?P<said>.*?)(?: - at `\$(?P<path>.*)`)?", re.DOTALL)
_LACKS = re.compile(r"Object missing required field `(?P<key>[^`]+)`")
_TYPES = re.compile(r"Expected `(?P<want>[^`]+)`(?P<bound>[^,]*)(?:, got `(?P<got>[^`]+)`)?")
_WORDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "nothing",
}


def _broken(said: str, lines: Lined, path: str) -> BadFile:
    match = _PLACE.fullmatch(said)
    steps = re.findall(r"\.([^.\[]+)|\[(\d+)\]", (match and match["path"]) or "")
    keys = [name or int(index) for name, index in steps]
    said = match["said"] if match else said
    lacks = _LACKS.match(said)
    line = lines.find(keys)
    key = _dotted([*keys, lacks["key"]] if lacks else keys)
    rule = "is required when its block is there" if lacks else _rule(said)
    where = f"{path}, line {line}: {key}".rstrip(": ") if key else f"{path}, line {line}: the file"
    return BadFile(f"{where} {rule}", path=path, line=line, field=key)


def _rule(said: str) -> str:
    types = _TYPES.fullmatch(said)
    if types is None:
        return f"is not allowed: {said[:1].lower()}{said[1:]}"
    want = " or ".join(_WORDS.get(word, word) for word in types["want"].split(" | ") if word != "null")
    bound = types["bound"].replace(" of length >= 1", " that is not empty")
    got = types["got"]
    return f"must be {want}{bound}" + (f", not {_WORDS.get(got, got)}" if got else "")


def _dotted(keys: Sequence[str | int]) -> str:
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).lstrip(".")
