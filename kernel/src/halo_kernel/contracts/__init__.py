"""What plugins supply, as protocols, and what they hold of the server and of a session."""

from .channels import *  # noqa: F403
from .delivery import *  # noqa: F403
from .host import *  # noqa: F403
from .models import *  # noqa: F403
from .scopes import *  # noqa: F403
from .sessions import *  # noqa: F403
from .storage import *  # noqa: F403
