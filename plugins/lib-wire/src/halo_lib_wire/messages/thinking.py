"""An agent's wish to think, in the words of a dialect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .dialect import MessagesDialect

Body = dict[str, Any]

_BUDGETS = {"low": 2048, "medium": 8192, "high": 24576, "xhigh": 40000, "max": 60000}
_LEAST = 1024  # the server refuses a smaller budget, and one that is not below max_tokens


def thinking_fields(
    wish: Mapping[str, object], dialect: MessagesDialect, *, max_tokens: int, messages: Sequence[Body]
) -> Body:
    """Return the fields that ask for thinking: `thinking`, and `output_config` for an effort.

    `wish` may hold `enabled`, `effort` (`disabled` turns thinking off where it is on by itself) and `budget_tokens`.
    `messages` are those of the request: manual thinking cannot begin in the middle of a tool round.
    """
    effort = str(wish.get("effort") or "")
    if dialect.thinking == "never":
        return {}
    if effort == "disabled":
        return {"thinking": {"type": "disabled"}}
    fields = _asked(wish, effort, dialect, max_tokens, messages) if wish.get("enabled") else {}
    if dialect.binding:
        fields["thinking"] = {"type": "adaptive"} | fields.get("thinking", {})
        fields["thinking"]["block_binding"] = {"prefix_mismatch_behavior": "drop_block"}
    return fields


def _asked(
    wish: Mapping[str, object], effort: str, dialect: MessagesDialect, max_tokens: int, messages: Sequence[Body]
) -> Body:
    budget = wish.get("budget_tokens")
    if dialect.thinking == "bare":
        return {"thinking": {"type": "adaptive"}}
    if dialect.thinking == "manual" or (dialect.thinking == "either" and budget):
        wanted = budget if isinstance(budget, int) else _BUDGETS.get(effort, _BUDGETS["medium"])
        fits = max(_LEAST, min(wanted, max_tokens // 2))
        possible = fits < max_tokens and not _is_within_round(messages)
        return {"thinking": {"type": "enabled", "budget_tokens": fits}} if possible else {}
    # Newer models leave the text of their thinking out unless it is asked for.
    fields: Body = {"thinking": {"type": "adaptive", "display": "summarized"}}
    return fields | ({"output_config": {"effort": effort}} if effort else {})


def _is_within_round(messages: Sequence[Body]) -> bool:
    """Tell whether the last messages are calls that began without thinking, and their results."""
    if len(messages) < 2 or messages[-1]["role"] != "user":
        return False
    results = any(block["type"] == "tool_result" for block in messages[-1]["content"])
    return results and messages[-2]["content"][0]["type"] not in ("thinking", "redacted_thinking")
