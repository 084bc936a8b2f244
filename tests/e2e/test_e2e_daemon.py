"""`halo up -d`: a server in the background, and the supervisor that starts it again after a crash."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from logging import INFO, LogRecord
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

import pytest

from halo_lib_client import Client

from .commands import Done, Halo
from .conftest import a_person
from .models import ModelServer, Script
from .test_e2e_run import SERVED, environment, turns
from .trees import QUESTION, Tree, grow
from .visitors import Visitor


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return grow(tmp_path)


@pytest.fixture
def person(tmp_path: Path, model: ModelServer) -> Iterator[Halo]:
    """A person with a model."""
    model.forget()
    yield from a_person(tmp_path, env=environment(model, SERVED))


def up(person: Halo, tree: Tree, *words: str) -> Done:
    """Start a server in the background, on any free port."""
    done = person.run("up", "-d", "--no-browser", "--port", "0", "-w", str(tree.path), *words)
    assert (done.code, done.err) == (0, ""), done
    return done


def server(person: Halo) -> dict[str, Any]:
    """Return what the server has written down about itself."""
    found: dict[str, Any] = json.loads((person.halo_home / "secrets" / "server.json").read_text())
    return found


def supervisor(person: Halo) -> dict[str, Any]:
    """Return what the supervisor has written down about itself."""
    found: dict[str, Any] = json.loads((person.halo_home / "global" / "supervisor.json").read_text())
    return found


def wait_for(what: Callable[[], bool], seconds: float = 30) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def crash(person: Halo) -> dict[str, Any]:
    """Kill the server as the system does when memory runs out, and return the next one."""
    before = server(person)["pid"]
    os.kill(before, signal.SIGKILL)
    presence = person.halo_home / "secrets" / "server.json"
    wait_for(lambda: presence.exists() and server(person)["pid"] != before)
    return server(person)


def crash_to_a_pause(person: Halo) -> int:
    """Crash so often that the supervisor waits for a while; return the last server's process id."""
    for _ in range(3):
        crash(person)
    os.kill(last := int(server(person)["pid"]), signal.SIGKILL)
    wait_for(lambda: bool(supervisor(person)["next_start"]))
    return last


def log_of(person: Halo) -> str:
    path = person.halo_home / "global" / "logs" / "server.log"
    return path.read_text() if path.exists() else ""


def test_a_server_that_is_killed_comes_back_and_answers_what_was_cut_once(
    person: Halo, model: ModelServer, tree: Tree
) -> None:
    """After `kill -9` a new server has the port of the first, though that was any, and ends the turn that was cut."""
    up(person, tree)
    first, keeper = server(person), supervisor(person)["pid"]
    model.say(Script(text="I begin and never end", pieces=4, hang_at=3))
    asking = person.start("run", "-v", "-s", "cut", QUESTION, cwd=tree.path)
    asking.expect("I begin", on="err")
    second = crash(person)
    done = asking.end()
    assert done.code == 0, done
    assert tree.opening in done.out
    assert turns(tree, "cut") == ["interrupted", "succeeded"]
    assert second["url"] == first["url"]
    shown = [message for message in model.requests[-1].messages if message["role"] == "user"]
    assert sum(QUESTION in str(message["content"]) for message in shown) == 1
    status = person.run("status")
    assert status.code == 0
    assert f"supervisor (pid {keeper})" in status.out and f"pid {second['pid']}" in status.out
    assert f"once, the last time because the server (pid {first['pid']}) was killed by SIGKILL." in status.out
    assert f"[respawn] the server (pid {first['pid']}) was killed by SIGKILL; it is started again" in log_of(person)
    assert person.run("stop").code == 0
    assert person.gone(1)


def ask_to_stop(person: Halo) -> None:
    Client(person.halo_home).post("/api/server/stop")


@pytest.mark.parametrize(
    "stop",
    [
        pytest.param(lambda person: os.kill(server(person)["pid"], signal.SIGTERM), id="SIGTERM"),
        pytest.param(lambda person: os.kill(server(person)["pid"], signal.SIGINT), id="SIGINT"),
        pytest.param(ask_to_stop, id="a request"),
        pytest.param(lambda person: os.kill(supervisor(person)["pid"], signal.SIGTERM), id="SIGTERM to the supervisor"),
        pytest.param(lambda person: os.kill(supervisor(person)["pid"], signal.SIGINT), id="SIGINT to the supervisor"),
    ],
)
def test_75_a_server_that_was_told_to_stop_is_not_started_again(
    person: Halo, tree: Tree, stop: Callable[[Halo], None]
) -> None:
    """Statement 75: after SIGTERM, SIGINT or an exit with 0 the supervisor ends, too; to stop it stops its server."""
    up(person, tree)
    stop(person)
    assert person.gone()
    assert not (person.halo_home / "secrets" / "server.json").exists()
    assert not (person.halo_home / "global" / "supervisor.json").exists()
    status = person.run("status")
    assert (status.code, status.out) == (1, "") and "Start one with `halo up`" in status.err


def test_75_a_stop_marker_outweighs_how_the_server_ended(person: Halo, tree: Tree) -> None:
    """Statement 75: a deaf server that `halo stop --force` kills, which says what it does, is not started again."""
    up(person, tree)
    os.kill(server(person)["pid"], signal.SIGSTOP)
    stopped = person.start("stop", "--force", terminal=True).end()
    assert stopped.code == 0
    assert "\rStopping the server … 2 s\r" in stopped.out and stopped.out.endswith("\rKilled.\n")
    assert person.gone(1)
    assert list((person.halo_home / "global").glob("*.stop")) == []
    assert "[respawn]" not in log_of(person)  # nobody thought of another start


def test_75_a_stop_between_two_starts_is_obeyed(person: Halo, tree: Tree) -> None:
    """Statement 75: the marker is looked at again after the pause; `halo status` shows the pause."""
    up(person, tree)
    last = crash_to_a_pause(person)
    waits = person.run("status")
    assert waits.code == 1 and re.search(r"Its supervisor \(pid \d+\) starts it again in \d s: the server", waits.err)
    stopped = person.run("stop")
    assert (stopped.code, stopped.out) == (0, "Stopped.\n")
    assert person.gone(1)
    assert server(person)["pid"] == last  # else another one would have removed this


def test_a_supervisor_leaves_the_home_to_another_server(person: Halo, tree: Tree) -> None:
    """When somebody starts a server by hand while the supervisor waits, that one is left alone."""
    up(person, tree)
    crash_to_a_pause(person)
    other = person.start("serve", "--port", "0")
    other.expect("ready on")
    wait_for(lambda: person.processes() == [other.process.pid])
    assert "another server serves this home now" in log_of(person)
    status = person.run("status")
    assert status.code == 0 and "supervisor" not in status.out


def test_75_it_gives_up_after_five_restarts(person: Halo, tree: Tree) -> None:
    """Statement 75: five restarts in five minutes are the last; log and status say so and why; a new start helps."""
    up(person, tree)
    settings = person.halo_home / "secrets" / "settings.yaml"
    kept = settings.read_text() if settings.exists() else None
    settings.write_text("agent:\n  max_steps: many\n")
    os.kill(server(person)["pid"], signal.SIGKILL)
    assert person.gone(60)
    status = person.run("status")
    assert (status.code, status.out) == (1, "")
    assert "Its supervisor gave up at " in status.err and "after 5 restarts" in status.err
    assert f"{settings}:2: " in status.err and "`halo up -d`" in status.err
    lines = person.run("logs").out.splitlines()
    assert [" is started again in " in line for line in lines] == [True] * 5 + [False]
    assert "after 5 restarts in 5 minutes it is not started again" in lines[-1] and f"{settings}:2: " in lines[-1]
    settings.write_text(kept) if kept is not None else settings.unlink()
    up(person, tree)
    assert "A supervisor" in person.run("status").out


def test_a_server_outlives_its_supervisor(person: Halo, tree: Tree) -> None:
    """After `kill -9` of the supervisor the server answers on, `status` says so, and `halo stop` ends it."""
    up(person, tree)
    os.kill(supervisor(person)["pid"], signal.SIGKILL)
    wait_for(lambda: len(person.processes()) == 1)
    status = person.run("status")
    assert status.code == 0 and "Its supervisor has ended" in status.out
    assert person.run("run", "speak", cwd=tree.path).code == 0
    stopped = person.run("stop")
    assert (stopped.code, stopped.out) == (0, "Stopped.\n")
    assert person.gone(1)
    assert "Start one with `halo up`" in person.run("status").err


def test_a_second_up_finds_the_first(person: Halo, tree: Tree) -> None:
    """However often it is started, at once or later, there is one server and one supervisor, and all are told of it."""
    words = ("up", "-d", "--no-browser", "--port", "0", "-w", str(tree.path))
    ends = [started.end(60) for started in [person.start(*words) for _ in range(3)]]
    ends.append(person.run(*words))
    url = server(person)["url"]
    for done in ends:
        assert (done.code, done.err) == (0, "") and url in done.out
    assert "runs already at" in ends[-1].out
    assert len(person.processes()) == 2
    os.kill(server(person)["pid"], signal.SIGKILL)
    late = person.run(*words)  # while it is started again
    assert late.code == 0 and f"runs already at {url}" in late.out
    assert len(person.processes()) == 2


def test_it_outlives_the_terminal(person: Halo, tree: Tree) -> None:
    """Closing the terminal, and SIGHUP itself, end neither; nothing of theirs is a child or a terminal's."""
    started = person.start("up", "-d", "--no-browser", "--port", "0", "-w", str(tree.path), terminal=True)
    assert started.end().code == 0
    started.close()
    keeper, pid = supervisor(person)["pid"], server(person)["pid"]
    os.kill(keeper, signal.SIGHUP)
    time.sleep(0.5)
    assert person.run("status").code == 0
    assert sorted(person.processes()) == sorted([keeper, pid])
    fields = Path(f"/proc/{keeper}/stat").read_text().rpartition(")")[2].split()
    parent, session, terminal = int(fields[1]), int(fields[3]), int(fields[4])
    assert (parent != os.getpid(), session != keeper, terminal) == (True, True, 0)


def test_ctrl_c_while_it_starts_leaves_nothing(person: Halo, tree: Tree) -> None:
    """Whoever changes their mind gets 130, and neither server nor supervisor stays."""
    starting = person.start("up", "-d", "--no-browser", "--port", "0", "-w", str(tree.path), terminal=True)
    wait_for(lambda: len(person.processes()) >= 2)
    starting.press("\x03")
    done = starting.end()
    assert done.code == 130 and "Traceback" not in done.out
    assert person.gone(1)


@pytest.mark.parametrize("words", [["up", "-d"], ["up"]], ids=" ".join)
def test_no_module_of_a_workspace_is_run(person: Halo, tree: Tree, words: list[str]) -> None:
    """A workspace is anybody's folder: a file in it that is called like a module of ours is not imported."""
    for name in ("json.py", "halo_kernel.py", "halo_cli.py", "types.py"):
        (tree.path / name).write_text("raise SystemExit('a file of the workspace was run')\n")
    started = person.start(*words, "--no-browser", "--port", "0", cwd=tree.path)
    started.expect(r"Ctrl-C to stop\.|`halo stop` stops it\.")
    assert person.run("status", cwd=tree.path).code == 0
    assert person.run("stop", cwd=tree.path).code == 0


def test_the_link_is_one_that_other_machines_can_follow(person: Halo, tree: Tree) -> None:
    """A server that listens for others is shown by the address that they can type."""
    person.env["HALO_PASSWORD"] = "a pass from outside 1"
    done = up(person, tree, "--host", "0.0.0.0")
    address = server(person)["address"]
    assert address.startswith("http://") and "0.0.0.0" not in address
    assert f"Halo runs at {address} " in done.out
    link = re.search(rf"{re.escape(address)}/auth/link\?token=\S+", done.out)
    assert link is not None
    assert Visitor(link[0]).get("/api/server")["pid"] == server(person)["pid"]


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_harm_no_command(person: Halo, tree: Tree, closed: str) -> None:
    """Whatever standard stream is closed, every command does its work, ends with 0 and shows no traceback."""
    up_again = "up -d --no-browser --port 0"
    for words in (up_again, "--version", "status", "run speak", "sessions", "init .", "logs -n 0", "stop", up_again):
        if words.startswith("logs"):
            (person.halo_home / "global" / "logs" / "server.log").touch()
        done = subprocess.run(
            f"'{person.program[-1]}' {words} {closed}",
            shell=True,
            env=person.env,
            cwd=tree.path,
            capture_output=True,
            text=True,
        )
        assert (words, done.returncode, "Traceback" in done.stdout + done.stderr) == (words, 0, False), done
    assert len(person.processes()) == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_an_answer_that_cannot_be_written_is_an_error(person: Halo, tree: Tree) -> None:
    """An output that takes nothing, such as a file on a full disk, is one sentence and 1."""
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*person.program, "run", "speak"],
            env=person.env,
            cwd=tree.path,
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("halo: the output cannot be written: No space left")


def test_a_log_moves_no_cursor(person: Halo) -> None:
    """Control characters of a log line are written out on a terminal, and stay in a pipe."""
    folder = person.halo_home / "global" / "logs"
    folder.mkdir(parents=True)
    (folder / "server.log").write_text("before \x1b[2J after\n")
    assert person.run("logs").out == "before \x1b[2J after\n"
    assert person.start("logs", terminal=True).end().out == "before \\x1b[2J after\n"


def test_a_log_is_followed_through_rotation(person: Halo) -> None:
    """`halo logs -f` prints each line once and in order, however often the file is renamed; Ctrl-C ends it with 130."""
    folder = person.halo_home / "global" / "logs"
    folder.mkdir(parents=True)
    handler = RotatingFileHandler(folder / "server.log", maxBytes=2_000, backupCount=50)

    def write(number: int) -> None:
        handler.emit(LogRecord("x", INFO, "", 0, f"line {number:03} {'.' * 40}", (), None))

    write(0)
    following = person.start("logs", "-f")
    following.expect("line 000")
    for number in range(1, 600):  # several files between two looks
        write(number)
        if number % 150 == 0:
            time.sleep(0.3)
    following.expect("line 599")
    following.signal(signal.SIGINT)
    done = following.end()
    handler.close()
    assert (done.code, done.err) == (130, "")
    assert [line[:8] for line in done.out.splitlines()] == [f"line {number:03}" for number in range(600)]
