"""Files through the channel: what comes with a message, and what is read from the workspace."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from halo_kernel import Text
from halo_kernel.testing import ScriptedModel

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SMALL = {"HALO_WEB_MAX_FILE_BYTES": "2048"}


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


async def test_files_are_saved_and_named_in_the_message(visiting) -> None:
    """A picture, a document and a recording lie in the account's folder of the day; the text names each."""
    model = ScriptedModel()
    async with visiting(model=model) as visitor:
        seen = await visitor.chat(
            "look at these",
            images=[{"data": b64(PNG), "mimeType": "image/jpeg"}],
            files=[
                {"data": b64(b"a,b"), "name": "../my list.csv", "mimeType": "text/csv"},
                {"data": b64(b"OggS"), "name": "", "mimeType": "audio/ogg"},
                {"data": b64(b"\0\1"), "name": "clip.mp4"},
            ],
        )
        text = next(frame["text"] for frame, _ in seen if frame["type"] == "user")
        first, *lines = text.split("\n")
        assert first == "look at these"
        starts = ["[图片已保存: ", '[文件 "my_list.csv" 已保存: ', "[语音已保存: ", "[视频已保存: "]
        paths = []
        for line, start in zip(lines, starts, strict=True):
            assert line.startswith(start), line
            paths.append(line.rpartition(": ")[2].removesuffix("]"))
        assert all(path.startswith(".halo/assets/web/inbound/site/2") for path in paths)
        assert [path.rpartition(".")[2] for path in paths] == ["png", "csv", paths[2].rpartition(".")[2], "mp4"]
        assert [(visitor.folder / path).read_bytes() for path in paths] == [PNG, b"a,b", b"OggS", b"\0\1"]
        told = model.requests[0].messages[0].content[0]
        assert isinstance(told, Text) and paths[0] in told.text
        own = await visitor.http.get("/api/web/file", params={"path": paths[0]})
        assert (own.status_code, own.content, own.headers["content-type"]) == (200, PNG, "image/png")


async def test_a_file_alone_is_a_message_and_a_repeat_is_no_second_file(visiting) -> None:
    """A message may be a file only; sent again under its key it is neither answered nor saved again."""
    async with visiting() as visitor:
        for _ in range(2):
            await visitor.chat("", clientMsgId="k", files=[{"data": b64(b"data"), "name": "a.bin"}])
        saved = [path for path in (visitor.folder / ".halo/assets/web").rglob("*") if path.is_file()]
        assert len(saved) == 1
        history = await visitor.get("/api/web/history")
        assert [row["kind"] for row in history["messages"]] == ["user", "assistant"]


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"files": [{"data": "%%%"}]}, 400, "files[0].data"),
        ({"files": [{"data": ""}]}, 400, "files[0].data"),
        ({"images": [{"data": b64(b"x")}, {"data": "x"}]}, 400, "images[1].data"),
        ({"files": [{"data": b64(b"x" * 2049)}]}, 413, "files[0].data"),
        ({"files": [{"data": b64(b"x"), "path": "y"}]}, 400, "files[0].path"),
        ({"files": [{"data": b64(b"x"), "name": "n" * 256}]}, 400, "files[0].name"),
        ({"images": [{"data": b64(b"x")}] * 21}, 400, "images"),
        ({"files": [{"data": "A" * 5_000_000}]}, 413, None),
    ],
)
async def test_a_bad_file_is_refused_and_nothing_begins(visiting, body: Any, status: int, field: str | None) -> None:
    """What is no file, or too large a one, names its field; no session, message or file is left."""
    async with visiting(env=SMALL) as visitor:
        reply = await visitor.http.post("/api/web/chat", json={"message": "x", **body})
        assert reply.status_code == status, reply.text
        found = reply.json().get("field")
        assert field is None or str(found).replace("[...]", "[0]") == field, reply.text
        assert (await visitor.get("/api/web/sessions"))["sessions"] == []
        assert not (visitor.folder / ".halo/assets/web").exists()


async def test_files_of_the_workspace_are_read(visiting) -> None:
    """A file is read by its path, relative or absolute; no browser runs it, and a large one is not sent."""
    async with visiting(env=SMALL) as visitor:
        (visitor.folder / "page.html").write_text("<script>alert(1)</script>")
        (visitor.folder / "large.bin").write_bytes(b"x" * 2049)
        for path in ("page.html", str(visitor.folder / "page.html")):
            reply = await visitor.http.get("/api/web/file", params={"path": path})
            assert (reply.status_code, reply.text) == (200, "<script>alert(1)</script>")
            assert reply.headers["content-disposition"].startswith("attachment")
            assert "sandbox" in reply.headers["content-security-policy"]
        assert (await visitor.http.get("/api/web/file", params={"path": "large.bin"})).status_code == 413


@pytest.mark.parametrize("access", ["readonly", "full"])
async def test_what_is_outside_or_hidden_is_not_read(visiting, tmp_path, access: str) -> None:
    """Outside paths, links that lead out, databases and others' uploads are 403; folders 400, nothing there 404."""
    async with visiting(access=access) as visitor:
        (tmp_path / "secret.txt").write_text("secret")
        (visitor.folder / "link.txt").symlink_to(tmp_path / "secret.txt")
        (visitor.folder / "folder").mkdir()
        (visitor.folder / ".env").write_text("KEY=1")
        other = visitor.folder / ".halo/assets/web/inbound/else/a.txt"
        other.parent.mkdir(parents=True)
        other.parent.with_name("site").mkdir()
        other.write_text("theirs")
        for path, status in {
            "../secret.txt": 403,
            str(tmp_path / "secret.txt"): 403,
            "/etc/passwd": 403,
            "link.txt": 403,
            ".halo/halo.db": 403,
            ".halo/halo.db-wal": 403,
            ".halo/assets/web/inbound/else/a.txt": 403,
            ".halo/assets/web/inbound/site/../else/a.txt": 403,
            ".env": 200 if access == "full" else 403,
            "folder": 400,
            "none.txt": 404,
            "a\0b": (403, 404, 400),
        }.items():
            reply = await visitor.http.get("/api/web/file", params={"path": path})
            wanted = status if isinstance(status, tuple) else (status,)
            assert reply.status_code in wanted, (path, reply.text)
            assert reply.text != "secret"
