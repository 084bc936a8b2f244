"""Check the example plugins that are installed, as their authors would: `examples.py [pytest arguments]`.

`halo plugins check` judges all, and sees that each stands at silver, mypy checks their sources against the kernel as it
is installed, then each one's tests run in its folder. Results go to `HALO_RESULTS/examples-<name>.xml`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from wheels import ROOT, examples


def run(*command: str, cwd: Path = ROOT) -> bool:
    """Run a command with a home of its own, and tell whether it went well."""
    print("$", *command[2:], flush=True)
    with tempfile.TemporaryDirectory() as home:
        return subprocess.call(command, cwd=cwd, env={**os.environ, "HALO_HOME": home}) == 0


def main(*arguments: str) -> int:
    """Run all of it, whatever fails, and return the exit code."""
    folders = examples()
    results = Path(os.environ.get("HALO_RESULTS", ROOT / ".tox" / "results"))
    python = (sys.executable, "-m")
    passed = [
        run(*python, "halo_kernel", "plugins", "check", *[each.name.removeprefix("halo-") for each in folders]),
        run(*python, "halo_kernel", "plugins", "check", "--tier", "silver", *map(str, folders)),
        run(*python, "mypy", "--strict", *[str(each / "src") for each in folders]),
    ]
    for each in folders:
        report = results / f"examples-{each.name.removeprefix('halo-')}.xml"
        passed.append(run(*python, "pytest", "-q", f"--junitxml={report}", *arguments, cwd=each))
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
