"""The HTTP surface: route records become an application that checks, limits, answers and streams."""

from .app import Face as Face
