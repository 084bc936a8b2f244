"""References to large values beside the journal."""

from __future__ import annotations

from msgspec import Struct


class BlobRef(Struct, frozen=True, kw_only=True):
    """Stands for a large value in events: `uri` is `blob:<sha256>`, `size` counts bytes."""

    uri: str
    size: int
    media_type: str

    @property
    def sha256(self) -> str:
        """The hash of the value, in lower-case hex."""
        return self.uri.removeprefix("blob:")
