"""The chat-completions wire: requests out, streamed chunks in, and what differs between vendors."""

from .decode import ChatDecoder
from .dialect import Dialect
from .encode import encode_chat

__all__ = ["ChatDecoder", "Dialect", "encode_chat"]
