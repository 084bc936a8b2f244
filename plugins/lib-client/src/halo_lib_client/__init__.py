"""The client of commands: it finds the server of a home, or runs a kernel of its own, and speaks HTTP to it."""

from .client import Client, connect, find_server

__all__ = ["Client", "connect", "find_server"]
