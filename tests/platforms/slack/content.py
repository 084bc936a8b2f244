"""What an app wants a message to say, checked."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from .arguments import Arguments
from .blocks import complaints, markdown_length
from .markup import stored
from .messages import Json
from .refusals import Refused
from .rules import ATTACHMENTS_MOST, MARKDOWN_MOST, METADATA_MOST, TEXT_MOST


@dataclass(frozen=True, kw_only=True)
class Content:
    """The parts of a message; `given` names the arguments that were there."""

    text: str = ""
    blocks: list[Any] = field(default_factory=list)
    attachments: list[Any] = field(default_factory=list)
    metadata: Json | None = None
    given: frozenset[str] = frozenset()

    def parts(self) -> Json:
        """Return what a new message takes from it."""
        return {"blocks": self.blocks, "attachments": self.attachments, "metadata": self.metadata}

    def changes(self) -> Json:
        """Return what an edit changes: what was not given stays."""
        changed = {name: value for name, value in self.parts().items() if name in self.given}
        return changed | ({"text": self.text} if self.given & {"text", "markdown_text"} else {})


def read_content(arguments: Arguments, *, text_most: int = TEXT_MOST) -> Content:
    """Return the content that the arguments describe; refuse as `chat.postMessage` and `chat.update` do."""
    text, markdown = arguments.text("text"), arguments.text("markdown_text")
    if markdown and (text or arguments.given("blocks")):
        raise Refused("markdown_text_conflict")
    if len(text) > text_most or len(markdown) > MARKDOWN_MOST:
        raise Refused("msg_too_long")
    blocks = read_blocks(arguments)
    attachments = _attachments(arguments)
    if not (text.strip() or markdown.strip() or blocks or attachments):
        raise Refused("no_text")
    return Content(
        text=stored(text or markdown),
        blocks=blocks or ([{"type": "markdown", "text": markdown}] if markdown else []),
        attachments=attachments,
        metadata=_metadata(arguments),
        given=frozenset(name for name, value in arguments.values.items() if value is not None),
    )


def read_blocks(arguments: Arguments) -> list[Any]:
    """Return the blocks, or refuse them with every complaint."""
    blocks = arguments.data("blocks", "invalid_blocks_format")
    if blocks is None:
        return []
    if not isinstance(blocks, list):
        raise Refused("invalid_blocks_format")
    if found := complaints(blocks):
        raise Refused("invalid_blocks", *(f"[ERROR] {each}" for each in found), errors=found)
    if markdown_length(blocks) > MARKDOWN_MOST:
        raise Refused("msg_blocks_too_long")
    return [{"block_id": f"b{index}", **block} for index, block in enumerate(blocks)]


def _attachments(arguments: Arguments) -> list[Any]:
    attachments = arguments.data("attachments", "invalid_attachments")
    if attachments is None:
        return []
    if not isinstance(attachments, list) or not all(isinstance(each, dict) for each in attachments):
        raise Refused("invalid_attachments")
    if len(attachments) > ATTACHMENTS_MOST:
        raise Refused("too_many_attachments")
    return attachments


def _metadata(arguments: Arguments) -> Json | None:
    metadata = arguments.data("metadata", "invalid_metadata_format")
    if metadata is None:
        return None
    if not isinstance(metadata, dict) or not isinstance(metadata.get("event_type"), str):
        raise Refused("invalid_metadata_format")
    if not isinstance(metadata.get("event_payload"), dict):
        raise Refused("invalid_metadata_format")
    if len(json.dumps(metadata)) > METADATA_MOST:
        raise Refused("metadata_too_large")
    return metadata
