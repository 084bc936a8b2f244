"""Errors as HTTP answers: the one place where an exception becomes a status code."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .. import errors
from ..errors import HaloError
from ..records import Reply

if TYPE_CHECKING:
    from collections.abc import Mapping

    from structlog.typing import FilteringBoundLogger

STATUS: Mapping[type[HaloError], int] = {
    errors.BadInput: 400,
    errors.TooLarge: 413,
    errors.Unauthorized: 401,
    errors.LockedOut: 429,
    errors.Forbidden: 403,
    errors.NotFound: 404,
    errors.Conflict: 409,
    errors.QueueFull: 429,
    errors.WorkspaceUnusable: 409,
    errors.CursorGone: 410,
    errors.ModelError: 502,
    errors.StorageUnavailable: 503,
    errors.Stopping: 503,
    HaloError: 500,
}


def status_of(error: HaloError) -> int:
    """Return the status code of an error: that of its class, else of the nearest class above."""
    return next(STATUS[base] for base in type(error).__mro__ if base in STATUS)


def shape(error: HaloError) -> dict[str, object]:
    """Return what a client is told: the sentence, the class's name, the advice and the facts that the error carries."""
    facts = {
        name: value
        for name, value in vars(error).items()
        if name != "message" and not name.startswith("_") and value not in ("", None)
    }
    return {"error": error.message, "type": type(error).__name__, **facts}


def reads_text(path: str, headers: Mapping[str, str]) -> bool:
    """Tell whether a person looks at the answer: a browser opens a page, not one of the API's paths."""
    return "text/html" in headers.get("accept", "") and not path.startswith("/api/")


def failure(error: HaloError, *, as_text: bool = False) -> Reply:
    """Return the answer to a request that failed: its shape as JSON, or its sentences for a person."""
    headers: dict[str, str] = {}
    if isinstance(error, errors.LockedOut):
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after)))
    elif isinstance(error, errors.ModelError | errors.QueueFull | errors.Stopping):
        headers["Retry-After"] = str(math.ceil(getattr(error, "retry_after", None) or 1))
    elif isinstance(error, errors.Unauthorized):
        headers["WWW-Authenticate"] = 'Bearer realm="halo"'
    if as_text:
        text = "\n".join(line for line in (error.message, error.advice) if line) + "\n"
        return Reply(status=status_of(error), body=text, headers=headers, media_type="text/plain")
    return Reply(status=status_of(error), body=shape(error), headers=headers)


def unexpected(error: BaseException, *, reference: str, log: FilteringBoundLogger, where: str) -> HaloError:
    """Log a defect under a reference, and return the error that tells a client nothing but that reference."""
    log.error("request failed", reference=reference, where=where, exc_info=error)
    return HaloError(
        f"Something went wrong inside the server (reference {reference}).",
        advice=f"The server's log has the details under {reference}.",
    )
