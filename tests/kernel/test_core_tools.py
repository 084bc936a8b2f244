"""Tools and hooks that keep no rule: the turn goes on or fails with a sentence, and nothing is left open."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from halo_kernel import (
    Call,
    ContextPart,
    Denial,
    Event,
    Incoming,
    InputAdded,
    PreparedInput,
    Receipt,
    Session,
    SessionInfo,
    Tool,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    hook,
)
from halo_kernel.testing import Answer, Calls, NoteTool, ScriptedModel, a_session, journal, running_kernel, until


def finished(events: Sequence[Event]) -> list[ToolFinished]:
    return [event.body for event in events if isinstance(event.body, ToolFinished)]


class Odder(BaseException):
    """Neither an Exception nor one that asyncio knows."""


class Raising(NoteTool):
    """Raises or answers whatever it was made with."""

    def __init__(self, outcome: object) -> None:
        super().__init__()
        self._outcome = outcome

    async def run(self, call: Call) -> str:
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        return self._outcome  # type: ignore[return-value]


@pytest.mark.parametrize(
    "outcome",
    [SystemExit(2), KeyboardInterrupt(), asyncio.CancelledError(), Odder(), ValueError(), None, b"bytes", ["text"]],
    ids=lambda value: type(value).__name__,
)
async def test_whatever_a_tool_does_is_its_result(tmp_path: Path, outcome: object) -> None:
    """A tool that raises anything, or answers with anything but text, gives an error result; the turn goes on."""
    model = ScriptedModel([Calls([("note", {})]), Answer("done")])
    async with running_kernel(tmp_path / "home", model=model, tools=[Raising(outcome)]) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        assert (await session.prompt(Incoming(text="go")).result).text == "done"
        (result,) = finished(await journal(session))
        assert result.outcome == "error" and result.text.startswith("Error: ")


async def test_a_tool_that_is_not_asynchronous_gives_an_error(tmp_path: Path) -> None:
    """A plain `run` is the tool's error, not the turn's."""

    class Plain(NoteTool):
        def run(self, call: Call) -> str:  # type: ignore[override]
            return "at once"

    model = ScriptedModel([Calls([("note", {})]), Answer("done")])
    async with running_kernel(tmp_path / "home", model=model, tools=[Plain()]) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        assert (await session.prompt(Incoming(text="go")).result).text == "done"


async def test_tools_with_names_that_no_model_takes_are_left_out(tmp_path: Path) -> None:
    """One bad tool does not cost the session: names are 1 to 64 letters, digits, '_', '-'; the first of two counts."""

    class Nameless:
        spec = "note"

        async def run(self, call: Call) -> str:
            return ""

    first, second = NoteTool(), NoteTool()
    tools: list[Tool] = [first, second, *(NoteTool(name) for name in ("", "a b", "x" * 65, "a.b", "ä"))]
    tools.append(Nameless())  # type: ignore[arg-type]
    model = ScriptedModel([Calls([("note", {"text": "x"})]), Answer("done")])
    async with running_kernel(tmp_path / "home", model=model, tools=tools) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        assert (await session.prompt(Incoming(text="go")).result).text == "done"
        assert [tool.name for tool in model.requests[0].tools] == ["note"]
        assert (first.seen, second.seen) == (["x"], [])


async def test_a_call_that_was_stopped_while_it_was_checked_has_not_run(tmp_path: Path) -> None:
    """A stop that comes while guards are asked leaves the call safe to repeat: no start, `not_run`."""
    asked, free = asyncio.Event(), asyncio.Event()

    class Slow:
        @hook
        async def authorize_tool(self, call: Call) -> Denial | None:
            asked.set()
            await free.wait()
            return None

    note = NoteTool()
    model = ScriptedModel([Calls([("note", {"text": "x"})])])
    async with running_kernel(tmp_path / "home", model=model, tools=[note], extra={"slow": Slow()}) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        handle = session.prompt(Incoming(text="go"))
        await asyncio.wait_for(asked.wait(), 5)
        assert session.interrupt()
        free.set()
        assert (await handle.result).outcome == "cancelled"
        events = await journal(session)
        assert [result.outcome for result in finished(events)] == ["not_run"]
        assert note.seen == [] and not any(isinstance(event.body, ToolStarted) for event in events)


class Odd:
    """Hooks that hang, fail or answer with what no storage keeps."""

    def __init__(self, text: str = "", *, hangs: bool = False) -> None:
        self.text = text
        self.hangs = hangs

    @hook
    async def prepare_input(self, batch: Sequence[PreparedInput], session: Session) -> Sequence[PreparedInput]:
        if self.hangs:
            await asyncio.Event().wait()
        return [
            PreparedInput(row=row.row, text=row.text + self.text, content=row.content + self.text, sender="", stamp="")
            for row in batch
        ]

    @hook
    async def prepare_context(self, session: Session) -> list[ContextPart]:
        return [ContextPart(slot="agent", source=f"a{self.text}", text=f"Be {self.text}")]

    @hook
    async def message_received(self, session: SessionInfo, receipt: Receipt) -> None:
        if self.hangs:
            await asyncio.Event().wait()

    @hook
    async def resolve_model(self, name: str, session: Session) -> str | None:
        return f"scripted/{self.text}" if self.text else None


@pytest.mark.parametrize("text", ["\0", "\ud800", "a\udc00b"], ids=["nul", "high", "low"])
async def test_what_hooks_add_does_not_brick_a_session(tmp_path: Path, text: str) -> None:
    """Text that no storage keeps, in input, prompt or a model's name, costs its characters and nothing else."""
    model = ScriptedModel()
    async with running_kernel(tmp_path / "home", model=model, extra={"odd": Odd(text)}) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        for message in ("one", "two"):
            result = await asyncio.wait_for(session.prompt(Incoming(text=message)).result, 5)
            assert result.outcome == "succeeded" and message in result.text
        assert "\ufffd" in model.requests[0].system and not set(text) & {"\0", "\ud800"} & set(model.requests[0].system)
        ends = [event.body.outcome for event in await journal(session) if isinstance(event.body, TurnEnded)]
        assert ends == ["succeeded", "succeeded"]


async def test_hooks_that_hang_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plugin that hangs in `prepare_input` or `message_received` holds a turn up for its budget at most."""
    model = ScriptedModel()
    async with running_kernel(tmp_path / "home", model=model, extra={"odd": Odd(hangs=True)}) as kernel:
        monkeypatch.setattr(kernel.hooks, "budget", 0.1)
        session = await a_session(kernel, tmp_path / "w")
        result = await asyncio.wait_for(session.prompt(Incoming(text="go")).result, 5)
        assert result.text == "echo: go"
        events = await journal(session)
        assert [event.body.text for event in events if isinstance(event.body, InputAdded)] == ["go"]
        assert "context.skipped" in [event.kind for event in events]


async def test_a_cancel_during_a_hanging_hook_is_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn that is cancelled before its input is in the journal begins and ends, and asks no model."""
    model = ScriptedModel()
    async with running_kernel(tmp_path / "home", model=model, extra={"odd": Odd(hangs=True)}) as kernel:
        monkeypatch.setattr(kernel.hooks, "budget", 0.3)
        session = await a_session(kernel, tmp_path / "w")
        handle = session.prompt(Incoming(text="go"))
        await until(session.interrupt)
        assert (await asyncio.wait_for(handle.result, 5)).outcome == "cancelled"
        assert model.requests == []
