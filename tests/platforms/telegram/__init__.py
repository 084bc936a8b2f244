"""A platform of our own that speaks the Telegram Bot API, refuses what the real one refuses, and fails on purpose.

`TelegramServer` runs in a test's own loop, `in_thread()` beside a test without one, `as_process()` survives whatever
the test kills. Each has a `stage`: people who write, press and leave, what they see, what the platform does to bots.
Clients get `url` as the base: `<url>/bot<token>/<method>` and `<url>/file/bot<token>/<path>`.
"""

from __future__ import annotations

from .remote import RemoteTelegram, as_process, in_thread
from .rules import Clock, Rules
from .server import TelegramServer
from .stage import Stage
from .world import World

__all__ = ["Clock", "RemoteTelegram", "Rules", "Stage", "TelegramServer", "World", "as_process", "in_thread"]
