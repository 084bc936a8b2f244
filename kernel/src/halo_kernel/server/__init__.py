"""The server's process: its socket, its signals, its start and its end."""

from .life import run as run
