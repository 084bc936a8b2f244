"""What importing the plugin costs."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys, tempfile, pathlib
import halo_openai
from halo_kernel.settings import Settings
sections = [("openai", each) for each in halo_openai.provide_settings()]
settings = Settings(pathlib.Path(tempfile.mkdtemp()), sections, {})
before = set(sys.modules)
print(len(list(halo_openai.provide_models(settings))))
print([name for name in ("aiohttp", "yarl") if name in sys.modules])
print([name for name in set(sys.modules) - before if name.startswith("ruamel")])
"""


def test_no_http_client_until_the_first_call() -> None:
    """Importing the plugin and asking for its providers imports neither aiohttp nor, without files, a YAML reader."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == ["10", "[]", "[]"], done.stderr
