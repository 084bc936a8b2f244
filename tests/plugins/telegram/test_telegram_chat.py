"""People write to the bot, alone and in groups, and read its answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.platforms.telegram import Stage, TelegramServer

from halo_kernel import Call, Question
from halo_kernel.testing import Answer, Calls, NoteTool, Pieces, Workbench, until

from .conftest import Serve, last_said

QUIET = 0.4  # seconds in which what should not happen would


async def answers(stage: Stage, count: int, user: int = 0, **where: Any) -> list[str]:
    """Return what the bot said, as soon as that is `count` messages, and no more of them."""
    await until(lambda: len(stage.texts(user, **where)) >= count, what=f"{count} messages")
    await asyncio.sleep(QUIET)
    found = stage.texts(user, **where)
    assert len(found) == count, found
    return found


async def test_a_message_is_answered_in_words_and_marks(stage: Stage, serve: Serve, halo: Workbench) -> None:
    """Markdown comes as Telegram's own marks, and somebody is seen typing meanwhile."""
    halo.model.then(Answer("**Yes**, see [the list](https://example.org/a_b) and `x < 1`."))
    await serve()
    ann = stage.user("Ann")
    stage.say(ann, "Is it done?")
    assert await answers(stage, 1, ann) == ["Yes, see the list and x < 1."]
    (shown,) = stage.shown(ann)
    assert [each["type"] for each in shown["entities"]] == ["bold", "text_link", "code"]
    assert stage.actions(ann) == [(0, "typing")]


async def test_what_waits_at_the_start_is_taken(stage: Stage, serve: Serve, halo: Workbench) -> None:
    """What people wrote while no server ran is answered, once, also after another start."""
    ann = stage.user("Ann")
    stage.say(ann, "early")
    await serve()
    assert await answers(stage, 1, ann) == ["You said: early"]
    await serve()
    stage.repeat(stage.updates()[0]["update_id"])
    stage.say(ann, "late")
    assert await answers(stage, 2, ann) == ["You said: early", "You said: late"]


async def test_an_answer_is_shown_as_it_is_written(stage: Stage, serve: Serve, halo: Workbench) -> None:
    """In a private chat there is a draft of the answer, which the answer itself takes the place of."""
    halo.model.then(Pieces(["It ", "takes ", "**a", " while**", "."], delay=0.15))
    await serve(env={"HALO_TELEGRAM_DRAFT_SECONDS": "0.1"})
    ann = stage.user("Ann")
    stage.say(ann, "How long?")
    await until(lambda: any("takes" in each for each in stage.drafts(ann)), what="a draft")
    assert await answers(stage, 1, ann) == ["It takes a while."]
    assert stage.drafts(ann) == []


async def test_a_long_answer_keeps_its_marks_in_each_part(stage: Stage, serve: Serve, halo: Workbench) -> None:
    """Each part is within the limit, in order, and code that is cut goes on as code."""
    lines = "\n".join(f"line_{number} = '*'" for number in range(600))
    halo.model.then(Answer(f"Look:\n\n```python\n{lines}\n```\n\nThat is **all**."))
    await serve()
    ann = stage.user("Ann")
    stage.say(ann, "Show me")
    await until(lambda: "That is all." in "".join(stage.texts(ann)), what="the end")
    shown = stage.shown(ann)
    assert len(shown) >= 3
    assert all(len(each["text"].encode("utf-16-le")) // 2 <= 4096 for each in shown)
    assert all("pre" in [mark["type"] for mark in each["entities"]] for each in shown[:-1])
    assert "\n".join(each["text"] for each in shown).count("line_") == 600
    assert not any("```" in each["text"] for each in shown)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("@halo_bot are you there?", "are you there?"),
        ("Are you there, @Halo_Bot ?", "Are you there,  ?"),
        ("nobody is meant", None),
        ("@halo_bots is another", None),
        ("/help@other_bot", None),
    ],
)
async def test_in_a_group_it_hears_its_name(stage: Stage, serve: Serve, text: str, said: str | None) -> None:
    """A message that names the bot is answered, without the name; what does not is left alone."""
    stage.privacy(False)
    await serve()
    ann = stage.user("Ann")
    group = stage.group("Lamps", [ann])
    stage.say(ann, text, chat=group)
    assert await answers(stage, 1 if said else 0, chat=group) == ([f"You said: {said}"] if said else [])
    assert stage.pending() == []


async def test_a_reply_to_the_bot_is_for_it(stage: Stage, serve: Serve) -> None:
    """Who replies to the bot need not name it; who replies to a person and names it hands on what they said."""
    stage.privacy(False)
    await serve()
    ann, bob = stage.user("Ann"), stage.user("Bob")
    group = stage.group("Lamps", [ann, bob])
    lamps = stage.say(ann, "There are two lamps", chat=group)
    stage.say(bob, "@halo_bot is that so?", chat=group, reply_to=lamps)
    assert await answers(stage, 1, chat=group) == ["You said: > There are two lamps\nis that so?"]
    answer = stage.shown(chat=group)[0]["message_id"]
    stage.say(ann, "thank you", chat=group, reply_to=answer)
    assert (await answers(stage, 2, chat=group))[1] == "You said: thank you"


@pytest.mark.parametrize(("rule", "count"), [("all", 1), ("off", 0)])
async def test_groups_by_another_rule(stage: Stage, serve: Serve, rule: str, count: int) -> None:
    """An account may hear everything in groups, or nothing."""
    stage.privacy(False)
    await serve(config={"groups": rule})
    ann = stage.user("Ann")
    group = stage.group("Lamps", [ann])
    stage.say(ann, "@halo_bot hello" if rule == "off" else "hello", chat=group)
    await answers(stage, count, chat=group)


async def test_each_topic_has_its_own_conversation(stage: Stage, serve: Serve, halo: Workbench) -> None:
    """Answers go to the topic of their question, and no topic knows another's messages."""
    halo.model.responder = lambda request: Answer(f"{len(request.messages)}: {last_said(request)}")
    await serve()
    ann = stage.user("Ann")
    forum = stage.group("Lamps", [ann], forum=True)
    stage.say(ann, "Hello, all", chat=forum)
    topics = [stage.topic(forum, name) for name in ("red", "blue")]
    for topic in topics:
        stage.say(ann, f"@halo_bot about {topic}", chat=forum, thread=topic)
    for topic in topics:
        assert await answers(stage, 1, chat=forum, thread=topic) == [f"1: about {topic}"]


async def test_an_edit_is_a_message_of_its_own(stage: Stage, serve: Serve) -> None:
    """A message that is changed is told again as such, once a change; a command that is changed is no command."""
    await serve()
    ann = stage.user("Ann")
    said = stage.say(ann, "two lamps")
    assert await answers(stage, 1, ann) == ["You said: two lamps"]
    stage.edit(ann, said, "three lamps")
    stage.repeat(stage.updates()[-1]["update_id"])
    assert (await answers(stage, 2, ann))[1] == "You said: [edited]\nthree lamps"


async def test_commands_are_offered_and_carried_out(stage: Stage, serve: Serve) -> None:
    """`/start` greets in the account's language, and Telegram lists what there is."""
    await serve(language="zh")
    ann = stage.user("Ann")
    stage.say(ann, "/start")
    assert (await answers(stage, 1, ann))[0].startswith("您好")
    await until(lambda: stage.commands(), what="the list of commands")
    (listed,) = stage.commands()
    assert "start" in [each["command"] for each in listed["commands"]]
    group = stage.group("Lamps", [ann])
    stage.say(ann, "/start@halo_bot", chat=group)
    assert len(await answers(stage, 1, chat=group)) == 1


async def test_a_plain_command_in_a_group_is_for_it_if_it_knows_it(stage: Stage, serve: Serve) -> None:
    """A command without a name is carried out if it is one of the bot's, after a restart too; no other is."""
    stage.privacy(False)
    await serve()
    ann = stage.user("Ann")
    stage.say(ann, "/start")
    await until(lambda: stage.commands(), what="the list of commands")
    await serve()
    group = stage.group("Lamps", [ann])
    stage.say(ann, "/weather", chat=group)
    stage.say(ann, "/start", chat=group)
    assert (await answers(stage, 1, chat=group))[0].startswith("Hello!")


async def test_who_is_not_allowed(stage: Stage, serve: Serve) -> None:
    """A stranger's text and commands are refused once, a photo is passed over, and the agent hears none of it."""
    ann, bob = stage.user("Ann", username="Ann_Lee"), stage.user("Bob")
    await serve(allowed=("@ann_lee",))
    stage.say(ann, "it is me")
    stage.say(bob, "/start")
    stage.say(bob, "it is me")
    stage.send(bob, "photo", PNG)
    assert await answers(stage, 1, ann) == ["You said: it is me"]
    (refusal,) = await answers(stage, 1, bob)
    assert refusal.startswith("You are not allowed") and refusal.endswith(str(bob))
    assert stage.calls("getFile") == []


async def test_a_number_is_on_the_list_too(stage: Stage, serve: Serve) -> None:
    """The list may have numbers, which nobody can take over."""
    ann = stage.user("Ann")
    await serve(allowed=(str(ann),))
    stage.say(ann, "it is me")
    assert await answers(stage, 1, ann) == ["You said: it is me"]


class Careful(NoteTool):
    """Asks before it writes."""

    async def run(self, call: Call) -> str:
        if call.answer is None:
            call.ask(Question(text="Really?", options=("red", "blue")))
        self.seen.append(call.answer.text if call.answer.approved else None)
        return "done"


@pytest.mark.parametrize(("label", "seen"), [("✅", "approved"), ("blue", "blue"), ("❌", None)])
async def test_a_question_is_answered_by_a_button(
    stage: Stage, serve: Serve, halo: Workbench, label: str, seen: str | None
) -> None:
    """A question shows its choices as buttons, the first answer counts, and the buttons go."""
    tool = Careful()
    halo.model.then(Calls([("note", {"text": "x"})]), Answer("There."))
    await serve(tools=[tool], allowed=("ann",))
    ann, bob = stage.user("Ann", username="ann"), stage.user("Bob")
    group = stage.group("Lamps", [ann, bob])
    stage.say(ann, "@halo_bot write it down", chat=group)
    await until(lambda: stage.shown(chat=group), what="the question")
    (asked,) = stage.shown(chat=group)
    buttons = {each["text"]: each["callback_data"] for row in asked["buttons"] for each in row}
    assert list(buttons) == ["✅", "❌", "red", "blue"]
    stage.press(bob, asked["message_id"], buttons[label], chat=group)
    await until(lambda: stage.popups(), what="what Bob is told")
    assert "not allowed" in stage.popups()[0]["text"] and tool.seen == []
    stage.press(ann, asked["message_id"], buttons[label], chat=group)
    await until(lambda: "There." in stage.texts(chat=group), what="the answer")
    assert tool.seen == [seen]
    await until(lambda: not stage.shown(chat=group)[0]["buttons"], what="the end of the buttons")
    assert len(stage.popups()) == 2


async def test_nobody_types_while_a_question_waits(
    stage: Stage, serve: Serve, halo: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bot is seen typing while it works, and not while it waits for a person."""
    monkeypatch.setattr("halo_telegram.presence._TYPING_SECONDS", 0.05)
    halo.model.then(Calls([("note", {"text": "x"})]), Pieces(["There", "."], delay=0.3))
    await serve(tools=[Careful()])
    ann = stage.user("Ann")
    stage.say(ann, "write it down")
    await until(lambda: stage.shown(ann), what="the question")
    await asyncio.sleep(QUIET)
    before = len(stage.actions(ann))
    await asyncio.sleep(QUIET)
    assert len(stage.actions(ann)) == before
    stage.say(ann, "1")
    await until(lambda: "There." in stage.texts(ann), what="the answer")
    assert len(stage.actions(ann)) > before


async def test_a_group_that_becomes_a_supergroup_is_the_same_conversation(
    stage: Stage, serve: Serve, halo: Workbench
) -> None:
    """What is owed to the former number goes to the new one, and what is said there goes on where it was."""
    halo.model.responder = lambda request: Answer(f"{len(request.messages)}: {last_said(request)}")
    await serve()
    ann = stage.user("Ann")
    group = stage.group("Lamps", [ann])
    stage.say(ann, "@halo_bot one", chat=group)
    assert await answers(stage, 1, chat=group) == ["1: one"]
    moved = stage.migrate(group)
    stage.say(ann, "@halo_bot two", chat=moved)
    assert await answers(stage, 1, chat=moved) == ["3: two"]


async def test_updates_that_nobody_knows_keep_nothing_back(
    stage: Stage, serve: Serve, platform_server: TelegramServer
) -> None:
    """Unknown kinds and mangled messages are passed over, and what comes after them is read."""
    await serve()
    ann = stage.user("Ann")
    stage.inject("poll_answer", {"poll_id": "1", "option_ids": [0]})
    stage.inject("message", {"message_id": "seven"})
    stage.inject("message", {"message_id": 7, "date": 1, "chat": {"id": ann, "type": "private"}})
    stage.inject("callback_query", {"id": "9", "from": {"id": ann}, "chat_instance": "1", "data": "/answer 1 1"})
    stage.say(ann, "still there?")
    assert await answers(stage, 1, ann) == ["You said: still there?"]
    assert stage.pending() == []


PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63606060000000040001"
    "f61738550000000049454e44ae426082"
)
