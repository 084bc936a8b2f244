"""A choice: the number with which a person answers, in a chat, the question that is open there."""

from __future__ import annotations

import re

from msgspec.structs import replace

from .. import contracts
from ..contracts import Tx
from ..errors import HaloError
from ..inbox import accept, receipt_of
from ..questions import answer, listed
from ..records import Access, CommandResult, Event, Incoming, Principal, QuestionInfo, Receipt
from .commands import carry_out, is_said, settle
from .rows import tree

_CHOICE = re.compile(r"\s*(?:/answer\s+([1-9]\d{0,17})\s+)?(\d{1,2})\s*")


async def serve(session: contracts.Session, message: Incoming, *, key: str, access: Access) -> Receipt | None:
    """Take what a message asks of the server itself, an answer to a question or a command; None for any other."""
    receipt = await choose(session, message, key=key, access=access)
    return receipt or await carry_out(session, message, key=key, access=access)


async def choose(session: contracts.Session, message: Incoming, *, key: str, access: Access) -> Receipt | None:
    """Answer a question of the session's tree and return the receipt, written with it; None for any other message.

    `<number>` answers the question that was asked last, `/answer <question> <number>` the one of that id.
    """
    said = _CHOICE.fullmatch(message.text)
    if said is None or not is_said(message) or not message.route:
        return None
    seat, info = session.seat, session.info
    at = seat.stamp()
    owner = Principal(name=info.principal, kind=info.principal_kind, access=access)
    row = replace(message, cause="command", mode="steer", reply_to=None)

    def write(tx: Tx) -> tuple[Receipt | None, tuple[Event, ...], str]:
        seen = receipt_of(tx, message.principal, key)
        asked = None if seen else _find(tx, owner, int(said[1] or 0), tree(tx, info.root))
        if asked is None:
            return seen, (), ""
        receipt, _ = accept(tx, info.id, row, key=key, at=at, access=access, cap=0)
        result, events = _answer(tx, asked, owner, int(said[2]), by=message.principal.name, at=at)
        events += settle(tx, receipt, row, result, at=at)
        return receipt_of(tx, message.principal, key), events, asked.session

    receipt, events, asked = await seat.database.write(write)
    seat.tell(events)
    if asked:
        seat.database.notify("outbox")
        await seat.host.sessions.wake(seat, asked)
    return receipt


def _find(tx: Tx, owner: Principal, number: int, names: list[str]) -> QuestionInfo | None:
    found = listed(tx, owner, session=None, everything=number > 0)
    here = [each for each in found if each.session in names and number in (0, each.id)]
    return here[-1] if here else None


def _answer(
    tx: Tx, asked: QuestionInfo, owner: Principal, number: int, *, by: str, at: int
) -> tuple[CommandResult, tuple[Event, ...]]:
    texts = ["", "", *asked.options]
    if not 1 <= number <= len(texts):
        return CommandResult(text=f"❓ 1 … {len(texts)}", ok=False), ()
    approved, text = number != 2, texts[number - 1]
    try:
        _, events = answer(tx, asked.id, owner, approved=approved, text=text, at=at, by=by)
    except HaloError as error:
        return CommandResult(text=error.message, ok=False), ()
    return CommandResult(text=f"{'✅' if approved else '❌'} {text}".strip()), events
