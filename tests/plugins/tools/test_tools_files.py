"""`file_read`, `file_write`, `file_edit`, `file_list` as a model sees them."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from halo_kernel import BadInput, Forbidden, HaloError, NotFound
from halo_tools.settings import RESULT_CHARS

LINES = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\r\ufeff\0"), max_size=20), max_size=15)


async def test_a_file_is_read_in_numbered_lines(desk: Any) -> None:
    """Lines come with right-aligned numbers and a tab, and a window says how to go on."""
    desk.write("a.txt", "one\ntwo\r\n\nünï\n")
    assert await desk.call("file_read", path="a.txt") == "     1\tone\n     2\ttwo\n     3\t\n     4\tünï"
    assert await desk.call("file_read", path="a.txt", offset=2, limit=1) == (
        "     2\ttwo\n... 2 more line(s) — use offset=3 to continue."
    )
    assert await desk.call("file_read", path="a.txt", offset=9) == "(empty: file has 4 lines, offset=9 is past end)"


@given(lines=LINES)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_what_is_written_is_read(desk: Any, lines: list[str]) -> None:
    """Text that was written comes back line by line."""
    await desk.call("file_write", path="f", content="".join(line + "\n" for line in lines))
    shown = await desk.call("file_read", path="f")
    if lines:
        assert [line.partition("\t")[2] for line in shown.split("\n")] == lines
    else:
        assert shown.startswith("(empty: file has 0 lines")


@given(lines=st.lists(st.sampled_from("ab"), min_size=1, max_size=8), old=st.sampled_from(["a", "b", "a\na"]))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_an_edit_is_what_str_replace_does(desk: Any, lines: list[str], old: str) -> None:
    """An edit changes the text as `str.replace` does, or says why not and changes nothing."""
    text = "\n".join(lines)
    desk.write("f", text)
    try:
        await desk.call("file_edit", path="f", old_string=old, new_string=r"\1$&", replace_all=True)
    except BadInput:
        assert old not in text
        assert (desk.folder / "f").read_text() == text
    else:
        assert (desk.folder / "f").read_text() == text.replace(old, r"\1$&")


async def test_long_files_are_read_to_the_end_by_their_hints(desk: Any) -> None:
    """No answer passes the kernel's cap, and following the hints shows every line."""
    lines = [f"line {number} " + "x" * (number % 90) for number in range(1, 1500)]
    desk.write("long", "\n".join(lines))
    seen, offset = list[str](), 1
    while True:
        shown = await desk.call("file_read", path="long", offset=offset)
        assert len(shown) <= RESULT_CHARS
        parts = shown.split("\n")
        more = parts[-1].startswith("... ")
        seen += [part.partition("\t")[2] for part in (parts[:-1] if more else parts)]
        if not more:
            break
        offset = int(parts[-1].split("offset=")[1].split()[0])
    assert seen == lines


async def test_big_files_need_a_range(desk: Any) -> None:
    """A file over 2 MB is read only by a range that was asked for."""
    desk.write("big", "0123456789\n" * 200_000)
    with pytest.raises(BadInput, match="over 2 MB"):
        await desk.call("file_read", path="big")
    assert (await desk.call("file_read", path="big", offset=200_000)).endswith("200000\t0123456789")


async def test_binary_files_are_refused(desk: Any) -> None:
    """Binary files are neither shown nor edited; the error says what they are."""
    desk.write("b.png", b"\x89PNG\0\0")
    for tool, arguments in (("file_read", {}), ("file_edit", {"old_string": "P", "new_string": "Q"})):
        with pytest.raises(BadInput, match=r"b\.png is a binary file"):
            await desk.call(tool, path="b.png", **arguments)


async def test_an_edit_keeps_bytes_that_are_not_text(desk: Any) -> None:
    """An edit of a Latin-1 file leaves its other bytes as they are."""
    desk.write("latin", b"caf\xe9 one\r\n")
    await desk.call("file_edit", path="latin", old_string="one", new_string="two")
    assert (desk.folder / "latin").read_bytes() == b"caf\xe9 two\r\n"


async def test_each_wrong_edit_says_why(desk: Any) -> None:
    """An edit that cannot be made names the file and the reason."""
    desk.write("f", "a a")
    for old, new, reason in (("", "x", "empty"), ("a", "a", "same"), ("b", "x", "not found"), ("a", "x", "2 times")):
        with pytest.raises(BadInput, match=f"^f: .*{reason}"):
            await desk.call("file_edit", path="f", old_string=old, new_string=new)
    with pytest.raises(NotFound, match="g does not exist"):
        await desk.call("file_edit", path="g", old_string="a", new_string="b")


async def test_writing_makes_folders_and_keeps_the_mode(desk: Any) -> None:
    """A write makes what is missing above the file, keeps its mode, and names the path as it was given."""
    assert await desk.call("file_write", path="a/b/c.sh", content="x") == "File written: a/b/c.sh"
    os.chmod(desk.folder / "a/b/c.sh", 0o750)
    await desk.call("file_write", path=str(desk.folder / "a/b/c.sh"), content="y")
    assert (desk.folder / "a/b/c.sh").stat().st_mode & 0o777 == 0o750
    assert os.listdir(desk.folder / "a/b") == ["c.sh"]


async def test_half_a_character_is_no_text(desk: Any) -> None:
    """A lone surrogate is refused by name and nothing is written."""
    with pytest.raises(BadInput, match="content"):
        await desk.call("file_write", path="f", content="\ud83d")
    assert not (desk.folder / "f").exists()


async def test_a_folder_is_listed(desk: Any) -> None:
    """A listing shows folders, files and links that lead out; node_modules and .git are left out, at any depth."""
    desk.write("src/a.py")
    desk.write("src/node_modules/x")
    desk.write(".git/config")
    desk.write("b.md")
    os.symlink("b.md", desk.folder / "same.md")
    os.symlink("/etc", desk.folder / "out")
    assert await desk.call("file_list") == "📁 .halo\n📄 b.md\n🔗 out\n📄 same.md\n📁 src"
    assert await desk.call("file_list", path="src", recursive=True) == "📄 a.py"
    assert await desk.call("file_list", recursive=True) == (
        "📁 .halo\n📄 b.md\n🔗 out\n📄 same.md\n📁 src\n📄 src/a.py"
    )
    (desk.folder / "empty").mkdir()
    assert await desk.call("file_list", path="empty") == "(empty folder)"


async def test_long_listings_are_cut(desk: Any) -> None:
    """Past 500 entries, or as many characters as fit, a listing ends with [truncated]."""
    for number in range(600):
        desk.write(f"f{number:03}")
    shown = (await desk.call("file_list", recursive=True)).split("\n")
    assert (len(shown), shown[-1]) == (501, "[truncated]")
    desk.set(result_chars=500)
    assert len(await desk.call("file_list")) <= 500


async def test_names_stay_on_their_line(desk: Any) -> None:
    """A name with a line end or bytes that are not UTF-8 is shown escaped."""
    desk.write("a\nb")
    os.mknod(os.fsencode(desk.folder) + b"/c\xff")
    assert await desk.call("file_list") == "📁 .halo\n📄 a\\nb\n📄 c\\xff"


async def test_wrong_arguments_are_named(desk: Any) -> None:
    """Each wrong argument is one error that names it and its rule; nulls and numbers in quotes are understood."""
    desk.write("f", "1\n2\n3\n")
    cases: list[tuple[dict[str, object], str, str]] = [
        ({}, "path", "is required"),
        ({"path": ""}, "path", "length >= 1"),
        ({"path": 7}, "path", "Expected `str`"),
        ({"path": "f", "offset": 0}, "offset", ">= 1"),
        ({"path": "f", "offset": "x"}, "offset", "Expected `int`"),
        ({"path": "f", "lines": 2}, "lines", "there are path, offset, limit"),
    ]
    for arguments, field, rule in cases:
        with pytest.raises(BadInput, match=rule) as raised:
            await desk.call("file_read", **arguments)
        assert raised.value.field == field
        assert field in str(raised.value)
    assert await desk.call("file_read", path="f", offset="2", limit=None) == "     2\t2\n     3\t3"


async def test_schemas_are_plain_objects(desk: Any) -> None:
    """Every tool has a schema that models understand, says what it changes, and has a description for each argument."""
    tools = {name: tool.spec for name, (tool, _) in desk.tools().items()}
    assert list(tools) == ["file_read", "file_write", "file_edit", "file_list", "glob", "grep", "shell_exec"]
    effects = {name: (spec.effect, spec.replay_safe) for name, spec in tools.items()}
    assert {name for name, effect in effects.items() if effect == ("read", True)} == {
        "file_read",
        "file_list",
        "glob",
        "grep",
    }
    assert effects["file_write"] == effects["file_edit"] == ("write", False)
    assert effects["shell_exec"] == ("execute", False)
    for spec in tools.values():
        assert spec.parameters["type"] == "object"
        assert spec.parameters["additionalProperties"] is False
        assert "$ref" not in str(spec.parameters)
        for name, property_ in spec.parameters["properties"].items():
            assert property_["description"], (spec.name, name)


async def test_failures_are_errors_of_the_kernel(desk: Any) -> None:
    """Every failure is a HaloError with one sentence, so that nothing is logged as a crash."""
    desk.write("f")
    for path, error in (("missing", NotFound), (".", BadInput), ("f/x", BadInput), ("n" * 300, HaloError)):
        with pytest.raises(error):
            await desk.call("file_read", path=path)
    os.symlink("/etc/hostname", desk.folder / "out")
    with pytest.raises(Forbidden, match="out is a link to /etc/hostname"):
        await desk.call("file_read", path="out")


async def test_a_stopped_walk_ends(desk: Any) -> None:
    """A walk ends when the call is to stop."""
    for number in range(20):
        desk.write(f"d{number}/f")
    desk.cancel = type("Stopped", (), {"requested": True, "wait": None})()
    with pytest.raises(HaloError, match="stopped"):
        await desk.call("file_list", recursive=True)
