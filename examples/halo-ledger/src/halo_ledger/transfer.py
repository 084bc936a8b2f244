"""The tool `transfer_money`, and the rows that it writes."""

from __future__ import annotations

from halo_kernel import Answer, Call, Host, Migration, Question, ToolSpec, Tx

from .order import PARAMETERS, Order, read_order, shown
from .settings import LedgerSettings

TABLES = [
    Migration(
        version=1,
        sql="""
        CREATE TABLE entries(
            key TEXT PRIMARY KEY, account TEXT NOT NULL, cents INTEGER NOT NULL, note TEXT NOT NULL,
            approved_by TEXT NOT NULL, at INTEGER NOT NULL
        );
        """,
    )
]


class Transfer:
    """Enters a transfer, once; above the limit after a person's yes."""

    spec = ToolSpec(
        name="transfer_money",
        description="Transfer an amount to an account. A large amount waits until a person allows it.",
        parameters=PARAMETERS,
        effect="write",
    )

    def __init__(self, host: Host) -> None:
        self._host = host

    async def run(self, call: Call) -> str:
        """Return what was done as text."""
        order = read_order(call.arguments)
        settings = self._host.settings.of(LedgerSettings)
        if call.answer is None and order.cents > settings.limit * 100:
            # This raises, and nothing has been done yet: after the answer the call starts anew.
            call.ask(Question(text=f"Transfer {order.text}?", expires_in=settings.expires_in))
        if call.answer is not None and not call.answer.approved:
            return f"Not transferred: {_why(call.answer)}"
        balance = await self._enter(call, order, call.answer.by if call.answer else "")
        return f"Transferred {shown(order.cents)} to {order.account}; it now has {shown(balance)}."

    async def _enter(self, call: Call, order: Order, by: str) -> int:
        """Write the entry of a call unless it is there, and return the account's balance."""
        info = call.session.info
        key = f"{info.workspace}:{info.id}:{call.turn.id}:{call.id}"
        entry = (key, order.account, order.cents, order.note, by, self._host.clock.now())

        def enter(tx: Tx) -> int:  # may run twice, so it takes the time from outside and goes by its key
            tx.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT(key) DO NOTHING", entry)
            row = tx.one("SELECT sum(cents) FROM entries WHERE account = ?", (order.account,))
            return int(row[0]) if row else 0

        database = await self._host.data.open("ledger", "global", TABLES)
        return await database.write(enter)


def _why(answer: Answer) -> str:
    """Say who refused; a question that nobody has answered in time is refused by nobody."""
    return f"{answer.by} said no: {answer.text}" if answer.by else "nobody allowed it in time."
