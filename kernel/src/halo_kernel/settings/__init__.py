"""Typed settings: sections with defaults, one YAML file that people edit, and environment variables above it."""

from .loaded import *  # noqa: F403
from .sections import *  # noqa: F403
