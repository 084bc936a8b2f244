"""The HTTP surface: route records become an application that checks, limits, answers and streams."""

from .app import Face as Face
from .app import make_face as make_face
