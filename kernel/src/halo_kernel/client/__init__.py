"""The client of the command line: it finds the server of a home, or runs a kernel of its own, and speaks HTTP to it."""

from .caller import Client as Client
from .caller import connect as connect
from .caller import find_server as find_server
