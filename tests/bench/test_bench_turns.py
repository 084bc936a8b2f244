"""What a turn costs over HTTP, beside the bare model and a server that only writes: figures, never an assertion."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from . import machine
from .programs import Program, environment, halo_env, module, running, serve, token_of
from .table import Row, print_table, print_title, quantile

SESSIONS = 50
PLAN_SECONDS = 80.0
ALONE = {"sessions": 1, "passes": 100, "turns": 1, "seconds": PLAN_SECONDS, "pace": "first=0.02 delay=0.005"}
TOGETHER = {"sessions": SESSIONS, "passes": 4, "turns": 1, "seconds": PLAN_SECONDS, "pace": "first=0.05 delay=0.03"}
RUSH = {"sessions": SESSIONS, "passes": 2, "turns": 6, "seconds": 12.0, "pace": "as fast as you can"}
BARE = "the scripted model itself, asked by the same client"
WRITER = "a server with as many durable writes a turn, the same stream and model call, and nothing else"

pytestmark = pytest.mark.skipif(not machine.COUNTED, reason="processes are counted by /proc")


@dataclass(frozen=True, kw_only=True)
class Field:
    """Everything that runs: the model, Halo that uses it, and the floor that uses it."""

    model: Program
    halo: Program
    floor: Program
    home: Path
    folder: Path

    @property
    def targets(self) -> list[dict[str, Any]]:
        """The three as a plan names them: model, floor, Halo."""
        token = token_of(self.home)
        return [
            {"kind": "model", "url": self.model.url, "pid": self.model.pid},
            {"kind": "floor", "url": self.floor.url, "pid": self.floor.pid},
            {
                "kind": "halo",
                "url": self.halo.url,
                "pid": self.halo.pid,
                "token": token,
                "folder": str(self.folder),
            },
        ]


@contextmanager
def field(tmp_path: Path) -> Generator[Field]:
    """Run model, Halo and floor."""
    home, folder = tmp_path / "home", tmp_path / "workspace"
    home.mkdir()
    folder.mkdir()
    with running(module("model"), log=tmp_path / "model.log") as model:
        uses = {"OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": "sk-bench", "OPENAI_MODEL": "scripted"}
        writer = [*module("floor"), "--database", str(tmp_path / "floor.db"), "--model", model.url]
        with (
            running(serve(), log=tmp_path / "halo.log", env=halo_env(home, uses)) as halo,
            running(writer, log=tmp_path / "floor.log") as floor,
        ):
            yield Field(model=model, halo=halo, floor=floor, home=home, folder=folder)


def carry_out(plan: dict[str, Any], targets: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Let the load generator carry a plan out."""
    done = subprocess.run(
        module("load"),
        input=json.dumps({**plan, "targets": targets}),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PLAN_SECONDS + 20,
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-4000:])
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


@pytest.mark.timeout(300)
def test_turns(tmp_path: Path) -> None:
    """Print the latency that Halo adds at one session and at fifty, and what it does with fifty in a second."""
    with field(tmp_path) as running_field:
        added_latency(running_field, ALONE, "one session at a time")
        added_latency(running_field, TOGETHER, f"{SESSIONS} sessions at once")
        turn_rate(running_field)


def added_latency(on: Field, plan: dict[str, Any], title: str) -> None:
    """Print the time to the first word and to the end through Halo, beside the bare model's and the writer's."""
    model, floor, halo = (each["taken"] for each in carry_out(plan, on.targets))
    print_title(f"Latency, {title}, {len(halo)} turns of 20 words, {plan['pace']} s")
    print_table(BARE, _latencies(halo, model))
    print_table(WRITER, _latencies(halo, floor))


def _latencies(halo: Sequence[Sequence[float]], floor: Sequence[Sequence[float]]) -> list[Row]:
    """Return rows for first word and end; what lies between is taken turn by turn, then its median and 99th."""
    rows: list[Row] = []
    for at, name in enumerate(["first word", "end"]):
        figures, under = [each[at] * 1e3 for each in halo], [each[at] * 1e3 for each in floor]
        between = [figure - other for figure, other in zip(figures, under, strict=True)]
        rows += [
            Row(
                name=f"{name}, p{share * 100:.0f}",
                figure=quantile(figures, share),
                floor=quantile(under, share),
                added=quantile(between, share),
                unit="ms",
            )
            for share in (0.5, 0.99)
        ]
    return rows


def turn_rate(on: Field) -> None:
    """Print turns a second with a model that does not wait, the CPU time of a turn, and the memory afterwards."""
    targets = on.targets
    model = machine.cpu_seconds(on.model.pid)
    floor, halo = carry_out(RUSH, targets[1:])
    model = machine.cpu_seconds(on.model.pid) - model
    count = len(halo["taken"])
    print_title(f"Rate, {SESSIONS} sessions, {count} turns of 20 words, model without delay")
    print_table(
        WRITER,
        [
            Row(name="turns", figure=_rate(halo), floor=_rate(floor), unit="/s"),
            Row(name="CPU of the server, a turn", figure=_cpu(halo), floor=_cpu(floor), unit="ms"),
            Row(
                name="resident, after the load",
                figure=machine.resident_bytes(on.halo.pid) / 2**20,
                floor=machine.resident_bytes(on.floor.pid) / 2**20,
                unit="MiB",
            ),
        ],
    )
    turns = count + len(floor["taken"]) + 2 * SESSIONS
    print(f"  The model, which runs on the same cores, took {model / turns * 1e3:.1f} ms of CPU a turn.")


def _rate(measured: dict[str, Any]) -> float:
    return len(measured["taken"]) / float(measured["wall"])


def _cpu(measured: dict[str, Any]) -> float:
    return float(measured["cpu"]) / len(measured["taken"]) * 1e3
