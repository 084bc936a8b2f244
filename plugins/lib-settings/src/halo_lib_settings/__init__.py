"""Changes settings, whose file people edit too, and the secrets that plugins keep by name."""

from .document import changed
from .secrets import REFERENCE, forget_secret, keep_secret
from .writing import revision_of, write_settings

__all__ = ["REFERENCE", "changed", "forget_secret", "keep_secret", "revision_of", "write_settings"]
