"""Large values beside the journal."""

# pyright: reportReturnType=false
# The docstring is the whole body of a protocol's method.
from __future__ import annotations

from collections.abc import AsyncIterable
from contextlib import AbstractContextManager
from typing import Protocol

from ..records import BlobRef


class Blobs(Protocol):
    """Images, long results and the like: files of a workspace, named by their content.

    Put one before the event that names it by its `uri`. It is removed 24 hours later when no event, waiting input or
    undelivered part names it then.
    """

    async def put(self, workspace: str, data: bytes | AsyncIterable[bytes], *, media_type: str) -> BlobRef:
        """Make a value durable and return its reference. What is there already counts as new again.

        Raises `StorageUnavailable`, and nothing is left; `WorkspaceUnusable` when its folder is not one.
        """

    async def get(self, workspace: str, uri: str) -> bytes:
        """Return the value of `blob:<sha256>`, checked. Raises `NotFound` when it is gone or damaged."""

    def hold(self, workspace: str) -> AbstractContextManager[None]:
        """Keep every value, in all processes, for as long as the context lasts: a backup copies them."""
