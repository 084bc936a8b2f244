"""`halo channels` beside a real server: from nothing to the first answer, and all that operators do with accounts."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import re
import select
import socket
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from halo_cli import channels
from halo_kernel import BadInput, Conflict, DeliveryFailed, NotFound, PluginFailed, WorkspaceUnusable
from halo_lib_client import Client

SIGN = "sign-0123456789"
GOOD, OTHER, NEWER, WRONG = (f"guild-{word}-0123456789" for word in ("good", "other", "newer", "wrong"))
BOTS = {GOOD: ("7", "Lamp bot"), OTHER: ("8", "Other bot")}


class Terminal:
    """A command on a terminal of its own, as a person has it before them."""

    def __init__(self, *words: str) -> None:
        ours, theirs = pty.openpty()
        self._screen = ours
        self.shown = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "halo_kernel", *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(theirs)

    def expect(self, words: str, seconds: float = 30) -> str:
        """Return what is shown up to and with these words, and go on after them."""
        until = time.monotonic() + seconds
        while words not in self.shown:
            assert time.monotonic() < until and self._read(), f"no {words!r} in {self.shown!r}"
        before, _, self.shown = self.shown.partition(words)
        return before + words

    def type(self, line: str) -> None:
        os.write(self._screen, f"{line}\n".encode())

    def end(self, code: int) -> str:
        """Return what is left once the command has ended with this code."""
        while self._read():
            pass
        os.close(self._screen)
        assert self.process.wait(30) == code, self.shown
        return self.shown

    def _read(self) -> bool:
        if not select.select([self._screen], [], [], 30)[0]:
            return False
        try:
            piece = os.read(self._screen, 65_536)
        except OSError:  # the other end has gone
            return False
        self.shown += piece.decode()
        return bool(piece)


@pytest.fixture
def server(channel_server: Client) -> Iterator[Client]:
    """A server whose platform knows two bots; no secret of theirs may be in a log, a journal, or a file for others."""
    know(channel_server, BOTS)
    yield channel_server
    folder = channel_server.home.parent
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "bots"]
    kept = [path for path in files if "secrets" not in path.parts and not path.name.startswith("given")]
    for secret in (GOOD, OTHER, NEWER, WRONG, SIGN):
        assert [path for path in kept if secret.encode() in path.read_bytes()] == []


def given(secret: str) -> Path:
    """Return a file with a secret in it."""
    Path("given").write_text(f"{secret}\n")
    return Path("given")


def know(client: Client, bots: dict[str, tuple[str, str]]) -> None:
    (client.home / "bots").write_text(json.dumps(bots))


def accounts(client: Client) -> list[dict[str, Any]]:
    """Return the accounts but for how long each has been silent."""
    rows: list[dict[str, Any]] = client.get("/api/accounts")["accounts"]
    return [{name: value for name, value in row.items() if name != "readiness"} for row in rows]


def run(words: Sequence[str], capsys: pytest.CaptureFixture[str], code: int = 0) -> str:
    """Return what a command says on stdout; no secret is in anything it says."""
    assert channels.command(words) == code
    said = capsys.readouterr()
    assert not re.search("(guild-|sign-)", said.out + said.err)
    return said.out


@pytest.fixture
def added(server: Client, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The account of the bot 7."""
    add(monkeypatch, capsys, "guild")


def add(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str, piped: str = "") -> str:
    monkeypatch.setattr("sys.stdin", io.StringIO(piped or f"{GOOD}\n{SIGN}\n"))
    return run(["add", *words], capsys)


# on a terminal


def test_from_nothing_to_the_first_answer(server: Client) -> None:
    """Each value is asked for with what it is, tried, and asked for again when it is refused; then a person writes."""
    screen = Terminal("channels", "add", "guild", "--access", "workspace")
    screen.expect("Ask the porter for it.")
    screen.expect("Bot token: ")
    screen.type("")
    screen.expect("It is needed.")
    screen.expect("Bot token: ")
    screen.type(WRONG)
    screen.expect("Signing secret: ")
    screen.type(SIGN)  # all that is needed is there, and is tried
    assert "says 401. Ask for another one" in screen.expect("Bot token: ")
    screen.type(GOOD)
    screen.expect("Where the guild is.")
    screen.expect("Address (Enter for none): ")
    screen.type("http://gild")
    assert "http://gild is no guild." in screen.expect("Address (Enter for none): ")
    screen.type("http://guild")
    screen.expect("Second secret (Enter for none): ")
    screen.type("")
    screen.expect("guild 7 (Lamp bot) is added: it speaks for ")
    rest = screen.end(0)
    assert f"{Path.cwd()}, with workspace access." in rest and "`--allow` says who alone may" in rest
    (account,) = accounts(server)
    assert (account["config"], account["secrets"]) == ({"base": "http://guild", "name": "Lamp bot"}, ["sign", "token"])

    for _ in range(300):
        if (server.home / "port").exists():
            break
        time.sleep(0.02)
    with socket.create_connection(("127.0.0.1", int((server.home / "port").read_text())), 10) as line:
        line.sendall(b'{"id": "1", "chat": "c", "user": "ann", "text": "hello"}\n')
        told = line.makefile()
        assert json.loads(told.readline()) == {"ack": "1"}
        assert "hello" in json.loads(told.readline())["text"]


def test_no_secret_is_echoed(server: Client) -> None:
    """What is typed unseen is nowhere on the screen, whether it is taken, refused, or part of a platform's error."""
    screen = Terminal("channels", "add", "guild")
    shown = [screen.expect("Bot token: ")]
    screen.type(WRONG)
    shown.append(screen.expect("Signing secret: "))
    screen.type(SIGN)
    shown.append(screen.expect("Bot token: "))
    screen.type(GOOD)
    shown.append(screen.expect("Address (Enter for none): "))
    screen.type("")
    shown.append(screen.expect("Second secret (Enter for none): "))
    screen.type("extra-0123456789")
    shown.append(screen.end(0))
    assert "is added" in shown[-1]
    assert not re.search("(guild-|sign-|extra-)", "".join(shown))


def test_a_platform_that_is_away_is_asked_again(server: Client) -> None:
    """What was typed is kept while the platform cannot be reached, and tried again by Enter; Ctrl-C stores nothing."""
    screen = Terminal("channels", "add", "guild", "--set", "base=down")
    screen.expect("Bot token: ")
    screen.type(GOOD)
    screen.expect("Signing secret: ")
    screen.type(SIGN)
    for _ in range(2):
        shown = screen.expect("Enter tries again, Ctrl-C ends this: ")
        assert "cannot be reached." in shown and GOOD not in shown
        screen.type("")
    screen.expect("Enter tries again, Ctrl-C ends this: ")
    screen.type("\x03")
    screen.end(130)
    assert accounts(server) == []


def test_a_channel_that_is_called_is_asked_for_a_name(server: Client) -> None:
    """Where no platform gives a name, a person does; the token that lets its callers in is shown."""
    screen = Terminal("channels", "add", "hall")
    shown = screen.expect("Id: ")
    assert "a hall account needs an id" in shown
    screen.type("a:b")
    assert "id has 1 to 80" in screen.expect("Id: ")
    screen.type("desk")
    screen.expect("hall desk is added: it speaks for ")
    token = re.search(r"shown this once: (\S+)", screen.end(0))
    assert token and who(server, token[1]) == "hall:desk"


@pytest.mark.usefixtures("added")
def test_secrets_are_rotated_on_a_terminal(server: Client) -> None:
    """Enter keeps a secret; one that is refused is asked for again; nothing given changes nothing."""
    know(server, {**BOTS, NEWER: ("7", "Lamp bot")})
    screen = Terminal("channels", "rotate", "guild", "7")
    screen.expect("Bot token (Enter keeps it): ")
    screen.type(WRONG)
    screen.expect("Signing secret (Enter keeps it): ")
    screen.type("")
    screen.expect("Second secret (Enter for none): ")
    screen.type("")
    assert "says 401" in screen.expect("Bot token (Enter keeps it): ")
    screen.type(NEWER)
    assert "guild 7 is changed: its platform takes the new secrets." in screen.end(0)
    screen = Terminal("channels", "rotate", "guild", "--secret-file", f"token={given(OTHER)}")
    assert "belongs to the guild account 8, not to 7" in screen.end(1)
    know(server, {NEWER: ("7", "Lamp bot")})
    assert server.post("/api/accounts/guild/7/test")["ok"]

    screen = Terminal("channels", "rotate", "guild")
    for prompt in ("Bot token (Enter keeps it): ", "Signing secret (Enter keeps it): ", "Second secret (Enter"):
        screen.expect(prompt)
        screen.type("")
    assert "no secret was given, and nothing is changed" in screen.end(1)


# from a script


def test_a_script_gives_values_in_every_way(
    server: Client, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Options, files, variables and lines of standard input; each secret by one that others do not see."""
    monkeypatch.setenv("HALO_CHANNEL_EXTRA", "extra-0123456789")
    monkeypatch.setenv("HALO_CHANNEL_BASE", "http://guild")
    words = ["guild", "--secret-file", f"token={given(GOOD)}", "--label", "Desk", "--language", "zh", "--json"]
    more = ["--allow", "ann", "--allow", "bob", "--access", "full", "-w", str(tmp_path / "work")]
    made = json.loads(add(monkeypatch, capsys, *words, *more, piped=f"{SIGN}\n"))
    assert (made["id"], made["label"], made["language"], made["access"]) == ("7", "Desk", "zh", "full")
    assert (made["allowed"], made["secrets"]) == (["ann", "bob"], ["extra", "sign", "token"])
    assert (made["config"]["base"], made["workspace"]) == ("http://guild", str(tmp_path / "work"))
    assert "token" not in made

    (tmp_path / "given_2").write_text(OTHER)
    monkeypatch.setenv("HALO_CHANNEL_TOKEN_FILE", str(tmp_path / "given_2"))
    monkeypatch.setenv("HALO_CHANNEL_SIGN", SIGN)
    assert add(monkeypatch, capsys, "guild").startswith("guild 8 (Other bot) is added: it speaks for ")


GIVEN = {"HALO_CHANNEL_TOKEN": GOOD, "HALO_CHANNEL_SIGN": SIGN}
REFUSALS: list[tuple[str, dict[str, str], type[Exception], str]] = [
    ("gild", {}, NotFound, "there is no channel gild, did you mean guild?"),
    (f"guild --set token={GOOD}", {}, BadInput, "token is a secret, which others would see"),
    ("guild --set base", {}, BadInput, "--set takes NAME=VALUE"),
    ("guild --set bse=x", GIVEN, BadInput, "a guild account has no bse"),
    ("guild --set base=x", GIVEN, BadInput, "x is no guild"),
    ("guild --set base=down", GIVEN, DeliveryFailed, "cannot be reached"),
    ("guild --set base=broken", GIVEN, PluginFailed, "failed to ask its platform: ValueError"),
    ("guild --secret-file token=nowhere", {}, BadInput, "nowhere of token cannot be read: No such file"),
    ("guild --secret-file token=given_empty", {}, BadInput, "given_empty of token is empty"),
    ("guild --secret-file token=given_bytes", {}, BadInput, "it is not UTF-8 text"),
    ("guild --secret-file tokn=given", GIVEN, BadInput, "a guild account has no tokn"),
    ("guild", {"HALO_CHANNEL_TOKEN": GOOD, "HALO_CHANNEL_TOKEN_FILE": "given"}, BadInput, "are both set"),
    ("guild", {}, BadInput, "a guild account needs token: Bot token"),
    ("guild", {**GIVEN, "HALO_CHANNEL_TOKEN": WRONG}, BadInput, "says 401"),
    ("guild --id 9", GIVEN, BadInput, "belongs to the guild account 7, not to 9"),
    ("guild -w nowhere", GIVEN, WorkspaceUnusable, "nowhere does not exist"),
    ("hall", {}, BadInput, "a hall account needs an id"),
    ("hall --id=a:b", {}, BadInput, "id has 1 to 80"),
]


def test_what_is_wrong_is_said_and_nothing_is_made(server: Client) -> None:
    """Whatever keeps an account from being made is one sentence that names it, without a secret."""
    given(GOOD)
    Path("given_empty").write_text(" \n")
    Path("given_bytes").write_bytes(b"\xff\xfe")
    for words, env, kind, said in REFUSALS:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("sys.stdin", io.StringIO(""))
            for name, value in env.items():
                patch.setenv(name, value)
            with pytest.raises(kind, match=re.escape(said)) as refused:
                channels.command(["add", *words.split()])
        assert not re.search("(guild-|sign-)", f"{refused.value} {getattr(refused.value, 'advice', '')}"), words
    assert accounts(server) == []
    log = "".join(path.read_text() for path in (server.home / "global" / "logs").iterdir())
    assert "no plan for <secret guild:token>" in log


@pytest.mark.usefixtures("added")
def test_an_account_that_is_there_is_not_made_again(
    server: Client, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one of a bot is refused, and the first stays as it is."""
    before = accounts(server)
    with pytest.raises(Conflict, match="there is a guild account 7 already"):
        add(monkeypatch, capsys, "guild", "--label", "Again")
    assert accounts(server) == before


def test_a_channel_that_is_called_gives_its_token_once(
    server: Client, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`add` shows a token, `token` makes another in its place; no list ever has one."""
    said = add(monkeypatch, capsys, "hall", "--id", "desk")
    first = re.search(r"shown this once: (\S+)", said)
    assert first
    second = run(["token", "hall"], capsys).strip()
    assert len(second) > 20 and second != first[1]
    assert second not in run(["list", "--json"], capsys)
    third = json.loads(add(monkeypatch, capsys, "hall", "--id", "door", "--json"))["token"]
    for token, name in ((first[1], ""), (second, "hall:desk"), (third, "hall:door")):
        assert who(server, token) == name
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{GOOD}\n{SIGN}\n"))
    run(["add", "guild"], capsys)
    with pytest.raises(BadInput, match="nothing takes the token of a guild account"):
        channels.command(["token", "guild"])


def who(client: Client, token: str) -> str:
    """Return as whom a token lets in, '' when it does not."""
    with socket.create_connection(("127.0.0.1", int(client.url.rpartition(":")[2]))) as line:
        line.sendall(f"GET /t/me HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
        head, _, body = line.makefile("rb").read().partition(b"\r\n\r\n")
    return str(json.loads(body)["name"]) if b" 200 " in head.splitlines()[0] else ""


# what there is


@pytest.mark.usefixtures("added")
def test_accounts_are_listed(
    server: Client, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line each: channel, id, label, workspace, access, and whether it hears its platform."""
    add(monkeypatch, capsys, "hall", "--id", "desk", "--access", "full")
    run(["disable", "hall", "desk"], capsys)
    here = str(Path.cwd())
    lines = run([], capsys).splitlines()
    assert [re.split("  +", line) for line in lines] == [
        ["guild", "7", "Lamp bot", here, "readonly", "ready"],
        ["hall", "desk", here, "full", "disabled"],
    ]
    assert lines[0].index(here) == lines[1].index(here)
    assert len(run(["list", "hall"], capsys).splitlines()) == 1
    assert [each["id"] for each in json.loads(run(["list", "guild", "--json"], capsys))] == ["7"]


def test_where_there_is_none_the_way_is_said(server: Client, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty list says how to make an account, and for which channels."""
    assert channels.command([]) == 0
    said = "There is no account. `halo channels add TYPE` makes one, of: guild, hall.\n"
    assert capsys.readouterr() == ("", said)


@pytest.mark.usefixtures("added")
def test_an_account_is_tested(server: Client, capsys: pytest.CaptureFixture[str]) -> None:
    """A real call: 0 and what the platform knows it as, or 1 with the reason and what to do."""
    assert run(["test", "guild"], capsys) == "its platform knows it, as Lamp bot; it is ready\n"
    know(server, {})
    assert run(["test", "guild", "7"], capsys, code=1).startswith("https://guild.example/<secret guild:")
    assert json.loads(run(["test", "guild", "--json"], capsys, code=1))["advice"] == "ask for another one"


@pytest.mark.usefixtures("added")
def test_an_account_is_changed(server: Client, capsys: pytest.CaptureFixture[str]) -> None:
    """What is named changes, all else stays; a value that its platform refuses changes nothing."""
    words = ["set", "guild", "--access", "full", "--allow", "ann", "--label", "Desk", "--set", "base=http://guild"]
    assert run(words, capsys) == "guild 7 is changed.\n"
    (account,) = accounts(server)
    assert (account["access"], account["allowed"], account["label"]) == ("full", ["ann"], "Desk")
    assert account["config"] == {"base": "http://guild", "name": "Lamp bot"}
    for words in (["--set", "base=nowhere"], ["--set", f"token={OTHER}"], ["-w", "nowhere"], ["--set", "bse=x"]):
        with pytest.raises(Exception, match=r"no guild|is a secret|does not exist|has no bse"):
            channels.command(["set", "guild", "--label", "Other", *words])
    assert accounts(server) == [account]
    run(["set", "guild", "7", "--allow-all"], capsys)
    run(["disable", "guild"], capsys)
    (account,) = accounts(server)
    assert (account["allowed"], account["enabled"]) == ([], False)
    assert json.loads(run(["enable", "guild", "--json"], capsys))["enabled"] is True


@pytest.mark.usefixtures("added")
def test_secrets_are_rotated_by_a_script(
    server: Client, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line of standard input a secret, an empty one keeps it; or a file; another bot's are refused."""
    know(server, {**BOTS, NEWER: ("7", "Lamp bot")})
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{NEWER}\n\n"))
    assert run(["rotate", "guild"], capsys) == "guild 7 is changed: its platform takes the new secrets.\n"
    with pytest.raises(BadInput, match="belongs to the guild account 8, not to 7"):
        channels.command(["rotate", "guild", "--secret-file", f"token={given(OTHER)}"])
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    with pytest.raises(BadInput, match="no secret was given, and nothing is changed"):
        channels.command(["rotate", "guild"])
    know(server, {NEWER: ("7", "Lamp bot")})
    run(["test", "guild"], capsys)


@pytest.mark.usefixtures("added")
def test_an_account_is_removed(
    server: Client, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is gone; of several one has to be named, and one that is not there is said to be so."""
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{OTHER}\n{SIGN}\n"))
    run(["add", "guild"], capsys)
    with pytest.raises(NotFound, match="there are several guild accounts: 7, 8"):
        channels.command(["remove", "guild"])
    assert channels.command(["remove", "guild", "7"]) == 0
    assert "guild 7 is removed" in capsys.readouterr().err
    with pytest.raises(NotFound, match="there is no guild account 7"):
        channels.command(["test", "guild", "7"])
    with pytest.raises(NotFound, match="there is no hall account"):
        channels.command(["test", "hall"])
    assert [each["id"] for each in accounts(server)] == ["8"]


def test_without_a_server_an_account_waits_for_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel of the command's own keeps it, and says that it begins when a server does."""
    import halo_api
    from halo_kernel.testing import LineChannel
    from halo_lib_client import connect

    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    extra = {"api": halo_api, "line": LineChannel()}
    monkeypatch.setattr(channels, "reach", lambda: connect(tmp_path / "home", local=True, extra=extra, discover=False))
    assert channels.command(["add", "line", "--id", "a"]) == 0
    assert "No server is running. It begins when one does" in capsys.readouterr().err
    assert run(["list"], capsys).endswith("  readonly  no server is running\n")


@pytest.mark.parametrize(
    "words",
    [
        ["add"],
        ["test"],
        ["set", "guild"],
        ["add", "guild", "--access", "root"],
        ["drop"],
        ["add", "guild", "--language", "fr"],
    ],
)
def test_wrong_usage_ends_with_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be meant is told with the usage before anything happens."""
    with pytest.raises(SystemExit) as ended:
        channels.command(words)
    assert ended.value.code == 2
    assert "usage: halo channels" in capsys.readouterr().err
