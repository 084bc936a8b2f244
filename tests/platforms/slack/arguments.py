"""A method's arguments: query, form, multipart and JSON, merged as Slack merges them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from .refusals import Refused
from .web import Request

_TRUE = {True, "true", "1"}


class Arguments:
    """The arguments of one call; what is given as JSON text is read where a list or an object is wanted."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = dict(values)

    def text(self, name: str) -> str:
        """Return a text, '' if there is none."""
        value = self.values.get(name)
        return "" if value is None else str(value)

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return a truth."""
        value = self.values.get(name)
        return default if value is None or value == "" else value in _TRUE

    def number(self, name: str, default: int) -> int:
        """Return a whole number."""
        value = self.values.get(name)
        try:
            return default if value is None or value == "" else int(value)
        except (TypeError, ValueError):
            raise Refused("invalid_arguments", f"[ERROR] invalid integer [json-pointer:/{name}]") from None

    def given(self, name: str) -> bool:
        """Say whether there is something under this name; an empty text is nothing."""
        return self.values.get(name) not in (None, "")

    def data(self, name: str, refusal: str) -> Any:
        """Return a list or an object, None if it was not given; refuse text that is not JSON."""
        value = self.values.get(name)
        if value is None or value == "":
            return None
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value)
        except ValueError:
            raise Refused(refusal) from None


def read_arguments(request: Request) -> Arguments:
    """Return what a request says; the body goes before the query."""
    if request.content_type == "application/json":
        return Arguments({**request.query, **_json(request.body)})
    if request.content_type == "multipart/form-data":
        return Arguments({**request.query, **{name: part.decode() for name, part in multipart(request).items()}})
    form = parse_qsl(request.body.decode("utf-8", "replace"), keep_blank_values=True)
    return Arguments({**request.query, **dict(form)})


def multipart(request: Request) -> dict[str, bytes]:
    """Return the parts of a multipart body by their names."""
    boundary = request.headers["content-type"].partition("boundary=")[2].strip('"').encode()
    parts = {}
    for piece in request.body.split(b"--" + boundary)[1:-1]:
        head, _, content = piece.partition(b"\r\n\r\n")
        if name := re.search(rb'\bname="?([^";\r\n]*)', head):
            parts[name[1].decode()] = content.removesuffix(b"\r\n")
    return parts


def _json(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body or b"{}")
    except ValueError:
        raise Refused("invalid_json") from None
    if not isinstance(value, dict):
        raise Refused("json_not_object")
    return value
