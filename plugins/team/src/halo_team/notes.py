"""What a model is told beside the messages of a turn."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from halo_kernel import Host, PreparedInput, Session, Turn

from .resuming import forget
from .tree import outlook


async def noted(batch: Sequence[PreparedInput], session: Session, turn: Turn, host: Host) -> Sequence[PreparedInput]:
    """Return the rows, the last one with what there is to say; people see them unchanged."""
    notes = [await forget(turn, session)]
    if session.info.parent is None and any(row.sender.startswith("session:") for row in batch):
        notes.append(await outlook(host, session, batch))
    *before, last = batch
    return [*before, replace(last, content="\n\n".join([last.content, *filter(None, notes)]))]
