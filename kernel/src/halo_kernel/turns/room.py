"""Making room in a model's context: plugins say what leaves the history, the kernel sees that it stays whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from msgspec import structs

from .. import hookspecs, records
from ..contracts import Tx
from ..errors import HaloError
from ..journal import find
from .context import Context

_NEVER = 1 << 62
_CUTS = "seq > ? AND kind IN ('context.cut', 'context.erased', 'exchange.deleted') LIMIT 1"


async def make_room(context: Context, reason: records.ShrinkReason) -> bool:
    """Ask plugins what shall leave the history, and journal it; false when nothing does.

    A cut counts while nothing else has changed what comes before it; whatever was journaled meanwhile stays, behind it.
    A failure is raised to who asked for just this: a turn goes on without.
    """
    desk, head, pieces = context.desk, context.desk.session.info.head, tuple(context.desk.history.pieces)
    try:
        wish = await desk.place.hooks.first(hookspecs.shrink_context, reason, desk.session, context.request(), pieces)
        cut = None if wish is None else fitted(wish, pieces, head)

        def write(tx: Tx) -> Sequence[records.Body]:
            return [] if cut is None or any(find(tx, desk.session.info.id, _CUTS, head)) else [cut]

        return bool(await replace(desk, turn="").commit(write))
    except HaloError:
        if reason == "manual":
            raise
        return False


def fitted(cut: records.ContextCut, pieces: Sequence[records.Piece], head: int) -> records.ContextCut | None:
    """Return `cut` as far as it parts no call from its result and ends by event `head`; None if it changes nothing."""
    blocks = [(piece.seq, block) for piece in pieces for block in piece.content]
    results = {block.call: seq for seq, block in blocks if isinstance(block, records.ToolResult)}
    # the results of the last answer may still be to come
    last = max((piece.seq for piece in pieces if piece.role == "assistant"), default=0)
    calls = [(seq, block.id) for seq, block in blocks if isinstance(block, records.ToolCall)]
    pairs = [sorted((seq, results.get(call, _NEVER if seq == last else seq))) for seq, call in calls]
    start, end = max(cut.start, 1), min(cut.end, head)
    while torn := [pair for pair in pairs if (start <= pair[0] <= end) != (start <= pair[1] <= end)]:
        first, second = torn[0]
        start, end = (start, first - 1) if first >= start else (second + 1, end)
    cleared = tuple(seq for seq in cut.cleared if seq in results.values() and not start <= seq <= end)
    if not cleared and not any(start <= piece.seq <= end for piece in pieces):
        return None
    return structs.replace(cut, start=start, end=end, cleared=cleared)
