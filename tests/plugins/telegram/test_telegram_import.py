"""What importing the plugin costs."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
import halo_telegram
print([name for name in ("aiohttp", "markdown_it", "halo_lib_text") if name in sys.modules])
import halo_telegram.desk
print([name for name in ("aiohttp", "markdown_it") if name in sys.modules])
"""


def test_no_http_client_until_the_first_call() -> None:
    """The plugin imports what it needs once it is asked, and neither an HTTP client nor a parser before their use."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == ["[]", "[]"], done.stderr
