"""What importing the plugin costs."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
import halo_tools
list(halo_tools.provide_settings())
print(sorted(name for name in sys.modules if name.startswith(("halo_tools", "halo_lib"))))
"""


def test_no_tools_until_a_workspace_is_open() -> None:
    """Importing the plugin and asking for its settings imports no tool, no sandbox and no library."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == ["['halo_tools', 'halo_tools.settings']"], done.stderr
