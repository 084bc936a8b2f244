"""What sessions and plugins owe: durable before it is sent, sent once, settled in the open."""

from .claims import REASONS, settle, take_pointer
from .courier import Courier
from .debts import has_unsettled, listed, owe, owe_replies, retry

__all__ = ["REASONS", "Courier", "has_unsettled", "listed", "owe", "owe_replies", "retry", "settle", "take_pointer"]
