"""The parts of the platform, put together."""

from __future__ import annotations

from .assistants import Assistants
from .board import Board
from .clock import Clock, Pace, RealClock
from .deliveries import Deliveries
from .events import Events
from .faults import Faults
from .ledger import Ledger
from .messages import Json
from .posts import Posts
from .rates import Rates
from .sockets import Sockets
from .team import Team
from .triggers import Triggers


class Platform:
    """One workspace and what it takes to talk with its apps; `url` is where the server listens."""

    def __init__(self, *, clock: Clock | None = None, pace: Pace | None = None) -> None:
        self.url = ""
        self.clock = clock or RealClock()
        self.pace = pace or Pace()
        self.team = Team()
        self.faults = Faults()
        self.ledger = Ledger()
        self.rates = Rates(self.clock)
        self.assistants = Assistants()
        self.views: list[Json] = []
        self.events = Events(self)
        self.board = Board(self)
        self.deliveries = Deliveries(self)
        self.sockets = Sockets(self)
        self.posts = Posts(self)
        self.triggers = Triggers(self)
