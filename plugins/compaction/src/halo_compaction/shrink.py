"""One compaction: planned, announced, summarised, and told how it went."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from halo_kernel import ContextCut, HaloError, ModelRequest, Piece, Session, ShrinkReason

from .plan import Plan, chars_of, make_plan
from .settings import CompactSettings
from .summary import by_model, summary_request, without_model

_REASON_CHARS = 80
_LEAST_CHARS = 1000
_CHARS_A_THOUSAND_TOKENS = 3500


@dataclass(frozen=True, kw_only=True)
class Compaction:
    """Makes the cut in the history of `session` that `reason` calls for."""

    session: Session
    reason: ShrinkReason
    settings: CompactSettings

    async def cut(self, request: ModelRequest, history: Sequence[Piece]) -> ContextCut | None:
        """Return what leaves the history. Raises what kept a model from its summary, if somebody asked for one."""
        plan = make_plan(history, self.settings.keep_messages)
        if self.reason == "overflow":
            return self._locally(plan, "the context was too long for the model")
        if not plan.older:
            return None
        if self.reason != "manual" and not plan.is_worth_it:
            return self._cut(plan, 0, "", "") if plan.cleared else None
        await self._say("started", f"Compacting context ({_thousands(request, history)}K tokens)…")
        try:
            answer = await self.session.complete(summary_request(request), purpose="compaction")
        except asyncio.CancelledError:
            with suppress(HaloError):
                await self._say("ended", "Compact cancelled")
            raise
        except HaloError as error:
            return await self._failed(plan, error)
        return await self._summarised(plan, answer)

    async def _summarised(self, plan: Plan, answer: str) -> ContextCut | None:
        count, asked = len(plan.older), self.reason == "manual"
        if answer.strip():
            told = f"Context compacted: {count} older messages summarized"
            text = told if asked else f"Auto-compacted {count} older messages"
            return self._cut(plan, plan.end, by_model(plan.older, answer), text)
        if not asked:
            return self._locally(plan, "LLM summary failed: it was empty")
        await self._say("ended", "Compaction skipped — no summary produced")
        return None

    async def _failed(self, plan: Plan, error: HaloError) -> ContextCut | None:
        if self.reason != "manual":
            return self._locally(plan, f"LLM summary failed: {error.message[:_REASON_CHARS]}")
        await self._say("ended", "Compaction failed — context unchanged")
        raise error

    def _locally(self, plan: Plan, why: str) -> ContextCut | None:
        """Return a cut that takes no model; where no message goes it only clears results, and tells nobody.

        What stands in has at most a quarter of what is said in all, so that it fits where a model takes little.
        """
        if not plan.older:
            return self._cut(plan, 0, "", "") if plan.cleared else None
        said = sum(len(side.text) for side in (*plan.older, *plan.kept))
        chars = min(self.settings.max_summary_input, max(_LEAST_CHARS, said // 4))
        summary = without_model(plan.older, slice_chars=self.settings.max_message_slice, chars=chars)
        text = f"Auto-compacted {len(plan.older)} older messages (local fallback — {why})"
        return self._cut(plan, plan.end, summary, text)

    def _cut(self, plan: Plan, end: int, replacement: str, text: str) -> ContextCut:
        return ContextCut(
            start=1, end=end, replacement=replacement, reason=self.reason, cleared=plan.cleared, text=text
        )

    async def _say(self, noun: str, text: str) -> None:
        await self.session.append(f"compaction.{noun}", {"text": text, "reason": self.reason})


def _thousands(request: ModelRequest, history: Sequence[Piece]) -> int:
    """Return about how many thousand tokens a call takes, from its characters: they may be many."""
    said = chars_of(block for piece in history for block in piece.content)
    return max(1, round((said + len(request.system) + len(repr(request.tools))) / _CHARS_A_THOUSAND_TOKENS))
