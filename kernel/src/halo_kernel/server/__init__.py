"""The server's process: its socket, its signals, its start and its end."""

from .life import run as run
from .listening import bind as bind
from .listening import serve as serve
