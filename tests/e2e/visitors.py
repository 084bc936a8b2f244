"""A visitor without a browser: follows a one-time link, keeps the cookie, talks to the page's own routes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.cookiejar import CookieJar
from typing import Any
from urllib.parse import parse_qs, urljoin, urlsplit
from urllib.request import HTTPCookieProcessor, Request, build_opener


class Visitor:
    """Follows `link`; `page` is what it led to."""

    def __init__(self, link: str) -> None:
        self._opener = build_opener(HTTPCookieProcessor(CookieJar()))
        with self._opener.open(link, timeout=30) as reply:
            self.address: str = reply.geturl()
            self.page: str = reply.read().decode()

    @property
    def workspace(self) -> str:
        """The workspace that the page opens."""
        return parse_qs(urlsplit(self.address).query)["workspace"][0]

    def get(self, path: str) -> Any:
        with self._opener.open(urljoin(self.address, path), timeout=30) as reply:
            return json.load(reply)

    def ask(self, question: str) -> list[dict[str, Any]]:
        """Ask in a new session, as the page does, and return the frames of the whole answer."""
        body = json.dumps({"message": question, "workspace": self.workspace}).encode()
        request = Request(urljoin(self.address, "/api/page/chat"), body, {"Content-Type": "application/json"})
        with self._opener.open(request, timeout=60) as reply:
            return list(self._frames(reply))

    def _frames(self, lines: Iterator[bytes]) -> Iterator[dict[str, Any]]:
        for line in lines:
            if line.startswith(b"data:"):
                yield json.loads(line[5:])


def text_of(frames: list[dict[str, Any]]) -> str:
    """Return the text that frames stream."""
    return "".join(frame["text"] for frame in frames if frame["type"] == "stream")


def tools_of(frames: list[dict[str, Any]]) -> list[str]:
    """Return the tools that were called, in order."""
    return [frame["toolName"] for frame in frames if frame["type"] == "tool_call"]
