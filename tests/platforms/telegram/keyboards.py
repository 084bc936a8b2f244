"""Buttons below messages."""

from __future__ import annotations

from typing import Any

from .arguments import Arguments
from .refusals import bad_request

Markup = dict[str, Any]
DATA_BYTES = 64
ACTIONS = ("url", "callback_data", "switch_inline_query", "switch_inline_query_current_chat", "copy_text", "web_app")
OTHER_MARKUPS = ("keyboard", "remove_keyboard", "force_reply")


def read_markup(arguments: Arguments) -> Markup | None:
    """Read `reply_markup`: an inline keyboard stays with its message, the other kinds are for the person's own."""
    said = arguments.document("reply_markup", "reply keyboard markup")
    if said is None:
        return None
    if not isinstance(said, dict):
        raise bad_request("object expected as reply markup")
    rows = said.get("inline_keyboard")
    if rows is None:
        return {name: said[name] for name in OTHER_MARKUPS if name in said} or None
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise bad_request('field "inline_keyboard" of the InlineKeyboardMarkup must be an Array of Arrays')
    read = [[_button(button) for button in row] for row in rows if row]
    return {"inline_keyboard": read} if read else None


def inline(markup: Markup | None) -> Markup | None:
    """Return what of a markup is part of the message."""
    return markup if markup and "inline_keyboard" in markup else None


def _button(button: Any) -> dict[str, Any]:
    if not isinstance(button, dict):
        raise _refused("InlineKeyboardButton must be an Object")
    text = button.get("text")
    if not isinstance(text, str):
        raise _refused('Can\'t find field "text"')
    if not text.strip():
        raise bad_request("inline keyboard button text must be non-empty")
    action = next((name for name in ACTIONS if name in button and button[name] not in ("", None)), "")
    if not action:
        raise _refused("Text buttons are unallowed in the inline keyboard")
    if action == "callback_data" and len(str(button[action]).encode()) > DATA_BYTES:
        raise bad_request("BUTTON_DATA_INVALID")
    if action == "url" and "://" not in str(button[action]) and "." not in str(button[action]):
        raise bad_request(f"inline keyboard button URL '{button[action]}' is invalid: Wrong HTTP URL")
    return {"text": text, action: button[action]}


def _refused(reason: str) -> Exception:
    return bad_request(f"can't parse inline keyboard button: {reason}")
