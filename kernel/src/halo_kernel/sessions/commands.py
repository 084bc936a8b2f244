"""A command: a person's message that begins with `/name`, which a plugin carries out and no model sees."""

from __future__ import annotations

import re

from msgspec.structs import asdict, replace

from .. import contracts, hookspecs
from ..access import fold_access
from ..contracts import Command, Tx
from ..errors import HaloError
from ..inbox import accept, receipt_of
from ..journal import append
from ..log import logger
from ..outbox import owe
from ..records import Access, CommandFinished, CommandResult, Event, Incoming, Owed, Receipt

_COMMAND = re.compile(r"/[a-z][a-z0-9_-]{0,31}(\s.*)?", re.DOTALL)


def is_said(message: Incoming) -> bool:
    """Tell whether a person says it."""
    return message.principal.kind == "person" and message.cause == "message"


def is_command(message: Incoming) -> bool:
    """Tell whether a person asks for a command."""
    return is_said(message) and _COMMAND.fullmatch(message.text.strip()) is not None


async def carry_out(session: contracts.Session, message: Incoming, *, key: str, access: Access) -> Receipt | None:
    """Carry a command out and return its receipt, written with what came of it; None for any other message.

    One with a known key is not run again. A crash between its effect and that write leaves nothing, so that its sender
    sends it again.
    """
    if not is_command(message):
        return None
    seat = session.seat
    seen = await seat.database.read(lambda tx: receipt_of(tx, message.principal, key))
    if seen is not None:
        return seen
    result, at = await _run(session, message, access), seat.stamp()
    result = replace(result, text=seat.mask(result.text))
    row = replace(message, cause="command", mode="steer", reply_to=None)

    def write(tx: Tx) -> tuple[Receipt, tuple[Event, ...]]:
        receipt, fresh = accept(tx, session.info.id, row, key=key, at=at, access=access, cap=0)
        return receipt, settle(tx, receipt, row, result, at=at) if fresh else ()

    receipt, events = await seat.database.write(write)
    seat.tell(events)
    seat.database.notify("outbox")
    return receipt


def settle(tx: Tx, receipt: Receipt, message: Incoming, result: CommandResult, *, at: int) -> tuple[Event, ...]:
    """Write what came of a command that was accepted, owe it to where it came from, and return what is journaled."""
    tx.execute("UPDATE inbox SET state = 'done', owed = 0 WHERE id = ?", (receipt.row,))
    if message.route:
        key, kind = f"reply:{receipt.row}:{at}", message.route.partition(":")[0]
        reply = Owed(key=key, dispatcher=kind, target=message.route, text=result.text, session=receipt.session)
        owe(tx, reply, at=at)
    if result.session:
        tx.execute("UPDATE chats SET session = ? WHERE session = ?", (result.session, receipt.session))
    who, said = message.principal.name, message.text
    body = CommandFinished(row=receipt.row, said=said, sender=who, **asdict(result))
    return append(tx, receipt.session, [body], at=at)


async def _run(session: contracts.Session, message: Incoming, access: Access) -> CommandResult:
    name, rest = [*message.text.strip().removeprefix("/").split(None, 1), ""][:2]
    try:
        command = await session.seat.hooks.first(hookspecs.resolve_command, name, session)
        if command is None:
            return CommandResult(text=f"There is no command /{name}. /help lists those that there are.", ok=False)
        return await _allowed(command, rest, message, session, access)
    except HaloError as error:
        return CommandResult(text=f"{error.message}. {error.advice}".removesuffix(". "), ok=False)
    except Exception as error:
        logger("sessions").error("a command failed", command=name, session=session.info.id, exc_info=True)
        return CommandResult(text=f"/{name} failed: {error!r}", ok=False)


async def _allowed(
    command: Command, rest: str, message: Incoming, session: contracts.Session, access: Access
) -> CommandResult:
    """Run a command, if there is such a verb and whoever asks may."""
    spec, (word, arguments) = command.spec, [*rest.split(None, 1), "", ""][:2]
    names = {alias: name for name, verb in spec.verbs.items() for alias in (name, *verb.aliases)}
    if not spec.verbs:
        word, arguments = "", rest
    elif word and word not in names:
        return CommandResult(text=f"/{spec.name} does not {word}. It knows {', '.join(spec.verbs)}.", ok=False)
    verb = names.get(word, "")
    needed = spec.verbs[verb].access if verb else spec.access
    if fold_access(needed, access) != needed:
        return CommandResult(text=f"/{spec.name} {verb}".strip() + f" needs the level {needed}.", ok=False)
    return await command.run(verb, arguments.strip(), message, session)
