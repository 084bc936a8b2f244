"""A turn: model, tools, model, until it rests."""

from .asking import *  # noqa: F403
from .cancel import *  # noqa: F403
from .desk import *  # noqa: F403
from .turn import Turn as Turn
