"""Models: which one answers, and one guarded call to it."""

from .call import Answer, Attempt, call_model
from .registry import Models

__all__ = ["Answer", "Attempt", "Models", "call_model"]
