"""A real server process for a test: started, killed, started again, spoken to over HTTP."""

from __future__ import annotations

import http.client
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

READY_SECONDS = 60.0


class Served:
    """One home and the server process that serves it, if it runs."""

    def __init__(self, home: Path, env: Mapping[str, str], *, prefix: Sequence[str] = ()) -> None:
        self.home = home
        self._prefix = prefix  # words before the command, such as those that make it another user's
        self.log = home.with_name(f"{home.name}.log")
        self._env = {**os.environ, **env, "HALO_HOME": str(home)}
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""
        self.token = ""

    @property
    def pid(self) -> int:
        """The number of the process."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start the server and wait until it is ready."""
        assert self.try_to_start(), f"the server did not start: {self.log.read_text()[-2000:]}"

    def try_to_start(self) -> bool:
        """Start the server and wait until it is ready, or has ended."""
        ready, told = os.pipe()
        words = ["-m", "halo_kernel", "serve", "--port", "0", "--ready-fd", str(told)]
        command = [*self._prefix, sys.executable, *words]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, env=self._env, pass_fds=(told,), stdout=subprocess.DEVNULL, stderr=log
            )
        os.close(told)
        with os.fdopen(ready, "rb") as pipe:
            readable, _, _ = select.select([pipe], [], [], READY_SECONDS)
            url = pipe.readline().decode().strip() if readable else ""
        if url:
            presence = json.loads((self.home / "secrets" / "server.json").read_text())
            self.url, self.token = url, presence["token"]
        return bool(url)

    def code(self) -> int:
        """Wait for its end by itself and return its exit code."""
        assert self._process is not None
        return self._process.wait(20)

    def kill(self) -> None:
        """End it as a power cut would, as far as a process can tell."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(10)

    def end(self) -> None:
        """Kill it if it still runs."""
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def stop(self) -> int:
        """End it cleanly and return its exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(20)

    def call(
        self, method: str, path: str, body: object = None, *, timeout: float = 10.0, key: str = ""
    ) -> tuple[int, Any]:
        """Return status and decoded answer (None: it has none). Raises `OSError` or `HTTPException` when it is cut."""
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout)
        try:
            raw = None if body is None else json.dumps(body).encode()
            connection.request(method, path, raw, self._headers(key))
            response = connection.getresponse()
            return response.status, json.loads(response.read() or b"null")
        finally:
            connection.close()

    def break_off(self, path: str, body: object, *, key: str, part: float) -> None:
        """Send the first `part` of a message, 1 is all of it, and be gone before the answer. Raises `OSError`."""
        address, raw = urlsplit(self.url), json.dumps(body).encode()
        headers = {"Host": address.netloc, "Content-Length": str(len(raw)), **self._headers(key)}
        lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        whole = "\r\n".join(lines).encode() + raw
        with socket.create_connection((address.hostname, address.port), timeout=10) as connection:
            connection.sendall(whole[: round(part * len(whole))])

    def _headers(self, key: str) -> dict[str, str]:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        return {**headers, "Idempotency-Key": key} if key else headers
