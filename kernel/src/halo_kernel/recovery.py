"""After a crash: turns that were cut are ended, their calls answered, and each tree is nudged once to go on."""

from __future__ import annotations

from datetime import UTC, datetime

from .contracts import Clock, Database, Lease, Tx
from .inbox import accept
from .journal import append, read, read_partial
from .records import (
    AssistantCut,
    AssistantMessage,
    Body,
    Event,
    Incoming,
    Principal,
    ToolCall,
    ToolFinished,
    ToolOutcome,
    ToolStarted,
    TurnEnded,
)
from .repair import INTERRUPTED, NOT_RUN

CRASHES_TO_PARK = 3
_NO_CAP = 1 << 30


async def recover_tree(database: Database, lease: Lease, root: str, *, session: str, clock: Clock, boot: str) -> bool:
    """End every turn of the tree that no process runs any more, and nudge the root. Returns whether there was one.

    Those are the turns of other boots, and the one of `session`, which is about to be opened.

    The third crash in a row with a turn active parks the tree instead. All of it is one transaction under the lease.
    """
    now = clock.now()

    def write(tx: Tx) -> bool:
        lease.check(tx)
        rows = list(
            tx.execute(
                "SELECT session, turn, boot FROM runs WHERE root = ? AND (boot <> ? OR session = ?)",
                (root, boot, session),
            )
        )
        for name, _, _ in rows:
            _end_turn(tx, name, now)
        if not rows:
            return False
        crashed = any(row[2] != boot for row in rows)
        key = f"nudge:{boot}:{root}" if crashed else f"nudge:{boot}:{root}:{rows[0][1]}"
        if not (crashed and _count_crash(tx, root)):
            _nudge(tx, root, [row[0] for row in rows], key, now)
        return True

    return await database.write(write)


def _end_turn(tx: Tx, session: str, now: int) -> None:
    row = tx.one("DELETE FROM runs WHERE session = ? RETURNING turn", (session,))
    turn = str(row[0]) if row else ""
    events = [event for event in read(tx, session) if event.turn == turn]
    bodies: list[Body] = [*_open_calls(events)]
    partial = read_partial(tx, session)
    if partial is not None and partial[2]:
        bodies.append(AssistantCut(reply=partial[1], text=partial[2], reason="crash"))
    tx.execute("DELETE FROM partials WHERE session = ?", (session,))
    bodies.append(TurnEnded(outcome="interrupted", error="the server stopped in the middle of this turn", kind="crash"))
    append(tx, session, bodies, at=now, turn=turn)


def _open_calls(events: list[Event]) -> list[ToolFinished]:
    """Return a result for every call without one: interrupted if it had started, else not run."""
    calls: dict[str, str] = {}
    started: set[str] = set()
    for event in events:
        match event.body:
            case AssistantMessage(content=content):
                calls |= {block.id: block.name for block in content if isinstance(block, ToolCall)}
            case ToolStarted(call=call):
                started.add(call)
            case ToolFinished(call=call):
                calls.pop(call, None)
            case _:
                pass
    return [_answer(call, name, call in started) for call, name in calls.items()]


def _answer(call: str, name: str, started: bool) -> ToolFinished:
    outcome: ToolOutcome = "interrupted" if started else "not_run"
    return ToolFinished(call=call, name=name, outcome=outcome, text=INTERRUPTED if started else NOT_RUN)


def _count_crash(tx: Tx, root: str) -> bool:
    """Count an unclean boot of the tree; true when it is parked now."""
    row = tx.one("UPDATE sessions SET crashes = crashes + 1 WHERE id = ? RETURNING crashes", (root,))
    if row is None or int(row[0]) < CRASHES_TO_PARK:
        return False
    tx.execute("UPDATE sessions SET parked = 1 WHERE id = ?", (root,))
    return True


def _nudge(tx: Tx, root: str, cut: list[str], key: str, now: int) -> None:
    """Ask the root to go on, at the level and in the kind of what it was answering, so that waiting rows may join."""
    row = tx.one(
        "SELECT access, principal_kind FROM inbox WHERE session = ? AND state = 'consumed' ORDER BY id DESC LIMIT 1",
        (root,),
    ) or tx.one("SELECT access, 'unattended' FROM sessions WHERE id = ?", (root,))
    if row is None:
        return
    when = datetime.fromtimestamp(now / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    message = Incoming(
        text=_text(root, cut, when),
        principal=Principal(name="recovery", kind=row[1]),
        mode="follow_up",
        cause="recovery",
    )
    accept(tx, root, message, key=key, at=now, access=row[0], cap=_NO_CAP)


def _text(root: str, cut: list[str], when: str) -> str:
    if root in cut:
        return (
            f"[System] The server restarted at {when} while you were mid-turn. Continue from the conversation as it"
            " stands; a call that was in flight may or may not have taken effect. Do not start over."
        )
    names = ", ".join(sorted(cut)[:10]) + (f" (+{len(cut) - 10} more)" if len(cut) > 10 else "")
    return (
        f"[System] The server restarted at {when}. You were idle, but these sessions in your session tree were"
        f" mid-run and were cut off: {names}."
    )
