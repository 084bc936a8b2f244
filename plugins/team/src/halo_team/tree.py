"""What a tree of sessions is doing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from halo_kernel import Host, PreparedInput, Session, SessionInfo

from .caller import open_session

_DESCRIPTION = 80


async def live_children(session: Session) -> Sequence[SessionInfo]:
    """Return the sessions right below one that have not come to rest, oldest first."""
    return [each for each in await session.children(working=True) if not (each.stopped or each.archived)]


async def is_working(host: Host, info: SessionInfo) -> bool:
    """Tell whether a session, or one below it, has something to do. A root that is asked about has: the asker works."""
    if info.parent is None:
        return True
    parent = await open_session(host, info, info.parent)
    return any(each.id == info.id for each in await parent.children(working=True))


def status(info: SessionInfo, *, working: bool) -> str:
    """Return `stopped`, `waiting` (for a person), `running` (itself or something below it) or `idle`."""
    if info.stopped:
        return "stopped"
    if info.state == "waiting":
        return "waiting"
    return "running" if working else "idle"


async def count_present(host: Host, session: Session) -> int:
    """Return how many sessions there are from one down that are not archived."""
    below = [await count_present(host, await open_session(host, each, each.id)) for each in await session.children()]
    return int(not session.info.archived) + sum(below)


async def outlook(host: Host, session: Session, batch: Sequence[PreparedInput]) -> str:
    """Return what a session is told after the reports in `batch`: whether all that it gave away is done."""
    live, taken = await live_children(session), {row.row for row in batch}
    queued = sum(row.row not in taken for row in await session.waiting())
    now = f"[System @ {_iso(host.clock.now())}]"
    if not (live or queued):
        return f"{now} All sub-agents you dispatched have completed. Put their results together and answer."
    left = f"{len(live)} sub-agent(s) still running, {queued} report(s) still queued."
    return "\n".join([f"{now} Do NOT wrap up yet — {left}", *_lines(live)])


def _lines(live: Iterable[SessionInfo]) -> Iterable[str]:
    for each in live:
        times = f"created {_iso(each.created_at)}, last active {_iso(each.updated_at)}"
        yield f"- {each.agent} {each.id} ({times}): {each.title[:_DESCRIPTION]}"


def _iso(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
