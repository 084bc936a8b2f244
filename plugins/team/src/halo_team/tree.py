"""What a tree of sessions is doing."""

from __future__ import annotations

from collections.abc import Sequence

from halo_kernel import Host, Session, SessionInfo

from .caller import open_session


async def is_live(host: Host, info: SessionInfo) -> bool:
    """Tell whether a session or one below it works or waits, so that it has not reported yet."""
    return info.state in ("running", "waiting") or bool(
        await live_children(host, await open_session(host, info, info.id))
    )


async def live_children(host: Host, session: Session) -> Sequence[SessionInfo]:
    """Return the sessions right below one that have not come to rest, oldest first."""
    present = [each for each in await session.children() if not (each.stopped or each.archived)]
    return [each for each in present if await is_live(host, each)]


async def status(host: Host, info: SessionInfo) -> str:
    """Return `stopped`, `waiting` (for a person), `running` (itself or something below it) or `idle`."""
    if info.stopped:
        return "stopped"
    if info.state == "waiting":
        return "waiting"
    return "running" if await is_live(host, info) else "idle"


async def count_present(host: Host, session: Session) -> int:
    """Return how many sessions there are from one down that are not archived."""
    below = [await count_present(host, await open_session(host, each, each.id)) for each in await session.children()]
    return int(not session.info.archived) + sum(below)
