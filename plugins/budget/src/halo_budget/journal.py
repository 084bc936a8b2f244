"""What the journal says about a call whose end nobody told of."""

from __future__ import annotations

from collections.abc import Mapping

from halo_kernel import BadFile, Event, Host, NotFound, Principal, Usage, UsageRecorded

from .ledger import Spender


async def journaled(host: Host, call: Spender) -> Mapping[str, Usage]:
    """Return what replies cost that may be the call's: those of its turn and model since it began.

    Nothing for a session that cannot be opened any more. Raises `HaloError` for a storage that cannot be read now.
    """
    owner = Principal(name=call.principal, kind=call.kind)
    try:
        session = await host.sessions.open(call.session, workspace=call.workspace, principal=owner)
    except (NotFound, BadFile):
        return {}
    found = [_cost(call, update.event) async for update in session.events() if update.event is not None]
    return {body.reply: _usage(body) for body in found if body is not None}


def _cost(call: Spender, event: Event) -> UsageRecorded | None:
    body = event.body
    if event.seq <= call.head or event.turn != call.turn or not isinstance(body, UsageRecorded):
        return None
    return body if (body.model, body.purpose) == (call.model, call.purpose) else None


def _usage(body: UsageRecorded) -> Usage:
    return Usage(input=body.input, output=body.output, cache_read=body.cache_read, cache_write=body.cache_write)
