"""Whatever a bot asks for, it gets an answer."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from .pictures import PNG
from .telegram.arguments import Arguments, Upload
from .telegram.server import METHODS, TelegramServer

NAMES = (
    "text caption parse_mode entities caption_entities message_id message_thread_id reply_parameters "
    "reply_to_message_id reply_markup media photo document offset limit allowed_updates url secret_token commands "
    "scope language_code name draft_id action callback_query_id file_id user_id message_ids reaction icon_color"
)
KEY_NAMES = (
    "type offset length user id url media caption message_id chat_id quote inline_keyboard text callback_data command "
    "description emoji"
)
KEYS = st.sampled_from(KEY_NAMES.split(" "))
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-3, 5)
    | st.sampled_from(["", "x", "bold", "photo", "chat", "emoji", "attach://f"])
)
DOCUMENTS = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4))
VALUES = DOCUMENTS.map(json.dumps) | st.sampled_from(
    ["", "{", "1", "99", "HTML", "MarkdownV2", "<b>x</b>", "*x*", "https://a.b/", "²"]
)
CALLS = st.tuples(
    st.sampled_from(sorted(METHODS)), st.dictionaries(st.sampled_from(NAMES.split(" ")), VALUES, max_size=6)
)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(CALLS, st.integers(0, 4), st.booleans()), max_size=6))
def test_every_call_is_answered(calls: list[tuple[tuple[str, dict[str, str]], int, bool]]) -> None:
    """Any arguments, of any method, are a result or a refusal of 400 to 499 with a reason; never a fault of ours."""

    async def play() -> None:
        server = TelegramServer()
        bot = server.stage.bot()
        ann = server.stage.user("Ann", started=[bot["id"]])
        chats = [ann, server.stage.group("G", [ann]), server.stage.group("F", [ann], forum=True, admin=True), 7, ""]
        server.stage.say(ann, "hello")
        for (method, values), chat, with_file in calls:
            files = {name: Upload("f.png", "image/png", PNG) for name in ("f", "photo", "document") if with_file}
            arguments = Arguments({"chat_id": str(chats[chat])} | values, files)
            answer = await server._perform(server.world.bot(0), method, arguments)
            assert answer is not None
            check(json.loads(json.dumps(answer)))

    asyncio.run(play())


def check(answer: dict[str, Any]) -> None:
    """An answer is whole."""
    if answer["ok"]:
        assert "result" in answer
    else:
        assert 400 <= answer["error_code"] < 500
        assert len(answer["description"]) > len("Bad Request: ")
