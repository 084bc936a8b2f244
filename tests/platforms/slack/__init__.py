"""Slack on loopback: Web API, Socket Mode and Events API, strict enough for Slack's own clients, with faults.

Where the sources name no behaviour it refuses rather than guesses: a reply's ts is no thread, an upload has the length
that was announced, a stream names its recipients. `rules.py` holds what is documented as numbers and names.
"""

from .clock import Pace
from .faults import Fault
from .remote import Remote, spawned, threaded
from .server import SlackServer

__all__ = ["Fault", "Pace", "Remote", "SlackServer", "spawned", "threaded"]
