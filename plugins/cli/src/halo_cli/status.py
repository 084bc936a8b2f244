"""`halo status`: whether the server runs, where, and what answers."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from datetime import timedelta

from halo_kernel import default_home, find_server

from .terminal import model_line, note


def command(argv: Sequence[str]) -> int:
    """Say whether the server of this home runs; exit code 1 when it does not."""
    argparse.ArgumentParser(prog="halo status", description="Say whether the server of this home runs.").parse_args(
        list(argv)
    )
    home = default_home(os.environ)
    client = find_server(home)
    if client is None:
        note(f"No server of {home} is running. Start one with `halo up`.")
        return 1
    server = client.get("/api/server")
    print(f"Halo {server['version']} runs at {client.url} (pid {server['pid']}, up {_time(server['uptime'])}).")
    print(model_line(client.get("/api/models")))
    for plugin in server["plugins"]:
        if plugin["state"] != "loaded":
            print(f"Plugin {plugin['name']} is {plugin['state']}: {plugin['reason']}")
    return 0


def _time(seconds: float) -> str:
    return str(timedelta(seconds=int(seconds)))
