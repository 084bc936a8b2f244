"""`halo status`: whether the server runs, where, what answers, and who starts it again after a crash."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

from halo_kernel import NotFound, default_home
from halo_lib_client import Client, find_server

from .progress import waiting
from .supervision import is_supervised, read_supervision
from .terminal import answer, model_line, note
from .workspaces import needs


def command(argv: Sequence[str]) -> int:
    """Say whether the server of this home runs; exit code 1 when it does not."""
    argparse.ArgumentParser(prog="halo status", description="Say whether the server of this home runs.").parse_args(
        list(argv)
    )
    home = default_home(os.environ)
    with waiting("Asking the server"):
        client = find_server(home)
        if client is None:
            note(f"No server of {home} is running. {_why(home)}")
            return 1
        server, models = client.get("/api/server"), _models(client)
    answer(f"Halo {server['version']} runs at {client.url} (pid {server['pid']}, up {_time(server['uptime'])}).")
    answer(models)
    if line := _supervision(home, server["pid"]):
        answer(line)
    for plugin in server["plugins"]:
        if plugin["state"] != "loaded":
            answer(f"Plugin {plugin['name']} is {plugin['state']}: {plugin['reason']}")
    return 0


def _models(client: Client) -> str:
    """Return which model answers, or why nobody can say."""
    try:
        with needs(client, "api"):
            return model_line(client.get("/api/models"))
    except NotFound as error:
        return f"Which model answers is not known: {error.message}; {error.advice}."


def _why(home: Path) -> str:
    """Return why no server runs, and what to do."""
    record = read_supervision(home)
    if record is None:
        return "Start one with `halo up`."
    if record.gave_up:
        when = datetime.fromtimestamp(record.gave_up / 1000).strftime("%Y-%m-%d %H:%M:%S")
        return (
            f"Its supervisor gave up at {when}, after {record.restarts} restarts: {_ended(record.reason)} "
            "Look at `halo logs`, then start it with `halo up -d`."
        )
    if not is_supervised(home):
        return "Its supervisor has ended too. Start it with `halo up -d`."
    if record.next_start:
        left = max(0, record.next_start / 1000 - time.time())
        return f"Its supervisor (pid {record.pid}) starts it again in {left:.0f} s: {_ended(record.reason)}"
    return f"Its supervisor (pid {record.pid}) is starting it."


def _supervision(home: Path, server: int) -> str:
    """Return what there is to say about the supervisor of a server that runs; '' when it never had one."""
    record = read_supervision(home)
    if record is None or record.server != server:
        return ""
    if not is_supervised(home):
        return "Its supervisor has ended: nothing starts it again after a crash. `halo stop`, then `halo up -d`."
    text = f"A supervisor (pid {record.pid}) starts it again after a crash"
    if not record.restarts:
        return f"{text}."
    times = "once" if record.restarts == 1 else f"{record.restarts} times"
    return f"{text}; it has done so {times}, the last time because {_ended(record.reason)}"


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."


def _time(seconds: float) -> str:
    return str(timedelta(seconds=int(seconds)))
