"""The conversations that a command can name: by id, by the number that the list shows, or by how the title begins."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from halo_kernel import BadInput, NotFound, SessionInfo

from .commands import Asked

SHOWN = 50
_PAGE = 500


async def all_roots(asked: Asked) -> Sequence[SessionInfo]:
    """Return the root sessions of whose session this is, newest first; below `full` those of the same origin."""
    origin, found, before = (await asked.root()).origin, list[SessionInfo](), None
    while True:
        page = await asked.host.sessions.list(
            workspace=asked.info.workspace, principal=asked.owner, before=before, limit=_PAGE
        )
        found += [info for info in page if asked.level == "full" or info.origin == origin]
        if len(page) < _PAGE:
            return sorted(found, key=lambda info: (info.created_at, info.id), reverse=True)
        before = page[-1].updated_at


def shown(found: Sequence[SessionInfo]) -> Sequence[SessionInfo]:
    """Return those that the list shows, in its order."""
    return [info for info in found if not info.archived][:SHOWN]


async def find_root(asked: Asked, wish: str) -> SessionInfo:
    """Return the session that somebody means. Raises `BadInput` for no word or for several, `NotFound`."""
    if not wish:
        raise BadInput(
            "say which session: its id, its number in /session list, or how its title begins", field="session"
        )
    found = await all_roots(asked)
    listed = shown(found)
    if exact := [info for info in found if info.id == wish]:
        return exact[0]
    if wish.isascii() and wish.isdecimal() and 0 < int(wish[:9]) <= len(listed):
        return listed[int(wish[:9]) - 1]
    begin = [info for info in found if title_of(info).casefold().startswith(wish.casefold())]
    if len(begin) > 1:
        names = ", ".join(info.id for info in begin[:5]) + (" …" if len(begin) > 5 else "")
        raise BadInput(f"several titles begin so: {names}", field="session", advice="say which by its id")
    if not begin:
        raise NotFound(f"there is no session {wish[:80]!r} here", advice="/session list shows those that there are")
    return begin[0]


def title_of(info: SessionInfo) -> str:
    """Return a title on one line."""
    return " ".join(info.title.split()) or "(no title)"


def time_of(at: int) -> str:
    """Return a time for people, of UTC milliseconds."""
    return f"{datetime.fromtimestamp(at / 1000, UTC):%Y-%m-%d %H:%M} UTC"
