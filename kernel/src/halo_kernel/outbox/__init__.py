"""What sessions and plugins owe: durable before it is sent, sent once, settled in the open."""

from .claims import *  # noqa: F403
from .courier import *  # noqa: F403
from .debts import *  # noqa: F403
