"""Codecs between the kernel's model records and the wires of model providers; nothing here does I/O.

`sse` parses server-sent events, `faults` turns refusals into `ModelError`, `loose` reads JSON whose shape is not
guaranteed. Each wire is a package with an encoder of requests and a decoder of streams: `chat` (chat completions).
"""

from .chat import ChatDecoder, Dialect, encode_chat
from .faults import model_error, retry_after, stream_error
from .sse import SseEvent, SseParser

__all__ = [
    "ChatDecoder",
    "Dialect",
    "SseEvent",
    "SseParser",
    "encode_chat",
    "model_error",
    "retry_after",
    "stream_error",
]
