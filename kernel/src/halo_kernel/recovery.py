"""After a crash: turns that were cut are ended, their calls answered, and each tree is nudged once to go on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from .contracts import Clock, Database, Lease, Tx
from .inbox import accept, gave_way, waiting, withdraw
from .journal import append, read_partial, read_turn
from .outbox import owe_replies, settle
from .records import (
    AssistantCut,
    AssistantMessage,
    Body,
    Event,
    Incoming,
    Principal,
    QuestionAsked,
    ToolCall,
    ToolFinished,
    ToolOutcome,
    ToolStarted,
    TurnEnded,
)
from .repair import INTERRUPTED, NOT_RUN

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


@dataclass(frozen=True)
class _Cut:
    """A turn that nobody runs; `landed` by a clean stop of its process."""

    session: str
    turn: str
    boot: str
    landed: bool


def _cut(tx: Tx, root: str, session: str, boot: str) -> list[_Cut]:
    rows = tx.execute(
        "SELECT session, turn, boot, landed FROM runs WHERE root = ? AND (boot <> ? OR session = ?) AND waiting = 0",
        (root, boot, session),
    )
    return [_Cut(name, turn, whose, bool(landed)) for name, turn, whose, landed in rows]


async def recover_tree(
    database: Database, lease: Lease, root: str, *, session: str, clock: Clock, boot: str
) -> tuple[Event, ...]:
    """End every turn of the tree that no process runs any more, nudge the root, and return what was written.

    Those are the turns of other boots, and the one of `session`, which is about to be opened and was let down by its
    storage. The third in a row that no clean stop landed parks the tree instead. All of it is one transaction under the
    lease.
    """
    now = clock.now()

    def write(tx: Tx) -> tuple[Event, ...]:
        lease.check(tx)
        cuts = _cut(tx, root, session, boot)
        parked = not all(cut.landed for cut in cuts) and _count_crash(tx, root)
        rest = _PARKED if parked else ""
        events = [event for cut in cuts for event in _end_turn(tx, cut.session, _WHY[cut.boot != boot] + rest, now)]
        if parked:
            for cut in cuts:
                owe_replies(tx, cut.session, text=f"❌ {_WHY[cut.boot != boot]}{rest}", reason="aborted", at=now)
            settle(tx, root, at=now)
        if cuts and not parked:
            how = _HOW[any(cut.boot != boot for cut in cuts)]
            _nudge(tx, root, _text(root, [cut.session for cut in cuts], now, how), f"{boot}:{cuts[0].turn}", now)
        return tuple(events)

    return await database.write(write)


def _end_turn(tx: Tx, session: str, why: str, now: int) -> tuple[Event, ...]:
    row = tx.one("DELETE FROM runs WHERE session = ? RETURNING turn", (session,))
    turn = str(row[0]) if row else ""
    bodies: list[Body] = [*open_calls(read_turn(tx, session, turn))]
    partial = read_partial(tx, session)
    if partial is not None and partial.turn == turn and partial.text:
        bodies.append(AssistantCut(reply=partial.reply, text=partial.text, reason="crash"))
    tx.execute("DELETE FROM partials WHERE session = ?", (session,))
    bodies.append(TurnEnded(outcome="interrupted", error=why, kind="crash"))
    return append(tx, session, bodies, at=now, turn=turn)


def withdraw_message(tx: Tx, session: str, row: int, *, now: int) -> bool:
    """Settle a waiting message as cancelled; false when a turn has consumed it.

    If a turn gave way to it and nothing else waits, that turn is asked to go on: its messages have no answer yet.
    """
    if not withdraw(tx, session, row):
        return False
    turn = gave_way(tx, session)
    if turn and not waiting(tx, session):
        _nudge(tx, session, _WITHDRAWN, f"{turn}:{row}", now)
    settle(tx, session, at=now)
    return True


def open_calls(events: list[Event]) -> list[ToolFinished]:
    """Return a result for every call without one: interrupted if it had started, else not run."""
    return [_answer(call, started) for call, started in unanswered(events).values()]


def unanswered(events: list[Event]) -> dict[str, tuple[ToolCall, bool]]:
    """Return the calls without a result, and whether each has started; one that asked before its effect has not."""
    calls: dict[str, tuple[ToolCall, bool]] = {}
    for event in events:
        match event.body:
            case AssistantMessage(content=content):
                calls |= {block.id: (block, False) for block in content if isinstance(block, ToolCall)}
            case ToolStarted(call=call) | QuestionAsked(call=call) if call in calls:
                calls[call] = calls[call][0], isinstance(event.body, ToolStarted)
            case ToolFinished(call=call):
                calls.pop(call, None)
            case _:
                pass
    return calls


def _answer(call: ToolCall, started: bool) -> ToolFinished:
    outcome: ToolOutcome = "interrupted" if started else "not_run"
    return ToolFinished(call=call.id, name=call.name, outcome=outcome, text=INTERRUPTED if started else NOT_RUN)


def _count_crash(tx: Tx, root: str) -> bool:
    """Count an unclean boot of the tree; true when it is parked now."""
    row = tx.one("UPDATE sessions SET crashes = crashes + 1 WHERE id = ? RETURNING crashes", (root,))
    if row is None or int(row[0]) < CRASHES_TO_PARK:
        return False
    tx.execute("UPDATE sessions SET parked = 1 WHERE id = ?", (root,))
    return True


def _nudge(tx: Tx, root: str, text: str, key: str, now: int) -> None:
    """Ask the root to go on, at the level and in the kind of what it was answering, so that waiting rows may join."""
    row = tx.one(
        "SELECT access, principal_kind FROM inbox WHERE session = ? AND state = 'consumed' ORDER BY id DESC LIMIT 1",
        (root,),
    ) or tx.one("SELECT access, 'unattended' FROM sessions WHERE id = ?", (root,))
    if row is None:
        return
    message = Incoming(
        text=text,
        principal=Principal(name="recovery", kind=row[1]),
        mode="follow_up",
        cause="recovery",
    )
    accept(tx, root, message, key=f"nudge:{key}", at=now, access=row[0], cap=_NO_CAP)


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
