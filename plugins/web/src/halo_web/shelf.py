"""What the channel's clients read: their sessions, the history of one, and files of the workspace."""

from __future__ import annotations

import asyncio
import mimetypes
import os
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import asdict

from halo_kernel import (
    BadInput,
    Exchange,
    Forbidden,
    Host,
    Item,
    NotFound,
    Reply,
    Route,
    SessionInfo,
    TooLarge,
    is_own_file,
)
from halo_lib_files import FilesError, Missing, Outside, Refused, Root, WrongKind, below

from .callers import Caller, Callers, wish_of
from .channel import CHANNEL
from .chat import query_of
from .lists import NewSession, milliseconds_of
from .media import take_media
from .settings import WebSettings
from .uploads import INBOUND

_PAGE = 50
_PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


class MintRequest(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A new, empty session."""

    workspace: str | None = None
    agent_id: str | None = None


class SessionLine(Struct, frozen=True, kw_only=True, rename="camel"):
    """A session as its account sees it; times in UTC milliseconds."""

    session_id: str
    title: str
    agent: str
    state: str
    archived: bool
    created_at: int
    updated_at: int


class SessionPage(Struct, frozen=True, kw_only=True):
    """Root sessions, newest first; `cursor` asks for the next page, null after the last."""

    sessions: Sequence[SessionLine]
    cursor: str | None


class Line(Item, frozen=True, kw_only=True):
    """One line of what people see; `files` are the paths that an answer attached."""

    files: tuple[str, ...] = ()


class Transcript(Struct, frozen=True, kw_only=True, rename="camel"):
    """What people see of a session so far; `cursor` is where to subscribe from."""

    messages: Sequence[Line]
    session_id: str | None = None
    running: bool = False
    title: str = ""
    cursor: str | None = None


def _line(item: Item) -> Line:
    if item.kind != "assistant":
        return Line(**asdict(item))
    given = asdict(item)
    given["text"], files = take_media(item.text)
    return Line(**given, files=files)


def _session_line(info: SessionInfo) -> SessionLine:
    names = ("title", "agent", "state", "archived", "created_at", "updated_at")
    return SessionLine(session_id=info.id, **{name: getattr(info, name) for name in names})


@dataclass(frozen=True, kw_only=True)
class _Gate:
    """What is not read through a token: databases, and what is hidden but for the account's own uploads.

    At `full` access only the runtime's own folder is hidden.
    """

    folder: str
    caller: Caller

    def __call__(self, where: str | int, status: os.stat_result | None) -> str:
        if isinstance(where, str) and self._is_hidden(os.path.relpath(where, self.folder)):
            return "is hidden"
        return "is one of Halo's own databases" if is_own_file(where) else ""

    def _is_hidden(self, path: str) -> bool:
        own = f"{INBOUND}/{self.caller.account.id}"
        if f"{path}/".startswith(f"{own}/") or f"{own}/".startswith(f"{path}/"):
            return False
        parts = path.split(os.sep)
        if self.caller.account.access == "full":
            return ".halo" in parts
        return any(part.startswith(".") and part != "." for part in parts)


def read_file(caller: Caller, path: str, *, limit: int) -> tuple[str, bytes]:
    """Return a file's path in the caller's workspace, and its content.

    Raises `Forbidden` for what is outside or hidden, `NotFound`, `BadInput` for a folder, `TooLarge`.
    """
    folder = os.path.realpath(caller.workspace.path)
    inside = path
    if os.path.isabs(path):
        found = below(folder, os.path.normpath(path))
        found = below(folder, os.path.realpath(path)) if found is None else found
        if found is None:
            raise Forbidden("the file is outside of the workspace")
        inside = found
    try:
        with Root(folder, refuse=_Gate(folder=folder, caller=caller)) as root:
            data = root.read(inside, limit + 1)
    except (Outside, Refused) as error:
        raise Forbidden("the file is outside of the workspace, or hidden") from error
    except Missing as error:
        raise NotFound(f"there is no file {path[:200]!r}") from error
    except WrongKind as error:
        raise BadInput(str(error), field="path") from error
    except FilesError as error:
        raise Forbidden(str(error)) from error
    if len(data) > limit:
        raise TooLarge(f"the file has more than the {limit} bytes that are sent", limit=limit, field="path")
    return inside, data


def as_download(path: str, data: bytes) -> Reply:
    """Return a file as an answer that no browser runs: pictures are shown, all else is saved."""
    kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
    how = "inline" if kind in _PICTURES else "attachment"
    headers = {
        "Content-Disposition": f"{how}; filename*=UTF-8''{quote(os.path.basename(path), safe='')}",
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "Cross-Origin-Resource-Policy": "cross-origin",
    }
    return Reply(body=data, headers=headers, media_type=kind)


@dataclass(frozen=True, kw_only=True)
class _Shelf:
    host: Host
    callers: Callers

    async def sessions(self, exchange: Exchange) -> SessionPage:
        before = milliseconds_of(exchange, "cursor")
        caller = await self.callers.of(exchange)
        rows = await self.host.sessions.list(
            workspace=caller.workspace.id, principal=caller.person, before=before, limit=_PAGE
        )
        more = str(rows[-1].updated_at) if len(rows) >= _PAGE else None
        return SessionPage(sessions=[_session_line(row) for row in rows], cursor=more)

    async def mint(self, exchange: Exchange) -> Reply:
        assert isinstance(exchange.body, MintRequest)
        caller = await self.callers.of(exchange, exchange.body.workspace)
        agent = wish_of(exchange, "agentId", "x-agent-id", exchange.body.agent_id)
        session = await self.callers.create(caller, agent=agent)
        return Reply(body=NewSession(session_id=session.info.id), status=201)

    async def history(self, exchange: Exchange) -> Transcript:
        since = milliseconds_of(exchange, "since") or 0
        caller = await self.callers.of(exchange)
        session = await self.callers.current(caller, wish_of(exchange, "sessionId", "x-session-id"))
        if session is None:
            return Transcript(messages=[])
        name, place = session.info.id, caller.workspace.id
        view, cursor = await self.host.sessions.view(name, workspace=place, principal=caller.person)
        return Transcript(
            messages=[_line(item) for item in view.items.values() if item.at >= since],
            session_id=name,
            running=bool(view.running),
            title=view.title,
            cursor=cursor,
        )

    async def file(self, exchange: Exchange) -> Reply:
        path = query_of(exchange, "path")
        caller = await self.callers.of(exchange)
        limit = self.host.settings.of(WebSettings).max_file_bytes
        return as_download(*await asyncio.to_thread(read_file, caller, path, limit=limit))


def shelf_routes(host: Host, callers: Callers) -> list[Route]:
    """Return the routes by which the channel's clients read."""
    on = _Shelf(host=host, callers=callers)
    path, auth = "/api/web", f"account:{CHANNEL}"
    return [
        Route(
            method="GET",
            path=f"{path}/history",
            handler=on.history,
            reply=Transcript,
            auth=auth,
            summary="Show what people see of an account's session",
        ),
        Route(
            method="GET",
            path=f"{path}/sessions",
            handler=on.sessions,
            reply=SessionPage,
            auth=auth,
            summary="List an account's sessions, 50 a page",
        ),
        Route(
            method="POST",
            path=f"{path}/sessions",
            handler=on.mint,
            request=MintRequest,
            reply=NewSession,
            auth=auth,
            summary="Make an empty session of an account",
        ),
        Route(
            method="GET",
            path=f"{path}/file",
            handler=on.file,
            auth=auth,
            summary="Send a file of the account's workspace",
        ),
    ]
