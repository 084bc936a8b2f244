"""Bring the page's libraries anew: `vendor.py` fetches the versions below with npm, `vendor.py --check` compares.

The files are the packages' own, byte for byte, each beside its licence; `manifest.json` holds their sha256.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent / "src" / "halo_web" / "static" / "vendor"

# package and version -> {file in the package: name here}
PACKAGES = {
    "preact@11.2.0": {
        "dist/preact.mjs": "preact.js",
        "hooks/dist/hooks.mjs": "preact-hooks.js",
        "LICENSE": "preact.LICENSE.txt",
    },
    "@preact/signals@2.11.4": {"dist/signals.mjs": "signals.js", "LICENSE": "signals.LICENSE.txt"},
    "@preact/signals-core@1.14.5": {"dist/signals-core.mjs": "signals-core.js", "LICENSE": "signals-core.LICENSE.txt"},
    "htm@3.1.1": {"dist/htm.mjs": "htm.js", "LICENSE": "htm.LICENSE.txt"},
    "marked@18.2.1": {"lib/marked.esm.js": "marked.js", "LICENSE": "marked.LICENSE.txt"},
    "dompurify@3.5.0": {"dist/purify.es.mjs": "dompurify.js", "LICENSE": "dompurify.LICENSE.txt"},
}


def fetch(package: str, folder: Path) -> tarfile.TarFile:
    """Download one package with npm and open it."""
    packed = subprocess.check_output(["npm", "pack", "--silent", package], cwd=folder, text=True)
    return tarfile.open(folder / packed.strip().splitlines()[-1])


def read(archive: tarfile.TarFile, name: str) -> bytes:
    found = archive.extractfile(f"package/{name}")
    if found is None:
        raise SystemExit(f"{archive.name}: {name} is not a file")
    return found.read()


def write() -> dict[str, dict[str, str]]:
    """Write all files and return the manifest."""
    HERE.mkdir(parents=True, exist_ok=True)
    manifest: dict[str, dict[str, str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for package, files in PACKAGES.items():
            with fetch(package, Path(folder)) as archive:
                for source, target in files.items():
                    content = read(archive, source)
                    (HERE / target).write_bytes(content)
                    manifest.setdefault(package, {})[target] = hashlib.sha256(content).hexdigest()
    return manifest


def check() -> list[str]:
    """Return what differs between the manifest, the list above and the files."""
    manifest = json.loads((HERE / "manifest.json").read_text())
    wanted = {package: set(files.values()) for package, files in PACKAGES.items()}
    found = {package: set(files) for package, files in manifest.items()}
    wrong = [] if wanted == found else ["manifest.json lists other packages or files than vendor.py"]
    digests = {name: digest for files in manifest.values() for name, digest in files.items()}
    present = {path.name for path in HERE.iterdir()} - {"manifest.json"}
    wrong += [f"{name}: not in manifest.json" for name in sorted(present - digests.keys())]
    wrong += [f"{name}: missing" for name in sorted(digests.keys() - present)]
    for name in sorted(present & digests.keys()):
        if hashlib.sha256((HERE / name).read_bytes()).hexdigest() != digests[name]:
            wrong.append(f"{name}: changed")
    return wrong


def main(arguments: list[str]) -> int:
    if arguments == ["--check"]:
        wrong = check()
        print("\n".join(wrong) or "as listed")
        return bool(wrong)
    (HERE / "manifest.json").write_text(json.dumps(write(), indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
