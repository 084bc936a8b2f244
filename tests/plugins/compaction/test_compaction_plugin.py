"""The plugin as a plugin: it loads, says what it is, and forgets a server that has stopped."""

from __future__ import annotations

import halo_compaction
from halo_kernel.testing import Workbench, assert_plugin_ok


def test_it_is_a_good_plugin() -> None:
    """Its hooks, settings and metadata are what the kernel asks for."""
    assert_plugin_ok("halo_compaction")


async def test_it_forgets_a_server_that_stops(halo: Workbench) -> None:
    """Nothing of a server is kept once that has stopped."""
    session = await halo.session()
    places = halo_compaction._places  # pyright: ignore[reportPrivateUsage]
    assert session.info.workspace in places
    await halo.close()
    assert session.info.workspace not in places
