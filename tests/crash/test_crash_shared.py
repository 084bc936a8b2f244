"""One home and two servers, and a database that is copied while it is written."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .served import Served

COPIES, WORD = 12, "heliotrope "
PLUGINS = {"HALO_PLUGINS": "api,offline,workspace"}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A server without a model."""
    served = Served(tmp_path / "home", PLUGINS)
    served.start()
    yield served
    served.end()


def test_a_second_server_says_who_is_first(tmp_path: Path, served: Served) -> None:
    """A second server on a home ends with one sentence that names the first, its process too, which goes on."""
    second = Served(tmp_path / "home", PLUGINS)
    second.log = tmp_path / "second.log"
    assert not second.try_to_start()
    assert second.code() == 1
    (said,) = second.log.read_text().splitlines()
    assert f"runs already at {served.url}, process {served.pid}. Use it, stop it with `halo stop`" in said
    assert served.call("GET", "/api/server")[0] == 200


class Writer(threading.Thread):
    """Speaks to a session without a pause."""

    def __init__(self, served: Served, path: str) -> None:
        super().__init__(daemon=True)
        self.enough = threading.Event()
        self.acknowledged = 0
        self._served = served
        self._path = path

    def run(self) -> None:
        while not self.enough.is_set():
            status, _ = self._served.call("POST", f"{self._path}/messages", {"text": WORD * 200, "mode": "follow_up"})
            self.acknowledged += status == 202


def folder_of(served: Served, path: Path, **more: object) -> tuple[int, Any]:
    return served.call("POST", "/api/workspaces", {"path": str(path), **more})


@pytest.mark.timeout(120)
def test_a_database_copied_while_it_is_written(tmp_path: Path, served: Served) -> None:
    """What `cp` makes of a database in use opens, or is refused with a sentence that names it; the original is whole.

    What was copied is either read to its end or said to be damaged; `halo backup` is the way that always works.
    """
    original = tmp_path / "w"
    original.mkdir()
    _, workspace = folder_of(served, original)
    base = f"/api/workspaces/{workspace['id']}/sessions"
    _, session = served.call("POST", base, {})
    writer = Writer(served, f"{base}/{session['id']}")
    writer.start()
    copies = [tmp_path / f"copy{number}" for number in range(COPIES)]
    try:
        for number, copy in enumerate(copies):
            seen = writer.acknowledged
            while writer.acknowledged < seen + 3:
                writer.join(0.01)
            copy_files(original / ".halo", copy / ".halo", with_wal=bool(number % 2))
    finally:
        writer.enough.set()
        writer.join()
    ends = [look(served, copy) for copy in copies]
    print(f"{ends.count('')} of {COPIES} copies open; the others: {sorted(set(ends))}")
    _, page = served.call("GET", f"{base}/{session['id']}")
    assert page["head"] > writer.acknowledged
    assert served.stop() == 0
    assert "Traceback" not in served.log.read_text()


def copy_files(source: Path, target: Path, *, with_wal: bool) -> None:
    """Copy the database, and perhaps its -wal after it, as `cp` does: while both change."""
    target.mkdir(parents=True)
    for name in ("halo.db", "halo.db-wal") if with_wal else ("halo.db",):
        shutil.copy(source / name, target / name)


def look(served: Served, copy: Path) -> str:
    """Open a copy as a workspace of its own and read all its sessions; return what was said against it, if anything."""
    status, answer = folder_of(served, copy)
    if status == 409:
        assert "halo workspaces new-id" in answer["advice"], "it is known as a copy"
        status, answer = folder_of(served, copy, new_id=True)
    if status == 201:
        base = f"/api/workspaces/{answer['id']}/sessions"
        status, answer = served.call("GET", base)
        for session in answer["sessions"] if status == 200 else ():
            status, answer = served.call("GET", f"{base}/{session['id']}/events?limit=500")
            assert status in (200, 503), answer
    if status < 300:
        return ""
    said = f"{answer['error']} {answer.get('advice', '')}"
    assert answer["type"] in ("StorageUnavailable", "Conflict"), answer
    assert "\n" not in said and answer.get("advice"), answer
    return said.replace(str(copy), "")
