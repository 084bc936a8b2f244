"""Add up the results that tox environments left: `summary.py FOLDER`, with what each took. The last line is all."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

COUNTS = ("passed", "failed", "skipped")


def counts(report: Path) -> tuple[dict[str, int], float]:
    """Count one JUnit report's tests, and return the seconds that they took; an error in a fixture is a failure."""
    suite = ElementTree.parse(report).getroot().find("testsuite")
    if suite is None:
        raise SystemExit(f"{report}: no testsuite in it")
    tests, failures, errors, skipped = (int(suite.get(key, "0")) for key in ("tests", "failures", "errors", "skipped"))
    found = {"passed": tests - failures - errors - skipped, "failed": failures + errors, "skipped": skipped}
    return found, float(suite.get("time", "0"))


def line(found: dict[str, int]) -> str:
    return ", ".join(f"{found[key]} {key}" for key in COUNTS)


def main(folder: str) -> None:
    total, whole = dict.fromkeys(COUNTS, 0), 0.0
    for report in sorted(Path(folder).glob("*.xml")):
        found, seconds = counts(report)
        whole += seconds
        total = {key: total[key] + found[key] for key in COUNTS}
        print(f"{report.stem}: {line(found)} in {seconds:.0f} s")
    print(f"all of them took {whole:.0f} s")
    print(line(total))


if __name__ == "__main__":
    main(*sys.argv[1:])
