"""Programs: their output, their bounds, and that nothing of them stays when they are cut."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from halo_lib_files import Finished, processes, run

ENV = {"PATH": os.environ["PATH"]}


async def shell(command: str, folder: Path, **options: object) -> Finished:
    return await run(["/bin/sh", "-c", command], cwd=folder, env=ENV, **options)  # type: ignore[arg-type]


def alive(pid: int) -> bool:
    """Tell whether a process runs; a zombie does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"


async def pids(file: Path, count: int) -> list[int]:
    """Wait until a script has written the numbers of its processes."""
    for _ in range(500):
        found = file.read_text().split() if file.exists() else []
        if len(found) == count:
            return [int(number) for number in found]
        await asyncio.sleep(0.01)
    raise AssertionError("the script did not start")


async def gone(numbers: list[int], within: float = 3) -> bool:
    for _ in range(round(within / 0.02)):
        if not any(alive(number) for number in numbers):
            return True
        await asyncio.sleep(0.02)
    return False


DEAF = "(trap '' TERM; sleep 300 >/dev/null 2>&1 & echo $! >> pids; wait)"
TREE = f"sleep 300 & echo $! >> pids; {DEAF} & echo $! >> pids; wait"


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give what is deaf to SIGTERM less time than its two seconds."""
    monkeypatch.setattr(processes, "GRACE", 0.3)


async def test_output_and_code(tmp_path: Path) -> None:
    """Both streams and the exit code come back; the program runs in its folder with the given environment only."""
    done = await shell("pwd; echo $SECRET >&2; env | grep -c '' ; exit 3", tmp_path)
    assert (done.code, done.ended) == (3, "exited")
    assert done.stdout.splitlines()[0] == str(tmp_path)
    assert done.stderr == "\n"


async def test_bad_utf8_is_text(tmp_path: Path) -> None:
    """Bytes that are not UTF-8 come back as U+FFFD."""
    done = await shell(r"printf '\377\376ok'; printf '\303' >&2", tmp_path)
    assert (done.stdout, done.stderr) == ("��ok", "�")


async def test_stdin_is_what_is_fed(tmp_path: Path) -> None:
    """A program reads what it is fed, without bound, and else finds stdin at its end."""
    fed = os.urandom(1_000_000).hex().encode()
    assert (await shell("cat", tmp_path, feed=fed)).out == fed
    assert (await shell("cat", tmp_path)).out == b""


async def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    """A program that cannot be started raises, and leaves no descriptor."""
    before = len(os.listdir("/dev/fd"))
    for _ in range(3):
        with pytest.raises(FileNotFoundError):
            await run(["/nowhere"], cwd=tmp_path, env=ENV)
    await asyncio.sleep(0)
    assert len(os.listdir("/dev/fd")) <= before + 2


async def test_timeout_ends_the_whole_tree(tmp_path: Path) -> None:
    """After the timeout every process of the group is gone, also one that ignores SIGTERM; the output is kept."""
    work = asyncio.create_task(shell(f"echo begun; {TREE}", tmp_path, timeout=0.5))
    numbers = await pids(tmp_path / "pids", 3)
    done = await work
    assert (done.ended, done.stdout) == ("timeout", "begun\n")
    assert await gone(numbers, within=0.1)


async def test_a_gentle_end_comes_first(tmp_path: Path) -> None:
    """SIGTERM gives a program the time to tidy up before SIGKILL."""
    command = "trap 'echo tidied; exit' TERM; echo begun; while :; do sleep 0.05; done"
    done = await shell(command, tmp_path, timeout=0.5)
    assert (done.ended, done.stdout) == ("timeout", "begun\ntidied\n")


@pytest.mark.usefixtures("hasty")
async def test_cancelling_ends_the_whole_tree(tmp_path: Path) -> None:
    """A cancelled task has killed the group before it ends."""
    work = asyncio.create_task(shell(TREE, tmp_path))
    numbers = await pids(tmp_path / "pids", 3)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert await gone(numbers, within=0.1)


@pytest.mark.usefixtures("hasty")
async def test_an_impatient_cancel_ends_the_whole_tree(tmp_path: Path) -> None:
    """A task that is cancelled again while it kills leaves the killing to go on."""
    work = asyncio.create_task(shell(TREE, tmp_path))
    numbers = await pids(tmp_path / "pids", 3)
    for _ in range(3):
        work.cancel()
        await asyncio.sleep(0.05)
    with pytest.raises(asyncio.CancelledError):
        await work
    assert await gone(numbers)


@pytest.mark.usefixtures("hasty")
def test_the_end_of_the_loop_ends_the_tree(tmp_path: Path) -> None:
    """When the loop ends in the middle of a run, its processes end with it."""

    async def main() -> list[int]:
        asyncio.get_running_loop().create_task(shell(TREE, tmp_path)).add_done_callback(lambda _: None)
        return await pids(tmp_path / "pids", 3)

    numbers = asyncio.run(main())
    assert asyncio.run(gone(numbers))


@pytest.mark.usefixtures("hasty")
async def test_a_soft_stop_ends_the_tree(tmp_path: Path) -> None:
    """When stop returns, the group is killed and the output so far comes back."""
    asked = asyncio.Event()

    async def stop() -> None:
        await asked.wait()

    work = asyncio.create_task(shell(f"echo begun; {TREE}", tmp_path, stop=stop))
    numbers = await pids(tmp_path / "pids", 3)
    asked.set()
    done = await work
    assert (done.ended, done.stdout) == ("stopped", "begun\n")
    assert await gone(numbers, within=0.1)


@pytest.mark.usefixtures("hasty")
async def test_output_is_bounded(tmp_path: Path) -> None:
    """A flood is cut at the limit, both streams together, and the program is ended."""
    started = time.monotonic()
    done = await shell("yes & yes >&2", tmp_path, limit=100_000)
    assert done.ended == "limit"
    assert len(done.out) + len(done.err) == 100_000
    assert time.monotonic() - started < 5


@pytest.mark.usefixtures("hasty")
async def test_output_at_the_limit_is_whole(tmp_path: Path) -> None:
    """As much output as the limit allows is no flood; a byte more is, even when the program ended first."""
    assert (await shell("head -c 1000 /dev/zero", tmp_path, limit=1000)).ended == "exited"
    assert (await shell("head -c 1001 /dev/zero", tmp_path, limit=1000)).ended == "limit"


async def test_a_background_child_does_not_hold_the_result(tmp_path: Path) -> None:
    """A program that ends and leaves a child with its output open is finished at once; the child lives on."""
    started = time.monotonic()
    done = await shell("echo done; sleep 300 & echo $! > pids", tmp_path)
    assert (done.code, done.stdout) == (0, "done\n")
    assert time.monotonic() - started < 2
    child = int((tmp_path / "pids").read_text())
    assert alive(child)
    os.kill(child, signal.SIGKILL)


async def test_a_signal_is_a_negative_code(tmp_path: Path) -> None:
    """A program that a signal ended has its number as a negative code."""
    assert (await shell("kill -9 $$", tmp_path)).code == -9


async def test_no_terminal(tmp_path: Path) -> None:
    """A program cannot ask the person at the server's terminal: it has none."""
    assert (await shell("echo x > /dev/tty", tmp_path)).code != 0


async def test_output_is_told_as_it_comes(tmp_path: Path) -> None:
    """A listener hears each piece before the program has ended."""
    heard = list[bytes]()
    work = asyncio.create_task(
        shell("echo one; while [ ! -e go ]; do sleep 0.02; done; echo two", tmp_path, on_output=heard.append)
    )
    for _ in range(200):
        if heard:
            break
        await asyncio.sleep(0.01)
    assert heard == [b"one\n"]
    (tmp_path / "go").touch()
    assert (await work).stdout == "one\ntwo\n"


async def test_many_runs_leave_nothing(tmp_path: Path) -> None:
    """Runs in parallel keep their output apart and give every descriptor back."""
    await shell("true", tmp_path)
    before = len(os.listdir("/dev/fd"))
    done = await asyncio.gather(*(shell(f"echo {number}", tmp_path) for number in range(20)))
    assert [each.stdout for each in done] == [f"{number}\n" for number in range(20)]
    await asyncio.sleep(0.05)
    assert len(os.listdir("/dev/fd")) <= before


def test_import_needs_no_posix() -> None:
    """The library can be imported where `os` has none of POSIX, and says so when it is used."""
    code = (
        "import os, signal\n"
        "for name in 'O_NOFOLLOW O_DIRECTORY O_CLOEXEC O_PATH O_NONBLOCK O_NOCTTY killpg geteuid'.split():\n"
        "    delattr(os, name)\n"
        "del signal.SIGKILL\n"
        "os.supports_dir_fd = set()\n"
        "import halo_lib_files\n"
        "try: halo_lib_files.Root('.')\n"
        "except halo_lib_files.Unusable as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "cannot open files relative to a folder" in done.stdout
