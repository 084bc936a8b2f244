"""files.*: the upload in three steps, and the download that shows a login page to whoever has no token."""

from __future__ import annotations

import mimetypes
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from .call import Call, Method
from .chat import thread_of
from .content import read_blocks
from .markup import stored
from .messages import Json
from .refusals import Refused
from .team import Conversation, StoredFile
from .web import Answer, Request, text_answer

if TYPE_CHECKING:
    from .platform import Platform

_LOGIN = "<!DOCTYPE html><html><head><title>Sign in | Slack</title></head><body>Sign in to {team}</body></html>"


def upload_url(call: Call) -> Json:
    """Announce a file and return where its bytes go."""
    length = call.arguments.number("length", 0)
    if length <= 0:
        raise Refused("invalid_arguments", "[ERROR] must be greater than 0 [json-pointer:/length]")
    file = new_file(call.platform, call.text("filename"), call.app.bot_user, length)
    return {"upload_url": f"{call.platform.url}/upload/v1/{file.id}", "file_id": file.id}


def new_file(platform: Platform, name: str, user: str, size: int, *, mimetype: str | None = None) -> StoredFile:
    """Make a file without bytes."""
    file = StoredFile(
        id=platform.team.new_id("F"),
        name=name,
        title=name,
        mimetype=mimetype or mimetypes.guess_type(name)[0] or "application/octet-stream",
        user=user,
        created=platform.clock.now() // 1000,
        size=size,
    )
    platform.team.files[file.id] = file
    return file


def receive(platform: Platform, file_id: str, content: bytes) -> Answer:
    """Take the bytes of an announced file, once and as many as were announced."""
    file = platform.team.files.get(file_id)
    if file is None or file.state != "announced":
        return text_answer("upload_url_not_found", status=404)
    if len(content) != file.size:
        return text_answer(f"{len(content)} bytes instead of {file.size}", status=400)
    file.content, file.state = content, "uploaded"
    platform.ledger.count("uploads")
    return text_answer(f"OK - {len(content)}")


def complete(call: Call) -> Json:
    """Share uploaded files in conversations as one message each, or with nobody."""
    files = _uploaded(call)
    conversations = _targets(call)
    threads = [thread_of(call, each) for each in conversations]
    blocks = read_blocks(call.arguments)
    for file, title in files:
        file.state, file.title = "shared", title or file.name
    for conversation, thread in zip(conversations, threads, strict=True):
        for file, _ in files:
            file.channels.append(conversation.id)
        told = [call.platform.board.file_payload(file) for file, _ in files]
        text = stored(call.text("initial_comment"))
        facts: dict[str, Any] = {"thread_ts": thread, "blocks": blocks, "files": told, "subtype": "file_share"}
        call.platform.board.post_as(call.app, conversation, text, **facts)
    return {"files": [call.platform.board.file_payload(file) for file, _ in files]}


def _uploaded(call: Call) -> list[tuple[StoredFile, str]]:
    asked = call.arguments.data("files", "invalid_arguments")
    if not isinstance(asked, list) or not asked or not all(isinstance(each, dict) for each in asked):
        raise Refused("invalid_arguments", "[ERROR] must be a list of files [json-pointer:/files]")
    found = [(call.platform.team.files.get(str(each.get("id"))), str(each.get("title") or "")) for each in asked]
    ready = [(file, title) for file, title in found if file is not None and file.state == "uploaded"]
    if len(ready) < len(asked) or any(file.user != call.app.bot_user for file, _ in ready):
        raise Refused("file_not_found")
    return ready


def _targets(call: Call) -> list[Conversation]:
    named = call.text("channel_id") or call.text("channels")
    conversations = []
    for name in filter(None, (each.strip() for each in named.split(","))):
        found = call.platform.team.conversations.get(name)
        if found is None or (found.kind != "channel" and call.app.bot_user not in found.members):
            raise Refused("channel_not_found")
        conversations.append(call.joined(found))
    return conversations


def info(call: Call) -> Json:
    """Describe a file."""
    return {"file": call.platform.board.file_payload(_known(call)), "comments": []}


def delete(call: Call) -> Json:
    """Delete a file of one's own."""
    file = _known(call)
    if file.user != call.app.bot_user:
        raise Refused("cant_delete_file")
    file.state, file.content = "deleted", b""
    return {}


def _known(call: Call) -> StoredFile:
    file = call.platform.team.files.get(call.text("file"))
    if file is None or file.state in ("announced", "uploaded"):
        raise Refused("file_not_found")
    if file.state == "deleted":
        raise Refused("file_deleted")
    return file


def download(platform: Platform, request: Request) -> Answer:
    """Answer `url_private`: the bytes to a bot with files:read, else the way to the login page."""
    file = platform.team.files.get(request.path.split("/")[2].partition("-")[2])
    app = platform.team.app_of(request.bearer or "")
    allowed = app is not None and app.token == request.bearer and not app.revoked and "files:read" in app.scopes
    platform.ledger.count("downloads" if allowed else "downloads:login")
    if not allowed:
        return Answer(status=302, headers={"Location": f"{platform.url}/signin?redir={quote(request.path)}"})
    if file is None or file.state != "shared":
        return text_answer("file_not_found", status=404)
    attached = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(file.name)}"}
    return Answer(body=file.content, content_type=file.mimetype, headers=attached)


def login(platform: Platform) -> Answer:
    """Answer with the page on which a person signs in."""
    return text_answer(_LOGIN.format(team=platform.team.domain), content_type="text/html; charset=utf-8")


FILES: dict[str, Method] = {
    "files.completeUploadExternal": complete,
    "files.delete": delete,
    "files.getUploadURLExternal": upload_url,
    "files.info": info,
}
