"""Run one folder of tests for a tox environment: `suite.py FOLDER|plugin-NAME [pytest arguments]`.

A folder without tests says so and passes. Two processes share the tests, three those of the kernel and of the docs,
which wait more than they work. The kernel's write to memory where there is room, for what they show does not depend on
the disk. Results go to `HALO_RESULTS/<environment>.xml`, which
`summary.py` adds up.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WAITING = (Path("tests/kernel"), Path("tests/docs"))
MEMORY = Path("/dev/shm")
ROOM = 4 * 1024**3  # bytes


def main(target: str, *arguments: str) -> int:
    folder = Path("tests/plugins", target.removeprefix("plugin-")) if target.startswith("plugin-") else Path(target)
    if not any((ROOT / folder).rglob("test_*.py")):
        print(f"{folder}: no tests yet")
        return 0
    name = os.environ.get("TOX_ENV_NAME", folder.name)
    results = Path(os.environ.get("HALO_RESULTS", ROOT / ".tox" / "results")) / f"{name}.xml"
    shared = ("--numprocesses", "3" if folder in WAITING else "2")
    command = [sys.executable, "-m", "pytest", str(folder), f"--junitxml={results}", *shared, *arguments]
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what runs in its background
        signal.signal(signal.SIGINT, signal.default_int_handler)  # tests press Ctrl-C
    with scratch(in_memory=folder == Path("tests/kernel")) as variables:
        return subprocess.call(command, cwd=ROOT, env={**os.environ, **variables})


@contextmanager
def scratch(*, in_memory: bool) -> Generator[dict[str, str]]:
    """Give the variables that say where tests write, for as long as they run."""
    if in_memory and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM:
        with tempfile.TemporaryDirectory(prefix="halo-tests-", dir=MEMORY) as folder:
            os.chmod(folder, 0o1777)  # some tests are other users
            yield {"TMPDIR": folder}
    else:
        yield {}


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
