"""The server as a process: readiness, one per home, its port, and its end under every kind of load."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import pytest

from halo_kernel import Conflict, HaloError, ServerRunning
from halo_kernel.presence import is_served, read_presence
from halo_kernel.server import run
from halo_kernel.server.listening import address_of, bind

SCRIPT = Path(__file__).with_name("server_process.py")
pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals")


@dataclass
class Server:
    """A server that was started by this test."""

    process: subprocess.Popen[str]
    home: Path
    ready: str = ""

    @property
    def url(self) -> str:
        return self.ready.rsplit(" ", 1)[-1]

    @property
    def headers(self) -> dict[str, str]:
        presence = read_presence(self.home)
        assert presence is not None
        return {"x-token": presence.token}

    def end(self, timeout: float = 12) -> tuple[int, str]:
        """Wait for the end; return the exit code and what went to stderr."""
        _, errors = self.process.communicate(timeout=timeout)
        return self.process.returncode, errors


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Start servers; whatever still runs at the end is killed."""
    servers: list[Server] = []

    def make(home: Path = tmp_path / "home", *, wait: bool = True, fds: tuple[int, ...] = (), **options: Any) -> Server:
        process = subprocess.Popen(
            [sys.executable, str(SCRIPT), str(home), json.dumps(options)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            pass_fds=fds,
        )
        server = Server(process, home)
        servers.append(server)
        if wait:
            assert process.stdout is not None
            server.ready = process.stdout.readline().rstrip("\n")
            assert server.ready, process.communicate(timeout=10)[1]
        return server

    yield make
    for server in servers:
        if server.process.poll() is None:
            server.process.kill()
            server.process.communicate(timeout=10)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all tests that leave it as it was."""
    home = tmp_path_factory.mktemp("shared") / "home"
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), str(home), "{}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    server = Server(process, home, process.stdout.readline().rstrip("\n"))
    yield server
    process.terminate()
    assert server.end() == (0, "")


def open_stream(server: Server, path: str) -> socket.socket:
    host, port = server.url.removeprefix("http://").split(":")
    sock = socket.create_connection((host, int(port)), timeout=10)
    sock.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return sock


def read_to_end(sock: socket.socket) -> bytes:
    """Read a chunked answer to its clean end."""
    raw = b""
    while chunk := sock.recv(65_536):
        raw += chunk
    assert raw.endswith(b"0\r\n\r\n"), raw[-100:]
    return raw


def test_ready_means_that_it_answers(shared: Server) -> None:
    """The line on stdout names the version and the address, at which the server answers at once."""
    assert shared.ready.startswith("Halo 0.1.0 ready on http://127.0.0.1:")
    assert httpx.get(f"{shared.url}/api/health").json()["pid"] == shared.process.pid


def test_the_descriptor_gets_the_address(start: Callable[..., Server]) -> None:
    """`ready_fd` gets the address and a line end, and is closed."""
    reading, writing = os.pipe()
    server = start(wait=False, fds=(writing,), ready_fd=writing)
    os.close(writing)
    with open(reading) as file:
        told = file.read()
    assert told.endswith("\n")
    assert httpx.get(f"{told.strip()}/api/health").json()["pid"] == server.process.pid


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[]"])
def test_a_damaged_presence_is_none(tmp_path: Path, content: bytes) -> None:
    """What a server of before left behind damaged is as if there were none."""
    path = tmp_path / "secrets" / "server.json"
    path.parent.mkdir()
    path.write_bytes(content)
    path.chmod(0o600)
    assert read_presence(tmp_path) is None


def test_the_token_file_is_private_and_goes_with_the_server(start: Callable[..., Server]) -> None:
    """Address and token are in a file that only this user can read; it is gone after a clean end."""
    server = start()
    file = server.home / "secrets" / "server.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE((server.home / "secrets" / "cookie.key").stat().st_mode) == 0o600
    presence = read_presence(server.home)
    assert presence is not None
    assert (presence.url, presence.pid, presence.version) == (server.url, server.process.pid, "0.1.0")
    assert is_served(server.home)
    server.process.terminate()
    assert server.end()[0] == 0
    assert not file.exists()
    assert not is_served(server.home)


def test_cookies_outlive_the_server_and_tokens_do_not(start: Callable[..., Server]) -> None:
    """A browser stays signed in over a restart; the local token is new each time."""
    server = start()
    first = server.headers
    link = httpx.post(f"{server.url}/api/auth/link", json={"next": "/"}, headers=first).json()["url"]
    cookies = httpx.get(link).cookies
    server.process.terminate()
    server.end()
    again = start()
    assert httpx.get(f"{again.url}/api/server", cookies=dict(cookies)).status_code == 200
    assert httpx.get(f"{again.url}/api/server", headers=first).status_code == 401


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly(start: Callable[..., Server], number: signal.Signals) -> None:
    """SIGTERM and SIGINT end an idle server, open connections and all, with 0, quickly and in silence."""
    server = start()
    with httpx.Client(base_url=server.url) as idle:
        idle.get("/api/health")
        began = time.monotonic()
        server.process.send_signal(number)
        assert server.end() == (0, "")
    assert time.monotonic() - began < 3


def listens(pid: int) -> bool:
    """Tell whether a process has its own way with SIGTERM by now."""
    if not Path("/proc/self/status").exists():
        time.sleep(0.05)
        return True
    (caught,) = re.findall(r"^SigCgt:\s*(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)


def test_a_signal_while_it_starts_ends_it_cleanly(start: Callable[..., Server]) -> None:
    """Who changes their mind before the server is ready does not wait; nothing is announced or complained of."""
    server = start(wait=False, parent_pid=os.getpid())
    deadline = time.monotonic() + 30
    while not (is_served(server.home) and listens(server.process.pid)) and time.monotonic() < deadline:
        time.sleep(0.005)
    server.process.terminate()
    assert server.end() == (0, "")
    assert not (server.home / "secrets" / "server.json").exists()
    assert start(server.home).ready


def test_a_request_ends_it_cleanly(start: Callable[..., Server]) -> None:
    """`POST /api/server/stop` is answered, then the server ends with 0."""
    server = start()
    assert httpx.post(f"{server.url}/api/server/stop", headers=server.headers).json() == {"stopping": True}
    assert server.end() == (0, "")


def test_open_streams_end_cleanly(start: Callable[..., Server]) -> None:
    """Streams get their last event and a clean end; nothing is said on stderr."""
    server = start()
    socks = [open_stream(server, "/t/endless") for _ in range(20)]
    for sock in socks:
        assert sock.recv(15).startswith(b"HTTP/1.1 200")
    began = time.monotonic()
    server.process.terminate()
    for sock in socks:
        raw = read_to_end(sock)
        assert b"event: shutdown" in raw
        sock.close()
    assert server.end() == (0, "")
    assert time.monotonic() - began < 3


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="descriptors are counted in /proc")
def test_clients_that_are_gone_hold_no_descriptor(start: Callable[..., Server]) -> None:
    """A connection ends with its client: before a question, within an answer and after it."""
    server = start()
    place = Path(f"/proc/{server.process.pid}/fd")
    httpx.get(f"{server.url}/api/health")
    before = len(os.listdir(place))
    for _ in range(50):
        httpx.get(f"{server.url}/api/health")
        for path in ("/t/endless", "/t/flood"):
            with open_stream(server, path) as sock:
                assert sock.recv(15).startswith(b"HTTP/1.1 200")
        with open_stream(server, "/api/health"):
            pass
    end = time.monotonic() + 8  # less than an idle connection is kept for
    while len(os.listdir(place)) > before + 5:
        assert time.monotonic() < end, len(os.listdir(place))
        time.sleep(0.05)
    server.process.terminate()
    assert server.end() == (0, "")


def test_clients_that_read_nothing_hold_up_nothing(start: Callable[..., Server]) -> None:
    """Floods that nobody reads are cut; the end is within the budget, with 0 and in silence."""
    server = start()
    socks = [open_stream(server, "/t/flood") for _ in range(3)]
    time.sleep(0.5)
    server.process.terminate()
    assert server.end() == (0, "")
    for sock in socks:
        sock.close()


def test_a_deaf_handler_holds_up_nothing(start: Callable[..., Server]) -> None:
    """A handler that ignores its cancel is left behind; the end is within the budget, with 0."""
    server = start()
    with socket.create_connection(("127.0.0.1", int(server.url.rsplit(":", 1)[1]))) as sock:
        sock.sendall(b"POST /t/deaf HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
        time.sleep(0.3)
        began = time.monotonic()
        server.process.terminate()
        code, errors = server.end()
    assert time.monotonic() - began < 10.5
    assert code == 0
    assert "Traceback" not in errors


def test_who_waits_for_an_answer_is_told_that_it_stops(start: Callable[..., Server]) -> None:
    """A handler that is cut by the end of the server is answered with 503, and why."""
    server = start()
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(httpx.post, f"{server.url}/t/wait", timeout=20)
        time.sleep(0.5)
        server.process.terminate()
        answer = asked.result()
    assert (answer.status_code, answer.json()["type"]) == (503, "Stopping")
    assert answer.headers["Retry-After"] == "1"
    assert server.end() == (0, "")


def test_a_running_turn_holds_up_nothing(start: Callable[..., Server], tmp_path: Path) -> None:
    """A turn whose model never answers is kept for the next start; the server ends in time, with 0."""
    workspace = tmp_path / "place"
    workspace.mkdir()
    server = start()
    answer = httpx.post(f"{server.url}/t/turn", params={"workspace": str(workspace)})
    assert answer.status_code == 200, answer.text
    stream = open_stream(server, "/t/endless")
    time.sleep(0.3)
    began = time.monotonic()
    server.process.terminate()
    code, errors = server.end()
    stream.close()
    assert time.monotonic() - began < 10.5
    assert (code, "Traceback" in errors) == (0, False)


def test_a_second_signal_ends_it_at_once(start: Callable[..., Server]) -> None:
    """Who presses Ctrl-C twice does not wait, though the loop is blocked."""
    server = start()
    with socket.create_connection(("127.0.0.1", int(server.url.rsplit(":", 1)[1]))) as sock:
        sock.sendall(b"POST /t/block HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
        time.sleep(0.3)
        server.process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        assert server.process.poll() is None
        began = time.monotonic()
        server.process.send_signal(signal.SIGINT)
        assert server.end()[0] == -signal.SIGINT
    assert time.monotonic() - began < 2


def test_a_blocked_loop_ends_within_the_budget(start: Callable[..., Server]) -> None:
    """Even a loop that no longer turns is ended after 10 s; the exit code is that of a process told to end, not 0."""
    server = start()
    with socket.create_connection(("127.0.0.1", int(server.url.rsplit(":", 1)[1]))) as sock:
        sock.sendall(b"POST /t/block HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
        time.sleep(0.3)
        server.process.terminate()
        code, errors = server.end(timeout=11.5)
    assert code == 128 + signal.SIGTERM
    assert "did not stop in time" in errors


def test_it_ends_with_another_process(start: Callable[..., Server]) -> None:
    """`parent_pid` names a process without which the server does not stay."""
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    server = start(parent_pid=other.pid)
    assert server.process.poll() is None
    other.kill()
    other.wait(timeout=10)
    assert server.end() == (0, "")


def test_it_ends_with_its_parent(tmp_path: Path) -> None:
    """A parent that is dead, though nobody has asked for its exit code yet, ends the server."""
    script = f"{sys.executable} {SCRIPT} {tmp_path / 'home'} '{{\"parent_pid\": '$$'}}' & wait"
    parent = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    assert "ready" in parent.stdout.readline()
    os.kill(parent.pid, signal.SIGKILL)
    assert "No password" in parent.stdout.read()  # to its end: the server has ended, too
    parent.wait(timeout=10)
    assert not is_served(tmp_path / "home")


def test_one_server_a_home(start: Callable[..., Server]) -> None:
    """A second server is refused with the first one's address, and harms it in no way."""
    server = start()
    with pytest.raises(ServerRunning) as refused:
        run(server.home, port=0, discover=False, env={})
    assert refused.value.url == server.url
    assert server.url in refused.value.message
    code, errors = start(server.home, wait=False).end()
    assert (code, "ServerRunning" in errors) == (1, True)
    assert httpx.get(f"{server.url}/api/server", headers=server.headers).status_code == 200


def test_a_killed_server_blocks_nobody(start: Callable[..., Server]) -> None:
    """After `kill -9` the next server of the home starts at once, with the stale file in place."""
    server = start()
    server.process.kill()
    server.end()
    assert read_presence(server.home) is not None
    assert not is_served(server.home)
    again = start()
    assert httpx.get(f"{again.url}/api/server", headers=again.headers).status_code == 200


def test_a_taken_port_is_a_clear_error(tmp_path: Path) -> None:
    """The error names port and host and says what to do; nothing was written but empty folders."""
    with bind("127.0.0.1", 0) as taken, pytest.raises(Conflict) as refused:
        run(tmp_path / "home", port=taken.getsockname()[1], discover=False, env={})
    assert f"Port {taken_port(refused.value)} on 127.0.0.1 is taken" in refused.value.message
    assert "--port" in refused.value.advice
    assert not list((tmp_path / "home" / "secrets").iterdir())
    assert not list((tmp_path / "home" / "global").glob("*.db"))


def taken_port(error: HaloError) -> str:
    return error.message.split()[1]


@pytest.mark.parametrize(("host", "port"), [("no.such.host.invalid", 0), ("127.0.0.1", 70_000), ("203.0.113.7", 0)])
def test_an_unusable_address_is_a_clear_error(host: str, port: int) -> None:
    """A host that is unknown or not ours, and a port out of range, name the setting."""
    with pytest.raises(HaloError) as refused:
        bind(host, port)
    assert refused.value.field.startswith("server.")  # type: ignore[attr-defined]


def test_without_a_password_only_this_machine(tmp_path: Path) -> None:
    """Listening for others without a password is refused, and says how to set one."""
    with pytest.raises(HaloError) as refused:
        run(tmp_path / "home", host="0.0.0.0", port=0, discover=False, env={})
    assert "halo password" in refused.value.advice


def test_it_says_that_no_password_is_set(shared: Server) -> None:
    """The second line tells that only this machine can reach the shared."""
    assert shared.process.stdout is not None
    assert "halo password" in shared.process.stdout.readline()


def test_with_a_password_other_machines_may_come(start: Callable[..., Server]) -> None:
    """With a password it listens for others, who reach it by address; a name still has to be listed."""
    server = start(host="0.0.0.0", env={"HALO_PASSWORD": "from outside", "HALO_SERVER_ALLOWED_HOSTS": "halo.example"})
    port = server.url.rsplit(":", 1)[1]
    presence = read_presence(server.home)
    assert presence is not None
    assert (presence.url, presence.address) == (f"http://127.0.0.1:{port}", server.url)
    for host, status in (("192.168.7.7", 200), ("halo.example", 200), ("evil.example", 403)):
        answer = httpx.get(f"{server.url}/api/health", headers={"Host": f"{host}:{port}"})
        assert answer.status_code == status, host
    server.process.terminate()
    output, errors = server.process.communicate(timeout=12)
    assert (output, errors) == ("", "")


def test_the_address_is_one_that_other_machines_can_type() -> None:
    """A socket of all addresses is shown as the one towards other machines, if there are any; another as it is."""
    with bind("127.0.0.1", 0) as sock:
        assert address_of(sock) == f"http://127.0.0.1:{sock.getsockname()[1]}"
    for everywhere in ("0.0.0.0", *(["::"] if socket.has_dualstack_ipv6() else [])):
        with bind(everywhere, 0) as sock:
            host, _, port = address_of(sock).removeprefix("http://").rpartition(":")
            assert int(port) == sock.getsockname()[1]
            assert host not in (everywhere, f"[{everywhere}]")
            socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()


def test_a_quiet_server_logs_to_its_file_alone(start: Callable[..., Server], tmp_path: Path) -> None:
    """`quiet` keeps the log off stderr; the file has it."""
    for quiet in (False, True):
        server = start(tmp_path / f"{quiet}", quiet=quiet)
        assert httpx.get(f"{server.url}/t/break").status_code == 500
        server.process.terminate()
        _, errors = server.end()
        assert ("request failed" in errors) == (not quiet)
        assert "request failed" in (server.home / "global" / "logs" / "server.log").read_text()


def test_upgrades_are_denied(shared: Server) -> None:
    """A WebSocket is denied with an answer."""
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    assert httpx.get(f"{shared.url}/ws", headers=upgrade).status_code == 403
    assert httpx.get(f"{shared.url}/api/health").status_code == 200


def resident(pid: int) -> int:
    """The most memory a process has held, in bytes."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.split("VmHWM:")[1].split()[0]) * 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
@pytest.mark.parametrize("chunked", [False, True])
def test_a_large_body_is_refused_without_being_kept(shared: Server, chunked: bool) -> None:
    """50 MB are refused with 413, to a client that sends all before it reads, and the server does not grow."""
    httpx.post(f"{shared.url}/t/body", content=b"x" * 1000)
    before = resident(shared.process.pid)
    connection = HTTPConnection(shared.url.removeprefix("http://"), timeout=30)
    body = b"x" * 50_000_000
    pieces = (body[at : at + 65_536] for at in range(0, len(body), 65_536))
    connection.request("POST", "/t/body", body=pieces if chunked else body, encode_chunked=chunked,
                       headers={"Transfer-Encoding": "chunked"} if chunked else {})  # fmt: skip
    answer = connection.getresponse()
    assert answer.status == 413
    assert json.loads(answer.read())["type"] == "TooLarge"
    connection.close()
    assert resident(shared.process.pid) - before < 8_000_000
    assert httpx.get(f"{shared.url}/api/health").status_code == 200


def test_an_unwanted_body_gets_its_answer(shared: Server) -> None:
    """A body that nobody reads, because the path or the caller is wrong, does not break the connection."""
    for path, status in (("/absent", 404), ("/api/auth/link", 401)):
        connection = HTTPConnection(shared.url.removeprefix("http://"), timeout=30)
        connection.request("POST", path, body=b"x" * 3_000_000)
        assert connection.getresponse().status == status
        connection.close()


def test_a_body_that_breaks_off_harms_nothing(shared: Server) -> None:
    """A client that goes away in the middle of its body is nothing to log (stderr is looked at in the end)."""
    with socket.create_connection(("127.0.0.1", int(shared.url.rsplit(":", 1)[1]))) as sock:
        sock.sendall(b"POST /t/body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf")
    assert httpx.get(f"{shared.url}/api/health").status_code == 200
    assert not (shared.home / "global" / "logs" / "server.log").exists()


def test_a_body_without_end_is_cut(shared: Server) -> None:
    """A client that goes on sending after its answer is cut off after a while, and the server goes on."""
    with socket.create_connection(("127.0.0.1", int(shared.url.rsplit(":", 1)[1])), timeout=20) as sock:
        sock.sendall(b"POST /t/body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900000000000\r\n\r\n")
        until = time.monotonic() + 15
        with pytest.raises(OSError):
            while time.monotonic() < until:
                sock.sendall(b"x" * 500_000)
                time.sleep(0.05)
    assert httpx.get(f"{shared.url}/api/health").status_code == 200


@pytest.mark.parametrize("how", ["newer", "damaged", "a folder"])
def test_a_start_that_fails_says_why_and_ends_with_an_error(
    tmp_path: Path, start: Callable[..., Server], how: str
) -> None:
    """A home that cannot be opened ends the server with 1 and one sentence that names the file."""
    registry = tmp_path / "home" / "global" / "kernel.db"
    if how == "newer":
        server = start()
        server.process.terminate()
        assert server.end()[0] == 0
        with contextlib.closing(sqlite3.connect(registry)) as database, database:
            database.execute("INSERT INTO schema(version, min_reader) VALUES (99, 99)")
    else:
        registry.parent.mkdir(parents=True)
        registry.mkdir() if how == "a folder" else registry.write_bytes(b"nothing of a database" * 100)
    code, said = start(wait=False).end()
    assert code == 1 and "kernel.db" in said
