"""The Web API refuses what Slack refuses, in Slack's words; asked through Slack's own client where it lets us."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.models.metadata import Metadata
from slack_sdk.web.async_client import AsyncWebClient

from .slack import SlackServer
from .slack.methods import FUNCTIONS
from .slack.rules import METHODS
from .slack_echo import client

LONG_AGO = "1000000000.000001"


@dataclass
class Place:
    """A workspace with conversations of every kind, the bot in all but `foreign` and `secret`."""

    slack: SlackServer
    web: AsyncWebClient
    ids: dict[str, str]

    async def refusal(self, method: str, **arguments: Any) -> dict[str, Any]:
        """Return the body with which a call is refused."""
        with pytest.raises(SlackApiError) as caught:
            await self.web.api_call(method, json={name: self.filled(value) for name, value in arguments.items()})
        body = caught.value.response.data
        assert isinstance(body, dict)
        return body

    def filled(self, value: Any) -> Any:
        """Return an id for `<name>`."""
        return self.ids.get(value[1:-1], value) if isinstance(value, str) and value.startswith("<") else value


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    """The workspace."""
    async with SlackServer() as slack:
        people = slack.people
        ids = {name: people.add_user(name) for name in ("kim", "lou")}
        ids["general"] = people.add_channel("general", ["kim", "lou", "halo"])
        ids["group"] = people.add_channel("group", ["kim", "halo"], private=True)
        ids["foreign"] = people.add_channel("foreign", ["kim"])
        ids["secret"] = people.add_channel("secret", ["kim"], private=True)
        ids["old"] = people.add_channel("old", ["kim", "halo"])
        people.archive("old")
        ids["dm"] = people.direct("kim", "halo")
        ids["said"] = people.say("kim", "general", "hello")
        ids["reply"] = people.say("lou", "general", "hello kim", thread=ids["said"])
        web = client(slack)
        ids["own"] = (await web.chat_postMessage(channel=ids["general"], text="mine"))["ts"]
        yield Place(slack, web, ids)


def _texts(length: int, count: int = 1) -> list[dict[str, Any]]:
    return [{"type": "section", "text": {"type": "mrkdwn", "text": "x" * length}}] * count


REFUSALS: list[tuple[str, str, dict[str, Any]]] = [
    ("chat.postMessage", "channel_not_found", {"channel": "C0NOWHERE", "text": "x"}),
    ("chat.postMessage", "channel_not_found", {"channel": "<secret>", "text": "x"}),
    ("chat.postMessage", "not_in_channel", {"channel": "<foreign>", "text": "x"}),
    ("chat.postMessage", "is_archived", {"channel": "<old>", "text": "x"}),
    ("chat.postMessage", "no_text", {"channel": "<general>"}),
    ("chat.postMessage", "no_text", {"channel": "<general>", "text": " "}),
    ("chat.postMessage", "invalid_arguments", {"text": "x"}),
    ("chat.postMessage", "msg_too_long", {"channel": "<general>", "text": "x" * 40_001}),
    ("chat.postMessage", "msg_too_long", {"channel": "<general>", "markdown_text": "x" * 12_001}),
    ("chat.postMessage", "markdown_text_conflict", {"channel": "<general>", "markdown_text": "x", "text": "x"}),
    ("chat.postMessage", "invalid_blocks_format", {"channel": "<general>", "blocks": "no json"}),
    ("chat.postMessage", "invalid_blocks", {"channel": "<general>", "blocks": _texts(3001)}),
    ("chat.postMessage", "invalid_blocks", {"channel": "<general>", "blocks": _texts(1, 51)}),
    ("chat.postMessage", "thread_not_found", {"channel": "<general>", "text": "x", "thread_ts": LONG_AGO}),
    ("chat.postMessage", "invalid_thread_ts", {"channel": "<general>", "text": "x", "thread_ts": "yesterday"}),
    ("chat.postMessage", "cannot_reply_to_message", {"channel": "<general>", "text": "x", "thread_ts": "<reply>"}),
    ("chat.postMessage", "thread_not_found", {"channel": "<dm>", "text": "x", "thread_ts": "<said>"}),
    ("chat.postMessage", "invalid_metadata_format", {"channel": "<general>", "text": "x", "metadata": {"a": 1}}),
    ("chat.postMessage", "too_many_attachments", {"channel": "<general>", "attachments": [{"text": "x"}] * 101}),
    ("chat.postMessage", "missing_scope", {"channel": "<general>", "text": "x", "username": "somebody"}),
    ("chat.update", "message_not_found", {"channel": "<general>", "ts": LONG_AGO, "text": "x"}),
    ("chat.update", "cant_update_message", {"channel": "<general>", "ts": "<said>", "text": "x"}),
    ("chat.update", "msg_too_long", {"channel": "<general>", "ts": "<own>", "text": "x" * 4_001}),
    ("chat.update", "no_text", {"channel": "<general>", "ts": "<own>"}),
    ("chat.delete", "message_not_found", {"channel": "<general>", "ts": LONG_AGO}),
    ("chat.delete", "cant_delete_message", {"channel": "<general>", "ts": "<said>"}),
    ("chat.postEphemeral", "user_not_in_channel", {"channel": "<group>", "user": "<lou>", "text": "x"}),
    ("chat.getPermalink", "message_not_found", {"channel": "<general>", "message_ts": LONG_AGO}),
    ("conversations.open", "users_list_not_supplied", {}),
    ("conversations.open", "user_not_found", {"users": "U0NOBODY"}),
    ("conversations.info", "channel_not_found", {"channel": "<secret>"}),
    ("conversations.history", "not_in_channel", {"channel": "<foreign>"}),
    ("conversations.history", "channel_not_found", {"channel": "<secret>"}),
    ("conversations.history", "invalid_cursor", {"channel": "<general>", "cursor": "!"}),
    ("conversations.history", "invalid_ts_oldest", {"channel": "<general>", "oldest": "noon"}),
    ("conversations.replies", "thread_not_found", {"channel": "<general>", "ts": LONG_AGO}),
    ("conversations.join", "is_archived", {"channel": "<old>"}),
    ("conversations.join", "method_not_supported_for_channel_type", {"channel": "<dm>"}),
    ("conversations.list", "invalid_types", {"types": "secret"}),
    ("conversations.members", "invalid_limit", {"channel": "<general>", "limit": 1000}),
    ("users.info", "user_not_found", {"user": "U0NOBODY"}),
    ("reactions.add", "message_not_found", {"channel": "<general>", "timestamp": LONG_AGO, "name": "eyes"}),
    ("reactions.add", "invalid_name", {"channel": "<general>", "timestamp": "<said>", "name": "no name"}),
    ("reactions.remove", "no_reaction", {"channel": "<general>", "timestamp": "<said>", "name": "eyes"}),
    ("files.getUploadURLExternal", "invalid_arguments", {"filename": "a.txt", "length": 0}),
    ("files.completeUploadExternal", "file_not_found", {"files": [{"id": "F0NOTHING"}]}),
    ("files.info", "file_not_found", {"file": "F0NOTHING"}),
    ("assistant.threads.setStatus", "invalid_thread_ts", {"channel_id": "<dm>", "thread_ts": LONG_AGO, "status": "x"}),
    ("views.open", "invalid_trigger_id", {"trigger_id": "1", "view": {"type": "modal", "title": "<title>"}}),
    ("views.publish", "invalid_arguments", {"user_id": "<kim>", "view": {"type": "modal", "blocks": []}}),
    ("apps.connections.open", "not_allowed_token_type", {}),
    ("chat.shout", "unknown_method", {}),
]


@pytest.mark.parametrize(("method", "error", "arguments"), REFUSALS)
async def test_what_slack_refuses_is_refused(place: Place, method: str, error: str, arguments: dict[str, Any]) -> None:
    """Each mistake has Slack's error and changes nothing."""
    if arguments.get("view", {}).get("title"):
        title = {"type": "plain_text", "text": "A modal"}
        arguments = {**arguments, "view": {"type": "modal", "title": title, "blocks": _texts(1)}}
    before = place.slack.people.read("general", everything=True)
    assert (await place.refusal(method, **arguments))["error"] == error
    assert place.slack.people.read("general", everything=True) == before


def test_every_method_has_a_rule_and_a_function() -> None:
    """What a method asks and what it does are listed for the same methods."""
    assert set(FUNCTIONS) == set(METHODS)


@pytest.mark.parametrize(
    ("token", "error"), [("", "not_authed"), ("xoxb-unknown", "invalid_auth"), ("xapp", "not_allowed_token_type")]
)
async def test_tokens_are_looked_at(place: Place, token: str, error: str) -> None:
    """No token, an unknown one and one of another kind have three errors."""
    given = place.slack.app.app_token if token == "xapp" else token
    headers = {"Authorization": f"Bearer {given}"} if given else {}
    async with httpx.AsyncClient(base_url=place.slack.api_url, headers=headers, trust_env=False) as web:
        assert (await web.post("auth.test")).json() == {"ok": False, "error": error}


async def test_a_revoked_token_is_refused_and_told(place: Place) -> None:
    """After a revocation every call says `token_revoked`, and the app was told."""
    place.slack.admin.revoke("halo")
    assert (await place.refusal("auth.test"))["error"] == "token_revoked"
    (told,) = [each.payload["event"] for each in place.slack.ledger.deliveries if each.name == "tokens_revoked"]
    assert told["tokens"] == {"oauth": [], "bot": [place.slack.app.bot_user]}
    web = client(place.slack, token=place.slack.admin.reinstall("halo"))
    assert (await web.auth_test())["user_id"] == place.slack.app.bot_user


async def test_a_missing_scope_is_named(place: Place) -> None:
    """A scope that the app has not is told beside those that it has; the kind of conversation decides which."""
    place.slack.app.scopes = {"chat:write", "im:history"}
    refused = await place.refusal("users.info", user="<kim>")
    assert (refused["error"], refused["needed"]) == ("missing_scope", "users:read")
    assert refused["provided"] == "chat:write,im:history"
    assert (await place.refusal("conversations.history", channel="<group>"))["needed"] == "groups:history"
    assert (await place.web.conversations_history(channel=place.ids["dm"]))["ok"]


async def test_headers_tell_the_scopes(place: Place) -> None:
    """Each answer tells what the token may do and what would have been enough."""
    place.slack.app.scopes = {"users:read", "chat:write"}
    headers = (await place.web.users_list()).headers
    assert (headers["X-OAuth-Scopes"], headers["X-Accepted-OAuth-Scopes"]) == ("chat:write,users:read", "users:read")


async def test_complaints_about_blocks_say_where(place: Place) -> None:
    """`invalid_blocks` lists every fault with its place."""
    blocks = [*_texts(3001), {"type": "sections"}, {"type": "section"}]
    refused = await place.refusal("chat.postMessage", channel="<general>", text="x", blocks=blocks)
    assert refused["error"] == "invalid_blocks"
    assert refused["response_metadata"]["messages"] == [
        "[ERROR] must be less than 3001 characters [json-pointer:/blocks/0/text/text]",
        "[ERROR] unsupported type: sections [json-pointer:/blocks/1/type]",
        "[ERROR] must define either `text` or `fields` [json-pointer:/blocks/2]",
    ]


@pytest.mark.parametrize("sent", ["query", "form", "multipart", "json", "mixed"])
async def test_arguments_come_every_way(place: Place, sent: str) -> None:
    """Query, form, multipart and JSON mean the same, and what is split between two is put together."""
    arguments = {"channel": place.ids["general"], "text": "hello ü", "blocks": json.dumps(_texts(1))}
    channel = {"channel": arguments.pop("channel")}
    ways: dict[str, dict[str, Any]] = {
        "query": {"params": {**channel, **arguments}},
        "form": {"data": {**channel, **arguments}},
        "multipart": {"files": {name: (None, value) for name, value in {**channel, **arguments}.items()}},
        "json": {"json": {**channel, **arguments, "blocks": _texts(1)}},
        "mixed": {"params": channel, "data": arguments},
    }
    headers = {"Authorization": f"Bearer {place.slack.app.token}"}
    async with httpx.AsyncClient(base_url=place.slack.api_url, headers=headers, trust_env=False) as web:
        answer = (await web.post("chat.postMessage", **ways[sent])).json()
    assert answer["ok"], answer
    assert answer["message"]["text"] == "hello ü"
    assert answer["message"]["blocks"] == [{"block_id": "b0", **_texts(1)[0]}]
    assert answer.get("warning") == ("missing_charset" if sent == "json" else None)


@pytest.mark.parametrize(("body", "error"), [(b"{", "invalid_json"), (b"[]", "json_not_object")])
async def test_broken_json_is_refused(place: Place, body: bytes, error: str) -> None:
    """A body that is no JSON object has its error."""
    headers = {"Authorization": f"Bearer {place.slack.app.token}", "Content-Type": "application/json; charset=utf-8"}
    async with httpx.AsyncClient(base_url=place.slack.api_url, headers=headers, trust_env=False) as web:
        assert (await web.post("chat.postMessage", content=body)).json()["error"] == error


async def test_text_is_kept_as_slack_keeps_it(place: Place) -> None:
    """What is not escaped gets escaped, mentions and links stay, and nothing is escaped twice."""
    said = f"a & b &amp; <@{place.ids['kim']}> <https://x.org|x> <b> 1 < 2 <!here>"
    kept = (await place.web.chat_postMessage(channel=place.ids["general"], text=said))["message"]["text"]
    assert kept == f"a &amp; b &amp; <@{place.ids['kim']}> <https://x.org|x> &lt;b&gt; 1 &lt; 2 <!here>"
    assert place.slack.people.read("general")[-1]["shown"] == "a & b & @kim x <b> 1 < 2 @here"


async def test_a_client_msg_id_makes_one_message(place: Place) -> None:
    """A message that is sent again with its `client_msg_id` answers the first one and stands there once."""
    sent: dict[str, Any] = {
        "channel": place.ids["general"],
        "text": "once",
        "client_msg_id": "0f9ab9e6-1f0e-4a51-9f9c-54f12e9f9ab9",
    }
    first, second = [await place.web.chat_postMessage(**sent) for _ in range(2)]
    assert first["ts"] == second["ts"]
    assert [each["text"] for each in place.slack.people.answers("general")] == ["mine", "once"]
    refused = await place.refusal("chat.postMessage", **{**sent, "channel": "<dm>"})
    assert refused["error"] == "duplicate_channel_not_found"
    await place.web.chat_delete(channel=place.ids["general"], ts=first["ts"])
    assert (await place.refusal("chat.postMessage", **sent))["error"] == "duplicate_message_not_found"


async def test_metadata_finds_a_message_again(place: Place) -> None:
    """Metadata is told by history where it is asked for."""
    metadata = Metadata(event_type="part_sent", event_payload={"part": "7"})
    posted = await place.web.chat_postMessage(channel=place.ids["dm"], text="x", metadata=metadata)
    told = (await place.web.conversations_history(channel=place.ids["dm"], include_all_metadata=True))["messages"]
    assert [(each["ts"], each["metadata"]["event_payload"]) for each in told] == [(posted["ts"], {"part": "7"})]
    told = (await place.web.conversations_history(channel=place.ids["dm"]))["messages"]
    assert "metadata" not in told[0]


async def test_history_has_pages_and_threads_apart(place: Place) -> None:
    """History is told from the newest, a page at a time, without replies; replies are told from the oldest."""
    for number in range(5):
        place.slack.people.say("kim", "general", str(number))
    pages, cursor = [], None
    while cursor != "":
        told = await place.web.conversations_history(channel=place.ids["general"], limit=3, cursor=cursor)
        pages.append([each["text"] for each in told["messages"]])
        cursor = told["response_metadata"]["next_cursor"]
    assert pages == [["4", "3", "2"], ["1", "0", "mine"], ["hello"]]
    for ts in (place.ids["said"], place.ids["reply"]):
        root, reply = (await place.web.conversations_replies(channel=place.ids["general"], ts=ts))["messages"]
        assert (root["text"], root["reply_count"]) == ("hello", 1)
        assert (reply["text"], reply["parent_user_id"]) == ("hello kim", place.ids["kim"])


async def test_a_broadcast_reply_stands_in_both(place: Place) -> None:
    """`reply_broadcast` shows a reply in its thread and in the channel."""
    sent: dict[str, Any] = {
        "channel": place.ids["general"],
        "text": "all",
        "thread_ts": place.ids["said"],
        "reply_broadcast": True,
    }
    posted = await place.web.chat_postMessage(**sent)
    assert posted["message"]["subtype"] == "thread_broadcast"
    for thread in (None, place.ids["said"]):
        assert "all" in [each["text"] for each in place.slack.people.answers("general", thread=thread)]


async def test_a_user_id_opens_the_direct_message(place: Place) -> None:
    """Posting to a user posts in the DM with them, which `conversations.open` finds too."""
    posted = await place.web.chat_postMessage(channel=place.ids["lou"], text="hi")
    opened = await place.web.conversations_open(users=[place.ids["lou"]])
    assert (opened["channel"]["id"], opened["already_open"]) == (posted["channel"], True)
    both = await place.web.conversations_open(users=[place.ids["kim"], place.ids["lou"]], return_im=True)
    assert both["channel"]["is_mpim"]


async def test_streams_grow_and_end(place: Place) -> None:
    """The client's stream is one message that grows; afterwards it takes nothing more."""
    to: dict[str, Any] = {"recipient_team_id": place.slack.platform.team.id, "recipient_user_id": place.ids["kim"]}
    at: dict[str, Any] = {"channel": place.ids["general"], "thread_ts": place.ids["said"]}
    stream = await place.web.chat_stream(**at, **to, buffer_size=1)
    await stream.append(markdown_text="**one** ")
    await stream.append(markdown_text="two ")
    (growing,) = place.slack.people.answers("general", thread=place.ids["said"])
    assert (growing["text"], growing["streaming"]) == ("**one** two ", "in_progress")
    refused = await place.refusal("chat.update", channel="<general>", ts=growing["ts"], text="x")
    assert refused["error"] == "streaming_state_conflict"
    await stream.stop(markdown_text="three")
    (ended,) = place.slack.people.answers("general", thread=place.ids["said"])
    assert (ended["text"], ended["streaming"]) == ("**one** two three", "completed")
    more = {"channel": "<general>", "ts": ended["ts"], "markdown_text": "x"}
    assert (await place.refusal("chat.appendStream", **more))["error"] == "message_not_in_streaming_state"


@pytest.mark.parametrize(
    ("error", "changed"),
    [
        ("missing_recipient_team_id", {"recipient_team_id": None}),
        ("missing_recipient_user_id", {"recipient_user_id": None}),
        ("invalid_chunks", {"chunks": [{"type": "song"}]}),
        ("msg_too_long", {"markdown_text": "x" * 12_001}),
        ("thread_not_found", {"thread_ts": LONG_AGO}),
    ],
)
async def test_streams_are_checked(place: Place, error: str, changed: dict[str, Any]) -> None:
    """A stream that lacks something does not start."""
    fine = {"channel": "<dm>", "thread_ts": place.slack.people.say("kim", place.ids["dm"], "go")}
    fine |= {"recipient_team_id": place.slack.platform.team.id, "recipient_user_id": "<kim>"}
    arguments = {name: value for name, value in (fine | changed).items() if value is not None}
    assert (await place.refusal("chat.startStream", **arguments))["error"] == error


async def test_a_person_stops_a_stream(place: Place) -> None:
    """After somebody pressed stop, nothing more is taken."""
    to: dict[str, Any] = {"recipient_team_id": place.slack.platform.team.id, "recipient_user_id": place.ids["kim"]}
    at: dict[str, Any] = {"channel": place.ids["general"], "thread_ts": place.ids["said"]}
    ts = (await place.web.chat_startStream(**at, **to, markdown_text="on and"))["ts"]
    place.slack.people.stop_stream("kim", "general", ts)
    refused = await place.refusal("chat.appendStream", channel="<general>", ts=ts, markdown_text=" on")
    assert refused["error"] == "stopped_by_user"


async def test_a_status_ends_with_the_answer(place: Place) -> None:
    """What an agent says that it does stands beside the thread until it answers there."""
    thread: dict[str, Any] = {"channel_id": place.ids["general"], "thread_ts": place.ids["said"]}
    await place.web.assistant_threads_setStatus(**thread, status="is thinking…")
    await place.web.assistant_threads_setTitle(**thread, title="Birds")
    await place.web.assistant_threads_setSuggestedPrompts(**thread, prompts=[{"title": "Go", "message": "go on"}])
    assert place.slack.people.beside("general", place.ids["said"])["status"] == "is thinking…"
    await place.web.chat_postMessage(channel=place.ids["general"], text="so", thread_ts=place.ids["said"])
    beside = place.slack.people.beside("general", place.ids["said"])
    assert (beside["status"], beside["statuses"], beside["title"]) == ("", ["is thinking…"], "Birds")


async def test_one_modal_for_one_press(place: Place) -> None:
    """A trigger opens one modal."""
    view = {"type": "modal", "title": {"type": "plain_text", "text": "A modal"}, "blocks": _texts(1)}
    trigger = place.slack.platform.triggers.trigger(place.slack.app, place.ids["kim"])
    assert (await place.web.views_open(trigger_id=trigger, view=view))["view"]["type"] == "modal"
    assert (await place.refusal("views.open", trigger_id=trigger, view=view))["error"] == "exchanged_trigger_id"
    await place.web.views_publish(user_id=place.ids["kim"], view={"type": "home", "blocks": _texts(1)})
    assert [each["view"]["type"] for each in place.slack.platform.views] == ["modal", "home"]


async def test_who_is_who(place: Place) -> None:
    """The bot finds people, channels, members and itself."""
    assert (await place.web.users_info(user=place.ids["kim"]))["user"]["name"] == "kim"
    assert [each["name"] for each in (await place.web.users_list())["members"]] == ["halo", "kim", "lou"]
    listed = await place.web.conversations_list(types="public_channel,private_channel,im")
    assert [each.get("name") for each in listed["channels"]] == ["general", "group", "foreign", "old", None]
    assert (await place.web.conversations_members(channel=place.ids["group"]))["members"][0] == place.ids["kim"]
    assert (await place.web.conversations_info(channel=place.ids["dm"]))["channel"]["user"] == place.ids["kim"]
    joined = await place.web.conversations_join(channel=place.ids["foreign"])
    assert joined["channel"]["is_member"]
    link = await place.web.chat_getPermalink(channel=place.ids["general"], message_ts=place.ids["reply"])
    assert f"thread_ts={place.ids['said']}" in link["permalink"]
