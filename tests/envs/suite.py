"""Run one folder of tests for a tox environment: `suite.py FOLDER|plugin-NAME [pytest arguments]`.

A folder without tests says so and passes. Results go to `HALO_RESULTS/<environment>.xml`, which `summary.py` adds up.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main(target: str, *arguments: str) -> int:
    folder = Path("tests/plugins", target.removeprefix("plugin-")) if target.startswith("plugin-") else Path(target)
    if not any((ROOT / folder).rglob("test_*.py")):
        print(f"{folder}: no tests yet")
        return 0
    name = os.environ.get("TOX_ENV_NAME", folder.name)
    results = Path(os.environ.get("HALO_RESULTS", ROOT / ".tox" / "results")) / f"{name}.xml"
    command = [sys.executable, "-m", "pytest", str(folder), f"--junitxml={results}", *arguments]
    return subprocess.call(command, cwd=ROOT)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
