"""A turn: model, tools, model, until it rests."""

from .asking import ask_models, usage_of
from .cancel import CancelToken, Reason, Stopped
from .desk import Desk, Place
from .turn import Turn

__all__ = ["CancelToken", "Desk", "Place", "Reason", "Stopped", "Turn", "ask_models", "usage_of"]
