"""What a session has to do next, read from its rows alone: every process that looks comes to the same."""

from __future__ import annotations

from dataclasses import dataclass

from ..contracts import Tx
from ..inbox import Waiting, consumed_by, next_batch, waiting
from ..questions import pending
from ..records import SessionInfo
from ..recovery import is_cut, is_parked
from ..turns import Reason

_CANCELLED = 2  # `runs.waiting` of a paused turn that is only to be ended


@dataclass(frozen=True, kw_only=True)
class Duty:
    """The rows that the next turn answers, and what else there is.

    `more` rows wait behind them. `cut`: an earlier turn has no end. `resumed` is the paused turn that goes on, `stop`
    why it is only to be ended. `superseded`: a question is open, and a message wants to go first.
    """

    rows: tuple[Waiting, ...] = ()
    more: bool = False
    cut: bool = False
    resumed: str | None = None
    stop: Reason | None = None
    superseded: bool = False

    @property
    def is_nothing(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.rows or self.cut or self.superseded)


def find_duty(tx: Tx, info: SessionInfo, *, seated: bool, boot: str) -> Duty:
    """Return what is due. While a session is `seated`, its own turns are known and none of them is cut.

    A parked tree owes nothing: not even its lease is taken, which other processes would hear.
    """
    if is_parked(tx, info.root):
        return Duty()
    rows = waiting(tx, info.id)
    paused = tx.one("SELECT turn, waiting FROM runs WHERE session = ? AND waiting > 0", (info.id,))
    if paused is not None:
        return _of_paused(tx, info.id, str(paused[0]), rows, cancelled=paused[1] == _CANCELLED)
    batch = next_batch(rows)
    cut = not seated and is_cut(tx, info.root, session=info.id, boot=boot)
    return Duty(rows=tuple(batch), more=len(rows) > len(batch), cut=cut)


def _of_paused(tx: Tx, session: str, turn: str, rows: list[Waiting], *, cancelled: bool) -> Duty:
    hard = any(row.mode == "interrupt_hard" for row in rows)
    if pending(tx, session) is not None:
        return Duty(superseded=hard)
    stop: Reason | None = "cancelled" if cancelled else "interrupted" if hard else None
    return Duty(rows=tuple(consumed_by(tx, session, turn)), more=bool(rows), resumed=turn, stop=stop)
