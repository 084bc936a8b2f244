"""What sessions and plugins owe: durable before it is sent, sent once, settled in the open."""

from .claims import REASONS, Held, owe_parent, pay, read_pointer, take_pointer
from .courier import Courier
from .debts import has_unsettled, listed, owe, owe_replies, retry

__all__ = [
    "REASONS",
    "Courier",
    "Held",
    "has_unsettled",
    "listed",
    "owe",
    "owe_parent",
    "owe_replies",
    "pay",
    "read_pointer",
    "retry",
    "take_pointer",
]
