"""The exception tree; every message is a sentence for a model and for people, naming the path.

FilesError
├── Outside       a path or a link leads out of the root
├── Refused       the predicate given to the root forbids it
├── Missing       nothing is there
├── WrongKind     a folder where a file is needed, or a device, a socket, a pipe
├── NotText       a binary file where text is needed
├── Unusable      the system says no: permission, full disk, too long a name
├── Changed       somebody else changed it in the middle of the operation
└── NoEdit        a literal edit that cannot be made
"""

from __future__ import annotations


class FilesError(Exception):
    """An operation on files that was not done; `path` is the path as it was asked for."""

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(message)
        self.path = path


class Outside(FilesError):
    """A path or a link leads out of the root."""


class Refused(FilesError):
    """The root's predicate forbids this path."""


class Missing(FilesError):
    """Nothing is there."""


class WrongKind(FilesError):
    """Something else is there than what the operation needs."""


class NotText(FilesError):
    """The file is binary."""


class Unusable(FilesError):
    """The operating system refused."""


class Changed(FilesError):
    """Somebody else changed the file or a folder on its path in the middle of the operation; nothing was written."""


class NoEdit(FilesError):
    """The text to replace is empty, missing, not unique, or equal to its replacement."""
