"""A server that is killed with -9 anywhere between receiving a message and having sent its answer."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.platforms.telegram import RemoteTelegram, Stage, in_thread

from .serving import PLACES

TIMES = int(os.environ.get("HALO_TELEGRAM_KILLS", "3"))
READY_SECONDS = 60


@contextmanager
def serving(
    folder: Path, platform: RemoteTelegram, token: str, port: int, place: str = "", count: int = 0
) -> Generator[subprocess.Popen[bytes]]:
    """Run a server of the folder's home until it dies, or is killed at the end."""
    ready, told = os.pipe()
    home, workspace = folder / "home", folder / "workspace"
    workspace.mkdir(exist_ok=True)
    env = {
        **os.environ,
        "HALO_HOME": str(home),
        "HALO_TELEGRAM_BASE_URL": platform.url,
        "HALO_TELEGRAM_TOKEN": token,
    }
    words = [home, str(told), place, str(count), workspace, str(port)]
    script = Path(__file__).with_name("serving.py")
    process = subprocess.Popen([sys.executable, script, *words], env=env, pass_fds=(told,))
    os.close(told)
    try:
        with os.fdopen(ready, "rb") as pipe:
            assert select.select([pipe], [], [], READY_SECONDS)[0], "the server is not ready"
        yield process
    finally:
        process.kill()
        process.wait(10)


@pytest.mark.parametrize("count", range(1, TIMES + 1))
@pytest.mark.parametrize("place", PLACES)
def test_a_kill_anywhere_loses_and_doubles_nothing(tmp_path: Path, place: str, count: int) -> None:
    """S36: each message that the platform holds is answered; an answer that was on its way is never sent twice."""
    die(tmp_path, place, count, port=0)


@pytest.mark.parametrize("count", range(1, TIMES // 3 + 1))
@pytest.mark.parametrize("place", PLACES)
def test_a_kill_of_a_server_that_is_pushed_to(tmp_path: Path, place: str, count: int) -> None:
    """S36: the same where the platform pushes: what was not taken it pushes again."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = int(held.getsockname()[1])
    die(tmp_path, place, count, port=port)


def die(folder: Path, place: str, count: int, *, port: int) -> None:
    """Write to a server until it dies at a place, go on writing, start it again, and look."""
    with in_thread() as platform:
        stage = platform.stage
        token = stage.bot()["token"]
        people = [stage.user(f"user {number}") for number in range(count + 2)]
        with serving(folder, platform, token, port, place, count) as process:
            for number in range(count - 1):
                stage.say(people[number], f"message {number}")
                wait_for_texts(platform, people[number])
            stage.say(people[count - 1], f"message {count - 1}")
            assert process.wait(60) == -9
        for number in (count, count + 1):
            stage.say(people[number], f"message {number}")
        with serving(folder, platform, token, port):
            stage.hurry()
            check(stage, platform, people, lost=count - 1 if place == "sending" else -1)


def check(stage: Stage, platform: RemoteTelegram, people: list[int], *, lost: int) -> None:
    """Wait for the answers: one each, but for that which was begun and never left, which is not sent again."""
    for number, person in enumerate(people):
        if number != lost:
            wait_for_texts(platform, person)
    stage.say(people[0], "message 99")
    platform.until(lambda stage: "answer 99" in stage.texts(people[0]), 60)
    for number, person in enumerate(people):
        found = [text for text in stage.texts(person) if text != "answer 99"]
        assert found == ([] if number == lost else [f"answer {number}"])


def wait_for_texts(platform: RemoteTelegram, person: int) -> None:
    """Return when a person has an answer."""
    platform.until(lambda stage: stage.texts(person), 60)
