"""Models: which one answers, who is asked when it fails, and one call."""

from .call import *  # noqa: F403
from .registry import Models as Models
