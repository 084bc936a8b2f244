"""Models: which one answers, who is asked when it fails, and one call."""

from .call import Answer, Attempt, OnDelta, OnFailure, call_model
from .registry import Models

__all__ = ["Answer", "Attempt", "Models", "OnDelta", "OnFailure", "call_model"]
