"""A turn: model, tools, model, until it rests."""

from .cancel import CancelToken, Stopped
from .desk import Desk, Limits
from .turn import Turn

__all__ = ["CancelToken", "Desk", "Limits", "Stopped", "Turn"]
