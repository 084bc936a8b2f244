"""The HTTP surface: route records become an application that checks, limits, answers and streams."""

from .app import make_app as make_app
