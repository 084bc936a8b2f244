"""What goes wrong on purpose: which calls, how often, until when."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from .refusals import UNAUTHORIZED, Refused, conflict, too_many_requests

Kind = Literal[
    "lost_request",  # the connection breaks before anything happens
    "lost_answer",  # what was asked for happens, then the connection breaks
    "half_answer",  # it happens, and half of the answer arrives
    "invalid_json",  # it happens, and the answer is whole but no JSON
    "delay",  # it happens after `seconds`
    "late_answer",  # it happens at once, and the answer comes after `seconds`
    "flood",  # 429 with `retry_after`
    "error",  # `status` with `description`, as JSON
    "gateway",  # `status` with a page of HTML, as a proxy answers
    "conflict",  # 409
    "unauthorized",  # 401
    "cut_poll",  # a getUpdates breaks off once it waits
]
OTHER_POLL = "terminated by other getUpdates request; make sure that only one bot instance is running"


@dataclass
class Fault:
    """One fault: it meets calls of `method` ('*': any) of `bot` (0: any), `times` of them after the first `skip`.

    The method `file` is a download, `push` an update to a webhook (lost_request, lost_answer or delay).
    `times` None is always; `until` is a time of the platform's clock after which it is over.
    """

    kind: Kind
    method: str = "*"
    bot: int = 0
    times: int | None = 1
    skip: int = 0
    until: float | None = None
    seconds: float = 0.0
    retry_after: int = 1
    status: int = 500
    description: str = "Internal Server Error"
    id: int = 0
    fired: int = 0

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ValueError(f"kind: no fault is called {self.kind!r}; there are {', '.join(get_args(Kind))}")

    def meets(self, method: str, bot: int, now: float) -> bool:
        """Return whether it is for this call, leaving skipped ones out."""
        if self.method.lower() not in ("*", method.lower()) or self.bot not in (0, bot):
            return False
        if self.times == 0 or (self.until is not None and now >= self.until):
            return False
        if self.skip:
            self.skip -= 1
            return False
        return True

    @property
    def refusal(self) -> Refused | None:
        """What the platform says without doing anything, if that is the fault."""
        match self.kind:
            case "flood":
                return too_many_requests(self.retry_after)
            case "conflict":
                return conflict(OTHER_POLL)
            case "unauthorized":
                return UNAUTHORIZED
            case "error":
                return Refused(self.status, self.description)
        return None


@dataclass
class Faults:
    """Every fault, also the ones that are over."""

    clock: Callable[[], float]
    all: list[Fault] = field(default_factory=list)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def add(self, fault: Fault) -> int:
        """Begin a fault; return its id."""
        fault.id = next(self._numbers)
        self.all.append(fault)
        return fault.id

    def take(self, method: str, bot: int) -> Fault | None:
        """Return the fault that meets a call, and count it."""
        for fault in self.all:
            if fault.meets(method, bot, self.clock()):
                fault.fired += 1
                fault.times = None if fault.times is None else fault.times - 1
                return fault
        return None

    def end(self, fault_id: int | None = None) -> None:
        """End one fault, or all."""
        for fault in self.all:
            if fault_id in (None, fault.id):
                fault.times = 0

    @property
    def records(self) -> list[dict[str, Any]]:
        """What was injected and how often each met a call."""
        return [asdict(fault) for fault in self.all]
