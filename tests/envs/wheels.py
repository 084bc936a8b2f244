"""Wheels of every distribution: `wheels.py build` builds them when a source changed, `wheels.py install plugin-NAME`
installs that one, what it needs of ours, and the test tools into the running environment; all else comes from outside.
`wheels.py install examples` does so with all examples, and with the command that checks plugins.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UNPACKED = {"__pycache__", "tests", ".mypy_cache", ".pytest_cache"}
WHEELS = Path(os.environ.get("HALO_WHEELS", ROOT / ".tox" / "wheels"))


def examples() -> list[Path]:
    """List the folders of the example plugins, which are no members of the workspace."""
    return sorted(path.parent for path in (ROOT / "examples").glob("*/pyproject.toml"))


def sources() -> list[Path]:
    """List the files that wheels are made of."""
    found = [ROOT / "pyproject.toml", ROOT / "README.md"]
    for project in [ROOT / "kernel", *sorted((ROOT / "plugins").iterdir()), *examples()]:
        for path in sorted(project.rglob("*")):
            top, *below = path.relative_to(project).parts
            if path.is_file() and top not in UNPACKED and "__pycache__" not in below:
                found.append(path)
    return found


def stamp() -> str:
    digest = hashlib.sha256()
    for path in sources():
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def build() -> None:
    """Build all wheels unless those present are of the same sources."""
    mark, now = WHEELS / "stamp", stamp()
    if mark.exists() and mark.read_text() == now:
        return
    shutil.rmtree(WHEELS, ignore_errors=True)
    command = ["uv", "build", "--quiet", "--wheel", "--out-dir", str(WHEELS)]
    subprocess.check_call([*command, "--all-packages"], cwd=ROOT)
    for example in examples():
        subprocess.check_call([*command, str(example)], cwd=ROOT)
    mark.write_text(now)


def ours(name: str) -> list[str]:
    """List the distribution and those of ours that it or its tests need, itself first."""
    short = name.removeprefix("halo-")
    places = [ROOT / "examples" / name, ROOT / "plugins" / short, ROOT / short]
    folder = next(place for place in places if place.exists())
    document = tomllib.loads((folder / "pyproject.toml").read_text())
    needs = document["project"]["dependencies"] + document.get("dependency-groups", {}).get("test", [])
    names = [re.split(r"[^A-Za-z0-9-]", need, maxsplit=1)[0] for need in needs]
    found = [name]
    for needed in names:
        if needed.startswith("halo-"):
            found += [other for other in ours(needed) if other not in found]
    return found


def install(environment: str) -> None:
    """Install the wheels of one plugin, or of all examples, with the test tools."""
    if environment == "examples":
        group, wanted = "examples", [*(each.name for each in examples()), "halo-cli"]
    else:
        group, wanted = "test", ["halo-" + environment.removeprefix("plugin-")]
    names = list(dict.fromkeys(name for each in wanted for name in ours(each)))
    wheels = [str(next(WHEELS.glob(f"{name.replace('-', '_')}-*.whl"))) for name in names]
    print("wheels:", " ".join(names), flush=True)
    subprocess.check_call(
        ["uv", "pip", "install", "--quiet", "--no-sources", "--group", group, *wheels],
        cwd=ROOT,
    )


def main(verb: str, *names: str) -> None:
    build()
    if verb == "install":
        install(*names)


if __name__ == "__main__":
    main(*sys.argv[1:])
