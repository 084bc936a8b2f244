"""The client against real servers: over TCP, over a private Unix socket, through restarts."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from halo_kernel import BadFile, BadInput, Exchange, ModelError, Route, Stopping, Unauthorized, hook
from halo_kernel.presence import Presence, is_served, published, read_presence, sole_server
from halo_lib_client import Client, connect
from halo_lib_client import client as client_module

SCRIPT = Path(__file__).parents[2] / "kernel" / "server_process.py"
pytestmark = pytest.mark.skipif(os.name != "posix", reason="Unix sockets and signals")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def start(home: Path) -> Iterator[Callable[[], subprocess.Popen[str]]]:
    """Start servers of the home; whatever still runs at the end is killed."""
    servers: list[subprocess.Popen[str]] = []

    def make(*, wait: bool = True) -> subprocess.Popen[str]:
        command = [sys.executable, str(SCRIPT), str(home), "{}"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        servers.append(process)
        assert process.stdout is not None
        if wait:
            assert process.stdout.readline()
        return process

    yield make
    for process in servers:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=10)


class Whose:
    """One route and no more."""

    @hook
    def provide_routes(self) -> Iterable[Route]:
        """Provide it."""

        async def answer(exchange: Exchange) -> object:
            return {"scheme": exchange.principal.scheme}

        return [Route(method="GET", path="/whose", handler=answer, summary="")]


def local(home: Path, **options: Any) -> Client:
    return connect(home, local=True, discover=False, **options)


def test_it_finds_the_running_server(start: Callable[[], subprocess.Popen[str]], home: Path) -> None:
    """With a server of the home, that is who is asked, as its operator."""
    process = start()
    with connect(home) as client:
        assert not client.embedded
        assert client.get("/api/server")["pid"] == process.pid
        assert client.url.startswith("http://127.0.0.1:")


def test_it_posts_values_and_headers(start: Callable[[], subprocess.Popen[str]], home: Path) -> None:
    """A body goes out as JSON, with the headers that the caller adds."""
    start()
    with connect(home) as client:
        answer = client.post("/t/echo", {"text": "Größe"}, headers={"Idempotency-Key": "k1"})
        assert json.loads(answer["body"]) == {"text": "Größe"}
        assert answer["key"] == "k1"


def test_errors_come_back_as_they_are(start: Callable[[], subprocess.Popen[str]], home: Path) -> None:
    """What the server raised is raised again, with its facts."""
    start()
    with connect(home) as client:
        with pytest.raises(ModelError) as failed:
            client.get("/t/fail")
        assert (failed.value.kind, failed.value.retry_after, failed.value.advice) == ("throttle", 2.0, "wait")
        with pytest.raises(BadInput) as refused:
            client.post("/api/auth/link", {"next": "elsewhere"})
        assert refused.value.field == "next"


def test_a_stream_is_read_to_its_end(start: Callable[[], subprocess.Popen[str]], home: Path) -> None:
    """Events arrive in order until the server ends the stream; reading may begin after a cursor."""
    start()
    with connect(home) as client:
        assert [event.data for event in client.stream("/t/count")] == list(range(1, 41))
        assert [event.id for event in client.stream("/t/count", after="38")] == ["39", "40"]


@pytest.mark.parametrize("stop", ["terminate", "kill"])
def test_a_stream_goes_on_after_a_restart(start: Callable[[], subprocess.Popen[str]], home: Path, stop: str) -> None:
    """A server that ends in the middle and another at another address: nothing is lost, nothing comes twice."""
    process = start()
    seen: list[object] = []
    with connect(home) as client:
        address = client.url
        for event in client.stream("/t/count"):
            seen.append(event.data)
            if len(seen) == 5:
                getattr(process, stop)()
                process.wait(timeout=12)
                start(wait=False)
        assert client.url != address
    assert seen == list(range(1, 41))


def test_a_request_goes_to_the_next_server(start: Callable[[], subprocess.Popen[str]], home: Path) -> None:
    """A client that outlives its server finds the next one by itself."""
    process = start()
    with connect(home) as client:
        assert client.get("/api/health")["pid"] == process.pid
        process.terminate()
        process.wait(timeout=12)
        second = start()
        assert client.get("/api/server")["pid"] == second.pid


def test_a_server_that_is_gone_is_a_clear_error(
    start: Callable[[], subprocess.Popen[str]], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a server there is one sentence, for a request at once, for a stream after some patience."""
    monkeypatch.setattr(client_module, "RECONNECT_SECONDS", 0.3)
    process = start()
    client = connect(home)
    stream = client.stream("/t/count")
    assert next(stream).data == 1
    process.kill()
    process.wait(timeout=12)
    with pytest.raises(Stopping) as lost:
        list(stream)
    assert "halo up" in lost.value.advice
    with pytest.raises(Stopping) as unreachable:
        client.get("/api/server")
    assert "cannot be reached" in unreachable.value.message


def test_it_waits_for_a_server_that_starts(start: Callable[..., subprocess.Popen[str]], home: Path) -> None:
    """A server that holds the home's lock but is not ready yet is waited for."""
    process = start(wait=False)
    deadline = time.monotonic() + 10
    while not is_served(home) and time.monotonic() < deadline:
        time.sleep(0.01)
    with connect(home) as client:
        assert client.get("/api/server")["pid"] == process.pid


def test_a_server_that_never_answers_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A living lock without an answer is an error, not a second kernel beside it."""
    monkeypatch.setattr(client_module, "START_SECONDS", 0.2)
    (home / "global").mkdir(parents=True)
    with sole_server(home), pytest.raises(Stopping) as deaf:
        connect(home)
    assert "does not answer" in deaf.value.message


def test_without_a_server_it_runs_a_kernel(home: Path) -> None:
    """Without a server the client runs a kernel of its own, behind the same routes, and leaves nothing behind."""
    with connect(home, discover=False, extra={"whose": Whose()}) as client:
        assert client.embedded
        assert client.url == ""
        status = client.get("/api/server")
        assert (status["pid"], status["embedded"]) == (os.getpid(), True)
        assert client.get("/whose") == {"scheme": "operator"}
        folder = Path(client._server().url.removeprefix("unix:")).parent
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert read_presence(home) is None
    assert not folder.exists()
    assert not [thread for thread in threading.enumerate() if thread.name == "halo.embedded"]


def test_local_forces_a_kernel_of_its_own(start: Callable[[], subprocess.Popen[str]], home: Path) -> None:
    """`local` runs a kernel beside the server of the home."""
    start()
    with local(home) as client:
        assert client.embedded
        assert client.get("/api/server")["pid"] == os.getpid()


def test_a_strangers_request_to_the_private_socket_is_refused(home: Path) -> None:
    """The private socket asks for the token, too."""
    with local(home) as client, socket.socket(socket.AF_UNIX) as sock:
        sock.connect(client._server().url.removeprefix("unix:"))
        sock.sendall(b"GET /api/server HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert b" 401 " in sock.recv(100)


def test_what_keeps_a_kernel_from_starting_is_raised(home: Path) -> None:
    """A broken settings file is the caller's error, with file and line, and no folder is left behind."""
    (home / "secrets").mkdir(parents=True)
    (home / "secrets" / "settings.yaml").write_text("server:\n  port: many\n")
    with pytest.raises(BadFile) as broken:
        local(home)
    assert broken.value.line == 2
    assert not [thread for thread in threading.enumerate() if thread.name == "halo.embedded"]


def test_a_stream_of_an_own_kernel_ends_with_it(home: Path) -> None:
    """A kernel in this process that ends takes its streams with it: there is no other to go on with."""
    sys.path.insert(0, str(SCRIPT.parent))
    try:
        from server_process import Routes  # type: ignore[import-not-found]
    finally:
        sys.path.pop(0)
    client = local(home, extra={"routes": Routes()})
    stream = client.stream("/t/endless")
    assert next(stream).event == "first"
    client.close()
    with pytest.raises(Stopping):
        list(stream)


def test_a_stale_file_is_passed_over(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of a server that was killed leads nobody astray, whoever has its port now."""
    (home / "secrets").mkdir(parents=True)
    (home / "global").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as other:
        url = f"http://127.0.0.1:{other.getsockname()[1]}"
        with published(home, Presence(url=url, token="t", pid=1, version="0", started=0)):
            with connect(home, discover=False) as client:
                assert client.embedded
            monkeypatch.setattr(client_module, "START_SECONDS", 0.2)
            with sole_server(home), pytest.raises(Stopping):
                connect(home)
        other.settimeout(0)
        with pytest.raises(BlockingIOError):
            other.accept()


def test_a_wrong_token_is_told(
    start: Callable[[], subprocess.Popen[str]], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token that is not the server's is an error that says so."""
    start()
    good = read_presence(home)
    assert good is not None
    monkeypatch.setattr(client_module, "read_presence", lambda home: replace(good, token="stale"))
    with pytest.raises(Unauthorized):
        Client(home).get("/api/server")


def test_a_deep_temporary_folder_does_no_harm(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A deep temporary folder does not make the socket's path too long for the system."""
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    with local(home) as client:
        assert client.get("/api/health")["status"] == "ok"
        assert not list(deep.iterdir())


SLOW = """
import gc, sys, time
from pathlib import Path
from halo_kernel import hook
from halo_lib_client import connect

class Slow:
    @hook
    def provide_routes(self, host):
        print("starting", flush=True)
        time.sleep(1)
        return []

try:
    connect(Path(sys.argv[1]), local=True, extra={"slow": Slow()}, discover=False)
except KeyboardInterrupt:
    print("cut")
time.sleep(1.5)
gc.collect()
"""


def test_a_start_that_is_cut_ends_quietly(tmp_path: Path) -> None:
    """Ctrl-C while a kernel of one's own starts ends what it had begun, and nothing complains of that."""
    command = [sys.executable, "-c", SLOW, str(tmp_path / "home")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "starting\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=30) == ("cut\n", "")
