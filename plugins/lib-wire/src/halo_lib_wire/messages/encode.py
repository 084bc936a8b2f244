"""A model request as the JSON body of `POST /v1/messages`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from halo_kernel import Block, Message, ModelRequest, Text, Thinking, ToolCall, ToolResult, ToolSpec

from ..options import option
from .dialect import MessagesDialect
from .seal import Seal, read_seal
from .thinking import Body, thinking_fields

DEFAULT_MAX_TOKENS = 8192


def encode_messages(request: ModelRequest, dialect: MessagesDialect, *, issuer: str) -> Body:
    """Return the body of a streamed call; equal requests give equal bodies.

    Thinking goes back if `issuer` gave it, which is who is about to be asked. Of `request.options`, `thinking`
    (`enabled`, `effort`, `budget_tokens`) and `promptCaching` (false, `5m`, `1h`) are translated, and the fields of
    `extra_body` are added as they are. Raises `ModelError` of kind `refused` when an option is no mapping.
    """
    max_tokens = request.max_tokens or DEFAULT_MAX_TOKENS
    body: Body = {"model": request.model, "max_tokens": max_tokens, "stream": True}
    if request.system.strip():
        body["system"] = [{"type": "text", "text": request.system}]
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    body["messages"] = messages = list(_Conversation(issuer).encoded(request.messages))
    body |= thinking_fields(option(request, "thinking"), dialect, max_tokens=max_tokens, messages=messages)
    wish = request.options.get("promptCaching", True)
    if dialect.cache and wish is not False:
        _mark(body, {"type": "ephemeral"} | ({"ttl": "1h"} if wish == "1h" and dialect.ttl else {}))
    return body | dict(option(request, "extra_body"))


def _tool(tool: ToolSpec) -> Body:
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": {"type": "object", **tool.parameters},
    }


def _mark(body: Body, mark: Mapping[str, str]) -> None:
    """Set the breakpoints of the prompt cache, of which four are allowed.

    One is on the tools, one on the system prompt, so that each of the two survives a change of what comes after it; two
    are on the user's last messages: the last one writes, the one before reads what the former call wrote.
    """
    said = [message["content"] for message in body["messages"] if message["role"] == "user"]
    for blocks in (body.get("tools"), body.get("system"), *said[-2:]):
        if blocks:
            blocks[-1]["cache_control"] = dict(mark)


class _Conversation:
    """The messages of one request. Calls get back the ids that the server gave them, unless it gave one twice."""

    def __init__(self, issuer: str) -> None:
        self._issuer = issuer
        self._ids: dict[str, str] = {}

    def encoded(self, messages: Sequence[Message]) -> Iterator[Body]:
        """Yield the messages in order, without empty ones."""
        for message in messages:
            content = self._from_user(message) if message.role == "user" else self._from_assistant(message)
            if blocks := list(content):
                yield {"role": message.role, "content": blocks}

    def _from_user(self, message: Message) -> Iterator[Body]:
        """Tool results come first: they must follow the calls directly."""
        yield from (self._result(block) for block in message.content if isinstance(block, ToolResult))
        yield from _texts(message.content)

    def _result(self, result: ToolResult) -> Body:
        block: Body = {"type": "tool_result", "tool_use_id": self._ids.get(result.call, result.call)}
        block["content"] = result.text if result.text.strip() else "(no output)"
        return block | ({"is_error": True} if result.error else {})

    def _from_assistant(self, message: Message) -> Iterator[Body]:
        for answer in _answers(message.content):
            yield from self._answer(answer)

    def _answer(self, content: Sequence[Block]) -> Iterator[Body]:
        """Yield one answer's blocks, calls last; its thinking and the order of it where its seal is whole."""
        calls = [block for block in content if isinstance(block, ToolCall)]
        seal = _seal(content, self._issuer)
        if seal is None:
            yield from _texts(content)
        else:
            self._note_ids(calls, seal.calls)
            yield from seal.blocks(_joined(content, Thinking), _joined(content, Text))
        for call in calls:
            id = self._ids.get(call.id, call.id)
            yield {"type": "tool_use", "id": id, "name": call.name, "input": call.arguments}

    def _note_ids(self, calls: Sequence[ToolCall], given: Sequence[str]) -> None:
        if len(calls) == len(given) == len({*given} - {"", *self._ids.values()}):
            self._ids |= {call.id: id for call, id in zip(calls, given, strict=True)}


def _answers(content: Sequence[Block]) -> Iterator[Sequence[Block]]:
    """Yield the answers that one message holds: each begins with its thinking, if it has any."""
    begins = [at for at, block in enumerate(content) if at == 0 or isinstance(block, Thinking)]
    for begin, end in zip(begins, [*begins[1:], len(content)], strict=True):
        yield content[begin:end]


def _seal(content: Sequence[Block], issuer: str) -> Seal | None:
    first = content[0]
    if not isinstance(first, Thinking):
        return None
    seal = read_seal(first.signature, issuer=issuer)
    return seal if seal and seal.fits(first.text, _joined(content, Text)) else None


def _joined(content: Sequence[Block], kind: type[Text] | type[Thinking]) -> str:
    return "".join(block.text for block in content if isinstance(block, kind))


def _texts(content: Sequence[Block]) -> Iterator[Body]:
    for block in content:
        if isinstance(block, Text) and block.text.strip():
            yield {"type": "text", "text": block.text}
