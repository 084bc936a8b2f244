"""HTTP routes as records, and what their handlers get and answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .sessions import Principal

if TYPE_CHECKING:
    from starlette.requests import Request


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """One request to a route: the decoded `body` (of the route's `request` type, else None), path and query parameters.

    `last_event_id` is the header that a reconnecting event stream sends. `raw` is the ASGI request: `await raw.body()`
    and `raw.stream()` keep to the route's `body_limit` and raise `TooLarge`.
    """

    principal: Principal
    body: object
    params: Mapping[str, str]
    query: Mapping[str, str]
    last_event_id: str | None
    address: str
    raw: Request


@dataclass(frozen=True, kw_only=True)
class Reply:
    """An answer with its status and headers; `signed_in` sets this principal's cookie, `signed_out` ends it."""

    body: object = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    media_type: str = "application/json"
    signed_in: Principal | None = None
    signed_out: bool = False


@dataclass(frozen=True, kw_only=True)
class ServerEvent:
    """One event of a stream: `event` its name, `data` any JSON value, `id` the cursor to resume after it."""

    event: str
    data: object
    id: str | None = None


@dataclass(frozen=True, kw_only=True)
class Stream:
    """An answer of server-sent events; the kernel adds keep-alives and a last `shutdown` event when it stops."""

    events: AsyncIterator[ServerEvent]


@dataclass(frozen=True, kw_only=True)
class Route:
    """A path that a plugin answers.

    `path` uses starlette's `{name}` and `{name:path}`. `request` is the struct the JSON body must decode to, unknown
    fields refused. `auth` names the one scheme that must vouch for the caller (`operator`, `public`, `signed`, or a
    plugin's). `body_limit` is in bytes. `attempts` names the bucket in which wrong credentials that the handler raises
    are counted. With `optional`, callers without valid credentials reach the handler too, as the principal of `public`.
    """

    method: str
    path: str
    handler: Callable[[Exchange], Awaitable[object]]
    summary: str
    request: type | None = None
    reply: type | None = None
    auth: str = "operator"
    body_limit: int = 1_048_576
    attempts: str | None = None
    optional: bool = False
