"""What every channel, dispatcher and plugin has to hold to."""

from collections.abc import Mapping, Sequence

import pytest

from client import Far
from halo_kernel import Account
from halo_kernel.testing import ChannelContract, DispatcherContract, Workbench, check_plugin
from halo_shout.lines import LIMIT
from halo_shout.outgoing import database


class TestShout(ChannelContract):
    """The kit's tests of a channel, before clients that write lines."""

    channel_type = "shout"
    limit = LIMIT
    chats = ("ann", "bob")
    threads = ()

    def length(self, text: str) -> int:
        """The protocol counts bytes."""
        return len(text.encode())

    @pytest.fixture
    def channel_env(self, shout_env: Mapping[str, str]) -> Mapping[str, str]:
        """The environment of its plugin."""
        return shout_env

    @pytest.fixture
    def platform(self, port: int) -> Far:
        """The clients."""
        return Far(port)


class TestOutgoing(DispatcherContract):
    """The kit's tests of a dispatcher, whose target is a row."""

    dispatcher_kind = "shout"
    target = "shout:main:ann"
    missing = "shout:other:ann"

    @pytest.fixture
    def dispatcher_env(self, shout_env: Mapping[str, str]) -> Mapping[str, str]:
        """The environment of its plugin."""
        return shout_env

    async def prepare(self, halo: Workbench) -> None:
        """Make the account that the target names."""
        assert halo.kernel
        await halo.kernel.host.accounts.put(Account(type="shout", id="main", workspace=str(halo.folder)))

    async def arrived(self, halo: Workbench) -> Sequence[str]:
        """Return the rows."""
        assert halo.kernel
        rows = await database(halo.kernel.host)
        return await rows.read(lambda tx: [str(text) for (text,) in tx.execute("SELECT text FROM owed ORDER BY seq")])


def test_the_rules_are_kept() -> None:
    """The plugin is packed and declared as the kernel wants it."""
    assert check_plugin("halo_shout") == []
