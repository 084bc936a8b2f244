"""What the plugin itself says in a chat, by the account's language."""

from __future__ import annotations

from typing import Literal

Language = Literal["en", "zh"]
_WORDS = {
    "en": {
        "start": "Hello! Write to me, and I answer. /help lists what else there is.",
        "too_big": "{name} is larger than {limit} MB, which is the most that a bot can fetch. It was not taken.",
        "not_sent": "⚠️ {name} could not be sent: {why}",
        "full": "Too much is waiting here, and this message was not taken. Send it again when the answers have come.",
        "not_allowed": "You are not allowed to write to this agent.",
    },
    "zh": {
        "start": "您好！直接发消息给我即可。发送 /help 查看更多功能。",
        "too_big": "{name} 超过 {limit} MB，机器人无法下载，因此没有接收。",
        "not_sent": "⚠️ {name} 发送失败：{why}",
        "full": "等待处理的消息太多，这条没有接收。请等回复后再发一次。",
        "not_allowed": "您没有权限与该助手对话。",
    },
}


def say(language: Language, what: str, **about: object) -> str:
    """Return a sentence."""
    return _WORDS[language][what].format(**about)
