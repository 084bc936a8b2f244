"""Files that people send, and those that an agent sends them."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from tests.platforms.telegram import Stage

from halo_kernel.testing import Answer, Workbench, until
from halo_telegram.attachments import Gate

from .conftest import Serve
from .test_telegram_chat import PNG, answers


@pytest.mark.parametrize(
    ("kind", "data", "filename", "line"),
    [
        ("photo", PNG, "", r"\[图片已保存: (\S+\.png)\]"),
        (
            "document",
            b"a,b\n",
            "lamps and more.csv",
            r'\[文件 "lamps and more\.csv" 已保存: (\S+_lamps_and_more\.csv)\]',
        ),
        ("document", b"x", "../../evil", r'\[文件 "\S*evil" 已保存: (\S+evil)\]'),
        ("voice", b"OggS", "", r"\[语音 \d+s 已保存: (\S+\.og[ga])\]"),
        ("video", b"video", "", r"\[视频已保存: (\S+)\]"),
    ],
)
async def test_a_file_is_put_into_the_workspace(
    stage: Stage, serve: Serve, halo: Workbench, kind: str, data: bytes, filename: str, line: str
) -> None:
    """A file lies in the workspace, and the agent is told where, below the caption."""
    await serve()
    ann = stage.user("Ann")
    stage.send(ann, kind, data, filename=filename, caption="Look at this")
    (answer,) = await answers(stage, 1, ann)
    found = re.fullmatch(rf"You said: Look at this\n{line}", answer)
    assert found, answer
    assert (halo.folder / found[1]).read_bytes() == data
    assert found[1].startswith(".halo/assets/telegram/inbound/bot/")


async def test_a_file_that_is_too_big_is_not_fetched(stage: Stage, serve: Serve) -> None:
    """A file over 20 MB is refused in words and not downloaded."""
    await serve()
    ann = stage.user("Ann")
    stage.send(ann, "document", bytes(20 * 2**20 + 1), filename="film.bin")
    (answer,) = await answers(stage, 1, ann)
    assert "film.bin is larger than 20 MB" in answer
    assert stage.calls("getFile") == []


async def test_a_file_that_cannot_be_fetched_is_told_to_the_agent(stage: Stage, serve: Serve) -> None:
    """A failed download keeps no message back."""
    await serve()
    ann = stage.user("Ann")
    stage.fault("lost_request", method="file", times=None)
    stage.send(ann, "document", b"x", filename="a.txt", caption="Look")
    (answer,) = await answers(stage, 1, ann)
    assert answer.startswith('You said: Look\n[文件 "a.txt" 下载失败')


async def test_an_album_in_a_group_is_taken_whole(stage: Stage, serve: Serve, halo: Workbench) -> None:
    """The caption of an album's first file names the bot for all."""
    stage.privacy(False)
    await serve()
    ann = stage.user("Ann")
    group = stage.group("Lamps", [ann])
    stage.send(ann, "photo", PNG, caption="@halo_bot which one?", chat=group, album="7")
    stage.send(ann, "photo", PNG + b"2", chat=group, album="7")
    stage.send(ann, "photo", PNG, chat=group, album="8")
    await until(lambda: stage.texts(chat=group), what="an answer")
    await until(lambda: len(list((halo.folder / ".halo/assets").rglob("*.png"))) == 2, what="two files")
    assert stage.pending() == []


async def test_an_agent_sends_files_after_its_words(stage: Stage, serve: Serve, halo: Workbench) -> None:
    """A line MEDIA:<path> is a file: pictures are shown, others can be fetched."""
    await serve()
    (halo.folder / "lamp.png").write_bytes(PNG)
    (halo.folder / "lamps.csv").write_text("a,b\n")
    halo.model.then(Answer("Here.\n\nMEDIA:lamp.png\nMEDIA: lamps.csv"))
    ann = stage.user("Ann")
    stage.say(ann, "the lamps, please")
    await until(lambda: len(stage.shown(ann)) == 3, what="three messages")
    shown = stage.shown(ann)
    assert [each["media"] for each in shown] == ["", "photo", "document"]
    assert shown[0]["text"] == "Here."
    assert stage.content(shown[2]["file"]["file_id"]) == b"a,b\n"


@pytest.mark.parametrize(
    "path",
    ["/etc/hostname", "../secret.txt", "link.txt", ".halo/settings.yaml", "missing.txt", ".halo/halo.db", "empty.txt"],
)
async def test_what_may_not_leave_is_told(stage: Stage, serve: Serve, halo: Workbench, path: str) -> None:
    """Below full access nothing outside the workspace is sent, nor what is Halo's own, and people are told."""
    await serve(access="readonly")
    (halo.folder.parent / "secret.txt").write_text("hush")
    os.symlink("../secret.txt", halo.folder / "link.txt")
    (halo.folder / ".halo").mkdir(exist_ok=True)
    (halo.folder / ".halo/settings.yaml").write_text("x: 1\n")
    (halo.folder / "empty.txt").touch()
    halo.model.then(Answer(f"Here.\nMEDIA:{path}"))
    ann = stage.user("Ann")
    stage.say(ann, "the file, please")
    words, refusal = await answers(stage, 2, ann)
    assert words == "Here."
    assert refusal.startswith(f"⚠️ {Path(path).name} could not be sent")
    assert stage.calls("sendDocument") == []


async def test_full_access_sends_from_anywhere_but_the_home(stage: Stage, serve: Serve, halo: Workbench) -> None:
    """An account with full access sends any file but Halo's own."""
    await serve(access="full")
    outside = halo.folder.parent / "list.txt"
    outside.write_text("lamps")
    hidden = halo.home / "secrets" / "x.secrets"
    hidden.write_text("{}")
    halo.model.then(Answer(f"MEDIA:{outside}\nMEDIA:{hidden}"))
    ann = stage.user("Ann")
    stage.say(ann, "the file, please")
    await until(lambda: len(stage.shown(ann)) == 2, what="two messages")
    assert [each["media"] for each in stage.shown(ann)] == ["document", ""]


@pytest.mark.parametrize(
    ("home", "workspace", "path", "hidden"),
    [
        ("/h", "/w", "/w/a", False),
        ("/h", "/w", "/w/.halo/assets/a", False),
        ("/h", "/w", "/w/.halo/x", True),
        ("/h", "/w", "/h/secrets/a", True),
        ("/w/h", "/w", "/w/h/secrets/a", True),
        ("/w/.halo", "/w", "/w/.halo/secrets/a", True),
        ("/h", "/h/workspace", "/h/workspace/a", False),
        ("/h", "/h/workspace", "/h/secrets/a", True),
        ("/h", "/h/workspace", "/h/workspace/.halo/x", True),
        ("/h", "/w", "/home/a", False),
    ],
)
def test_the_home_is_never_read(home: str, workspace: str, path: str, hidden: bool) -> None:
    """Wherever home and workspace lie in each other, what is Halo's own stays, and the rest may go."""
    assert bool(Gate(home, workspace)(path, None)) == hidden


async def test_a_picture_that_is_none_goes_as_a_file(stage: Stage, serve: Serve, halo: Workbench) -> None:
    """What the platform does not take as a picture can be fetched."""
    await serve()
    (halo.folder / "lamp.png").write_bytes(b"no picture at all")
    halo.model.then(Answer("MEDIA:lamp.png"))
    ann = stage.user("Ann")
    stage.say(ann, "the lamp, please")
    await until(lambda: stage.shown(ann), what="a message")
    assert [each["media"] for each in stage.shown(ann)] == ["document"]
