"""A turn: model, tools, model, until it rests."""

from .asking import authorize, usage_of
from .cancel import CancelToken, Reason, Stopped
from .desk import Desk, Limits
from .turn import Turn

__all__ = ["CancelToken", "Desk", "Limits", "Reason", "Stopped", "Turn", "authorize", "usage_of"]
