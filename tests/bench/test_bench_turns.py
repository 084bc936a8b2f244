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

PLAN_SECONDS = 80.0
SHORT, USUAL = "first=0.02 delay=0.005", "first=0.2 delay=0.015"
RUSH = "as fast as you can"
LATENCIES: dict[str, dict[str, Any]] = {
    "1 session": {"sessions": 1, "passes": 80, "turns": 1, "spread": 0.0, "pace": SHORT},
    "10 sessions, spread over time": {"sessions": 10, "passes": 2, "turns": 8, "spread": 0.5, "pace": USUAL},
    "50 sessions, spread over time": {"sessions": 50, "passes": 2, "turns": 5, "spread": 0.5, "pace": USUAL},
    "50 messages in one instant": {"sessions": 50, "passes": 4, "turns": 1, "spread": 0.0, "pace": USUAL},
}
RATE = {"sessions": 50, "passes": 2, "turns": 6, "spread": 0.0, "pace": RUSH}
STARTS = 5
AFTER_START = {"sessions": 1, "passes": 1, "warm_up": 0, "turns": 2, "spread": 0.0, "pace": SHORT}
BARE = "the model itself, asked by the same client"
WRITER = "a server with as many durable writes a turn, the same stream and model call, and nothing else"

Taken = Sequence[float]

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
    home.mkdir(exist_ok=True)
    folder.mkdir(exist_ok=True)
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
        input=json.dumps({"warm_up": 1, "seconds": PLAN_SECONDS, **plan, "targets": targets}),
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
    """Print what Halo adds to a model's time at 1, 10 and 50 sessions and in a burst, and its turns a second."""
    with field(tmp_path) as running_field:
        for title, plan in LATENCIES.items():
            added_latency(running_field, plan, title)
        turn_rate(running_field)


@pytest.mark.timeout(120)
def test_first_turn(tmp_path: Path) -> None:
    """Print what the first turn after a start takes, beside the second one."""
    started: list[list[dict[str, Any]]] = []
    for _ in range(STARTS + 1):
        with field(tmp_path) as running_field:
            started.append(carry_out(AFTER_START, running_field.targets))
    _, *later = started  # the first start makes home and workspace
    print_title(f"The first turn after a start, on a used home, median of {STARTS}")
    rows = [_row("workspace, session and stream opened", [(run[1]["opened"], run[2]["opened"]) for run in later], 0.5)]
    for number, name in enumerate(["first", "second"]):
        pairs = [(run[1]["taken"][number], run[2]["taken"][number]) for run in later]
        rows += _latencies(
            [halo for _, halo in pairs], [floor for floor, _ in pairs], of=f"{name} turn, ", shares=(0.5,)
        )
    print_table(WRITER, rows)


def added_latency(on: Field, plan: dict[str, Any], title: str) -> None:
    """Print what passes beyond the model's own time, beside the bare model's and the writer's."""
    model, floor, halo = carry_out(plan, on.targets)
    print_title(f"Latency beyond the model's own time, {title} ({len(halo['taken'])} turns, {plan['pace']} s)")
    print_table(BARE, _latencies(halo["taken"], model["taken"]))
    rows = _latencies(halo["taken"], floor["taken"])
    if plan["sessions"] > 1:  # else the ticks in which it is counted are longer than what is counted
        rows.append(Row(name="CPU of the server, a turn", figure=_cpu(halo), floor=_cpu(floor), unit="ms"))
    print_table(WRITER, rows)
    print(f"  Halo's process was busy for {100 * halo['cpu'] / halo['wall']:.0f} % of the time, all threads.")


def _latencies(
    halo: Sequence[Taken], floor: Sequence[Taken], *, of: str = "", shares: Sequence[float] = (0.5, 0.99)
) -> list[Row]:
    return [
        _row(
            f"{of}{name}, p{share * 100:.0f}",
            [(under[at], figure[at]) for under, figure in zip(floor, halo, strict=True)],
            share,
        )
        for at, name in enumerate(["first word", "end"])
        for share in shares
    ]


def _row(name: str, pairs: Sequence[tuple[float, float]], share: float) -> Row:
    """Return the quantile of the floor's and of Halo's seconds, which come in pairs."""
    floor, halo = zip(*pairs, strict=True)
    return Row(name=name, figure=quantile(halo, share) * 1e3, floor=quantile(floor, share) * 1e3, unit="ms")


def turn_rate(on: Field) -> None:
    """Print turns a second with a model that does not wait, the CPU time of a turn, and the memory afterwards."""
    targets = on.targets
    model = machine.cpu_seconds(on.model.pid)
    floor, halo = carry_out(RATE, targets[1:])
    model = machine.cpu_seconds(on.model.pid) - model
    count = len(halo["taken"])
    print_title(f"Rate, 50 sessions, {count} turns of 20 words, model without delay")
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
    turns = count + len(floor["taken"]) + 2 * 50
    print(f"  The model, which runs on the same cores, took {model / turns * 1e3:.1f} ms of CPU a turn.")


def _rate(measured: dict[str, Any]) -> float:
    return len(measured["taken"]) / float(measured["wall"])


def _cpu(measured: dict[str, Any]) -> float:
    return float(measured["cpu"]) / len(measured["taken"]) * 1e3
