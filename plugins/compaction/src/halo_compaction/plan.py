"""What leaves a history and what stays: older messages go, and of the results of tools among the others all but one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from halo_kernel import CLEARED_MARKER, Block, Piece, Role, Text, ToolCall, ToolResult

# Their results can be had again: the file is still there, the page can be fetched once more.
REPEATABLE = {"file_read", "file_write", "file_edit", "file_list", "grep", "glob", "shell_exec", "web_fetch"}
_WORTH = 0.1  # of all that there is; less is not worth a summary, which would soon be due again


@dataclass(frozen=True)
class Side:
    """One message: pieces of one side that follow each other."""

    role: Role
    pieces: tuple[Piece, ...]

    @property
    def blocks(self) -> list[Block]:
        """Its blocks in order."""
        return [block for piece in self.pieces for block in piece.content]

    @property
    def text(self) -> str:
        """What it says, without thinking, calls and results."""
        return "\n".join(block.text for block in self.blocks if isinstance(block, Text))


@dataclass(frozen=True)
class Plan:
    """The messages that go and those that stay, and the events of those results that are cleared in what stays."""

    older: Sequence[Side]
    kept: Sequence[Side]
    cleared: tuple[int, ...]

    @property
    def end(self) -> int:
        """The last event that goes, 0 when none does."""
        return self.older[-1].pieces[-1].seq if self.older else 0

    @property
    def is_worth_it(self) -> bool:
        """Whether a good part goes."""
        older, kept = (chars_of(block for side in sides for block in side.blocks) for sides in (self.older, self.kept))
        return older >= _WORTH * (older + kept)


def chars_of(blocks: Iterable[Block]) -> int:
    """Return about how many characters blocks have."""
    return sum(len(str(block.arguments) if isinstance(block, ToolCall) else block.text) for block in blocks)


def make_plan(history: Sequence[Piece], keep: int) -> Plan:
    """Return what goes when the last `keep` messages stay; none goes of a history that has no more.

    What stays does not begin with the result of a call that goes.
    """
    runs = groupby(history, key=lambda piece: piece.role)
    sides = [Side(role, tuple(pieces)) for role, pieces in runs]
    cut = max(0, len(sides) - keep)
    while 0 < cut < len(sides) and isinstance(next(iter(sides[cut].blocks), None), ToolResult):
        cut += 1
    return Plan(sides[:cut], sides[cut:], _cleared(history, sides[cut:]))


def _cleared(history: Sequence[Piece], kept: Sequence[Side]) -> tuple[int, ...]:
    """Return the events of all repeatable results in `kept` but the newest, without those that are cleared already."""
    names = {block.id: block.name for piece in history for block in piece.content if isinstance(block, ToolCall)}
    found = [
        (piece.seq, block)
        for side in kept
        for piece in side.pieces
        for block in piece.content
        if isinstance(block, ToolResult) and names.get(block.call) in REPEATABLE
    ]
    return tuple(seq for seq, block in found[:-1] if block.text != CLEARED_MARKER)
