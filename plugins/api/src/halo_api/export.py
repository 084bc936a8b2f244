"""A session as a document: JSON with all of it, or markdown for people."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import cast

import msgspec
from msgspec import Struct

from halo_kernel import BadInput, Exchange, Host, Item, Message, Reply, Route, SessionInfo

from .sessions import SESSION

_FORMATS = {"json": "application/json", "md": "text/markdown; charset=utf-8"}
_FENCE = re.compile("`{3,}")


class SessionExport(Struct, frozen=True, kw_only=True):
    """A session: what people see of it, in order, and its history as any provider takes it. `format` is 1."""

    format: int = 1
    session: SessionInfo
    title: str
    items: Sequence[Item]
    messages: Sequence[Message]


@dataclass(frozen=True)
class _Export:
    host: Host

    async def export(self, exchange: Exchange) -> Reply:
        kind, params = exchange.query.get("format", "json"), exchange.params
        if kind not in _FORMATS:
            raise BadInput(f"format must be json or md, not {kind!r}", field="format")
        info, view, messages = await self.host.sessions.export(
            params["session"], workspace=params["workspace"], principal=exchange.principal
        )
        title = view.title or info.title
        found = SessionExport(session=info, title=title, items=[*view.items.values()], messages=messages)
        body = msgspec.to_builtins(found) if kind == "json" else markdown(found)
        return Reply(body=masked(body, self.host.secrets.mask), media_type=_FORMATS[kind])


def masked(value: object, mask: Callable[[str], str]) -> object:
    """Return a value of JSON with each of its texts masked; the names of its fields stay."""
    match value:
        case str():
            return mask(value)
        case dict():
            return {name: masked(each, mask) for name, each in cast("dict[str, object]", value).items()}
        case list() | tuple():
            return [masked(each, mask) for each in cast("Sequence[object]", value)]
        case _:
            return value


def markdown(found: SessionExport) -> str:
    """Return a session as markdown."""
    info = found.session
    head = [f"# {_line(found.title) or info.id}", f"Session `{info.id}` with {info.agent}, {_time(info.created_at)}"]
    parts = [part for item in found.items for part in _parts(item)]
    return "\n\n".join([*head, *parts]) + "\n"


def _parts(item: Item) -> Iterator[str]:
    match item.kind:
        case "user":
            yield f"## You, {_time(item.at)}"
            yield item.text
        case "assistant":
            yield f"## {_line(item.model) or 'Answer'}, {_time(item.at)}"
            yield item.text or "(only thoughts)"
        case "tool":
            yield f"**Tool** `{_line(item.name)}`{f': {item.outcome}' if item.outcome else ''}"
            yield _fenced(json.dumps(item.arguments, ensure_ascii=False, indent=2), "json")
            yield from [_fenced(item.text)] if item.text else []
        case _:
            yield "\n".join(f"> {line}" for line in item.text.splitlines())


def _fenced(text: str, language: str = "") -> str:
    """Return a text as a code block, whose fence is longer than any in it."""
    fence = "`" * max(3, *(len(found) + 1 for found in _FENCE.findall(text)), 3)
    return f"{fence}{language}\n{text}\n{fence}"


def _line(text: str) -> str:
    return " ".join(text.split())


def _time(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def export_routes(host: Host) -> list[Route]:
    """Return the route of a session's export."""
    return [
        Route(
            method="GET",
            path=SESSION + "/export",
            handler=_Export(host).export,
            reply=SessionExport,
            summary="Export a session: all of it as JSON, or with format=md what people see as markdown",
        )
    ]
