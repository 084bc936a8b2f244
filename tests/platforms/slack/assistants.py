"""assistant.threads.*: what an agent says beside its thread."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .call import Call, Method
from .messages import Json
from .refusals import Refused

_PROMPTS_MOST = 4


@dataclass(kw_only=True)
class Shown:
    """What stands beside a thread now; `statuses` is every status it had."""

    status: str = ""
    title: str = ""
    prompts: list[Any] = field(default_factory=list)
    statuses: list[str] = field(default_factory=list)


@dataclass
class Assistants:
    """What stands beside each thread, by channel and ts."""

    threads: dict[tuple[str, str], Shown] = field(default_factory=dict)

    def of(self, channel: str, ts: str) -> Shown:
        """Return what stands beside a thread."""
        return self.threads.setdefault((channel, ts), Shown())

    def answered(self, channel: str, ts: str | None) -> None:
        """Clear the status, as an app's answer in the thread does."""
        if ts is not None and (channel, ts) in self.threads:
            self.threads[channel, ts].status = ""


def set_status(call: Call) -> Json:
    """Say what the agent does now; an empty status says nothing."""
    shown = _thread(call)
    shown.status = call.text("status")
    shown.statuses.append(shown.status)
    call.platform.ledger.changed()
    return {}


def set_title(call: Call) -> Json:
    """Name the thread."""
    _thread(call).title = call.text("title")
    return {}


def set_prompts(call: Call) -> Json:
    """Offer what a person may ask."""
    prompts = call.arguments.data("prompts", "invalid_arguments")
    fine = isinstance(prompts, list) and all(isinstance(each, dict) and each.get("title") for each in prompts)
    if not fine or not 0 < len(prompts) <= _PROMPTS_MOST or not all(each.get("message") for each in prompts):
        raise Refused("invalid_arguments", f"[ERROR] 1 to {_PROMPTS_MOST} prompts with title and message")
    _thread(call).prompts = prompts
    return {}


def _thread(call: Call) -> Shown:
    conversation = call.joined(call.conversation("channel_id"))
    root = call.message(conversation, call.text("thread_ts"), refusal="invalid_thread_ts")
    if root.is_reply:
        raise Refused("invalid_thread_ts")
    return call.platform.assistants.of(conversation.id, root.ts)


ASSISTANTS: dict[str, Method] = {
    "assistant.threads.setStatus": set_status,
    "assistant.threads.setSuggestedPrompts": set_prompts,
    "assistant.threads.setTitle": set_title,
}
