"""conversations.*: finding, opening, reading and joining."""

from __future__ import annotations

from .call import Call, Method
from .messages import Json, Message
from .pages import page
from .refusals import Refused
from .rules import KIND_SCOPES, MPIM_MOST
from .team import Conversation

_TYPES = {"public_channel": "channel", "private_channel": "group", "im": "im", "mpim": "mpim"}


def opened(call: Call) -> Json:
    """Open the DM with some people, or one that was."""
    if call.arguments.given("channel"):
        return _described(call, call.conversation(), known=True)
    users = [each.strip() for each in call.text("users").split(",") if each.strip()]
    if not users:
        raise Refused("users_list_not_supplied")
    if len(users) > MPIM_MOST:
        raise Refused("too_many_users")
    people = call.platform.team.people
    if any(each not in people for each in users):
        raise Refused("user_not_found")
    call.need_scope("im:write" if len(users) == 1 else "mpim:write")
    conversation, known = call.platform.team.direct((call.app.bot_user, *users), now=call.platform.clock.now())
    return _described(call, conversation, known=known)


def _described(call: Call, conversation: Conversation, *, known: bool) -> Json:
    whole = call.arguments.flag("return_im")
    told = conversation.payload(seen_by=call.app.bot_user) if whole else {"id": conversation.id}
    return {"channel": told} | ({"no_op": True, "already_open": True} if known else {})


def info(call: Call) -> Json:
    """Describe one."""
    return {"channel": call.readable("read").payload(seen_by=call.app.bot_user)}


def listed(call: Call) -> Json:
    """List those of some types, public channels if nothing is said."""
    types = [each.strip() for each in (call.text("types") or "public_channel").split(",")]
    if unknown := [each for each in types if each not in _TYPES]:
        raise Refused("invalid_types", f"[ERROR] invalid type: {unknown[0]}")
    kinds = [_TYPES[each] for each in types]
    for kind in kinds:
        call.need_scope(f"{KIND_SCOPES[kind]}:read")
    archived = not call.arguments.flag("exclude_archived")
    found = [
        each.payload(seen_by=call.app.bot_user)
        for each in call.platform.team.conversations.values()
        if each.kind in kinds
        and (archived or not each.archived)
        and (each.kind == "channel" or call.app.bot_user in each.members)
    ]
    return page(call, "channels", found)


def members(call: Call) -> Json:
    """List who is in it."""
    return page(call, "members", call.readable("read").members)


def join(call: Call) -> Json:
    """Join a public channel."""
    conversation = call.conversation()
    if conversation.kind != "channel":
        raise Refused("method_not_supported_for_channel_type")
    if conversation.archived:
        raise Refused("is_archived")
    was_in = call.app.bot_user in conversation.members
    call.platform.board.join(conversation, call.app.bot_user)
    told: Json = {"channel": conversation.payload(seen_by=call.app.bot_user)}
    return told | ({"warning": "already_in_channel"} if was_in else {})


def history(call: Call) -> Json:
    """Read what stands in the channel itself, the newest first."""
    conversation = call.joined(call.readable("history"))
    found = [each for each in _between(call, conversation) if each.in_channel]
    return page(call, "messages", [_told(call, conversation, each) for each in reversed(found)])


def replies(call: Call) -> Json:
    """Read a thread, its first message first; any message of it may name it."""
    conversation = call.joined(call.readable("history"))
    asked = call.message(conversation, call.text("ts"), refusal="thread_not_found")
    root = conversation.messages[asked.root]
    found = [root, *(each for each in _between(call, conversation) if each.is_reply and each.root == root.ts)]
    return page(call, "messages", [_told(call, conversation, each) for each in found])


def _between(call: Call, conversation: Conversation) -> list[Message]:
    oldest, latest = _bound(call, "oldest", 0.0), _bound(call, "latest", float("inf"))
    edge = call.arguments.flag("inclusive")
    return [
        each
        for each in conversation.messages.values()
        if not each.deleted
        and each.ephemeral_to is None
        and (oldest < float(each.ts) < latest or (edge and float(each.ts) in (oldest, latest)))
    ]


def _bound(call: Call, name: str, default: float) -> float:
    try:
        return float(call.text(name) or default)
    except ValueError:
        raise Refused(f"invalid_ts_{name}") from None


def _told(call: Call, conversation: Conversation, message: Message) -> Json:
    told = message.payload(with_metadata=call.arguments.flag("include_all_metadata"))
    answers = conversation.replies(message.ts)
    if answers and not message.is_reply:
        users = list(dict.fromkeys(each.user for each in answers))
        told |= {
            "reply_count": len(answers),
            "reply_users": users,
            "reply_users_count": len(users),
            "latest_reply": answers[-1].ts,
        }
    return told


CONVERSATIONS: dict[str, Method] = {
    "conversations.history": history,
    "conversations.info": info,
    "conversations.join": join,
    "conversations.list": listed,
    "conversations.members": members,
    "conversations.open": opened,
    "conversations.replies": replies,
}
