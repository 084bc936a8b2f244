"""What importing the plugin costs."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import asyncio, sys
import halo_offline
from halo_kernel import Message, ModelRequest, Text
(provider,) = halo_offline.provide_models()
asyncio.run(provider.offers())
print(sorted(name for name in sys.modules if name.startswith("halo_offline")))

async def ask():
    request = ModelRequest(model="rules", system="", messages=(Message("user", (Text("help"),)),), tools=())
    return [chunk async for chunk in provider.stream(request)]

print(len(asyncio.run(ask())) > 2, "halo_offline.answers" in sys.modules)
"""


def test_no_rules_until_the_first_question() -> None:
    """Offering the rules imports none of them; the first question does."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == ["['halo_offline', 'halo_offline.rules']", "True True"], done.stderr
