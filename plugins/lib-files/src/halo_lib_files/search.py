"""Search files for a regular expression where ripgrep is missing: `python -m halo_lib_files.search`.

Run in a process of its own, because an expression can take forever and `re` holds the interpreter while it tries. It
reads one JSON object from stdin, `{root, files, pattern, limit}`, and prints what ripgrep prints with `--null`: the
path, NUL, the line's number, a colon, the line. Exit codes are ripgrep's: 0 found, 1 not, 2 a bad expression (its error
on stderr).
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from typing import Any

from .errors import FilesError
from .root import Root
from .text import SNIFFED, looks_binary

WIDTH = 500
"""Characters of a line that are printed."""


def search(root: Root, files: list[str], pattern: re.Pattern[bytes], limit: int) -> Iterator[tuple[str, int, bytes]]:
    """Yield path, line number from 1 and line of at most `limit` lines that match; binary files are passed over."""
    found = 0
    for path in files:
        try:
            with root.open(path) as file:
                if looks_binary(file.read(SNIFFED)):
                    continue
                file.seek(0)
                for number, line in enumerate(file, 1):
                    text = line.rstrip(b"\r\n")
                    if pattern.search(text):
                        yield path, number, text
                        found += 1
                        if found >= limit:
                            return
        except (FilesError, OSError):
            continue


def main() -> int:
    asked: dict[str, Any] = json.load(sys.stdin)
    try:
        pattern = re.compile(asked["pattern"].encode())
    except re.error as error:
        print(f"regex parse error: {error}", file=sys.stderr)
        return 2
    found = False
    with Root(asked["root"]) as root:
        for path, number, line in search(root, asked["files"], pattern, asked["limit"]):
            found = True
            sys.stdout.buffer.write(path.encode("utf-8", "surrogateescape") + b"\0%d:%s\n" % (number, line[:WIDTH]))
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
