"""Add up the results that tox environments left: `summary.py FOLDER`. The last line is the sum of all."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

COUNTS = ("passed", "failed", "skipped")


def counts(report: Path) -> dict[str, int]:
    """Count one JUnit report's tests; an error in a fixture is a failure."""
    suite = ElementTree.parse(report).getroot().find("testsuite")
    if suite is None:
        raise SystemExit(f"{report}: no testsuite in it")
    tests, failures, errors, skipped = (int(suite.get(key, "0")) for key in ("tests", "failures", "errors", "skipped"))
    return {"passed": tests - failures - errors - skipped, "failed": failures + errors, "skipped": skipped}


def line(found: dict[str, int]) -> str:
    return ", ".join(f"{found[key]} {key}" for key in COUNTS)


def main(folder: str) -> None:
    total = dict.fromkeys(COUNTS, 0)
    for report in sorted(Path(folder).glob("*.xml")):
        found = counts(report)
        total = {key: total[key] + found[key] for key in COUNTS}
        print(f"{report.stem}: {line(found)}")
    print(line(total))


if __name__ == "__main__":
    main(*sys.argv[1:])
