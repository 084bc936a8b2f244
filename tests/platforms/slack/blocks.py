"""Block Kit: what is wrong with some blocks, in Slack's words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .rules import BLOCKS, BLOCKS_MOST, ELEMENTS, OTHER_ELEMENT, ListRule, PartRule, TextRule

_TYPELESS = ("option",)


def complaints(blocks: Any, *, most: int = BLOCKS_MOST) -> list[str]:
    """Return every complaint, e.g. `must be less than 3001 characters [json-pointer:/blocks/0/text/text]`."""
    if not isinstance(blocks, list):
        return [_at("must be an array", "/blocks")]
    return [*_too_many(blocks, most), *_blocks(blocks), *_twice(blocks)]


def _too_many(blocks: Sequence[Any], most: int) -> Iterator[str]:
    if len(blocks) > most:
        yield _at(f"no more than {most} items allowed", "/blocks")


def _blocks(blocks: Sequence[Any]) -> Iterator[str]:
    for index, block in enumerate(blocks):
        place = f"/blocks/{index}"
        if not isinstance(block, dict):
            yield _at("must be an object", place)
        elif not (rule := BLOCKS.get(str(block.get("type")))):
            yield _at(f"unsupported type: {block.get('type')}", f"{place}/type")
        else:
            yield from _text(block.get("block_id"), TextRule(most=255, kinds=()), f"{place}/block_id")
            yield from _part(block, rule, place)


def _twice(blocks: Sequence[Any]) -> Iterator[str]:
    seen: list[Any] = []
    for index, block in enumerate(blocks):
        if isinstance(block, dict) and (name := block.get("block_id")):
            if name in seen:
                yield _at(f"`block_id` {name} already exists", f"/blocks/{index}/block_id")
            seen.append(name)
        if isinstance(block, dict) and isinstance(block.get("elements"), list):
            yield from _same_action(block["elements"], f"/blocks/{index}/elements")


def _same_action(elements: Sequence[Any], place: str) -> Iterator[str]:
    names = [each.get("action_id") if isinstance(each, dict) else None for each in elements]
    for index, name in enumerate(names):
        if isinstance(name, str) and name in names[:index]:
            yield _at(f"`action_id` {name} already exists", f"{place}/{index}/action_id")


def _part(part: dict[str, Any], rule: PartRule, place: str) -> Iterator[str]:
    for name in rule.required:
        if part.get(name) is None:
            yield _at(f"missing required field: {name}", place)
    for names in rule.any_of:
        if all(part.get(name) is None for name in names):
            yield _at("must define either " + " or ".join(f"`{name}`" for name in names), place)
    for name, text in rule.texts:
        yield from _text(part.get(name), text, f"{place}/{name}")
    for name, items in rule.lists:
        yield from _list(part.get(name), items, f"{place}/{name}")
    for name, types in rule.parts:
        if part.get(name) is not None:
            yield from _element(part[name], types, f"{place}/{name}")
    for name, choices in rule.choices:
        if part.get(name) is not None and part[name] not in choices:
            yield _at("must be a valid enum value", f"{place}/{name}")


def _text(value: Any, rule: TextRule, place: str) -> Iterator[str]:
    if value is None:
        return
    if rule.kinds:
        if not isinstance(value, dict) or value.get("type") not in rule.kinds:
            yield _at(f"must be a text object of type {' or '.join(rule.kinds)}", place)
            return
        value, place = value.get("text"), f"{place}/text"
    if not isinstance(value, str):
        yield _at("must be a string", place)
    elif len(value) < rule.least:
        yield _at(f"must be more than {rule.least - 1} characters", place)
    elif len(value) > rule.most:
        yield _at(f"must be less than {rule.most + 1} characters", place)


def _list(value: Any, rule: ListRule, place: str) -> Iterator[str]:
    if value is None:
        if rule.required:
            yield _at("missing required field", place)
        return
    if not isinstance(value, list):
        yield _at("must be an array", place)
        return
    if len(value) > rule.most:
        yield _at(f"no more than {rule.most} items allowed", place)
    if len(value) < rule.least:
        yield _at(f"no fewer than {rule.least} items allowed", place)
    for index, item in enumerate(value):
        if rule.text is not None:
            yield from _text(item, rule.text, f"{place}/{index}")
        elif rule.of:
            yield from _element(item, rule.of, f"{place}/{index}")


def _element(element: Any, types: Sequence[str], place: str) -> Iterator[str]:
    if not isinstance(element, dict):
        yield _at("must be an object", place)
        return
    kind = types[0] if types[0] in _TYPELESS else str(element.get("type"))
    if kind not in types:
        yield _at(f"unsupported type: {kind}", f"{place}/type")
    else:
        yield from _part(element, ELEMENTS.get(kind, OTHER_ELEMENT), place)


def markdown_length(blocks: Sequence[Any]) -> int:
    """Return the characters of all markdown blocks together."""
    texts = (each.get("text") for each in blocks if isinstance(each, dict) and each.get("type") == "markdown")
    return sum(len(each) for each in texts if isinstance(each, str))


def _at(what: str, place: str) -> str:
    return f"{what} [json-pointer:{place}]"
