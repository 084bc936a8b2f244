"""Write constraints.txt anew: every third-party package at its newest allowed version, with hashes and no address."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def ours() -> list[str]:
    folders = [ROOT / "kernel", *sorted((ROOT / "plugins").iterdir())]
    files = [folder / "pyproject.toml" for folder in folders]
    return [tomllib.loads(file.read_text())["project"]["name"] for file in files if file.exists()]


def main() -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    command = ["uv", "pip", "compile", "pyproject.toml", "--universal", "--python-version", "3.11", "--all-extras"]
    command += ["--generate-hashes", "--no-emit-index-url", "--no-emit-find-links", "--no-annotate", "--quiet"]
    command += ["--upgrade", "--custom-compile-command", "python tests/envs/constraints.py"]
    for group in groups:
        command += ["--group", group]
    for name in ours():
        command += ["--no-emit-package", name]
    subprocess.check_call([*command, "--output-file", "constraints.txt"], cwd=ROOT, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
