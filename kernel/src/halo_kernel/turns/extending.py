"""What plugins add when a turn ends: messages that are accepted in the write that ends it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from ..access import fold_access
from ..contracts import Tx
from ..errors import HaloError
from ..inbox import accept, check, level_of
from ..records import Access, Extension, HookSkipped


@dataclass(kw_only=True)
class Extensions:
    """What is wanted, by plugin; one that fails wants nothing.

    `taken` are the sessions that got something, `skipped` says what was refused.
    """

    wanted: Sequence[tuple[str, Extension]] = ()
    taken: set[str] = field(default_factory=set[str])
    skipped: list[HookSkipped] = field(default_factory=list[HookSkipped])

    def accept(self, tx: Tx, turn: str, session: str, *, access: Access, at: int, cap: int) -> None:
        """Write each into its inbox, at the turn's level or a lower one; one that is refused harms no other."""
        self.taken, self.skipped = set(), []
        for number, (plugin, extension) in enumerate(self.wanted):
            name = extension.session or session
            message = replace(extension.message, reply_to=None)
            key = message.key or f"turn:{turn}:{number}"
            try:
                check(message)
                level = access if name == session else fold_access(level_of(tx, name)[0], access)
                accept(tx, name, message, key=key, at=at, access=level, cap=cap)
                self.taken.add(name)
            except HaloError as error:
                self.skipped.append(HookSkipped(plugin=plugin, hook="extend_turn", error=error.message))
