"""What plugins supply to a server: channels, dispatchers, models, agents and services."""

# pyright: reportReturnType=false
# The docstring is the whole body of a protocol's method.
from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Protocol

from .. import records


class Door(Protocol):
    """Where one account's messages come in."""

    async def arrive(self, arrival: records.Arrival) -> records.Receipt | None:
        """Take a message in and return its receipt; acknowledge it to the platform only then.

        None: its user is not allowed, and is told so once. A repeat gives the first receipt. Raises what `submit`
        raises; then the platform is not to be told that it arrived.
        """

    def heard(self) -> None:
        """Say that the platform has answered: that is what makes the account ready, and silence what makes it not."""

    def failed(self, why: str) -> None:
        """Say why the platform is not reached, such as by a revoked token: until it is heard, the account is not ready.

        What `run` raises is said so too.
        """


class Channel(Protocol):
    """Brings messages of one `type` in, by the transport of its platform; a dispatcher of that kind carries answers."""

    type: str

    @property
    def silence(self) -> float | None:
        """After how many seconds without a word of its platform an account is not ready; None for one that listens."""

    async def run(self, account: records.Account, door: Door) -> None:
        """Receive for one account until cancelled, closing the former connection before each new one.

        What is raised is logged, and it is run again after a growing wait.
        """


class GuidedChannel(Channel, Protocol):
    """A channel that says what its accounts need, and tries it: `halo channels add` asks for each field."""

    @property
    def fields(self) -> Sequence[records.AccountField]:
        """What to ask for, in order."""

    async def probe(self, account: records.Account, secrets: Mapping[str, str]) -> records.Account:
        """Ask the platform, and return the account with what it says of itself: its `id`, `label`, `config`.

        Raises `BadInput` that names the field that is wrong, and what to do.
        """


class Dispatcher(Protocol):
    """Carries deliveries of one `kind` to where they are owed.

    `guarantee` says what becomes of a part that was being sent when its process died.
    """

    kind: str
    guarantee: records.Guarantee

    def split(self, text: str) -> Sequence[str]:
        """Return the messages that a text is sent in, within the target's limits; plain and quick."""

    async def deliver(self, part: records.Part) -> str:
        """Send one part and return the id that the target gave it.

        Raises `DeliveryFailed` when nothing was sent. After anything else, and after a minute, nobody knows, and
        `guarantee` decides. A delivery into a plugin's own rows is finished there, by `part.key`, before this returns.
        """

    async def find(self, part: records.Part) -> str | None:
        """Return the target's id of a part that may have been sent, None when it was not; asked of `queryable` ones."""


class ModelProvider(Protocol):
    """Answers model calls for the models `<name>/…`."""

    name: str

    async def offers(self) -> Sequence[records.Offer]:
        """Return the models with whether each can answer now, and why. Bounded to a second or two.

        Asked before a turn, and for lists; an answer holds for two seconds.
        """

    def stream(self, request: records.ModelRequest) -> AsyncGenerator[records.Chunk, None]:
        """Yield the answer as it comes: deltas, whole tool calls, usage, then one `Stop`. Raises `ModelError`."""

    async def close(self) -> None:
        """Give connections back; the kernel calls it at its end, and when the plugin is loaded anew."""


class AgentSource(Protocol):
    """Finds agents in a workspace."""

    def find(self, workspace: records.WorkspaceInfo, agent: str) -> records.AgentSpec | None:
        """Return the agent, or None. Raises `BadFile` when its definition is broken."""

    def list(self, workspace: records.WorkspaceInfo) -> Sequence[records.AgentSpec]:
        """Return all agents that can be read."""


class Service(Protocol):
    """A long-lived task of the server."""

    name: str

    async def run(self) -> None:
        """Work until cancelled, which the end of the server does. What fails is started again, after a growing wait."""
