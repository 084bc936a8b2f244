"""The responders, under the name of the first wire that had them."""

from .responders import RESPONDERS as RESPONDERS
from .responders import Received as Received
from .responders import Responder as Responder
from .responders import echo as echo
from .responders import files as files
