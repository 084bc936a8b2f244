"""The Messages wire: requests out, streamed events in, and what differs between vendors."""

from .decode import MessagesDecoder
from .dialect import MessagesDialect
from .encode import DEFAULT_MAX_TOKENS, encode_messages

__all__ = ["DEFAULT_MAX_TOKENS", "MessagesDecoder", "MessagesDialect", "encode_messages"]
