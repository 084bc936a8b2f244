"""What leaves a session: owed once, planned in parts, each sent or settled in the open."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

# What a dispatcher promises for a part that was being sent when its process died: `keyed` (send again, the key keeps it
# single), `queryable` (`find` decides), `local` (the target is our own row: again), `none` (uncertain, and shown so).
Guarantee = Literal["keyed", "queryable", "local", "none"]
# Who may take a session's report pointer from whom: a report takes any, a job those of jobs and runs, a run
# none.
Claim = Literal["report", "job", "run"]
Debt = Literal["reply", "report", "interim", "question", "notice"]
Settlement = Literal["answered", "aborted", "cancelled", "superseded", "deleted"]
PartState = Literal["pending", "sending", "sent", "failed", "uncertain"]


class Pointer(Struct, frozen=True, kw_only=True):
    """To whom a root session reports when its tree rests: a dispatcher's kind, and the target in its words."""

    dispatcher: str
    target: str
    claim: Claim = "report"


class Owed(Struct, frozen=True, kw_only=True):
    """Something to deliver. What is owed twice under one `key`, of at most 200 characters, in a workspace is owed once.

    `dispatcher` is the kind that carries it, `target` where to, in its own words; for the reply to a route
    `<dispatcher>:<account>:<chat>[:<thread>]` it is that route.
    """

    key: str
    dispatcher: str
    target: str
    text: str
    debt: Debt = "notice"
    reason: Settlement = "answered"
    session: str = ""


class Part(Struct, frozen=True, kw_only=True):
    """One message of a delivery, as its dispatcher gets it, `number` from 1.

    `key` is the same at every attempt, and no other part's in any workspace. `at` is when the delivery was owed, or
    last retried, in UTC milliseconds.
    """

    delivery: int
    number: int
    key: str
    target: str
    text: str
    attempt: int
    debt: Debt
    reason: Settlement
    session: str
    at: int


class PartStatus(Struct, frozen=True, kw_only=True):
    """A part as operators see it: `sent_id` is the platform's, `not_before` in UTC milliseconds."""

    number: int
    state: PartState
    attempt: int
    not_before: int
    sent_id: str = ""
    error: str = ""


class Delivery(Struct, frozen=True, kw_only=True):
    """What is or was owed, with all of its parts; `at` as in `Part`."""

    id: int
    key: str
    dispatcher: str
    target: str
    debt: Debt
    reason: Settlement
    session: str
    at: int
    text: str
    parts: tuple[PartStatus, ...]
