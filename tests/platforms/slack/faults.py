"""What goes wrong on purpose: which method, how often, and how."""

from __future__ import annotations

from dataclasses import dataclass, field

CALL_KINDS = ("lost_request", "lost_answer", "delay", "ratelimited", "status", "invalid_json", "error")
"""For a method of the Web API, or `upload` and `download` of files."""
EVENT_KINDS = ("duplicate", "delay", "wrong_signature", "stale_signature", "cut", "drop")
"""For the type of an event (`message`), `slash_commands`, `interactive`; the name before a dot matches too."""


@dataclass(kw_only=True)
class Fault:
    """One thing to go wrong, `count` times (None: always) after `after` that go well.

    `lost_request`: the connection ends before anything happens. `lost_answer`: after it happened. `delay`: `seconds`
    pass before. `ratelimited`: 429, `seconds` in Retry-After. `status`: this HTTP status, nothing happens.
    `invalid_json`: it happens, the answer is broken. `error`: refused with this error. `duplicate`: the event is sent
    twice with one `event_id`. `wrong_signature`, `stale_signature`: over HTTP. `cut`: the socket ends in the middle of
    the envelope. `drop`: the first attempt is never sent.
    """

    on: str
    kind: str
    count: int | None = 1
    after: int = 0
    seconds: float = 0.0
    status: int = 503
    error: str = "internal_error"
    fired: int = 0

    def __post_init__(self) -> None:
        if self.kind not in CALL_KINDS + EVENT_KINDS:
            raise ValueError(f"kind: {self.kind!r} is none of {', '.join(CALL_KINDS + EVENT_KINDS)}")

    def fits(self, name: str) -> bool:
        """Say whether it is meant for this method or event."""
        return self.on in ("*", name, name.partition(".")[0])

    @property
    def spent(self) -> bool:
        """Whether it happened as often as it should."""
        return self.count is not None and self.fired >= self.count


@dataclass
class Faults:
    """The faults in the order in which they were asked for; one at a time per call or event."""

    planned: list[Fault] = field(default_factory=list)

    def add(self, fault: Fault) -> None:
        """Let it happen from now on."""
        self.planned.append(fault)

    def clear(self) -> None:
        """Let everything go well from now on."""
        self.planned.clear()

    def take(self, name: str) -> Fault | None:
        """Return what goes wrong this time."""
        for fault in self.planned:
            if fault.spent or not fault.fits(name):
                continue
            if fault.after:
                fault.after -= 1
                return None
            fault.fired += 1
            return fault
        return None
