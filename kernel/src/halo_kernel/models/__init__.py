"""Models: which one answers, who is asked when it fails, and one call."""

from .call import Attempt, Caller, Listener
from .registry import Models

__all__ = ["Attempt", "Caller", "Listener", "Models"]
