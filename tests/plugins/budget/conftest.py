"""A server with the plugin, and a model whose calls cost what a test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from halo_kernel import OPERATOR, Chunk, Kernel, ModelRequest, Offer, Price, QuestionInfo, Session, Usage, hook
from halo_kernel.testing import ScriptedModel, Workbench, front

PRICE = Price(currency="USD", date="2026-11-01", input=100_000.0, output=200_000.0, cache_read=10_000.0)


@dataclass
class CostlyModel(ScriptedModel):
    """The scripted model, whose answers report `usage` (None: nothing) and whose offer has a `price`.

    An answer waits until `gate` is open. Each report is a line in `log`, even of a process that dies.
    """

    name: str = "costly"
    usage: Usage | None = field(default_factory=lambda: Usage(input=60, output=40))
    price: Price | None = None
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    log: Path | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.gate.set()

    async def offers(self) -> Sequence[Offer]:
        """Offer the one model, before any other."""
        return [Offer(model="costly/model", ready=True, reason="for a test", rank=0, max_tokens=100, price=self.price)]

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Play the next step with this model's own report."""
        async for chunk in super().stream(request):
            if not isinstance(chunk, Usage):
                yield chunk
                await self.gate.wait()
            elif self.usage is not None:
                self._note()
                yield self.usage

    def _note(self) -> None:
        if self.log is not None:
            with self.log.open("a") as log:
                log.write("reported\n")

    @hook
    def provide_models(self) -> Sequence[ScriptedModel]:
        """This model."""
        return [self]


@pytest.fixture
def costly() -> CostlyModel:
    return CostlyModel()


@pytest.fixture
def halo_plugins(costly: CostlyModel) -> Iterable[object]:
    return {"budget": "halo_budget", "costly": costly}


def settings(**given: object) -> Mapping[str, str]:
    """Return the variables that settings of the plugin are read from."""
    return {f"HALO_BUDGET_{key.upper()}": _text(value) for key, value in given.items()}


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


@asynccontextmanager
async def client_of(kernel: Kernel) -> AsyncIterator[httpx.AsyncClient]:
    face = front(kernel)
    transport = httpx.ASGITransport(app=face.app)
    async with httpx.AsyncClient(transport=transport, base_url=face.url, headers=face.headers) as client:
        yield client


async def budget(halo: Workbench, name: str = "all") -> dict[str, Any]:
    """Return how a budget stands, as HTTP tells it."""
    assert halo.kernel is not None
    async with client_of(halo.kernel) as client:
        answer = await client.get(f"/api/budgets/{name}")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found


async def account(halo: Workbench, name: str = "all", of: str = "") -> dict[str, Any]:
    """Return one account of a budget."""
    return next(each for each in (await budget(halo, name))["accounts"] if each["of"] == of)


async def settled(halo: Workbench, spent: float, name: str = "all", of: str = "") -> None:
    """Return once this much is spent and nothing is set aside."""
    for _ in range(1500):
        found = await account(halo, name, of)
        if (found["spent"], found["set_aside"]) == (spent, 0):
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"not {spent} spent and nothing set aside, but {found}")


async def question_of(session: Session, halo: Workbench) -> QuestionInfo:
    """Return the question that a session of the operator's waits for."""
    assert halo.kernel is not None
    for _ in range(1500):
        found = await halo.kernel.host.questions.list(
            workspace=session.info.workspace, principal=OPERATOR, session=session.info.id
        )
        if found:
            return found[0]
        await asyncio.sleep(0.01)
    raise AssertionError("no question")


async def answer(halo: Workbench, session: Session, approved: bool, text: str = "") -> None:
    """Answer the open question of a session."""
    assert halo.kernel is not None
    asked = await question_of(session, halo)
    await halo.kernel.host.questions.answer(
        asked.id, workspace=session.info.workspace, principal=OPERATOR, approved=approved, text=text
    )
