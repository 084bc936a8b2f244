"""After a crash: turns that were cut are ended, their calls answered, and each tree is nudged once to go on."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from . import records
from .contracts import Clock, Database, Lease, Tx
from .inbox import accept, gave_way, level_of, waiting, withdraw
from .journal import append, read_partial, read_turn
from .outbox import owe_replies
from .repair import INTERRUPTED, NOT_RUN
from .reports import settle

CRASHES_TO_PARK = 3
_NO_CAP = 1 << 30
# By whether the turn was another boot's: then that process has died, else ours could not write.
_WHY = ("the storage failed in the middle of this turn", "the server stopped in the middle of this turn")
_PARKED = f", {CRASHES_TO_PARK} times in a row; send a message to let it go on"
_WITHDRAWN = "[System] The message that you stopped for was withdrawn. Continue from the conversation as it stands."
_HOW = ("The storage failed", "The server restarted")


def is_cut(tx: Tx, root: str, *, session: str, boot: str) -> bool:
    """Tell whether a turn of the tree was begun and has nobody who runs it; `session` itself runs none."""
    return bool(_cut(tx, root, session, boot))


def is_parked(tx: Tx, root: str) -> bool:
    """Tell whether a tree waits for a person after one cut too many."""
    return tx.one("SELECT 1 FROM sessions WHERE id = ? AND parked = 1", (root,)) is not None


def _cut(tx: Tx, root: str, session: str, boot: str) -> list[tuple[str, str, bool, bool]]:
    """Return every turn that nobody runs: its session and id, whether its process died, and whether it was landed."""
    rows = tx.execute(
        "SELECT session, turn, boot, landed FROM runs WHERE root = ? AND (boot <> ? OR session = ?) AND waiting = 0",
        (root, boot, session),
    )
    return [(name, turn, whose != boot, bool(landed)) for name, turn, whose, landed in rows]


async def recover_tree(
    database: Database, lease: Lease, root: str, *, session: str, clock: Clock, boot: str
) -> tuple[records.Event, ...]:
    """End every turn of the tree that no process runs any more, nudge the root, and return what was written.

    Those are the turns of other boots, and the one of `session`, which is about to be opened and was let down by its
    storage. The third in a row that no clean stop landed parks the tree instead. All of it is one transaction under the
    lease.
    """
    now = clock.now()

    def write(tx: Tx) -> tuple[records.Event, ...]:
        lease.check(tx)
        cuts = _cut(tx, root, session, boot)
        parked = not all(landed for *_, landed in cuts) and _count_crash(tx, root)
        events: list[records.Event] = []
        for name, turn, died, _ in cuts:
            why = _WHY[died] + (_PARKED if parked else "")
            events += _end_turn(tx, name, turn, why, now)
            if parked or name != root:  # nobody is asked to go on there
                owe_replies(tx, name, text=f"❌ {why}", reason="aborted", at=now)
        if cuts and not parked:
            how = _HOW[any(died for _, _, died, _ in cuts)]
            _nudge(tx, root, _text(root, [name for name, *_ in cuts], now, how), f"{boot}:{cuts[0][1]}", now)
        for name, *_ in cuts:
            settle(tx, name, at=now)
        return tuple(events)

    return await database.write(write)


def _end_turn(tx: Tx, session: str, turn: str, why: str, now: int) -> tuple[records.Event, ...]:
    left = loose_ends(tx, session, turn, read_partial(tx, session), reason="crash")
    for table in ("runs", "partials"):
        tx.execute(f"DELETE FROM {table} WHERE session = ?", (session,))
    end = records.TurnEnded(outcome="interrupted", error=why, kind="crash")
    return append(tx, session, [*left, end], at=now, turn=turn)


def withdraw_message(tx: Tx, session: str, row: int, *, now: int) -> bool:
    """Settle a waiting message as cancelled; false when a turn has consumed it.

    If a turn gave way to it and nothing else waits, that turn is asked to go on: its messages have no answer yet.
    """
    if not withdraw(tx, session, row):
        return False
    if (turns := gave_way(tx, session)) and not waiting(tx, session):
        _nudge(tx, session, _WITHDRAWN, f"{turns[0]}:{row}", now)
    settle(tx, session, at=now)
    return True


def loose_ends(tx: Tx, session: str, turn: str, partial: records.Delta | None, *, reason: str) -> list[records.Body]:
    """Return what closes a turn: a result for every call without one, and what was streamed of an answer."""
    left: list[records.Body] = []
    for call, started in unanswered(read_turn(tx, session, turn)).values():
        outcome: records.ToolOutcome = "interrupted" if started else "not_run"
        text = INTERRUPTED if started else NOT_RUN
        left.append(records.ToolFinished(call=call.id, name=call.name, outcome=outcome, text=text))
    if partial is not None and partial.turn == turn and partial.text:
        left.append(records.AssistantCut(reply=partial.reply, text=partial.text, reason=reason))
    return left


def unanswered(events: Sequence[records.Event]) -> dict[str, tuple[records.ToolCall, bool]]:
    """Return the calls without a result, and whether each has started; one that asked before its effect has not."""
    calls: dict[str, tuple[records.ToolCall, bool]] = {}
    for event in events:
        match event.body:
            case records.AssistantMessage(content=content):
                calls |= {block.id: (block, False) for block in content if isinstance(block, records.ToolCall)}
            case records.ToolStarted(call=call) | records.QuestionAsked(call=call) if call in calls:
                calls[call] = calls[call][0], isinstance(event.body, records.ToolStarted)
            case records.ToolFinished(call=call):
                calls.pop(call, None)
            case _:
                pass
    return calls


def _count_crash(tx: Tx, root: str) -> bool:
    """Count an unclean boot of the tree; true when it is parked now."""
    row = tx.one(
        "UPDATE sessions SET crashes = crashes + 1, parked = CASE WHEN crashes + 1 < ? THEN parked ELSE 1 END"
        " WHERE id = ? RETURNING parked",
        (CRASHES_TO_PARK, root),
    )
    return row is not None and row[0] == 1


def _nudge(tx: Tx, root: str, text: str, key: str, now: int) -> None:
    """Ask the root to go on, at the level and in the kind of what it was answering, so that waiting rows may join."""
    access, kind = level_of(tx, root)
    who = records.Principal(name="recovery", kind=kind)
    message = records.Incoming(text=text, principal=who, mode="follow_up", cause="recovery")
    accept(tx, root, message, key=f"nudge:{key}", at=now, access=access, cap=_NO_CAP)


def _text(root: str, cut: list[str], now: int, how: str) -> str:
    when = datetime.fromtimestamp(now / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    if root in cut:
        return (
            f"[System] {how} at {when} while you were mid-turn. Continue from the conversation as it"
            " stands; a call that was in flight may or may not have taken effect. Do not start over."
        )
    names = ", ".join(sorted(cut)[:10]) + (f" (+{len(cut) - 10} more)" if len(cut) > 10 else "")
    return (
        f"[System] {how} at {when}. You were idle, but these sessions in your session tree were"
        f" mid-run and were cut off: {names}."
    )
