"""Methods that say something: texts, files, albums, drafts, actions; and how files come back."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from .arguments import Arguments, Upload
from .calls import Answer, Call, Method
from .files import Stored, picture_size
from .keyboards import inline, read_markup
from .posts import Body
from .refusals import TOO_LARGE, bad_request
from .texts import Formatted, formatted

Keep = Callable[[], Any]
"""Keeps a file and returns what a message has of it: only when nothing can be refused any more."""
MEDIA = ("photo", "document", "voice", "video", "audio", "video_note")
ALBUM_MAX = 10
APART = ("document", "audio")
"""What an album holds of its own kind only."""
ACTION_NAMES = (
    "typing upload_photo record_video upload_video record_voice upload_voice record_audio upload_audio "
    "upload_document choose_sticker find_location pick_up_location record_video_note upload_video_note cancel"
)
ACTIONS = ACTION_NAMES.split()


def send_message(call: Call) -> Answer:
    """Say a text."""
    text = call.text()
    markup = read_markup(call.arguments)
    place = call.place()
    call.spend(place.chat)
    return call.say(place, Body(text), markup=inline(markup)).record


def send_media(kind: str) -> Method:
    """Make the method that sends a file of one kind."""

    def send(call: Call) -> Answer:
        caption = call.caption()
        markup = read_markup(call.arguments)
        attached = _file(call, kind, call.arguments.text(kind), upload=call.arguments.files.get(kind))
        place = call.place()
        call.spend(place.chat)
        return call.say(place, Body(caption, kind, attached()), markup=inline(markup)).record

    return send


def send_media_group(call: Call) -> Answer:
    """Send up to ten files as one album."""
    listed = call.arguments.document("media", "media")
    if listed is None:
        raise bad_request('parameter "media" is required')
    if not isinstance(listed, list):
        raise bad_request("expected an Array of InputMedia")
    if not listed:
        raise bad_request("there are no messages to send")
    if len(listed) > ALBUM_MAX:
        raise bad_request("too many messages to send as an album")
    parts = [_album_part(call, item) for item in listed]
    kinds = {kind for _, kind, _ in parts}
    if len(kinds) > 1 and kinds & {*APART}:
        raise bad_request("can't use the media of the specified type in the album")
    place, album = call.place(), call.world.other_id()
    call.spend(place.chat)
    return [call.say(place, Body(text, kind, attached()), album=album).record for text, kind, attached in parts]


def _album_part(call: Call, item: Any) -> tuple[Formatted, str, Keep]:
    if not isinstance(item, dict):
        raise bad_request("can't parse InputMedia: expected an Object")
    kind, media = item.get("type"), item.get("media")
    if kind not in ("photo", "video", *APART):
        raise bad_request(f'can\'t parse InputMedia: type "{kind}" is unsupported')
    if not isinstance(media, str) or not media:
        raise bad_request("can't parse InputMedia: media not found")
    values = {name: each if isinstance(each, str) else json.dumps(each) for name, each in item.items()}
    caption = call.with_arguments(Arguments(values)).caption()
    return caption, str(kind), _file(call, str(kind), media, album=True)


def _file(call: Call, kind: str, value: str, *, upload: Upload | None = None, album: bool = False) -> Keep:
    """Check a file that is uploaded, attached elsewhere in the call or known; return what keeps it."""
    if value.startswith("attach://"):
        upload = call.arguments.files.get(value.removeprefix("attach://"))
        if upload is None:
            raise bad_request(f"can't parse InputMedia: {kind} not found" if album else _missing(kind))
    if upload is None:
        return _known(call, kind, value)
    if len(upload.data) > call.world.rules.upload:
        raise TOO_LARGE
    if not upload.data:
        raise bad_request("file must be non-empty")
    if kind == "photo":
        _check_photo(call, upload)
    more = {name: call.arguments.integer(name) for name in ("duration", "width", "height") if call.arguments.text(name)}
    return lambda: call.bot.files.keep(kind, upload, **({} if kind == "photo" else more))


def _missing(kind: str) -> str:
    return f"there is no {kind.replace('_', ' ')} in the request"


def _check_photo(call: Call, upload: Upload) -> None:
    limit = call.world.rules.photo
    if len(upload.data) > limit:
        size = len(upload.data)
        raise bad_request(f"file of size {size} bytes is too big for a photo; the maximum size is {limit} bytes")
    picture_size(upload.data)


def _known(call: Call, kind: str, value: str) -> Keep:
    if not value:
        raise bad_request(_missing(kind))
    if value.startswith(("http://", "https://")):
        raise bad_request("failed to get HTTP URL content")  # this platform reaches nothing but its bots
    stored = call.bot.files.found(value, wrong="wrong file identifier/HTTP URL specified")
    if stored.kind != kind:
        raise bad_request(f"can't use file of type {_named(stored.kind)} as {_named(kind)}")
    return lambda: _again(call, stored)


def _again(call: Call, stored: Stored) -> Any:
    if stored.kind != "photo":
        return stored.record
    same = [each.record for each in call.bot.files.known.values() if each.kind == "photo" and each.data == stored.data]
    return same[-4:]


def _named(kind: str) -> str:
    return "".join(word.capitalize() for word in kind.split("_")).replace("Voice", "VoiceNote")


def send_message_draft(call: Call) -> Answer:
    """Show a text that is still being written."""
    place = replace(call.place(), reply_to=0)
    text = call.text() if call.arguments.text("text") else formatted("")
    draft_id = call.arguments.integer("draft_id")
    if place.chat.is_group:
        raise bad_request("TEXTDRAFT_PEER_INVALID")
    if draft_id == 0:
        raise bad_request("RANDOM_ID_EMPTY")
    place.chat.drafts[place.thread, draft_id] = text.text
    call.world.changed()
    return True


def send_chat_action(call: Call) -> Answer:
    """Show what the bot is doing."""
    action = call.arguments.text("action").lower()
    if action not in ACTIONS:
        raise bad_request("wrong parameter action in request")
    chat = call.chat()
    thread = call.arguments.integer("message_thread_id", low=0)
    if thread and chat.is_forum and thread not in (1, *chat.topics):
        raise bad_request("message thread not found")
    chat.actions.append((thread, action))
    call.world.changed()
    return True


def get_file(call: Call) -> Answer:
    """Say where a file can be fetched."""
    file_id = call.arguments.text("file_id")
    if not file_id:
        raise bad_request("file_id not specified")
    stored = call.bot.files.found(file_id, wrong="invalid file_id")
    if len(stored.data) > call.world.rules.download:
        raise bad_request("file is too big")
    shown = {name: stored.record[name] for name in ("file_id", "file_unique_id", "file_size")}
    return shown | {"file_path": stored.path}


METHODS: dict[str, Method] = {
    "sendMessage": send_message,
    "sendMediaGroup": send_media_group,
    "sendMessageDraft": send_message_draft,
    "sendChatAction": send_chat_action,
    "getFile": get_file,
} | {f"send{''.join(word.capitalize() for word in kind.split('_'))}": send_media(kind) for kind in MEDIA}
