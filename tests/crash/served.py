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
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

READY_SECONDS = 30.0


class Served:
    """One home and the server process that serves it, if it runs."""

    def __init__(self, home: Path, env: Mapping[str, str]) -> None:
        self.home = home
        self.log = home.with_name(f"{home.name}.log")
        self._env = {**os.environ, **env, "HALO_HOME": str(home)}
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""
        self.token = ""

    def start(self) -> None:
        """Start the server and wait until it is ready."""
        ready, told = os.pipe()
        command = [sys.executable, "-m", "halo_kernel", "serve", "--port", "0", "--ready-fd", str(told)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, env=self._env, pass_fds=(told,), stdout=subprocess.DEVNULL, stderr=log
            )
        os.close(told)
        with os.fdopen(ready, "rb") as pipe:
            readable, _, _ = select.select([pipe], [], [], READY_SECONDS)
            url = pipe.readline().decode().strip() if readable else ""
        assert url, f"the server did not start: {self.log.read_text()[-2000:]}"
        presence = json.loads((self.home / "secrets" / "server.json").read_text())
        self.url, self.token = url, presence["token"]

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
        """Make one request; return status and decoded answer. Raises `OSError` or `HTTPException` when it is cut."""
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout)
        try:
            raw = None if body is None else json.dumps(body).encode()
            connection.request(method, path, raw, self._headers(key))
            response = connection.getresponse()
            return response.status, json.loads(response.read())
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
