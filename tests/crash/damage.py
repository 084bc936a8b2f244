"""A home that was used for everything, copies of it with one file damaged, and what a server then makes of them."""

from __future__ import annotations

import os
import random
import re
import shutil
import textwrap
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .served import Served

PLUGINS = "api,backup,budget,offline,search,shelf,signin,tools,workspace"
WORD = "heliotrope"  # what was said, by which the conversation is known again
STRANGER = 65_534  # a user who owns nothing else
IS_ROOT = os.geteuid() == 0
ANSWER_SECONDS = 15.0
SETTINGS = "logging:\n  level: info\nbudget:\n  budgets:\n    all:\n      tokens: 100000\n"
SHELF = '''
    """Keeps something wherever a plugin can: databases of all scopes, a secret, a large value, an account."""

    from halo_kernel import Account, Migration, Service, hook
    from halo_kernel.testing import LineChannel
    from halo_lib_settings import keep_secret

    KEPT = [Migration(version=1, sql="CREATE TABLE kept(word TEXT); INSERT INTO kept VALUES ('WORD')")]
    LINE = LineChannel()


    @hook
    def provide_channels():
        return [LINE]


    @hook
    def provide_dispatchers():
        return [LINE]


    @hook
    async def workspace_opened(workspace, host):
        host.spawn("keep", keep(workspace, host))


    async def keep(workspace, host):
        await host.workspaces.get(workspace.id)  # once it is open
        keep_secret(host, "key", "WORD-WORD")
        for scope in ("global", "secret", "workspace"):
            await host.data.open("shelf", scope, KEPT, workspace=workspace.id)
        await host.accounts.put(Account(type="line", id="me", workspace=workspace.path))
        await host.blobs.put(workspace.id, b"WORD" * 10_000, media_type="text/plain")
'''


def install_shelf(home: Path) -> None:
    """Lay out that plugin as an installer does."""
    package, info = home / "plugins" / "halo_shelf", home / "plugins" / "halo_shelf-1.0.dist-info"
    for folder in (package, info):
        folder.mkdir(parents=True)
    (package / "__init__.py").write_text(textwrap.dedent(SHELF.replace("WORD", WORD)))
    (package / "halo.toml").write_text('kernel = ">=0.1,<0.2"\nprovides = ["channels", "dispatchers"]\n')
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: halo-shelf\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[halo.plugins]\nshelf = halo_shelf\n")


# What holds nothing of a person's: it is made anew, or of one start alone. Of a -wal nobody can tell a part that is
# damaged from one that a power cut kept from being written: SQLite goes on from what is whole.
RENEWED = (
    "-shm",
    "-wal",
    ".lock",
    "server.json",
    ".seeds.json",
    ".template-version",
    "cookie.key",
    "search.db",
    ".log",
)
WAY_BACK = re.compile(r"(?i)`halo [a-z]+|restore|check the owner|change its permissions|correct|move it away")
Json = dict[str, Any]
HALF, GARBAGE, UNREADABLE, REMOVED, FOLDER = "half", "garbage", "unreadable", "removed", "a folder"


def halve(path: Path) -> None:
    """Cut a file in the middle."""
    os.truncate(path, path.stat().st_size // 2)


def litter(path: Path) -> None:
    """Put what no program has written in the place of a file's content."""
    path.write_bytes(random.Random(path.name).randbytes(max(path.stat().st_size, 64)))


def cover(path: Path) -> None:
    """Put a folder, with something in it, in the place of a file."""
    path.unlink()
    path.mkdir()
    (path / "something").write_text("of a person")


DAMAGES: Mapping[str, Callable[[Path], None]] = {
    HALF: halve,
    GARBAGE: litter,
    UNREADABLE: lambda path: path.chmod(0),
    REMOVED: Path.unlink,
    FOLDER: cover,
}


class Ground:
    """A place where a home and its workspace are used, put aside, and laid out again for each damage."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.workspace = folder / "workspace"
        self.aside = folder / "aside"
        self.session = ""

    def served(self) -> Served:
        """Return the server of the home; where we are root, another user runs it, since root reads everything."""
        env = {"HOME": str(self.folder), "HALO_PLUGINS": PLUGINS}
        ids = f"{STRANGER}", "--regid", f"{STRANGER}", "--clear-groups", "--"
        return Served(self.home, env, prefix=("setpriv", "--reuid", *ids) if IS_ROOT else ())

    def use(self) -> None:
        """Do in a home what leaves files of every kind, and end it as a power cut does."""
        self.workspace.mkdir()
        install_shelf(self.home)
        secrets = self.home / "secrets"
        secrets.mkdir(mode=0o700)
        (secrets / "settings.yaml").write_text(SETTINGS)
        self.give_away(self.home, self.workspace)
        served = self.served()
        try:
            self._converse(served)
            assert served.stop() == 0  # now the databases hold what is in their -wal
            self._converse(served)
        finally:
            served.end()
        (self.workspace / ".halo" / "settings.yaml").write_text("tools:\n  shell_timeout: 60\n")
        for database in (*self.home.rglob("*.db"), *self.workspace.rglob("*.db")):
            shutil.copy2(database, f"{database}.backup-1")  # as an update would have left it
        self.aside.mkdir()
        for each in (self.home, self.workspace):
            each.rename(self.aside / each.name)

    def _converse(self, served: Served) -> None:
        served.start()
        talk = opened(served, self.workspace)
        self.session = self.session or talk.id
        talk.say(f"What is {WORD}?")
        self._wait_for_all(talk)

    def _wait_for_all(self, talk: Talk) -> None:
        """Wait for what plugins do beside the conversation."""
        inner, end = self.workspace / ".halo", time.monotonic() + 15
        while not (list(inner.glob("assets/[0-9a-f]*")) and talk.finds(WORD)):
            assert time.monotonic() < end, sorted(map(str, self.folder.rglob("*")))
            time.sleep(0.1)

    def files(self) -> list[str]:
        """Return every file of the home and of the workspace's own folder, by its path below this place."""
        found = (each.relative_to(self.aside) for each in self.aside.rglob("*") if each.is_file())
        return sorted(map(str, found))

    def lay_out(self) -> None:
        """Have home and workspace as they were used."""
        for each in (self.home, self.workspace):
            shutil.rmtree(each, ignore_errors=True)
            shutil.copytree(self.aside / each.name, each)
        self.home.with_name("home.log").unlink(missing_ok=True)

    def give_away(self, *folders: Path) -> None:
        """Let the user that runs the server own everything."""
        for folder in folders if IS_ROOT else ():
            for each in (folder, *folder.rglob("*")):
                os.chown(each, STRANGER, STRANGER)


@dataclass(frozen=True)
class Talk:
    """A session of a running server."""

    served: Served
    base: str
    id: str

    def call(self, method: str, path: str, body: object = None) -> Any:
        return asked(self.served, method, f"{self.base}{path}", body)

    def events(self, session: str) -> list[Json]:
        found: list[Json] = self.call("GET", f"/sessions/{session}/events?limit=500")["events"]
        return found

    def say(self, text: str) -> None:
        """Have a message answered."""
        self.call("POST", f"/sessions/{self.id}/messages", {"text": text})
        end = time.monotonic() + ANSWER_SECONDS
        while not (ends := [event["body"] for event in self.events(self.id) if event["kind"] == "turn.ended"]):
            assert time.monotonic() < end, f"no answer: {self.events(self.id)}"
            time.sleep(0.03)
        if ends[-1]["outcome"] != "succeeded":
            raise Refused({"error": ends[-1]["error"]})

    def finds(self, word: str) -> bool:
        return bool(self.call("GET", f"/search?q={word}")["hits"])


class Refused(Exception):
    """The server said no, in the words that are the argument."""


def asked(served: Served, method: str, path: str, body: object = None) -> Any:
    """Ask a server. Raises `Refused`."""
    status, answer = served.call(method, path, body)
    if status >= 300:
        raise Refused(answer)
    return answer


def opened(served: Served, workspace: Path) -> Talk:
    """Open a workspace, and a session in it. Raises `Refused`."""
    info = asked(served, "POST", "/api/workspaces", {"path": str(workspace)})
    base = f"/api/workspaces/{info['id']}"
    return Talk(served, base, asked(served, "POST", f"{base}/sessions", {})["id"])


@dataclass(kw_only=True)
class Found:
    """What became of a damaged home: it `works`, or what was `said` instead, and whether the old words are `there`."""

    works: bool = False
    there: bool = False
    said: str = ""
    code: int | None = None  # of a server that did not start
    path: str
    kept: bool = True

    @property
    def end(self) -> str:
        """The sort of it."""
        if self.works:
            return "works, with all that was said" if self.there else "works, without what was said"
        return "a message is refused with a sentence" if self.code is None else "no start, with a sentence"

    @property
    def faults(self) -> list[str]:
        """What a person would be left alone with."""
        wrong = {
            "a traceback": "Traceback" in self.said,
            "what was there is gone": not self.kept,
            "no word of what is wrong": not (self.works or self.said),
            "more than one line": "\n" in self.said,
            "no way back": bool(self.said) and not WAY_BACK.search(self.said) and self.path not in self.said,
            "a database, and no way back": ".db" in self.said and not WAY_BACK.search(self.said),
            "ended as if all were well": self.code == 0,
        }
        return [what for what, is_so in wrong.items() if is_so]


def attempt(ground: Ground, name: str, damage: str) -> Found:
    """Start a server on a home of which one file is damaged, and have a message answered."""
    path = ground.folder / name
    ground.lay_out()
    DAMAGES[damage](path)
    ground.give_away(ground.home, ground.workspace)
    before, served, found = content(path), ground.served(), Found(path=str(path))
    try:
        if served.try_to_start():
            converse(served, ground, found)
            assert served.stop() == 0
        else:
            found.code = served.code()
            lines = served.log.read_text(errors="replace").splitlines()
            found.said = "\n".join(line for line in lines if not line.startswith("{"))  # what is not of the log
    finally:
        served.end()
    found.kept = is_kept(path, before, content(ground.aside / name)) or (name.endswith(".db") and found.there)
    return found


def is_kept(path: Path, before: bytes | None, whole: bytes | None) -> bool:
    """Tell whether what was `before` at a path is in its folder still, or what was `whole` is there again."""
    after = [content(each) for each in path.parent.iterdir()]
    return before is None or path.name.endswith(RENEWED) or before in after or content(path) == whole


def converse(served: Served, ground: Ground, found: Found) -> None:
    """Speak to a server, and look for what was said before."""
    try:
        talk = opened(served, ground.workspace)
        talk.say("Which files are here?")
        found.works = True
        status, page = served.call("GET", f"{talk.base}/sessions/{ground.session}/events?limit=500")
        found.there = status == 200 and WORD in str(page)
    except Refused as no:
        found.said = " ".join(no.args[0].get(part, "") for part in ("error", "advice")).strip()


def content(path: Path) -> bytes | None:
    """Return what is at a path, for a folder the names in it; None for nothing."""
    if path.is_dir():
        return repr(sorted(each.name for each in path.iterdir())).encode()
    mode = path.stat().st_mode if path.exists() else 0
    if mode and not mode & 0o400:
        path.chmod(0o600)
    found = path.read_bytes() if mode else None
    if mode:
        path.chmod(mode & 0o777)
    return found
