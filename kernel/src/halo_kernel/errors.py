"""The exception tree. An error carries facts; protocols turn it into their own status codes.

HaloError
├── BadInput                 a request, setting or file breaks a rule
│   ├── BadFile              … in a file: names file, line and key
│   └── TooLarge             … of a size: a request's body
├── NotFound                 session, agent, workspace, model, route
├── Conflict                 the thing is not in a state that allows this
│   ├── SessionClosed        closed, archived or deleted
│   ├── QueueFull            the session has as many waiting messages as it may
│   ├── LeaseHeld            another process writes here
│   ├── ConstraintFailed     what was to be written breaks a rule of its table
│   ├── ServerRunning        a server of this home runs already
│   └── PromptTooLarge       what stands before the conversation does not fit in the model's context
├── Unauthorized             no credentials
│   ├── WrongCredentials     credentials that are wrong; counted
│   └── LockedOut            too many wrong ones
├── Forbidden                known, but not allowed
├── CursorGone               a cursor of another journal
├── StorageUnavailable       nothing was written
│   ├── LeaseLost            somebody else took over; nothing was written
│   └── NewerData            written by a newer version; opened unchanged by nobody older
├── WorkspaceUnusable        missing, not a directory, or not writable
├── ModelError               a model call failed
├── DeliveryFailed           a part was not delivered, and nothing of it was sent
├── PluginFailed             a plugin's hook failed
└── Stopping                 the server is shutting down
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Literal, dataclass_transform

ModelErrorKind = Literal["throttle", "server", "network", "timeout", "account", "overflow", "refused", "empty", "none"]


@dataclass_transform(kw_only_default=True)
@dataclass(eq=False, repr=False)
class HaloError(Exception):
    """Any failure with a sentence for people. `advice` says what to do next."""

    message: str
    _: KW_ONLY
    advice: str = ""

    def __init_subclass__(cls) -> None:
        dataclass(eq=False, repr=False, kw_only=True)(cls)


class BadInput(HaloError):
    """Input that breaks a rule; `field` names it (dotted), the message states the rule."""

    field: str = ""


class BadFile(BadInput):
    """A file that breaks a rule; `line` counts from 1, 0 when it is not known."""

    path: str
    line: int = 0


class TooLarge(BadInput):
    """A request's body is over its route's `limit`, in bytes; the rest of it was not kept."""

    limit: int = 0


class NotFound(HaloError):
    """The named thing does not exist for this principal."""


class Conflict(HaloError):
    """The thing exists but does not allow this now."""


class SessionClosed(Conflict):
    """The session is closed, archived or deleted."""


class QueueFull(Conflict):
    """The session has as many waiting messages as `session.max_queue_size` allows; nothing was written."""


class LeaseHeld(Conflict):
    """Another living process holds this lease; `holder` describes it."""

    holder: str = ""


class ConstraintFailed(Conflict):
    """What was to be written breaks a constraint of its table: it must be unique, refer to a row, or be there."""


class ServerRunning(Conflict):
    """A server of this home runs already; `url` is where."""

    url: str = ""


class Unauthorized(HaloError):
    """Credentials are missing."""


class WrongCredentials(Unauthorized):
    """Credentials were given and are wrong; counts towards the lock-out of this scheme and address."""


class LockedOut(Unauthorized):
    """Too many wrong credentials; `retry_after` in seconds."""

    retry_after: float


class Forbidden(HaloError):
    """The principal is known and may not do this."""


class CursorGone(HaloError):
    """The cursor belongs to another journal (a fork, a restore or a copy): `view` is a `View` to start from.

    `cursor` is where it stands, to go on after.
    """

    cursor = ""
    view: object = None


class StorageUnavailable(HaloError):
    """The storage refused the transaction; nothing of it was written."""


class LeaseLost(StorageUnavailable):
    """The lease's epoch is no longer ours; nothing was written."""


class NewerData(StorageUnavailable):
    """The database needs a newer version than this one; it was left unchanged."""


class WorkspaceUnusable(HaloError):
    """The workspace is missing, not a directory, or not writable."""


class ModelError(HaloError):
    """A model call failed.

    `kind`: `throttle` (429), `server` (5xx), `network` (cut or refused), `timeout` (no data), `account` (401, 402,
    403), `overflow` (context too long), `refused` (the request is wrong), `empty` (no content), `none` (no model).
    `retry_after` in seconds, where the provider said so. `credential` names the key used, never its value.
    """

    kind: ModelErrorKind
    retry_after: float | None = None
    credential: str = ""


class PromptTooLarge(Conflict):
    """The fixed part of a prompt alone is more than the model takes, so no model was asked.

    `contributors` are the largest, each with its slot, its source and about how many tokens it takes.
    """

    contributors: Sequence[tuple[str, str, int]] = ()


class DeliveryFailed(HaloError):
    """A part was refused by its target and nothing of it was sent.

    `permanent`: no other attempt will do better. `retry_after` in seconds, where the platform said so; without either
    the kernel tries again after 1 s, 2 s, 4 s and so on, up to 300 s, for a day.
    """

    permanent: bool = False
    retry_after: float | None = None


class PluginFailed(HaloError):
    """A plugin raised, hung or answered with the wrong type in `hook`."""

    plugin: str
    hook: str


class Stopping(HaloError):
    """The server is shutting down and starts nothing new."""
