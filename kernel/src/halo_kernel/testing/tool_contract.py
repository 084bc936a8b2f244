"""What every tool has to hold to, as tests that a plugin's own tests inherit."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from ..records import Access, Incoming, ToolFinished, ToolSpec, ToolStarted
from ..sessions import Session
from .blocking import LoopWatch
from .model import Answer, Calls
from .sessions import journal
from .workbench import Workbench

_UNEXPECTED = re.compile(r"Error: [A-Z]\w*(Error|Exception)\b")
_WRONG: Mapping[object, object] = {"integer": "many", "number": "many", "boolean": "perhaps", "array": 5, "object": 5}
_START_SECONDS = 10.0


class ToolContract:
    """Tests for one tool, called by a model in a session of a real kernel.

    A subclass names the tool and gives a call that succeeds; the plugin comes from the fixture `halo_plugins`::

        class TestNote(ToolContract):
            tool_name = "note"
            good = {"text": "milk"}

    `bad` are further arguments that the tool refuses, beside those that its schema tells. `slow` are arguments of a
    call that takes over ten seconds, for a tool that has such calls. `access` is the session's level. `grace` is how
    long the kernel waits, in seconds, before it cancels a call that was asked to stop. `prepare` lays out the
    workspace. A tool that is `replay_safe` is called twice with `good`, as two calls: one that is idempotent by its
    call's id alone, or reports what has changed since, is not.
    """

    tool_name: str
    good: Mapping[str, object] = {}
    bad: Sequence[Mapping[str, object]] = ()
    slow: Mapping[str, object] | None = None
    access: Access = "full"
    grace: float = 2.0

    def prepare(self, folder: Path) -> None:
        """Lay out what the calls need in the workspace's folder."""

    async def opened(self, halo: Workbench) -> Session:
        """Return a session in a workspace that is prepared."""
        self.prepare(halo.folder)
        return await halo.session(access=self.access)

    async def call(self, halo: Workbench, session: Session, arguments: Mapping[str, object]) -> ToolFinished:
        """Have the model make one call and return its result."""
        halo.model.then(Calls([(self.tool_name, dict(arguments))]), Answer("done"))
        result = await halo.ask("go on", session=session)
        assert result.outcome == "succeeded", f"the turn {result.outcome}: {result.error}"
        bodies = [event.body for event in await journal(session)]
        return [body for body in bodies if isinstance(body, ToolFinished)][-1]

    async def spec(self, halo: Workbench, session: Session) -> ToolSpec:
        """Return the tool as a model sees it."""
        await halo.ask("what is there?", session=session)
        tools = {tool.name: tool for tool in halo.model.requests[-1].tools}
        names = ", ".join(tools) or "none"
        assert self.tool_name in tools, f"the session has no tool {self.tool_name}; it has: {names} (see the log)"
        return tools[self.tool_name]

    @pytest.mark.asyncio
    async def test_its_description_tells_a_model_what_it_takes(self, halo: Workbench) -> None:
        """It has a description, and its parameters are a JSON Schema object that lists all it requires."""
        spec = await self.spec(halo, await self.opened(halo))
        assert spec.description.strip(), f"{spec.name} has no description"
        assert spec.parameters.get("type") == "object", f'{spec.name}: parameters need "type": "object" at the top'
        properties: Any = spec.parameters.get("properties", {})
        assert isinstance(properties, dict), f"{spec.name}: properties must be an object, not {properties!r}"
        described = cast("dict[str, Any]", properties)
        odd = [name for name, schema in described.items() if not isinstance(schema, dict)]
        assert not odd, f"{spec.name}: no schema, but something else describes {', '.join(odd)}"
        missing = set(_required(spec)) - set(described)
        assert not missing, f"{spec.name} requires {', '.join(sorted(missing))}, which properties does not describe"
        msgspec.json.encode(spec.parameters)

    @pytest.mark.asyncio
    async def test_a_good_call_gives_text(self, halo: Workbench) -> None:
        """The call `good` succeeds and tells the model something."""
        session = await self.opened(halo)
        await self.spec(halo, session)
        done = await self.call(halo, session, self.good)
        assert done.outcome == "ok", f"{self.tool_name}({self.good}) ended {done.outcome}: {done.text}"
        assert done.text.strip(), f"{self.tool_name}({self.good}) answered with nothing: say at least that it is done"

    @pytest.mark.asyncio
    async def test_bad_arguments_give_one_clear_error(self, halo: Workbench) -> None:
        """Arguments that break a rule give an error that names the argument, and change nothing."""
        session = await self.opened(halo)
        before = _tree(halo.folder)
        told = [*_refused(await self.spec(halo, session), self.good), *((each, "") for each in self.bad)]
        for arguments, name in told:
            done = await self.call(halo, session, arguments)
            what = f"{self.tool_name}({arguments})"
            assert done.outcome == "error", f"{what} must be refused, and ended {done.outcome}: {done.text}"
            assert not _UNEXPECTED.match(done.text), f"{what} raised what nobody expected; raise BadInput: {done.text}"
            assert name in done.text, f"{what} must name the argument {name}: {done.text}"
            assert _tree(halo.folder) == before, f"{what} was refused and changed the workspace all the same"

    @pytest.mark.asyncio
    async def test_it_stops_when_asked(self, halo: Workbench) -> None:
        """A long call ends by itself soon after `call.cancel`, before the kernel cancels its task."""
        if self.slow is None:
            pytest.skip("no call of it takes long: `slow` is not set")
        session = await self.opened(halo)
        halo.model.then(Calls([(self.tool_name, dict(self.slow))]), Answer("done"))
        prompt = session.prompt(Incoming(text="go on"))
        await self._started(session)
        loop = asyncio.get_running_loop()
        asked = loop.time()
        assert session.interrupt(), f"{self.tool_name}({self.slow}) had ended already: give arguments that take longer"
        await asyncio.wait_for(asyncio.shield(prompt.result), self.grace + _START_SECONDS)
        took = loop.time() - asked
        assert took < self.grace, f"{self.tool_name} went on for {took:.1f} s: await call.cancel.wait() beside the work"

    async def _started(self, session: Session) -> None:
        async with asyncio.timeout(_START_SECONDS), aclosing(session.events(live=True)) as updates:
            async for update in updates:
                if update.event and isinstance(update.event.body, ToolStarted):
                    break
        await asyncio.sleep(0.3)  # into the middle of it

    @pytest.mark.asyncio
    async def test_it_does_not_block_the_loop(self, halo: Workbench) -> None:
        """While it works, others run: no step of it takes longer than a quarter of a second."""
        session = await self.opened(halo)
        with LoopWatch() as watch:
            await self.call(halo, session, self.good)
        assert not watch.blocks, "\n".join(map(str, watch.blocks))

    @pytest.mark.asyncio
    async def test_a_reader_changes_nothing(self, halo: Workbench) -> None:
        """A tool of effect `read` leaves the workspace as it was."""
        session = await self.opened(halo)
        spec = await self.spec(halo, session)
        if spec.effect != "read":
            pytest.skip(f"its effect is {spec.effect}")
        before = _tree(halo.folder)
        await self.call(halo, session, self.good)
        assert _tree(halo.folder) == before, f"{spec.name} says that it only reads, and changed the workspace"

    @pytest.mark.asyncio
    async def test_what_is_replay_safe_can_be_repeated(self, halo: Workbench) -> None:
        """One that is `replay_safe` tells the same at a second call with the same arguments, which changes nothing."""
        session = await self.opened(halo)
        spec = await self.spec(halo, session)
        if not spec.replay_safe:
            pytest.skip("it does not say that it is")
        first = await self.call(halo, session, self.good)
        between = _tree(halo.folder)
        second = await self.call(halo, session, self.good)
        assert (second.outcome, second.text) == (first.outcome, first.text), (
            f"{spec.name} is replay_safe, and a second call with the same arguments tells another thing: "
            f"{second.text!r}, not {first.text!r}"
        )
        assert _tree(halo.folder) == between, f"{spec.name} changes the workspace again when it is repeated"


def _required(spec: ToolSpec) -> list[str]:
    names: Any = spec.parameters.get("required", [])
    return list(names)


def _refused(spec: ToolSpec, good: Mapping[str, object]) -> Iterator[tuple[dict[str, object], str]]:
    """Yield arguments that the schema does not allow, each with the name that the error has to mention."""
    for name in _required(spec):
        yield {each: value for each, value in good.items() if each != name}, name
    properties: Any = spec.parameters.get("properties", {})
    for name, schema in properties.items():
        if schema.get("type") in ("string", *_WRONG):
            yield {**good, name: _WRONG.get(schema["type"], {"no": "text"})}, name
    if spec.parameters.get("additionalProperties") is False:
        yield {**good, "no_such_argument": 1}, "no_such_argument"


def _tree(folder: Path) -> dict[str, str]:
    """Return what is in a workspace: every file's digest and every folder, the kernel's own left out."""
    found: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        if ".halo" not in path.relative_to(folder).parts:
            is_file = path.is_file() and not path.is_symlink()
            found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest() if is_file else ""
    return found
