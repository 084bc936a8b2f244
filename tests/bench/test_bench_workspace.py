"""A workspace of 10,000 sessions: figures beside those of one of ten, never an assertion."""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

import pytest

from halo_kernel import OPERATOR, Incoming, Kernel, ModelRequest, Principal, SessionInfo
from halo_kernel.testing import Answer, ScriptedModel, a_session, running_kernel

from .machine import resident_bytes
from .table import Row, print_table, print_title, quantile

FEW, MANY, AT_ONCE, PAGE, TRIES = 10, 10_000, 20, 50, 20
FIGURES = ("the first page of 50", "the last page of 50", "open an old session", "look at an old session", "a turn")


class Forgetful(list[ModelRequest]):
    """Where a model notes nothing."""

    def append(self, request: ModelRequest) -> None:
        pass


def model() -> ScriptedModel:
    return ScriptedModel(responder=lambda request: Answer("an answer of a few words"), requests=Forgetful())


class Whose(TypedDict):
    """Where sessions are asked for, and by whom."""

    workspace: str
    principal: Principal


@dataclass
class Found:
    """What was measured in one workspace, in seconds and bytes."""

    medians: dict[str, float] = field(default_factory=dict[str, float])
    start: float = 0.0
    pages: float = 0.0
    memory: int = 0
    file: int = 0


async def fill(home: Path, folder: Path, count: int) -> str:
    """Make sessions in which one thing was said; return the workspace's id."""
    async with running_kernel(home, model=model()) as kernel:

        async def some(share: int) -> str:
            for _ in range(share):
                session = await a_session(kernel, folder)
                await session.prompt(Incoming(text="go on")).result
            return session.info.workspace

        shares = [count // AT_ONCE] * AT_ONCE if count > AT_ONCE else [count]
        return (await asyncio.gather(*map(some, shares)))[0]


async def every(kernel: Kernel, workspace: str) -> list[SessionInfo]:
    """Return all sessions, a page of 500 after the other."""
    found: list[SessionInfo] = []
    before: int | None = None
    while page := await kernel.sessions.list(workspace=workspace, principal=OPERATOR, before=before, limit=500):
        found += page
        before = page[-1].updated_at
    return found


async def typical(act: Callable[[int], Awaitable[object]]) -> float:
    """Return the median of what it takes to do something."""
    taken: list[float] = []
    for number in range(TRIES):
        began = time.perf_counter()
        await act(number)
        taken.append(time.perf_counter() - began)
    return quantile(taken, 0.5)


async def measure(home: Path, folder: Path, workspace: str) -> Found:
    """Start a kernel, list, open, and speak to a session."""
    found, began = Found(), time.perf_counter()
    async with running_kernel(home, model=model()) as kernel:
        await kernel.workspaces.seat(workspace)
        found.start = time.perf_counter() - began
        sessions, whose = kernel.sessions, Whose(workspace=workspace, principal=OPERATOR)
        began = time.perf_counter()
        infos = await every(kernel, workspace)
        found.pages = time.perf_counter() - began
        last, edge = infos[-TRIES:], infos[-min(PAGE, len(infos))].updated_at + 1
        del infos
        talk = await a_session(kernel, folder)
        acts: list[Callable[[int], Awaitable[object]]] = [
            lambda _: sessions.list(**whose, limit=PAGE),
            lambda _: sessions.list(**whose, before=edge, limit=PAGE),
            lambda number: sessions.open(last[number % len(last)].id, **whose),
            lambda number: sessions.view(last[number % len(last)].id, **whose),
            lambda _: talk.prompt(Incoming(text="go on")).result,
        ]
        found.medians = {name: await typical(act) for name, act in zip(FIGURES, acts, strict=True)}
        gc.collect()
        found.memory = resident_bytes(os.getpid())
    found.file = (folder / ".halo" / "halo.db").stat().st_size
    return found


@pytest.mark.timeout(900)
async def test_ten_thousand_sessions(tmp_path: Path) -> None:
    """Print what listing, paging, opening and a turn take among 10,000 sessions, and what they hold."""
    results: list[Found] = []
    for count in (FEW, MANY):
        home, folder = tmp_path / f"home{count}", tmp_path / f"w{count}"
        began = time.perf_counter()
        workspace = await fill(home, folder, count)
        print(f"{count:,} sessions made, each with a turn: {time.perf_counter() - began:.1f} s", flush=True)
        results.append(await measure(home, folder, workspace))
    few, many = results
    print_title(f"A workspace of {MANY:,} sessions")
    rows = [
        Row(name=name, figure=many.medians[name] * 1e3, floor=few.medians[name] * 1e3, unit="ms") for name in FIGURES
    ]
    rows += [
        Row(name="start, with the workspace open", figure=many.start * 1e3, floor=few.start * 1e3, unit="ms"),
        Row(name="all of them, 500 a page", figure=many.pages * 1e3, floor=few.pages * 1e3, unit="ms"),
        Row(name="memory of the process", figure=many.memory / 2**20, floor=few.memory / 2**20, unit="MiB"),
        Row(name="the database", figure=many.file / 2**20, floor=few.file / 2**20, unit="MiB"),
    ]
    print_table(f"a workspace of {FEW}", rows)
