"""Codecs between the kernel's model records and the wires of model providers.

`sse` parses server-sent events, `faults` turns refusals into `ModelError`, `loose` reads JSON whose shape is not
guaranteed. Each wire is a package with an encoder of requests and a decoder of streams: `chat` (chat completions) and
`messages` (the Messages API). None of these does I/O; `vendors`, which has to be imported by name, calls model servers
over HTTP with them.
"""

from .chat import ChatDecoder, Dialect, encode_chat
from .faults import model_error, retry_after, stream_error
from .messages import DEFAULT_MAX_TOKENS, MessagesDecoder, MessagesDialect, encode_messages
from .sse import SseEvent, SseParser

__all__ = [
    "DEFAULT_MAX_TOKENS",
    "ChatDecoder",
    "Dialect",
    "MessagesDecoder",
    "MessagesDialect",
    "SseEvent",
    "SseParser",
    "encode_chat",
    "encode_messages",
    "model_error",
    "retry_after",
    "stream_error",
]
