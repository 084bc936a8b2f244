"""The contract suites: a good tool and a good provider pass, and each rule that a bad one breaks is named."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest

from halo_kernel import (
    BadInput,
    Call,
    Chunk,
    ModelError,
    ModelErrorKind,
    ModelProvider,
    ModelRequest,
    Offer,
    Stop,
    TextDelta,
    Tool,
    ToolCall,
    ToolSpec,
    Usage,
    hook,
)
from halo_kernel.testing import ModelContract, ToolContract, Workbench


class Arguments(msgspec.Struct, forbid_unknown_fields=True):
    text: str
    times: Annotated[int, msgspec.Meta(ge=1)] = 1


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "times": {"type": "integer", "minimum": 1}},
    "required": ["text"],
    "additionalProperties": False,
}


class Note:
    """A good tool: appends to a file, or waits when it is told to."""

    effect: Any = "write"
    replay_safe = False
    schema: Any = SCHEMA
    description = "Write a note down."

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(
            name="note",
            description=self.description,
            parameters=self.schema,
            effect=self.effect,
            replay_safe=self.replay_safe,
        )

    def check(self, call: Call) -> Arguments:
        try:
            return msgspec.convert(dict(call.arguments), Arguments)
        except msgspec.ValidationError as error:
            raise BadInput(str(error)) from error

    async def run(self, call: Call) -> str:
        arguments = self.check(call)
        if arguments.text == "wait":
            await self.wait(call)
            return "stopped"
        with (Path(call.session.info.folder) / "notes").open("a") as file:
            file.write(arguments.text)
        return f"noted {arguments.text}"

    async def wait(self, call: Call) -> None:
        await asyncio.wait_for(call.cancel.wait(), 20)


class Toolbox:
    def __init__(self, tool: Tool) -> None:
        self.tool = tool

    @hook
    def provide_tools(self) -> Sequence[Tool]:
        return [self.tool]


class NoteContract(ToolContract):
    tool_name = "note"
    good = {"text": "milk"}
    bad = ({"text": "milk", "times": 0},)
    slow = {"text": "wait"}


class TestNote(NoteContract):
    @pytest.fixture
    def halo_plugins(self) -> Iterable[object]:
        return [Toolbox(Note())]


async def broken(halo: Workbench, tool: Tool, test: str) -> str:
    """Run one test of the contract on a tool and return why it fails."""
    await halo.start(plugins=[Toolbox(tool)])
    with pytest.raises(AssertionError) as caught:
        await getattr(NoteContract(), test)(halo)
    return str(caught.value)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"properties": {}}, 'parameters need "type": "object" at the top'),
        ({"type": "object", "properties": []}, "properties must be an object"),
        ({"type": "object", "properties": {"text": "words"}}, "something else describes text"),
        ({"type": "object", "required": ["text"]}, "requires text, which properties does not describe"),
    ],
)
async def test_a_schema_that_is_none_is_told(halo: Workbench, schema: dict[str, Any], message: str) -> None:
    """Parameters that are no JSON Schema object are told."""

    class Odd(Note):
        pass

    Odd.schema = schema
    assert message in await broken(halo, Odd(), "test_its_description_tells_a_model_what_it_takes")


async def test_a_tool_without_a_description_is_told(halo: Workbench) -> None:
    """A model has to be told what a tool is for."""

    class Silent(Note):
        description = " "

    assert "note has no description" in await broken(halo, Silent(), "test_its_description_tells_a_model_what_it_takes")


async def test_a_tool_that_is_not_offered_is_told(halo: Workbench) -> None:
    """A tool of another name is not there, and the error names those that are."""
    contract = NoteContract()
    contract.tool_name = "notes"
    await halo.start(plugins=[Toolbox(Note())])
    with pytest.raises(AssertionError, match="the session has no tool notes; it has: note"):
        await contract.test_a_good_call_gives_text(halo)


async def test_a_good_call_that_fails_is_told(halo: Workbench) -> None:
    """A call that should succeed is shown with the error."""

    class Wrong(Note):
        async def run(self, call: Call) -> str:
            raise BadInput("there is no paper")

    assert "there is no paper" in await broken(halo, Wrong(), "test_a_good_call_gives_text")


async def test_a_tool_that_takes_anything_is_told(halo: Workbench) -> None:
    """Bad arguments that are accepted, refused without their name, or met by an unforeseen exception, are told."""

    class Careless(Note):
        def check(self, call: Call) -> Arguments:
            return Arguments(text=str(call.arguments.get("text")))

    class Vague(Note):
        def check(self, call: Call) -> Arguments:
            raise BadInput("no.")

    class Clumsy(Note):
        def check(self, call: Call) -> Arguments:
            return Arguments(text=call.arguments["text"] + 1)  # type: ignore[operator]

    class Eager(Note):
        async def run(self, call: Call) -> str:
            (Path(call.session.info.folder) / "log").touch()
            return await super().run(call)

    test = "test_bad_arguments_give_one_clear_error"
    assert "must be refused, and ended ok" in await broken(halo, Careless(), test)
    assert "must name the argument text: Error: no." in await broken(halo, Vague(), test)
    assert "raised what nobody expected; raise BadInput" in await broken(halo, Clumsy(), test)
    assert "was refused and changed the workspace" in await broken(halo, Eager(), test)


async def test_a_tool_that_is_deaf_is_told(halo: Workbench) -> None:
    """A call that does not listen to its cancel is told, with how long it went on."""

    class Deaf(Note):
        async def wait(self, call: Call) -> None:
            await asyncio.sleep(20)

    assert "note went on for 2." in await broken(halo, Deaf(), "test_it_stops_when_asked")


@pytest.mark.halo_may_block
async def test_a_tool_that_blocks_is_told(halo: Workbench) -> None:
    """A step that blocks the loop is told by its line."""

    class Rude(Note):
        def check(self, call: Call) -> Arguments:
            time.sleep(0.5)
            return super().check(call)

    assert "in check: time.sleep(0.5)" in (await broken(halo, Rude(), "test_it_does_not_block_the_loop")).replace(
        "test_a_tool_that_blocks_is_told.<locals>.Rude.", ""
    )


async def test_a_wrong_promise_is_told(halo: Workbench) -> None:
    """A tool that says `read` or `replay_safe` and writes is told."""

    class Reader(Note):
        effect = "read"

    class Safe(Note):
        replay_safe = True

    said = await broken(halo, Reader(), "test_a_reader_changes_nothing")
    assert "says that it only reads, and changed the workspace" in said
    said = await broken(halo, Safe(), "test_what_is_replay_safe_can_be_repeated")
    assert "changes the workspace again" in said


# models


class Fake:
    """A good provider; `next` is what the next answer does instead."""

    name = "fake"

    def __init__(self) -> None:
        self.next: list[str] = []

    async def offers(self) -> Sequence[Offer]:
        return [Offer(model="fake/one", ready=True, reason="it is a test")]

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        fault = self.next.pop() if self.next else ""
        if fault == "hang":
            await asyncio.sleep(600)
        if fault:
            raise self.failure(fault)
        for chunk in self.chunks():
            yield chunk

    def failure(self, fault: Any) -> Exception:
        return ModelError("scripted", kind=fault)

    def chunks(self) -> Iterable[Chunk]:
        return [TextDelta("hello"), Usage(input=1), Stop("end")]

    async def close(self) -> None: ...


class Providing:
    def __init__(self, provider: ModelProvider) -> None:
        self.provider = provider

    @hook
    def provide_models(self) -> Sequence[ModelProvider]:
        return [self.provider]


class FakeContract(ModelContract):
    provider_name = "fake"
    faults: Sequence[ModelErrorKind] = ("throttle", "overflow")
    can_hang = True
    fake = Fake()

    def fail_next(self, kind: ModelErrorKind) -> None:
        self.fake.next.append(kind)

    def hang_next(self) -> None:
        self.fake.next.append("hang")


class TestFake(FakeContract):
    @pytest.fixture
    def halo_plugins(self) -> Iterable[object]:
        self.fake = Fake()
        return [Providing(self.fake)]


async def refused(tmp_path: Path, fake: Fake, test: str) -> str:
    """Run one test of the contract on a provider and return why it fails."""
    contract = FakeContract()
    contract.fake = fake
    bench = Workbench(tmp_path, plugins=[Providing(fake)])
    try:
        with pytest.raises(AssertionError) as caught:
            await getattr(contract, test)({}, bench)
    finally:
        await bench.close()
    return str(caught.value)


@pytest.mark.parametrize(
    ("chunks", "message"),
    [
        ([TextDelta("a"), Usage()], "an answer has one Stop, and this one 0"),
        ([TextDelta("a"), Stop("end"), Stop("end")], "an answer has one Stop, and this one 2"),
        ([TextDelta("a"), Stop("end"), Usage()], "the Stop comes last"),
        ([TextDelta("a"), Usage(), Usage(), Stop("end")], "usage is told once"),
        ([TextDelta(" "), Stop("end")], "neither text nor a tool call"),
        (["a", Stop("end")], "these are no chunks: ['a']"),
        ([ToolCall("c", "read", {}), Stop("end")], "1 tool calls and the stop 'end'"),
        ([TextDelta("a"), Stop("tools")], "0 tool calls and the stop 'tools'"),
        ([ToolCall("c", "read", {}), ToolCall("c", "read", {}), Stop("tools")], "two tool calls have one id"),
    ],
)
async def test_an_answer_that_is_not_whole_is_told(tmp_path: Path, chunks: Any, message: str) -> None:
    """Each rule of a stream that is broken is told."""

    class Odd(Fake):
        def chunks(self) -> Iterable[Chunk]:
            return chunks

    assert message in await refused(tmp_path, Odd(), "test_an_answer_is_whole")


@pytest.mark.parametrize(
    ("offers", "message"),
    [
        ([], "fake offers nothing"),
        (["fake/one"], "'fake/one' is no Offer"),
        ([Offer(model="one", ready=True, reason="r")], "one does not begin with fake/"),
        ([Offer(model="fake/one", ready=False, reason="")], "fake/one gives no reason why it is not ready"),
        ([Offer(model="fake/one", ready=True, reason="r")] * 2, "fake offers a model twice"),
    ],
)
async def test_offers_that_are_not_honest_are_told(tmp_path: Path, offers: Any, message: str) -> None:
    """Each rule of offers that is broken is told."""

    class Odd(Fake):
        async def offers(self) -> Sequence[Offer]:
            found: Sequence[Offer] = offers
            return found

    assert message in await refused(tmp_path, Odd(), "test_offers_are_quick_and_honest")


async def test_slow_offers_are_told(tmp_path: Path) -> None:
    """Offers that take over two seconds are told."""

    class Slow(Fake):
        async def offers(self) -> Sequence[Offer]:
            await asyncio.sleep(20)
            return await super().offers()

    assert "offers() took longer than 2 s" in await refused(tmp_path, Slow(), "test_offers_are_quick_and_honest")


async def test_failures_of_another_kind_are_told(tmp_path: Path) -> None:
    """A fault under another kind, under another type, or passed over in silence, is told."""

    class Wrong(Fake):
        def failure(self, fault: Any) -> Exception:
            return ModelError("scripted", kind="server")

    class Raw(Fake):
        def failure(self, fault: Any) -> Exception:
            return ConnectionError("reset")

    class Silent(Fake):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
            for chunk in self.chunks():
                yield chunk

    test = "test_failures_have_their_kind"
    assert "throttle was raised as server: scripted" in await refused(tmp_path / "a", Wrong(), test)
    assert "throttle was raised as ConnectionError('reset'), not as a ModelError" in await refused(
        tmp_path / "b", Raw(), test
    )
    assert "throttle was answered as if nothing had happened" in await refused(tmp_path / "c", Silent(), test)


async def test_a_provider_that_holds_on_is_told(tmp_path: Path) -> None:
    """A call that ignores its cancel, hides it, or leaves a task behind, is told."""
    left: list[asyncio.Task[None]] = []

    class Deaf(Fake):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
            try:
                async for chunk in super().stream(request):
                    yield chunk
            except asyncio.CancelledError:
                await asyncio.sleep(1.5)
                raise

    class Hiding(Fake):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
            try:
                async for chunk in super().stream(request):
                    yield chunk
            except asyncio.CancelledError as error:
                raise ModelError("cut", kind="network") from error

    class Leaking(Fake):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
            left.append(asyncio.create_task(asyncio.sleep(600), name="reader"))
            async for chunk in super().stream(request):
                yield chunk

    test = "test_a_cancelled_call_lets_go"
    assert "the call ignored its cancel for 1 s" in await refused(tmp_path / "a", Deaf(), test)
    assert "the call turned its cancel into ModelError('cut')" in await refused(tmp_path / "b", Hiding(), test)
    assert "the cancelled call left behind: task 'reader'" in await refused(tmp_path / "c", Leaking(), test)
    for task in left:
        task.cancel()
