"""reactions.*"""

from __future__ import annotations

import re

from .call import Call, Method
from .messages import Json, Message
from .refusals import Refused

_NAME = re.compile(r"[a-z0-9_+'-]+(::skin-tone-[2-6])?")


def add(call: Call) -> Json:
    """React."""
    message, name = _asked(call)
    if call.app.bot_user in message.reactions.get(name, []):
        raise Refused("already_reacted")
    call.platform.board.react(message, call.app.bot_user, name)
    return {}


def remove(call: Call) -> Json:
    """Take a reaction of one's own back."""
    message, name = _asked(call)
    if call.app.bot_user not in message.reactions.get(name, []):
        raise Refused("no_reaction")
    call.platform.board.unreact(message, call.app.bot_user, name)
    return {}


def get(call: Call) -> Json:
    """Tell the reactions to a message."""
    message = call.message(call.conversation(), call.text("timestamp"))
    return {"type": "message", "channel": message.channel, "message": message.payload()}


def _asked(call: Call) -> tuple[Message, str]:
    name = call.text("name").strip(":")
    if not _NAME.fullmatch(name):
        raise Refused("invalid_name")
    conversation = call.joined(call.conversation())
    return call.message(conversation, call.text("timestamp")), name


REACTIONS: dict[str, Method] = {"reactions.add": add, "reactions.get": get, "reactions.remove": remove}
