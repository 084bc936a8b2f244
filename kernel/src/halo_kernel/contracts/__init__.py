"""What plugins supply, as protocols, and what they hold of the server and of a session."""

from .host import *  # noqa: F403
from .storage import *  # noqa: F403
from .supplies import *  # noqa: F403
