"""A chat page and its routes, and the channel `web`: the same conversation with a token, from anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from halo_kernel import Section, hook

if TYPE_CHECKING:
    from halo_kernel import Channel, Host, PreparedInput, Route


@hook
def provide_settings() -> Iterable[Section]:
    """Provide the section `web`."""
    from .settings import WebSettings

    return [Section("web", WebSettings, global_only=True)]


@hook
def provide_channels(host: Host) -> Iterable[Channel]:
    """Provide the channel `web`."""
    from .channel import WebChannel

    return [WebChannel(clock=host.clock)]


@hook
def provide_routes(host: Host) -> Iterable[Route]:
    """Provide the page under `/web/`, what it asks under `/api/page/`, and the channel's `/api/web/`."""
    from .assets import asset_routes
    from .callers import Callers
    from .chat import chat_routes
    from .lists import list_routes
    from .questions import question_routes
    from .shelf import shelf_routes
    from .talk import talk_routes

    page = [*asset_routes(), *chat_routes(host), *question_routes(host), *list_routes(host)]
    callers = Callers(host)
    return [*page, *talk_routes(host, callers), *shelf_routes(host, callers)]


@hook
async def prepare_input(batch: Sequence[PreparedInput]) -> Sequence[PreparedInput]:
    """Tell the model of each message that came with a token through which account it did."""
    from .channel import with_channel

    return with_channel(batch)
