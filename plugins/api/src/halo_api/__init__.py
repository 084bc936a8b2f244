"""HTTP routes over the host: workspaces, sessions, questions, deliveries, channels, settings, models, what is well."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from halo_kernel import hook

if TYPE_CHECKING:
    from halo_kernel import Host, Route


@hook
def provide_routes(host: Host) -> Iterable[Route]:
    """Provide the routes under `/api`."""
    from .accounts import account_routes
    from .channels import channel_routes
    from .deliveries import delivery_routes
    from .doctor import doctor_routes
    from .erase import erase_routes
    from .export import export_routes
    from .lifecycle import lifecycle_routes
    from .models import model_routes
    from .openapi import openapi_routes
    from .questions import question_routes
    from .sessions import session_routes
    from .settings import settings_routes
    from .streams import stream_routes
    from .workspaces import workspace_routes

    return [
        *openapi_routes(host),
        *workspace_routes(host),
        *session_routes(host),
        *lifecycle_routes(host),
        *stream_routes(host),
        *export_routes(host),
        *erase_routes(host),
        *question_routes(host),
        *delivery_routes(host),
        *channel_routes(host),
        *account_routes(host),
        *settings_routes(host),
        *doctor_routes(host),
        *model_routes(host),
    ]
