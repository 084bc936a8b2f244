"""What Slack documents as numbers and names: limits, scopes, tiers, what Block Kit takes.

Sources: docs.slack.dev/reference (methods, scopes, block-kit, rate limits) and the validators of slack_sdk's models.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

TEXT_MOST = 40_000
"""Characters of `text` in chat.postMessage."""
UPDATE_TEXT_MOST = 4_000
"""Characters of `text` in chat.update, by its error `msg_too_long`."""
MARKDOWN_MOST = 12_000
"""Characters of `markdown_text`, of a stream's chunk, and of all markdown blocks of a message together."""
BLOCKS_MOST = 50
VIEW_BLOCKS_MOST = 100
VIEW_TITLE_MOST = 24
ATTACHMENTS_MOST = 100
METADATA_MOST = 16_000
"""Characters of a message's metadata as JSON."""
TASK_FIELD_MOST = 256
"""Characters of a field of a stream's `task_update` and `plan_update`."""
SOCKETS_MOST = 10
RESPONSE_URL_USES = 5
PAGE_DEFAULT = 100
PAGE_MOST = 999
MPIM_MOST = 8

KIND_SCOPES = {"channel": "channels", "group": "groups", "im": "im", "mpim": "mpim"}
"""The first half of the scope for each kind of conversation."""

EVENT_SCOPES = {
    "app_mention": "app_mentions:read",
    "message.channels": "channels:history",
    "message.groups": "groups:history",
    "message.im": "im:history",
    "message.mpim": "mpim:history",
    "member_joined_channel": "channels:read",
    "reaction_added": "reactions:read",
    "app_home_opened": "",
    "tokens_revoked": "",
}
"""The scope without which an event is not sent."""

BOT_SCOPES = frozenset(
    {
        "app_mentions:read",
        "assistant:write",
        "channels:history",
        "channels:join",
        "channels:read",
        "chat:write",
        "commands",
        "files:read",
        "files:write",
        "groups:history",
        "groups:read",
        "im:history",
        "im:read",
        "im:write",
        "mpim:history",
        "mpim:read",
        "mpim:write",
        "reactions:read",
        "reactions:write",
        "users:read",
    }
)
"""What an app has when a test says nothing else."""

APP_SCOPES = frozenset({"connections:write"})

TIERS = {"1": 1, "2": 20, "3": 50, "4": 100}
"""Calls a minute; the tier `chat` is one message a second and channel."""


@dataclass(frozen=True, kw_only=True)
class MethodRule:
    """What a method asks before it looks closer.

    One of `scopes` is enough; a scope that ends in `:` is completed with what the conversation's kind asks, see
    `KIND_SCOPES`. `needs` are the arguments without which it refuses.
    """

    scopes: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    tier: str = "3"
    token: Literal["bot", "app"] = "bot"
    post_only: bool = False


_THREAD = ("channel_id", "thread_ts")

METHODS = {
    "api.test": MethodRule(tier="4"),
    "apps.connections.open": MethodRule(scopes=("connections:write",), tier="1", token="app", post_only=True),
    "assistant.threads.setStatus": MethodRule(scopes=("assistant:write", "chat:write"), needs=(*_THREAD, "status")),
    "assistant.threads.setSuggestedPrompts": MethodRule(scopes=("assistant:write",), needs=(*_THREAD, "prompts")),
    "assistant.threads.setTitle": MethodRule(scopes=("assistant:write",), needs=(*_THREAD, "title")),
    "auth.test": MethodRule(tier="4"),
    "chat.appendStream": MethodRule(scopes=("chat:write",), needs=("channel", "ts"), tier="4"),
    "chat.delete": MethodRule(scopes=("chat:write",), needs=("channel", "ts")),
    "chat.getPermalink": MethodRule(needs=("channel", "message_ts"), tier="4"),
    "chat.postEphemeral": MethodRule(scopes=("chat:write",), needs=("channel", "user"), tier="4"),
    "chat.postMessage": MethodRule(scopes=("chat:write",), needs=("channel",), tier="chat"),
    "chat.startStream": MethodRule(scopes=("chat:write",), needs=("channel", "thread_ts"), tier="2"),
    "chat.stopStream": MethodRule(scopes=("chat:write",), needs=("channel", "ts"), tier="2"),
    "chat.update": MethodRule(scopes=("chat:write",), needs=("channel", "ts")),
    "conversations.history": MethodRule(scopes=("history:",), needs=("channel",)),
    "conversations.info": MethodRule(scopes=("read:",), needs=("channel",)),
    "conversations.join": MethodRule(scopes=("channels:join",), needs=("channel",)),
    "conversations.list": MethodRule(scopes=("channels:read", "groups:read", "im:read", "mpim:read"), tier="2"),
    "conversations.members": MethodRule(scopes=("read:",), needs=("channel",), tier="4"),
    "conversations.open": MethodRule(scopes=("im:write", "mpim:write")),
    "conversations.replies": MethodRule(scopes=("history:",), needs=("channel", "ts")),
    "files.completeUploadExternal": MethodRule(scopes=("files:write",), needs=("files",), tier="4"),
    "files.delete": MethodRule(scopes=("files:write",), needs=("file",)),
    "files.getUploadURLExternal": MethodRule(scopes=("files:write",), needs=("filename", "length"), tier="4"),
    "files.info": MethodRule(scopes=("files:read",), needs=("file",), tier="4"),
    "reactions.add": MethodRule(scopes=("reactions:write",), needs=("channel", "timestamp", "name")),
    "reactions.get": MethodRule(scopes=("reactions:read",), needs=("channel", "timestamp")),
    "reactions.remove": MethodRule(scopes=("reactions:write",), needs=("channel", "timestamp", "name"), tier="2"),
    "users.info": MethodRule(scopes=("users:read",), needs=("user",), tier="4"),
    "users.list": MethodRule(scopes=("users:read",), tier="2"),
    "views.open": MethodRule(needs=("trigger_id", "view"), tier="4"),
    "views.publish": MethodRule(needs=("user_id", "view"), tier="4"),
}


@dataclass(frozen=True, kw_only=True)
class TextRule:
    """A text object, or a bare string where `kinds` is empty; lengths in characters."""

    most: int
    kinds: tuple[str, ...] = ("plain_text", "mrkdwn")
    least: int = 1


@dataclass(frozen=True, kw_only=True)
class ListRule:
    """A list of blocks, elements or texts; `of` names the types that it takes, empty for anything."""

    most: int
    least: int = 1
    of: tuple[str, ...] = ()
    text: TextRule | None = None
    required: bool = True


@dataclass(frozen=True, kw_only=True)
class PartRule:
    """A block or an element: its texts, lists and nested parts by field; `required` fields have to be there.

    Of each tuple in `any_of` at least one field has to be there.
    """

    texts: tuple[tuple[str, TextRule], ...] = ()
    lists: tuple[tuple[str, ListRule], ...] = ()
    parts: tuple[tuple[str, tuple[str, ...]], ...] = ()
    choices: tuple[tuple[str, tuple[str, ...]], ...] = ()
    required: tuple[str, ...] = ()
    any_of: tuple[tuple[str, ...], ...] = ()


def _bare(most: int) -> TextRule:
    return TextRule(most=most, kinds=())


def _plain(most: int) -> TextRule:
    return TextRule(most=most, kinds=("plain_text",))


_SELECTS = ("static_select", "external_select", "users_select", "conversations_select", "channels_select")
_MULTI = tuple(f"multi_{each}" for each in _SELECTS)
_PICKERS = ("datepicker", "timepicker", "datetimepicker", "checkboxes", "radio_buttons")
_INPUTS = (*_SELECTS, *_MULTI, *_PICKERS)
_TYPED = ("plain_text_input", "email_text_input", "url_text_input", "number_input", "file_input", "rich_text_input")
_IDS = (("action_id", _bare(255)),)
_PLACEHOLDER = (*_IDS, ("placeholder", _plain(150)))
_OPTIONS = (("options", ListRule(most=100, of=("option",), required=False)),)
_RICH = ("rich_text_section", "rich_text_list", "rich_text_preformatted", "rich_text_quote")
_ACTIONS = ("button", "overflow", "workflow_button", *_INPUTS)

BLOCKS = {
    "actions": PartRule(lists=(("elements", ListRule(most=25, of=_ACTIONS)),)),
    "context": PartRule(lists=(("elements", ListRule(most=10, of=("image", "mrkdwn", "plain_text"))),)),
    "context_actions": PartRule(lists=(("elements", ListRule(most=5, of=("feedback_buttons", "icon_button"))),)),
    "divider": PartRule(),
    "file": PartRule(required=("external_id", "source")),
    "header": PartRule(texts=(("text", _plain(150)),), required=("text",)),
    "image": PartRule(
        texts=(("image_url", _bare(3000)), ("alt_text", _bare(2000)), ("title", _plain(2000))),
        required=("alt_text",),
        any_of=(("image_url", "slack_file"),),
    ),
    "input": PartRule(
        texts=(("label", _plain(2000)), ("hint", _plain(2000))),
        parts=(("element", (*_INPUTS, *_TYPED)),),
        required=("label", "element"),
    ),
    "markdown": PartRule(texts=(("text", _bare(12_000)),), required=("text",)),
    "rich_text": PartRule(lists=(("elements", ListRule(most=1000, least=0, of=_RICH)),)),
    "section": PartRule(
        texts=(("text", TextRule(most=3000)),),
        lists=(("fields", ListRule(most=10, text=TextRule(most=2000), required=False)),),
        parts=(("accessory", ("image", *_ACTIONS)),),
        any_of=(("text", "fields"),),
    ),
    "table": PartRule(lists=(("rows", ListRule(most=100)),)),
    "video": PartRule(
        texts=(("title", _plain(200)), ("alt_text", _bare(2000)), ("author_name", _bare(50))),
        required=("title", "alt_text", "video_url", "thumbnail_url"),
    ),
    "task_card": PartRule(required=("task_id", "title")),
    "plan": PartRule(required=("title",)),
}
"""The blocks a message may have."""

ELEMENTS = {
    "button": PartRule(
        texts=(*_IDS, ("text", _plain(75)), ("url", _bare(3000)), ("value", _bare(2000))),
        choices=(("style", ("primary", "danger")),),
        required=("text",),
    ),
    "image": PartRule(
        texts=(("image_url", _bare(3000)), ("alt_text", _bare(2000))),
        required=("alt_text",),
        any_of=(("image_url", "slack_file"),),
    ),
    "mrkdwn": PartRule(texts=(("text", _bare(3000)),), required=("text",)),
    "plain_text": PartRule(texts=(("text", _bare(3000)),), required=("text",)),
    "option": PartRule(
        texts=(("text", TextRule(most=75)), ("value", _bare(150)), ("description", TextRule(most=75))),
        required=("text", "value"),
    ),
    "overflow": PartRule(texts=_IDS, lists=(("options", ListRule(most=5, of=("option",))),)),
    "static_select": PartRule(texts=_PLACEHOLDER, lists=_OPTIONS, any_of=(("options", "option_groups"),)),
    "multi_static_select": PartRule(texts=_PLACEHOLDER, lists=_OPTIONS, any_of=(("options", "option_groups"),)),
    "checkboxes": PartRule(texts=_IDS, lists=(("options", ListRule(most=10, of=("option",))),)),
    "radio_buttons": PartRule(texts=_IDS, lists=(("options", ListRule(most=10, of=("option",))),)),
    "rich_text_section": PartRule(required=("elements",)),
    "rich_text_list": PartRule(required=("elements", "style")),
    "rich_text_preformatted": PartRule(required=("elements",)),
    "rich_text_quote": PartRule(required=("elements",)),
}
"""The elements within blocks; a type that a block takes and that is not here has only its action id checked."""

OTHER_ELEMENT = PartRule(texts=_IDS)
