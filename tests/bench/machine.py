"""What a process has cost so far, as Linux counts it; elsewhere the bench is skipped."""

from __future__ import annotations

import os
from pathlib import Path

COUNTED = Path("/proc/self/stat").exists()


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process, user and system, all its threads; counted in ticks of 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def load_average() -> str:
    """Return the load average of the last minute and the number of cores, for the head of a table."""
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
