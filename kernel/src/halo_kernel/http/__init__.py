"""The HTTP surface: route records become an application that checks, limits, answers and streams."""

from .app import build_app as build_app
from .origins import Origins as Origins
from .system import About as About
