"""Frozen values that cross the kernel's boundary."""

from .channels import *  # noqa: F403
from .commands import *  # noqa: F403
from .deliveries import *  # noqa: F403
from .events import *  # noqa: F403
from .health import *  # noqa: F403
from .messages import *  # noqa: F403
from .models import *  # noqa: F403
from .questions import *  # noqa: F403
from .routes import *  # noqa: F403
from .sessions import *  # noqa: F403
from .settings import *  # noqa: F403
