"""A call's arguments: the query, a form, a JSON document and multipart parts, all at once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import Message
from typing import Any
from urllib.parse import parse_qsl

from .refusals import bad_request
from .wire import Request


@dataclass(frozen=True)
class Upload:
    """A file that came with a call."""

    filename: str
    mime: str
    data: bytes


@dataclass(frozen=True)
class Arguments:
    """What a call says. Every value is a string; objects are JSON."""

    values: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, Upload] = field(default_factory=dict)

    def text(self, name: str) -> str:
        """Return an argument, '' if it is missing."""
        return self.values.get(name, "")

    def integer(self, name: str, default: int = 0, *, low: int = -(2**63), high: int = 2**63) -> int:
        """Return a number within its bounds; what is no number is 0, as the real server reads it."""
        if not self.text(name):
            return default
        try:
            number = int(self.text(name))
        except ValueError:
            number = 0
        return min(max(number, low), high)

    def flag(self, name: str) -> bool:
        """Return whether an argument is set."""
        return self.text(name).lower() in ("true", "yes", "1")

    def document(self, name: str, what: str) -> Any:
        """Return a JSON argument, None if it is missing; `what` is its name in a refusal."""
        if not self.text(name):
            return None
        try:
            return json.loads(self.text(name))
        except ValueError:
            raise bad_request(f"can't parse {what} JSON object") from None


def read_arguments(request: Request) -> Arguments:
    """Read a request's arguments."""
    values = dict(parse_qsl(request.query, keep_blank_values=True))
    kind = request.headers.get("content-type", "")
    files: dict[str, Upload] = {}
    if kind.startswith("application/x-www-form-urlencoded"):
        values |= parse_qsl(_utf8(request.body), keep_blank_values=True)
    elif kind.startswith("application/json"):
        values |= _json(request.body)
    elif kind.startswith("multipart/form-data"):
        fields, files = _multipart(request.body, kind)
        values |= fields
    return Arguments(values, files)


def _utf8(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise bad_request("strings must be encoded in UTF-8") from None


def _json(data: bytes) -> dict[str, str]:
    try:
        said = json.loads(data or b"{}")
    except ValueError:
        said = None
    if not isinstance(said, dict):
        raise bad_request("JSON object expected")
    spelled = ((name, each if isinstance(each, str) else json.dumps(each)) for name, each in said.items())
    return {name: each for name, each in spelled if each != "null"}


def _multipart(data: bytes, kind: str) -> tuple[dict[str, str], dict[str, Upload]]:
    boundary = _parameter(kind, "boundary").encode()
    if not boundary:
        raise bad_request("boundary not found")
    values: dict[str, str] = {}
    files: dict[str, Upload] = {}
    for part in (b"\r\n" + data).split(b"\r\n--" + boundary)[1:]:
        if part.startswith(b"--"):
            break
        head, _, body = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        lines = (line.partition(":") for line in _utf8(head).split("\r\n"))
        headers = {name.strip().lower(): value.strip() for name, _, value in lines}
        disposition = headers.get("content-disposition", "")
        name = _parameter(disposition, "name")
        if "filename" in disposition:
            mime = headers.get("content-type", "application/octet-stream")
            files[name] = Upload(_parameter(disposition, "filename"), mime, body)
        else:
            values[name] = _utf8(body)
    return values, files


def _parameter(header: str, name: str) -> str:
    message = Message()
    message["content-disposition"] = header
    found = message.get_param(name, "", header="content-disposition")
    return found[2] if isinstance(found, tuple) else str(found or "")
