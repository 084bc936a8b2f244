"""Server processes of the bench: started, timed until they say that they are ready, stopped."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
import tomllib
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HALO = str(Path(sys.executable).with_name("halo"))
READY_SECONDS = 60.0
STOP_SECONDS = 15.0


@dataclass(frozen=True, kw_only=True)
class Program:
    """A server that is ready: `seconds` is the time from its start to that."""

    process: subprocess.Popen[bytes]
    url: str
    seconds: float

    @property
    def pid(self) -> int:
        """The number of its process."""
        return self.process.pid


@contextmanager
def running(command: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None) -> Generator[Program]:
    """Run a server that takes `--ready-fd`, writes its url there once it listens, and ends at SIGTERM."""
    readable, writable = os.pipe()
    with log.open("ab") as errors, os.fdopen(readable, "rb") as pipe:
        began = time.perf_counter()
        process = subprocess.Popen(
            [*command, "--ready-fd", str(writable)],
            env=environment(env),
            pass_fds=(writable,),
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
        os.close(writable)
        try:
            ready, _, _ = select.select([pipe], [], [], READY_SECONDS)
            seconds = time.perf_counter() - began
            url = pipe.readline().decode().strip() if ready else ""
            if not url:
                raise RuntimeError(f"{' '.join(command)} is not ready: {log.read_text()[-2000:]}")
            yield Program(process=process, url=url, seconds=seconds)
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a process of the bench: no setting of Halo's or of a model but those in `more`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HALO_", "OPENAI_"))}
    return {**kept, "PYTHONPATH": str(ROOT / "tests"), **(more or {})}


def module(name: str) -> list[str]:
    """Return the command that runs a module of this folder."""
    return [sys.executable, "-m", f"bench.{name}"]


def serve() -> list[str]:
    """Return the command of Halo's server on a free port."""
    return [HALO, "serve", "--port", "0"]


def halo_env(home: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return what a server with the standard plugins on this home needs in its environment."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    standard = extras["standard"][0].partition("[")[2].rstrip("]").split(",")
    plugins = {entry.name for entry in entry_points(group="halo.plugins")}
    names = ",".join(name for name in standard if name in plugins)
    return {"HALO_HOME": str(home), "HALO_PLUGINS": names, **(more or {})}


def token_of(home: Path) -> str:
    """Return the token by which the operator of a running server is let in."""
    token: str = json.loads((home / "secrets" / "server.json").read_text())["token"]
    return token
