"""`halo run`: one message, one answer, in every way that a person or a script calls it."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from halo_kernel.testing.openai_server import ScriptedCall

from .commands import Done, Halo, Running
from .conftest import a_person
from .models import ModelServer, Script
from .trees import QUESTION, Tree, grow

SERVED, LOCAL = "served", "local"


def environment(model: ModelServer, name: str) -> dict[str, str]:
    """Name a model, by which answers tell which kernel asked for them."""
    return {"OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": "sk-e2e-0b1c2d3e4f", "OPENAI_MODEL": name}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, model: ModelServer) -> Iterator[Halo]:
    """A person without a server."""
    yield from a_person(tmp_path_factory.mktemp("alone"), env=environment(model, LOCAL))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, model: ModelServer) -> Iterator[Halo]:
    """A person with a server; the commands' own environment names another model than the server's."""
    for person in a_person(tmp_path_factory.mktemp("served"), env=environment(model, SERVED)):
        person.start("serve", "--port", "0").expect("ready on")
        person.env["OPENAI_MODEL"] = LOCAL
        yield person


@pytest.fixture(params=[SERVED, LOCAL])
def person(request: pytest.FixtureRequest) -> Halo:
    """A person, once with a server and once without."""
    return request.getfixturevalue("served" if request.param == SERVED else "alone")  # type: ignore[no-any-return]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return grow(tmp_path)


@pytest.fixture(autouse=True)
def fresh(model: ModelServer) -> None:
    """No script and no request of another test."""
    model.forget()


def answer(done: Done) -> dict[str, Any]:
    """Return what `--format json` printed."""
    assert done.code == 0, done
    found: dict[str, Any] = json.loads(done.out)
    return found


def questions(model: ModelServer) -> list[str]:
    """Return what the person said in the conversation that the last request carried."""
    messages = model.requests[-1].messages
    return [str(message["content"]) for message in messages if message["role"] == "user"]


def system(model: ModelServer) -> str:
    return str(model.requests[-1].messages[0]["content"])


def test_the_answer_is_the_same_through_a_server_and_without(
    alone: Halo, served: Halo, model: ModelServer, tree: Tree
) -> None:
    """Who runs the turn makes no difference to text, tools and usage; `--local` leaves a running server alone."""
    found = {
        "server": answer(served.run("run", "--new", "--format", "json", "-w", str(tree.path), QUESTION)),
        "beside it": answer(served.run("run", "--new", "--local", "--format", "json", "-w", str(tree.path), QUESTION)),
        "none": answer(alone.run("run", "--new", "--format", "json", "-w", str(tree.path), QUESTION)),
    }
    assert {name: each["usage"]["modelId"] for name, each in found.items()} == {
        "server": f"custom/{SERVED}",
        "beside it": f"custom/{LOCAL}",
        "none": f"custom/{LOCAL}",
    }
    assert len({each["sessionId"] for each in found.values()}) == 3
    assert len({each["text"] for each in found.values()}) == 1
    assert [name for name in tree.names if name.rstrip("/") not in found["server"]["text"]] == []
    for each in found.values():
        assert set(each) == {"text", "sessionId", "toolCalls", "usage", "error"}
        assert [call["name"] for call in each["toolCalls"]] == ["file_list", "file_read"]
        assert all(isinstance(call["durationMs"], int) for call in each["toolCalls"])
        assert {name: each["usage"][name] for name in ("inputTokens", "outputTokens")} == {
            "inputTokens": 30,
            "outputTokens": 15,
        }
        assert each["error"] is None


def test_stdout_is_the_answer_alone(person: Halo, model: ModelServer, tree: Tree) -> None:
    """`-v` tells on stderr what happens; stdout is the same with and without it, and stderr is empty without."""
    plain = person.run("run", "--new", QUESTION, cwd=tree.path)
    told = person.run("run", "--new", "-v", QUESTION, cwd=tree.path)
    assert plain.code == told.code == 0
    assert plain.out == told.out
    assert plain.err == ""
    assert "[tool: file_list]" in told.err and "[done: file_read " in told.err
    assert "[tool:" not in told.out


def test_stdin_is_added_to_the_prompt(served: Halo, model: ModelServer, tree: Tree) -> None:
    """What is piped in stands after the words, or alone; without either there is one sentence."""
    both = served.run("run", "--new", "two", "words", input="and a pipe\n", cwd=tree.path)
    assert both.code == 0
    assert questions(model)[-1].endswith("two words\n\nand a pipe")
    alone = served.run("run", "--new", input="only a pipe", cwd=tree.path)
    assert alone.code == 0
    assert questions(model)[-1].endswith("only a pipe")
    asked = len(model.requests)
    nothing = served.run("run", "--new", cwd=tree.path)
    assert nothing.code == 1
    assert nothing.err.startswith("halo: there is no prompt: ") and nothing.err.count("\n") == 1
    assert len(model.requests) == asked


def test_a_session_is_named_resumed_and_begun(served: Halo, model: ModelServer, tree: Tree) -> None:
    """`-s` makes and resumes exactly that id, `--new` begins one, and without either the newest goes on."""

    def say(text: str, *words: str) -> str:
        done = served.run("run", "--format", "json", *words, text, cwd=tree.path)
        return str(answer(done)["sessionId"])

    assert say("the first", "-s", "my-own.id") == "my-own.id"
    assert say("the second", "-s", "my-own.id") == "my-own.id"
    assert [text.split()[-1] for text in questions(model)] == ["first", "second"]
    begun = say("the third", "--new")
    assert begun.startswith("cli_")
    assert say("the fourth") == begun
    assert [text.split()[-1] for text in questions(model)] == ["third", "fourth"]
    other = say("the fifth", "--new")
    assert other not in (begun, "my-own.id")
    assert say("the sixth") == other
    listed = served.run("sessions", cwd=tree.path)
    assert [line.split()[0] for line in listed.out.splitlines()] == [other, begun, "my-own.id"]
    assert "the fifth" in listed.out and "the third" in listed.out


def test_72_a_session_that_is_new_gets_exactly_that_id(person: Halo, model: ModelServer, tree: Tree) -> None:
    """Statement 72: `-s` with an id that nobody has makes the session under it; one that cannot be an id makes none."""
    names = ("newid", "web_1:of.mine")
    for name in names:
        told = answer(person.run("run", "-s", name, "--format", "json", "speak", cwd=tree.path))
        assert told["sessionId"] == name
    refused = person.run("run", "-s", "new id", "speak", cwd=tree.path)
    assert refused.code == 1 and refused.err.startswith("halo: a session id has ")
    listed = person.run("sessions", cwd=tree.path).out.splitlines()
    assert [line.split("  ")[0] for line in listed] == list(reversed(names))


def test_72_an_error_ends_it_with_1_whatever_was_said_before(person: Halo, model: ModelServer, tree: Tree) -> None:
    """Statement 72: a turn that fails after it has said something prints that and the error, and ends with 1."""
    for words in ((), ("--format", "json")):
        model.say(Script(text="I look around.", calls=(ScriptedCall(name="file_list", arguments={"path": "."}),)))
        model.say(*[Script(status=400, body='{"error": {"message": "no such parameter"}}')] * 2)
        done = person.run("run", "--new", *words, "speak", cwd=tree.path)
        assert done.code == 1
        if words:
            told = json.loads(done.out)
            assert told["text"] == "I look around." and "no such parameter" in told["error"]
        else:
            assert done.out == "I look around.\n"
            assert done.err.startswith("halo: ") and "no such parameter" in done.err
        model.forget()


MARKDOWN = "# Found\n\n* **bold** and `code`\n\n| a | b |\n|---|---|\n| 1 | <2> |\n\n```python\nprint('\\x1b')\n```"


def test_73_what_is_piped_is_the_markdown_of_the_last_answer(person: Halo, model: ModelServer, tree: Tree) -> None:
    """Statement 73: neither what was said before the tools nor any styling is in the output; JSON has the same text."""
    found = []
    for words in ((), ("--format", "json")):
        call = ScriptedCall(name="file_list", arguments={"path": "."})
        model.say(Script(text="I look around.", calls=(call,)), Script(text=MARKDOWN, pieces=7))
        done = person.run("run", "--new", *words, "speak", cwd=tree.path)
        assert done.code == 0, done
        found.append(json.loads(done.out)["text"] if words else done.out.removesuffix("\n"))
    assert found == [MARKDOWN, MARKDOWN]


def test_73_of_merged_turns_the_last_one_s_answer_is_printed(served: Halo, model: ModelServer, tree: Tree) -> None:
    """Statement 73: a turn that gave way to a second message is followed, and both commands print the common answer."""
    call = ScriptedCall(name="file_list", arguments={"path": "."})
    model.say(Script(text="I look around, slowly.", calls=(call,), pieces=5, delay=0.4))
    first = served.start("run", "-s", "merged", "the first", cwd=tree.path)
    while not model.times:
        time.sleep(0.02)
    model.say(*[Script(text="# For both")] * 2)
    second = served.run("run", "-s", "merged", "the second", cwd=tree.path)
    assert (second.code, second.out) == (0, "# For both\n")
    done = first.end()
    assert (done.code, done.out) == (0, "# For both\n")
    assert len(model.requests) == 2
    assert turns(tree, "merged") == ["yielded", "succeeded"]


@pytest.mark.parametrize("stdin", ["", "< /dev/null", "<&-"])
def test_74_without_stdin_and_prompt_it_ends_with_1(person: Halo, model: ModelServer, tree: Tree, stdin: str) -> None:
    """Statement 74: with nothing to say there is one sentence and 1; no model is asked."""
    words = f"'{person.program[-1]}' run {stdin}"
    if stdin:
        done = subprocess.run(words, shell=True, env=person.env, cwd=tree.path, capture_output=True, text=True)
        code, told = done.returncode, done.stdout + done.stderr
    else:
        on_terminal = person.start("run", cwd=tree.path, terminal=True).end()
        code, told = on_terminal.code, on_terminal.out
    assert code == 1
    assert told.startswith("halo: there is no prompt: ") and told.count("\n") == 1
    assert len(model.requests) == 0


def test_a_slow_answer_is_waited_for_in_sight(served: Halo, model: ModelServer, tree: Tree) -> None:
    """On a terminal a line shows after two seconds that the answer is waited for, and goes; a pipe gets none."""
    for terminal in (True, False):
        model.say(Script(text="late", first_delay=3.2))
        done = served.start("run", "--new", "speak", cwd=tree.path, terminal=terminal).end()
        assert done.code == 0
        if terminal:
            shown, _, rest = done.out.rpartition("\r")
            assert "Waiting for the answer; Ctrl-C stops it … 2 s" in shown and rest == "late\n"
        else:
            assert (done.out, done.err) == ("late\n", "")


def test_an_agent_is_chosen(served: Halo, model: ModelServer, tree: Tree) -> None:
    """`-a` names an agent of the workspace, and its prompt reaches the model."""
    folder = tree.path / ".halo" / "agents" / "poet"
    folder.mkdir(parents=True)
    (folder / "agent.yaml").write_text("name: Poet\n")
    (folder / "AGENT.md").write_text("You answer in verse about quinces.\n")
    assert served.run("run", "--new", "-a", "poet", "speak", cwd=tree.path).code == 0
    assert "verse about quinces" in system(model)
    assert served.run("run", "--new", "speak", cwd=tree.path).code == 0
    assert "verse about quinces" not in system(model)


def test_a_directory_is_chosen(served: Halo, model: ModelServer, tree: Tree) -> None:
    """`--dir` says which part of the workspace it is about, also of a session that is there; one outside is refused."""
    part = next(name.rstrip("/") for name in tree.names if name.endswith("/"))
    there = f"Working directory: {tree.path / part}"
    assert served.run("run", "-s", "x", "--dir", part, "speak", cwd=tree.path).code == 0
    assert there in system(model)
    assert served.run("run", "-s", "x", "speak", cwd=tree.path).code == 0
    assert there in system(model)
    assert served.run("run", "-s", "x", "--dir", ".", "speak", cwd=tree.path).code == 0
    assert there not in system(model)
    outside = served.run("run", "-s", "x", "--dir", "..", "speak", cwd=tree.path)
    assert outside.code == 1
    assert "outside the workspace" in outside.err


def hanging(person: Halo, model: ModelServer, tree: Tree) -> Running:
    """Start a run whose model stops in the middle of its answer."""
    model.say(Script(text="I begin and never end", pieces=4, hang_at=3))
    running = person.start("run", "-v", "-s", "hung", "speak", cwd=tree.path)
    running.expect("I begin", on="err")
    return running


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_turn_and_the_command(
    person: Halo, model: ModelServer, tree: Tree, number: signal.Signals, code: int
) -> None:
    """A signal stops the turn, wherever it runs, and ends the command; the session then takes the next message."""
    running = hanging(person, model, tree)
    began = time.monotonic()
    running.signal(number)
    done = running.end()
    assert done.code == code
    assert time.monotonic() - began < 10
    assert done.out == ""
    assert "Traceback" not in done.err
    after = answer(person.run("run", "-s", "hung", "--format", "json", QUESTION, cwd=tree.path))
    assert tree.opening in after["text"]
    assert [text.split()[-1] for text in questions(model)] == ["speak", QUESTION.split()[-1]]
    assert turns(tree, "hung") == ["cancelled", "succeeded"]


def turns(tree: Tree, session: str) -> list[str]:
    """Return how a session's turns ended; the database is only read, by a process that is not Halo's."""
    with closing(sqlite3.connect(f"file:{tree.path}/.halo/halo.db?mode=ro", uri=True)) as database:
        query = "SELECT body FROM events WHERE session = ? AND kind = 'turn.ended' ORDER BY seq"
        return [json.loads(body)["outcome"] for (body,) in database.execute(query, (session,))]


def test_a_second_signal_ends_the_command_at_once(served: Halo, model: ModelServer, tree: Tree) -> None:
    """With a server that does not answer, the second Ctrl-C ends the command without waiting for it."""
    running = hanging(served, model, tree)
    server = json.loads((served.halo_home / "secrets" / "server.json").read_text())["pid"]
    os.kill(server, signal.SIGSTOP)
    try:
        running.signal(signal.SIGINT)
        time.sleep(0.5)
        assert running.process.poll() is None
        running.signal(signal.SIGINT)
        assert running.process.wait(2) == -signal.SIGINT
    finally:
        os.kill(server, signal.SIGCONT)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_an_answer_survives_the_server(model: ModelServer, tree: Tree, tmp_path: Path, number: signal.Signals) -> None:
    """A run whose server dies or is stopped waits for the next one, which goes on with the turn, and has its answer."""
    for person in a_person(tmp_path, env=environment(model, SERVED)):
        first = person.start("serve", "--port", "0")
        first.expect("ready on")
        running = hanging(person, model, tree)
        first.signal(number)
        first.end()
        person.start("serve", "--port", "0").expect("ready on")
        done = running.end(60)
        assert done.code == 0, done
        assert tree.opening in done.out
        assert turns(tree, "hung")[-1] == "succeeded"


def test_a_reader_that_goes_is_no_defect(served: Halo, model: ModelServer, tree: Tree) -> None:
    """A closed pipe behind the command, and a terminal without our letters, make no traceback."""
    words = [*served.program, "run", "--new", "speak", "号"]
    pipe = subprocess.Popen(
        words, env=served.env, cwd=tree.path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert pipe.stdout is not None
    pipe.stdout.close()
    pipe.stdout = None
    assert pipe.communicate(timeout=30)[1] == b""
    assert pipe.returncode == 1
    model.say(Script(text="号 is a letter"))
    plain = subprocess.run(
        words,
        env={**served.env, "PYTHONIOENCODING": "ascii"},
        cwd=tree.path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    assert (plain.returncode, plain.stdout, plain.stderr) == (0, b"\\u53f7 is a letter\n", b"")


def test_a_terminal_obeys_no_answer(served: Halo, model: ModelServer, tree: Tree) -> None:
    """What would move the cursor or turn the writing is written out on a terminal, and stays in a pipe."""
    raw, seen = "\x1b[2Jgone \u202etxt", "\\x1b[2Jgone \\u202etxt"
    model.say(Script(text=raw))
    assert served.run("run", "--new", "speak", cwd=tree.path).out == raw + "\n"
    model.say(Script(text=raw))
    screen = served.start("run", "--new", "-v", "title \x1b[31m", cwd=tree.path, terminal=True)
    screen.press("\x04")
    done = screen.end()
    assert done.code == 0
    assert done.out.count(seen) == 2
    listed = served.start("sessions", cwd=tree.path, terminal=True).end()
    assert "\\x1b[31m" in listed.out
    assert "\x1b" not in done.out + listed.out


def test_a_turn_that_fails_is_told_in_both_formats(person: Halo, model: ModelServer, tree: Tree) -> None:
    """A failed turn ends with 1: its sentence is on stderr as text, and in the object as JSON."""
    model.always(Script(status=400, body='{"error": {"message": "no such parameter"}}'))
    text = person.run("run", "--new", "speak", cwd=tree.path)
    assert (text.code, text.out) == (1, "")
    assert text.err.startswith("halo: ") and "no such parameter" in text.err and text.err.count("\n") == 1
    told = person.run("run", "--new", "--format", "json", "speak", cwd=tree.path)
    assert told.code == 1
    assert "no such parameter" in json.loads(told.out)["error"]


def test_wrong_usage_is_told_with_2(alone: Halo) -> None:
    """An option that does not exist ends with 2 and the usage; an unknown command with 1 and what it may have meant."""
    usage = alone.run("run", "--nonsense", "x")
    assert usage.code == 2 and "usage: halo run" in usage.err
    unknown = alone.run("rum")
    assert unknown.code == 1 and "run" in unknown.err and "`halo --help`" in unknown.err
