"""What a press or a command allows for a while: one view by its trigger, five answers by its response URL."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .arguments import Arguments
from .content import read_content
from .messages import Message
from .refusals import Refused
from .rules import RESPONSE_URL_USES
from .team import App, Conversation
from .web import Answer, Request, text_answer

if TYPE_CHECKING:
    from .platform import Platform


@dataclass(kw_only=True)
class _Trigger:
    app: str
    user: str
    until: int  # milliseconds
    used: bool = False


@dataclass(kw_only=True)
class _Response:
    app: App
    user: str
    conversation: Conversation
    source: Message | None
    until: int
    uses: int = 0


class Triggers:
    """The trigger ids and response URLs that were given out."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._triggers: dict[str, _Trigger] = {}
        self._responses: dict[str, _Response] = {}

    def trigger(self, app: App, user: str) -> str:
        """Return a new trigger id."""
        name = f"{len(self._triggers) + 1}.1.{secrets.token_hex(16)}"
        self._triggers[name] = _Trigger(app=app.id, user=user, until=self._until(self._platform.pace.trigger))
        return name

    def exchange(self, app: App, name: str) -> str:
        """Use a trigger id up; return whose it is."""
        trigger = self._triggers.get(name)
        if trigger is None or trigger.app != app.id:
            raise Refused("invalid_trigger_id")
        if trigger.used:
            raise Refused("exchanged_trigger_id")
        if trigger.until < self._platform.clock.now():
            raise Refused("expired_trigger_id")
        trigger.used = True
        return trigger.user

    def response_url(self, app: App, user: str, conversation: Conversation, source: Message | None = None) -> str:
        """Return a URL that answers this person; `source` is the message whose button was pressed."""
        until, name = self._until(self._platform.pace.response_url), secrets.token_hex(12)
        self._responses[name] = _Response(app=app, user=user, conversation=conversation, source=source, until=until)
        return f"{self._platform.url}/response/{self._platform.team.id}/{name}"

    def _until(self, seconds: float) -> int:
        return self._platform.clock.now() + round(seconds * 1000)

    def respond(self, request: Request) -> Answer:
        """Take an answer on a response URL."""
        response = self._responses.get(request.path.rpartition("/")[2])
        if response is None:
            return text_answer("no_service", status=404)
        if response.until < self._platform.clock.now():
            return text_answer("expired_url", status=404)
        if response.uses >= RESPONSE_URL_USES:
            return text_answer("used_url", status=404)
        response.uses += 1
        self._platform.ledger.count("responses")
        try:
            return self._answer(response, Arguments(_payload(request)))
        except Refused as refused:
            return text_answer(refused.error, status=400)

    def _answer(self, response: _Response, arguments: Arguments) -> Answer:
        board, source = self._platform.board, response.source
        if arguments.flag("delete_original") and source is not None:
            board.delete(source)
        elif arguments.flag("replace_original") and source is not None:
            content = read_content(arguments)
            replaced = {**content.parts(), "text": content.text}
            board.edit(source, by=response.app.bot_user, told=True, **replaced)
        else:
            self.show(response.app, response.user, response.conversation, arguments)
        return text_answer("ok", content_type="text/html; charset=utf-8")

    def show(self, app: App, user: str, conversation: Conversation, arguments: Arguments) -> None:
        """Post what answers a command or a press: for that person alone, unless it says `in_channel`."""
        content = read_content(arguments)
        alone = None if arguments.text("response_type") == "in_channel" else user
        thread = arguments.text("thread_ts") or None
        if thread is not None and thread not in conversation.messages:
            raise Refused("thread_not_found")
        self._platform.board.post_as(
            app, conversation, content.text, ephemeral_to=alone, thread_ts=thread, **content.parts()
        )


def _payload(request: Request) -> dict[str, object]:
    try:
        value = json.loads(request.body)
    except ValueError:
        raise Refused("invalid_payload") from None
    if not isinstance(value, dict):
        raise Refused("invalid_payload")
    return value
