"""What people do reaches the apps that may see it, and what apps do is seen by people."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from .slack import SlackServer
from .slack.team import App
from .slack_echo import client


@pytest.fixture
async def slack() -> AsyncIterator[SlackServer]:
    """A Slack with Kim, Lou, the bot in #general, and nobody listening."""
    async with SlackServer() as slack:
        slack.people.add_user("kim")
        slack.people.add_user("lou")
        slack.people.add_channel("general", ["kim", "lou", "halo"])
        yield slack


def events(slack: SlackServer, app: App | None = None) -> list[dict[str, Any]]:
    """Return the events that went to an app, in order."""
    found = [each for each in slack.ledger.deliveries if each.app == (app or slack.app).id]
    return [each.payload["event"] for each in found]


def kinds(slack: SlackServer, app: App | None = None) -> list[str]:
    """Return type and subtype of each event."""
    return [":".join(filter(None, (each["type"], each.get("subtype")))) for each in events(slack, app)]


@pytest.mark.parametrize(
    ("kind", "place"),
    [("im", ["kim", "halo"]), ("mpim", ["kim", "lou", "halo"]), ("channel", None), ("group", None)],
)
async def test_an_event_says_where(slack: SlackServer, kind: str, place: list[str] | None) -> None:
    """A message tells its kind of conversation; but for a DM the id does not."""
    members = ["kim", "halo"]
    channel = slack.people.direct(*place) if place else slack.people.add_channel("x", members, private=kind == "group")
    ts = slack.people.say("kim", channel, "hi @halo")
    event = events(slack)[0]
    assert (event["channel_type"], event["ts"], event["event_ts"]) == (kind, ts, ts)
    assert channel.startswith("D" if kind == "im" else "C")
    assert kinds(slack) == (["message"] if kind == "im" else ["message", "app_mention"])


async def test_a_thread_reply_names_its_thread(slack: SlackServer) -> None:
    """A reply has the ts of its thread and who began it; what begins a thread has none."""
    root = slack.people.say("kim", "general", "birds")
    slack.people.say("lou", "general", "which?", thread=root)
    first, reply = events(slack)
    assert "thread_ts" not in first
    assert (reply["thread_ts"], reply["parent_user_id"]) == (root, slack.platform.team.person("kim").id)


async def test_edits_and_deletions_are_hidden_messages(slack: SlackServer) -> None:
    """An edit tells both texts, a deletion the former one; what has replies leaves a tombstone."""
    root = slack.people.say("kim", "general", "one")
    slack.people.edit("kim", "general", root, "two")
    reply = slack.people.say("lou", "general", "three", thread=root)
    slack.people.delete("lou", "general", reply)
    assert kinds(slack) == ["message", "message:message_changed", "message", "message:message_deleted"]
    changed, deleted = events(slack)[1], events(slack)[3]
    assert (changed["previous_message"]["text"], changed["message"]["text"], changed["hidden"]) == ("one", "two", True)
    assert (deleted["deleted_ts"], deleted["previous_message"]["text"]) == (reply, "three")
    slack.people.say("lou", "general", "four", thread=root)
    slack.people.delete("kim", "general", root)
    assert kinds(slack)[-1] == "message:message_changed"
    assert events(slack)[-1]["message"]["subtype"] == "tombstone"
    (posted,) = [
        (await client(slack).chat_postMessage(channel=each["channel"], text="x", thread_ts=root)) for each in [changed]
    ]
    assert posted["message"]["thread_ts"] == root


async def test_people_see_versions_and_deletions(slack: SlackServer) -> None:
    """Read with everything, a conversation shows what messages said before and which are gone."""
    web, channel = client(slack), slack.platform.team.conversation("general").id
    kept = (await web.chat_postMessage(channel=channel, text="one"))["ts"]
    gone = (await web.chat_postMessage(channel=channel, text="oops"))["ts"]
    await web.chat_update(channel=channel, ts=kept, text="two")
    await web.chat_delete(channel=channel, ts=gone)
    seen = [
        (each["shown"], each["versions"], each["deleted"]) for each in slack.people.read("general", everything=True)
    ]
    assert seen == [("two", ["one"], False), ("oops", [], True)]
    assert [each["shown"] for each in slack.people.read("general")] == ["two"]


async def test_an_update_keeps_the_blocks_it_does_not_name(slack: SlackServer) -> None:
    """Blocks stay unless others, or none, are given."""
    web, channel = client(slack), slack.platform.team.conversation("general").id
    blocks = [{"type": "divider"}]
    ts = (await web.chat_postMessage(channel=channel, text="one", blocks=blocks))["ts"]
    await web.chat_update(channel=channel, ts=ts, text="two")
    assert slack.people.read("general")[0]["blocks"] == [{"block_id": "b0", "type": "divider"}]
    await web.chat_update(channel=channel, ts=ts, text="three", blocks=[])
    assert slack.people.read("general")[0]["blocks"] == []


async def test_a_bot_hears_itself_and_other_bots(slack: SlackServer) -> None:
    """What an app posts comes to it as well, with its `bot_id`; another app is told of a mention."""
    other = slack.platform.team.add_app("owl")
    channel = slack.platform.team.conversation("general").id
    slack.people.invite("kim", "general", "owl")
    await client(slack).chat_postMessage(channel=channel, text=f"ask <@{other.bot_user}>")
    own = events(slack)[-1]
    assert (own["bot_id"], own["user"], own["app_id"]) == (slack.app.bot_id, slack.app.bot_user, slack.app.id)
    assert kinds(slack) == ["member_joined_channel", "message"]
    assert kinds(slack, other) == ["member_joined_channel", "message", "app_mention"]
    slack.app.scopes.add("chat:write.customize")
    await client(slack).chat_postMessage(channel=channel, text="hoo", username="Owl")
    assert kinds(slack)[-1] == "message:bot_message"
    assert "user" not in events(slack)[-1]
    assert slack.people.read("general")[-1]["user"] == "Owl"


async def test_apps_hear_what_they_may(slack: SlackServer) -> None:
    """Outside a conversation, without the scope or the subscription, an app hears nothing."""
    slack.people.add_channel("quiet", ["kim"])
    slack.people.say("kim", "quiet", "@halo?")
    slack.app.scopes.discard("channels:history")
    slack.people.say("kim", "general", "hello")
    slack.people.say("kim", "general", "@halo hello")
    assert kinds(slack) == ["app_mention"]
    slack.admin.set_app("halo", events=["message.im"])
    slack.people.say("kim", "general", "@halo hello")
    slack.people.say("kim", slack.people.direct("kim", "halo"), "hello")
    assert kinds(slack) == ["app_mention", "message"]


async def test_the_other_events(slack: SlackServer) -> None:
    """Joining, reacting, a shared file and looking at the home have events of their own."""
    slack.people.add_user("mo")
    slack.people.invite("kim", "general", "mo")
    ts = slack.people.say("mo", "general", "hi")
    slack.people.react("kim", "general", ts, "eyes")
    slack.people.upload("kim", "general", "a.txt", b"abc", thread=ts)
    slack.people.open_home("kim", slack.app)
    expected = ["member_joined_channel", "message", "reaction_added", "message:file_share", "app_home_opened"]
    assert kinds(slack) == expected
    joined, _, reacted, shared, _ = events(slack)
    kim = slack.platform.team.person("kim").id
    assert (joined["inviter"], joined["channel_type"]) == (kim, "C")
    assert (reacted["item"]["ts"], reacted["user"], reacted["reaction"]) == (ts, kim, "eyes")
    assert (shared["thread_ts"], shared["files"][0]["name"], shared["text"]) == (ts, "a.txt", "")


async def test_every_id_and_ts_is_new(slack: SlackServer) -> None:
    """Of two hundred messages at once no two have the same ts or event id, and their order is that of the ts."""
    said = [slack.people.say("kim", "general", str(number)) for number in range(200)]
    assert sorted(set(said)) == said
    assert len({each.payload["event_id"] for each in slack.ledger.deliveries}) == 200
    assert all(len(each.partition(".")[2]) == 6 for each in said)


async def test_what_people_type_is_escaped(slack: SlackServer) -> None:
    """Signs are escaped, addresses become links, names mentions; and people see what they typed."""
    typed = "@lou <b> & https://x.org/?a=1&b=2 @nobody"
    slack.people.say("kim", "general", typed)
    lou = slack.platform.team.person("lou").id
    assert events(slack)[0]["text"] == f"<@{lou}> &lt;b&gt; &amp; <https://x.org/?a=1&amp;b=2> @nobody"
    assert slack.people.read("general")[0]["shown"] == typed


async def test_people_can_do_only_what_they_could(slack: SlackServer) -> None:
    """Nobody speaks where they are not, edits what others wrote, or presses what is not there."""
    slack.people.add_channel("quiet", ["lou"])
    ts = slack.people.say("lou", "general", "mine")
    for wrong in (
        lambda: slack.people.say("kim", "quiet", "psst"),
        lambda: slack.people.edit("kim", "general", ts, "yours"),
        lambda: slack.people.say("kim", "general", "x", thread="1.000001"),
        lambda: slack.people.say("nobody", "general", "x"),
    ):
        with pytest.raises(LookupError):
            wrong()
    button = {"type": "button", "action_id": "go", "text": {"type": "plain_text", "text": "Go"}}
    posted = await client(slack).chat_postMessage(
        channel="#general", text="x", blocks=[{"type": "actions", "elements": [button]}]
    )
    with pytest.raises(LookupError, match="there is no 'stop' to press"):
        await slack.people.press("kim", "general", posted["ts"], "stop")


async def test_ephemeral_messages_are_for_one(slack: SlackServer) -> None:
    """What is posted for one person alone is in no history and in no event."""
    channel, kim = slack.platform.team.conversation("general").id, slack.platform.team.person("kim").id
    await client(slack).chat_postEphemeral(channel=channel, user=kim, text="psst")
    assert [(each["shown"], each["ephemeral_to"]) for each in slack.people.read("general")] == [("psst", "kim")]
    assert (await client(slack).conversations_history(channel=channel))["messages"] == []
    assert events(slack) == []
