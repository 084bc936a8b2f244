"""What plugins supply and what the kernel hands to them, as protocols."""

from .channels import *  # noqa: F403
from .delivery import *  # noqa: F403
from .host import *  # noqa: F403
from .models import *  # noqa: F403
from .scopes import *  # noqa: F403
from .sessions import *  # noqa: F403
from .storage import *  # noqa: F403
