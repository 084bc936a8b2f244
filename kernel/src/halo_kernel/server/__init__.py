"""The server's process: its socket, its signals, its start and its end."""

from .life import embedded as embedded
from .life import run as run
from .listening import bind as bind
from .listening import serving as serving
from .listening import url_of as url_of
