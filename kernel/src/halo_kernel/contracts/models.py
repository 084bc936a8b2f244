"""What a model provider, an agent source and a service supply."""

# pyright: reportReturnType=false
# The docstring is the whole body of a protocol's method.
from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

from ..records import AgentSpec, Chunk, ModelRequest, Offer, WorkspaceInfo


class ModelProvider(Protocol):
    """Answers model calls for the models `<name>/…`."""

    name: str

    async def offers(self) -> Sequence[Offer]:
        """Return the models with whether each can answer now, and why. Bounded to a second or two."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Yield the answer as it comes: deltas, whole tool calls, usage, then one `Stop`. Raises `ModelError`."""

    async def close(self) -> None:
        """Give connections back."""


class AgentSource(Protocol):
    """Finds agents in a workspace."""

    def find(self, workspace: WorkspaceInfo, agent: str) -> AgentSpec | None:
        """Return the agent, or None. Raises `BadFile` when its definition is broken."""

    def list(self, workspace: WorkspaceInfo) -> Sequence[AgentSpec]:
        """Return all agents that can be read."""


class Service(Protocol):
    """A long-lived task of the server."""

    name: str

    async def run(self) -> None:
        """Work until cancelled, which the end of the server does. What fails is started again, after a growing wait."""
