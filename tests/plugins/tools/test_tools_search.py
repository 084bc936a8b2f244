"""`glob` and `grep` against what Python finds."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from halo_kernel import BadInput, HaloError
from halo_tools.jail import Bubblewrap
from halo_tools.ripgrep import Searcher, batches, parse

QUICK = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
NAMES = st.lists(st.sampled_from(["a", "b", "c.py", "d.ts", ".h", "node_modules", "ü b"]), min_size=1, max_size=3)
LINES = st.lists(st.sampled_from(["foo", "bar", "foo bar", "", "Foo(1)", "x: y", "日本語 foo"]), max_size=6)


def plant(desk: Any, tree: list[tuple[list[str], list[str]]]) -> dict[str, list[str]]:
    """Make the files of a tree and return those that searches see."""
    for path in desk.folder.iterdir():
        if path.name != ".halo":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for parts, lines in tree:
        full = desk.folder.joinpath(*parts)
        if not full.exists() and not any(parent.is_file() for parent in full.parents):
            desk.write("/".join(parts), "\n".join(lines) + "\n" * bool(lines))
    files = (path.relative_to(desk.folder) for path in desk.folder.rglob("*") if path.is_file())
    seen = [path.as_posix() for path in files if not {"node_modules", ".git"} & set(path.parts)]
    return {path: (desk.folder / path).read_text().split("\n") for path in sorted(seen)}


@given(
    tree=st.lists(st.tuples(NAMES, LINES), max_size=6),
    pattern=st.sampled_from(["foo", "^$", "o+ b", r"\(1\)", "y$", "本"]),
)
@QUICK
async def test_grep_finds_what_python_finds(desk: Any, tree: Any, pattern: str) -> None:
    """Every line that matches is shown as file:line:content, in the order of names, and nothing else."""
    files = plant(desk, tree)
    expected = [
        f"{path}:{number}:{line}"
        for path, lines in files.items()
        for number, line in enumerate(lines[:-1] if lines[-1] == "" else lines, 1)
        if re.search(pattern, line)
    ]
    shown = await desk.call("grep", pattern=pattern)
    assert sorted(shown.split("\n")) == sorted(expected or [f'No matches found for pattern "{pattern}"'])


@given(
    tree=st.lists(st.tuples(NAMES, LINES), max_size=8),
    pattern=st.sampled_from(["*", "**/*.py", "a/*", "**/b", "?", "**/.h"]),
)
@QUICK
async def test_glob_finds_what_pathlib_finds(desk: Any, tree: Any, pattern: str) -> None:
    """The files that a pattern names are those of pathlib, sorted, without the folders that are left out."""
    files = plant(desk, tree)
    found = {path.relative_to(desk.folder).as_posix() for path in desk.folder.glob(pattern) if path.is_file()}
    shown = await desk.call("glob", pattern=pattern)
    assert shown.split("\n") == (sorted(found & set(files)) or [f"No files found matching pattern {pattern}"])


async def test_glob_of_alternatives_and_folders(desk: Any) -> None:
    """Braces, a start folder and '**' at the end work together; a pattern with '..' says how to do it."""
    for path in ("src/a.ts", "src/b/c.tsx", "src/b/d.js", "lib/e.ts", "node_modules/f.ts"):
        desk.write(path)
    assert await desk.call("glob", pattern="**/*.{ts,tsx}") == "lib/e.ts\nsrc/a.ts\nsrc/b/c.tsx"
    assert await desk.call("glob", pattern="{src/b,lib}/*") == "lib/e.ts\nsrc/b/c.tsx\nsrc/b/d.js"
    assert await desk.call("glob", pattern="**", path="src/b") == "src/b/c.tsx\nsrc/b/d.js"
    assert await desk.call("glob", pattern="*.ts", path="node_modules") == "node_modules/f.ts"
    with pytest.raises(BadInput, match="give the folder as path"):
        await desk.call("glob", pattern="src/../lib/*")


async def test_long_lists_of_files_are_cut(desk: Any) -> None:
    """A list that does not fit says so at its end."""
    for number in range(50):
        desk.write(f"{number:02}-" + "x" * 100)
    desk.set(result_chars=1000)
    shown = (await desk.call("glob", pattern="*")).split("\n")
    assert shown[-1].startswith("[truncated")
    assert sum(len(line) + 1 for line in shown) <= 1001


async def test_grep_of_one_file_and_of_included_ones(desk: Any) -> None:
    """A search is held to one file, to names, to paths from its folder, or to several of these."""
    for path in ("a.py", "src/b.py", "src/c.ts", "src/deep/d.tsx"):
        desk.write(path, "needle\n")
    cases = {
        "*.py": "a.py src/b.py",
        "*.{ts,tsx}": "src/c.ts src/deep/d.tsx",
        "*.py, *.ts": "a.py src/b.py src/c.ts",
        "src/*.py": "src/b.py",
    }
    for include, files in cases.items():
        shown = await desk.call("grep", pattern="needle", include=include)
        assert [line.partition(":")[0] for line in shown.split("\n")] == files.split()
    assert await desk.call("grep", pattern="needle", path="src", include="deep/*") == "src/deep/d.tsx:1:needle"
    assert await desk.call("grep", pattern="ee", path="a.py") == "a.py:1:needle"


async def test_grep_leaves_out_what_is_not_for_reading(desk: Any) -> None:
    """Binary files, links, and the folders that searches skip are left out, a skipped one that is named is not."""
    for path in (".halo/sessions/x", ".halo/tmp/x", "dist/x", ".git/x", "tmp/x", ".halo/skills/x"):
        desk.write(path, "needle\n")
    desk.write("binary", b"needle\0\nneedle\n")
    os.symlink("tmp/x", desk.folder / "link")
    assert await desk.call("grep", pattern="needle") == ".halo/skills/x:1:needle\ntmp/x:1:needle"
    assert await desk.call("grep", pattern="needle", path="dist") == "dist/x:1:needle"


async def test_grep_stops_at_the_limit(desk: Any) -> None:
    """As many lines are shown as were asked for, 50 by default, and a last line tells that there are more."""
    desk.write("a", "x\n" * 60)
    desk.write("b", "x\n" * 60)
    shown = (await desk.call("grep", pattern="x")).split("\n")
    assert (len(shown), shown[49], shown[50][:4]) == (51, "a:50:x", "... ")
    assert len((await desk.call("grep", pattern="x", max_results=120)).split("\n")) == 120
    desk.set(grep_default_matches=3)
    assert len((await desk.call("grep", pattern="x")).split("\n")) == 4


async def test_long_lines_are_cut(desk: Any) -> None:
    """A line of a minified file is shown by its beginning."""
    desk.write("min.js", "needle" + "x" * 1_000_000 + "\n")
    assert len(await desk.call("grep", pattern="needle")) < 600


@pytest.mark.parametrize("program", ["ripgrep", None])
async def test_a_bad_expression_is_explained(desk: Any, program: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong expression is an error that names the argument and what is wrong."""
    if program is None:
        monkeypatch.setattr(Searcher, "program", None)
    desk.write("a", "x\n")
    with pytest.raises(BadInput, match=r"pattern is no valid regular expression: .*parse error") as raised:
        await desk.call("grep", pattern="(x")
    assert raised.value.field == "pattern"


async def test_strange_names_and_patterns(desk: Any) -> None:
    """Names and patterns that begin with a dash, or are one, are names and patterns and no options."""
    for name in ("-", "-e", "--help", "a:1:b"):
        desk.write(name, "-v needle\n")
    shown = await desk.call("grep", pattern="-v n")
    assert shown == "-:1:-v needle\n--help:1:-v needle\n-e:1:-v needle\na:1:b:1:-v needle"


async def test_a_configuration_of_ripgrep_is_not_read(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person's ripgrep configuration does not change what agents find."""
    (desk.home / ".ripgreprc").write_text("--files-without-match\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(desk.home / ".ripgreprc"))
    desk.write("a", "needle\n")
    assert await desk.call("grep", pattern="needle") == "a:1:needle"


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("access", ["full", "workspace", "readonly"])
@pytest.mark.parametrize("program", ["ripgrep", None])
async def test_every_way_of_searching_finds_the_same(
    desk: Any, access: Any, program: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With ripgrep or without, in the sandbox or not, a search finds the same lines."""
    if program is None:
        monkeypatch.setattr(Searcher, "program", None)
    desk.write("ü/a.txt", "one needle\r\ntwo\nneedle three")
    desk.write("b", "")
    assert await desk.call("grep", access, pattern="n[e]+dle") == "ü/a.txt:1:one needle\nü/a.txt:3:needle three"


async def test_without_a_sandbox_searches_still_work(desk: Any) -> None:
    """Below full access a search works where there is no sandbox too."""
    desk.sandbox = Bubblewrap("no-such-program")
    desk.write("a", "needle\n")
    assert await desk.call("grep", "readonly", pattern="needle") == "a:1:needle"


@pytest.mark.needs("bwrap")
async def test_a_file_swapped_for_a_link_shows_nothing_hidden(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that becomes a link to a secret after it was listed shows nothing of it."""
    (desk.home / ".ssh").mkdir()
    (desk.home / ".ssh" / "key").write_text("needle SECRET\n")
    file = desk.write("a", "needle\n")
    run = Searcher._run

    async def swap_and_run(self: Searcher, *arguments: Any) -> Any:
        file.unlink()
        file.symlink_to(desk.home / ".ssh" / "key")
        return await run(self, *arguments)

    monkeypatch.setattr(Searcher, "_run", swap_and_run)
    for access in ("workspace", "readonly"):
        file.unlink()
        file.write_text("needle\n")
        assert (await desk.call("grep", access, pattern="needle")).startswith("No matches")


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=50), max_size=50))
def test_batches_hold_every_file_once(files: list[str]) -> None:
    """Split for the command line, the files are all there in their order."""
    assert [path for batch in batches(files) for path in batch] == files


def test_batches_fit_a_command_line() -> None:
    """No batch has more than 4000 files or 256 KiB."""
    for batch in batches(["x" * 100] * 20_000):
        assert len(batch) <= 4000
        assert sum(map(len, batch)) <= 256 * 1024


def test_notes_among_hits_are_left_out() -> None:
    """What is printed beside hits, such as a note on a binary file, is no hit."""
    hits = parse('./a\x002:x:y\nbinary file matches (found "\\0" byte around offset 3)\n./b\0x\n')
    assert [(hit.path, hit.line, hit.text) for hit in hits] == [("a", 2, "x:y")]


async def test_a_search_through_many_files(desk: Any) -> None:
    """A search through more files than one command line holds finds the one that matches."""
    (desk.folder / "many").mkdir()
    for number in range(4100):
        Path(desk.folder / "many" / f"{number:05}").write_bytes(b"x\n")
    desk.write("many/04099", "needle\n")
    assert await desk.call("grep", pattern="needle") == "many/04099:1:needle"


async def test_a_stopped_search_ends(desk: Any) -> None:
    """A search that is to stop ends with an error."""
    desk.write("a", "x\n")
    desk.cancel = type("Stopped", (), {"requested": True})()
    with pytest.raises(HaloError, match="stopped"):
        await desk.call("grep", pattern="x")
