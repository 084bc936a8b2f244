"""Stands in for pip in the documentation's commands: `installer.py install [-e] NAME[EXTRAS]|FOLDER ...`.

A name must be a distribution of this clone, which is installed, with such extras. A folder is laid out in `SITE`; the
clone is the folder `./halo`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main(verb: str, *words: str) -> str | None:
    """Do it; return what is wrong, if anything is."""
    if verb != "install":
        return f"pip {verb} is not known here"
    for word in [each for each in words if not each.startswith("-")]:
        if fault := lay_out(word, words) if os.sep in word or word == "." else named(word):
            return fault
    return None


def lay_out(folder: str, options: tuple[str, ...]) -> str | None:
    """Install a folder with a project, editable if that is wished."""
    editable = ["--editable"] if {"-e", "--editable"} & {*options} else []
    command = ["uv", "pip", "install", "--quiet", "--no-deps", "--python", sys.executable]
    where = str(ROOT / folder.removeprefix("./halo/")) if folder.startswith("./halo/") else folder
    done = subprocess.run([*command, "--target", os.environ["SITE"], *editable, where])
    return f"uv ends with {done.returncode}" if done.returncode else None


def named(wanted: str) -> str | None:
    """Return what is wrong with a distribution's name and extras."""
    name, _, extras = wanted.rstrip("]").partition("[")
    files = [ROOT / "pyproject.toml", ROOT / "kernel" / "pyproject.toml", *ROOT.glob("plugins/*/pyproject.toml")]
    projects = [tomllib.loads(file.read_text(encoding="utf-8"))["project"] for file in files]
    for project in projects:
        if project["name"] == name:
            unknown = set(filter(None, extras.split(","))) - set(project.get("optional-dependencies", {}))
            return f"{name} has no extra {', '.join(unknown)}" if unknown else None
    return f"this clone has no distribution {name}"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
