"""Write a plugin of each kind, and check it as it is: `templates.py [pytest arguments]`.

Each is written by `halo plugins new` and installed as a wheel. ruff, mypy and pyright look at all of them, each one's
tests run in its folder, two at a time, and `halo plugins check` sees that all stand at gold. Results go to
`HALO_RESULTS/templates-<kind>.xml`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from halo_cli.new import kinds

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(os.environ.get("HALO_RESULTS", ROOT / ".tox" / "results"))
PYTHON = (sys.executable, "-m")


def run(*command: str, cwd: Path) -> bool:
    """Run a command with a home of its own, print what it says, and tell whether it went well."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as home:
        env = {**os.environ, "HALO_HOME": home}
        done = subprocess.run(command, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    took = f"{time.monotonic() - begin:.0f} s, exit code {done.returncode}"
    print(f"$ {' '.join(command[:6])} … ({took})\n{done.stdout}", flush=True)
    return done.returncode == 0


def written(room: Path) -> dict[str, Path]:
    """Write a project of each kind, install them, and return their folders."""
    for kind in kinds():
        made = [*PYTHON, "halo_kernel", "plugins", "new", f"my-{kind}", "--kind", kind, "--into", str(room)]
        subprocess.run(made, check=True, env={**os.environ, "HALO_HOME": str(room / "home")})
    folders = {kind: room / f"halo-my-{kind}" for kind in kinds()}
    install = ["uv", "pip", "install", "--quiet", "--no-deps", "--python", sys.executable]
    subprocess.run([*install, *map(str, folders.values())], check=True)
    return folders


def tested(kind: str, folder: Path, *arguments: str) -> bool:
    """Run the tests of a project."""
    report = RESULTS / f"templates-{kind}.xml"
    return run(*PYTHON, "pytest", "-q", f"--junitxml={report}", *arguments, cwd=folder)


def main(*arguments: str) -> int:
    """Run all of it, whatever fails, and return the exit code."""
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(2) as pool:
        room = Path(name)
        folders = written(room)
        tests = [pool.submit(tested, kind, folder, *arguments) for kind, folder in folders.items()]
        passed = [each.result() for each in tests]
        sources = [f"{folder.name}/src" for folder in folders.values()]
        (room / "pyrightconfig.json").write_text(json.dumps({"include": sources, "typeCheckingMode": "strict"}))
        passed += [
            run(*PYTHON, "ruff", "check", ".", cwd=room),
            run(*PYTHON, "ruff", "format", "--check", ".", cwd=room),
            run(*PYTHON, "mypy", "--strict", *sources, cwd=room),
            run(*PYTHON, "pyright", "--pythonpath", sys.executable, cwd=room),
            run(*PYTHON, "halo_kernel", "plugins", "check", "--tier", "gold", *map(str, folders.values()), cwd=room),
        ]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
