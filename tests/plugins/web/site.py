"""A Halo server for the page's tests, run as a process: `site.py HOME PORT FOLDER…`.

Its model does what the message says: `count 40`, `hold 40`, `look`, `fail`, `hang`, `markdown`, `When …`, `buy x` (a
tool asks, with options), `get x` (without), `hurry x` (for two seconds), `wipe x` and `think` (a guard asks), `erase
<session>`; else it echoes. It is shown as built-in rules when there is a file `rules` beside the home; `hold` counts
like `count`, stops in the middle, and goes on when somebody puts a file `go` there.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Iterable, Sequence
from pathlib import Path

from msgspec.structs import replace

from halo_kernel import (
    OPERATOR,
    Account,
    Call,
    Chunk,
    Command,
    CommandResult,
    CommandSpec,
    Host,
    Incoming,
    ModelCall,
    ModelRequest,
    Offer,
    Question,
    Session,
    Stop,
    Text,
    TextDelta,
    ToolResult,
    ToolSpec,
    hook,
)
from halo_kernel.server import run
from halo_kernel.testing import Answer, Calls, Fail, Hang, Pieces, ScriptedModel, SimplePlugin, Step

MARKDOWN = """# Notes

Two kinds of **fruit**, see `fruit.txt` and [the site](https://example.org/a?b=1&c=2):

| name | count |
|---|---|
| apple | 3 |

```python
print("3 < 4")
```

- [x] counted
- <img src=x onerror="document.title='broken'"> <script>document.title='broken'</script>
- [a trap](javascript:document.title='broken') ![far](https://example.org/far.png)
"""


def counted(count: int) -> list[str]:
    """Return the pieces of an answer that counts."""
    return [f"{number} 号🍎 " for number in range(count)]


def respond(request: ModelRequest) -> Step:
    """Do what the last message of the person says; after a tool's result, tell it."""
    last = request.messages[-1].content[-1]
    if isinstance(last, ToolResult):
        return Pieces([f"It begins with `{last.text[:5]}`", ", and that is all."], delay=0.05)
    assert isinstance(last, Text)
    word, _, rest = last.text.splitlines()[-1].partition(" ")
    match word:
        case "count":
            return Pieces(counted(int(rest)), delay=0.04)
        case "look":
            return Calls([("look", {"path": rest or "README.md", "lines": 3})], text="I look.")
        case "buy":
            arguments: dict[str, object] = {"thing": rest, "options": ["cheap", "good"]}
            return Calls([("look", {"path": "README.md"}), ("buy", arguments), ("look", {"path": "README.md"})])
        case "get" | "hurry":
            return Calls([("buy", {"thing": rest, "seconds": 2 if word == "hurry" else 3600})])
        case "wipe" | "erase":
            return Calls([(word, {"what": rest})])
        case "fail":
            return Fail("account", "401: the key is wrong", retry_after=None)
        case "hang":
            return Hang("I begin, ")
        case "When":
            return Answer(
                "The early ones from **July** on:\n\n| apple | ripe |\n|---|---|\n| Julia | July |\n| Gala | August |"
            )
        case "markdown":
            return Answer(MARKDOWN)
        case _:
            return Answer(f"You said: {last.text}")


class Look:
    """Reads a file of the workspace."""

    spec = ToolSpec(
        name="look",
        description="Read a file",
        parameters={
            "type": "object",
            "properties": {"path": {"type": "string"}, "lines": {"type": "integer"}},
            "required": ["path"],
        },
        effect="read",
    )

    async def run(self, call: Call) -> str:
        path = Path(call.session.info.folder, str(call.arguments["path"]))
        return path.read_text()


class Buy:
    """Asks before it does anything."""

    spec = ToolSpec(name="buy", description="Buy a thing", parameters={"type": "object"}, effect="write")

    async def run(self, call: Call) -> str:
        thing, options = call.arguments["thing"], call.arguments.get("options", ())
        if call.answer is None:
            seconds = call.arguments.get("seconds", 3600)
            assert isinstance(seconds, int)
            assert isinstance(options, Sequence)
            call.ask(Question(text=f"Buy {thing}?", options=tuple(options), expires_in=seconds))
        return f"{'Bought' if call.answer.approved else 'Not bought'}: {thing}, {call.answer.text}"


class Wipe:
    """Does nothing, but its guard asks about it, and about a model call that is to think."""

    spec = ToolSpec(name="wipe", description="Wipe a thing", parameters={"type": "object"}, effect="write")

    async def run(self, call: Call) -> str:
        return f"Wiped: {call.arguments['what']}"

    @hook
    async def authorize_tool(self, call: Call) -> Question | None:
        return Question(text=f"May I wipe {call.arguments['what']}?") if call.tool.name == "wipe" else None

    @hook
    async def authorize_model(self, call: ModelCall) -> Question | None:
        return Question(text="May I think?") if call.request.messages[-1].content[-1] == Text("think") else None


class Erase:
    """Erases all of another session of the workspace."""

    spec = ToolSpec(name="erase", description="Erase a session", parameters={"type": "object"}, effect="write")
    host: Host

    async def run(self, call: Call) -> str:
        where, name = call.session.info.workspace, str(call.arguments["what"])
        session = await self.host.sessions.open(name, workspace=where, principal=OPERATOR)
        end = session.info.head
        await self.host.sessions.erase(name, workspace=where, principal=OPERATOR, start=1, end=end)
        return "Erased."

    @hook
    async def runtime_started(self, host: Host) -> None:
        self.host = host


class Go:
    """The command `/go`: without a word it tells two lines, with `new` it goes on in a new session."""

    spec = CommandSpec(name="go", summary="Go.", arguments="[new]")
    host: Host

    async def run(self, verb: str, arguments: str, message: Incoming, session: Session) -> CommandResult:
        if arguments != "new":
            return CommandResult(text="One line\nand <b>another</b>")
        made = await self.host.sessions.create(workspace=session.info.workspace, principal=message.principal)
        return CommandResult(text=f"On to {made.info.id}", session=made.info.id)

    @hook
    async def resolve_command(self, name: str, session: Session) -> Command | None:
        return self if name == "go" else None

    @hook
    async def runtime_started(self, host: Host) -> None:
        self.host = host


class Model(ScriptedModel):
    """The scripted model, shown as one or as built-in rules; `stage` is where tests leave their signs for it."""

    stage = Path()

    async def offers(self) -> Sequence[Offer]:
        found = [replace(offer, label="Scripted 1") for offer in await super().offers()]
        if not (self.stage / "rules").exists():
            return found
        missing = Offer(model="local/llama", ready=False, reason="no server answers at localhost:11434", rank=20)
        return [missing, *(replace(offer, is_model=False, label="") for offer in found)]

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        last = request.messages[-1].content[-1]
        word, _, count = last.text.splitlines()[-1].partition(" ") if isinstance(last, Text) else ("", "", "")
        if word != "hold":
            async for chunk in super().stream(request):
                yield chunk
            return
        pieces = counted(int(count))
        for number, piece in enumerate(pieces):
            # The sign is another process's: there is nothing to be woken by.
            while number == len(pieces) // 2 and not (self.stage / "go").exists():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            yield TextDelta(piece)
        (self.stage / "go").unlink()
        yield Stop("end")


class Folders:
    """Opens the workspaces once the server listens, each with an account of the channel; tokens stay in `tokens`."""

    def __init__(self, folders: Iterable[str], tokens: Path) -> None:
        self._folders = folders
        self._tokens = tokens

    @hook
    async def runtime_started(self, host: Host) -> None:
        known = json.loads(self._tokens.read_text()) if self._tokens.exists() else {}
        for folder in self._folders:
            name = Path(folder).name
            if name not in known:
                await host.accounts.put(Account(type="web", id=name, workspace=folder, access="workspace"))
                known[name] = await host.accounts.issue_token("web", name)
                self._tokens.write_text(json.dumps(known))
            await host.workspaces.open(folder)


def main(home: str, port: str, *folders: str) -> int:
    model = Model(responder=respond)
    model.stage = Path(home).parent
    wipe, erase = Wipe(), Erase()
    test = SimplePlugin(model, [Look(), Buy(), wipe, erase])
    extra = {
        "test": test,
        "folders": Folders(folders, Path(home).parent / "tokens.json"),
        "guard": wipe,
        "eraser": erase,
        "go": Go(),
    }
    return run(Path(home), port=int(port), only=["web"], extra=extra, strict=True)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
