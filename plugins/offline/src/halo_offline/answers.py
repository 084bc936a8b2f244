"""Answers put together from what the tools said."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .desk import Desk, NotOffered, Waiting
from .extracts import Extract, extract
from .finding import Found, Missing, Unlisted, find_path, glob_escape, list_folder
from .phrases import Phrases, code, counted
from .results import Entry, Listing, Page, Result, read_hits, read_listing, read_page, read_paths
from .wishes import Wish, split_names

_SHOWN_ENTRIES = 120
_SHOWN_HITS = 30
_MORE_HITS = "\n... more lines match"
_SHOWN_NAMES = 15
_SHOWN_TEXT = 4_000
_PAGE = 200
_FOLDER_FILES = 6
_WIDEST = 240
_ITSELF = re.compile(r"it|that|this file|that file|the file|them|它|这个文件|那个文件|该文件|此文件", re.IGNORECASE)
_BINARY = re.compile(
    r".*\.(?:png|jpe?g|gif|webp|ico|pdf|zip|gz|xz|bz2|tar|7z|jar|whl|so|dll|exe|bin|o|a|pyc|db|sqlite3?|mp[34]|mov|wav|"
    r"ogg|woff2?|ttf|otf|class|parquet)",
    re.IGNORECASE,
)
_PATTERN = re.compile(r"[\w./*?-]*[*?][\w./*?-]*")
_README = re.compile(r"readme(?:\.\w+)?", re.IGNORECASE)


@dataclass(frozen=True)
class Writer:
    """Writes one section for each wish; a section that needs a call first raises `Waiting`."""

    desk: Desk
    say: Phrases
    last_file: str | None = None

    def write(self, wishes: Sequence[Wish]) -> str:
        """Return the sections of all wishes; those that wait for a call are left out, and its calls are on the desk."""
        kinds: dict[str, Callable[[Wish], str]] = {
            "list": self._list,
            "read": self._read,
            "about": self._about,
            "search": self._search,
            "help": lambda _: self.say.able,
            "other": self._other,
        }
        sections: list[str] = []
        for wish in wishes:
            try:
                sections.append(kinds[wish.kind](wish))
            except NotOffered as missing:
                sections.append(self.say.unoffered.format(tool=missing.tool))
            except Waiting:
                continue
        return "\n\n".join(dict.fromkeys(filter(None, sections)))

    def _other(self, wish: Wish) -> str:
        return self.say.unable.format(text=self.say.quote.format(text=_short(wish.targets[0])))

    # folders

    def _list(self, wish: Wish) -> str:
        patterns = [target for target in wish.targets if _PATTERN.fullmatch(target)]
        if patterns:
            return "\n\n".join(self._matching(pattern) for pattern in patterns)
        return self._each(wish.targets, self._page, lambda path: self._folder(path, recursive=wish.recursive))

    def _matching(self, pattern: str) -> str:
        result = self.desk.ask("glob", pattern=_name_pattern(pattern))
        if result.failed:
            return self._failed("glob", result.text)
        paths = read_paths(result.text)
        if not paths:
            return self.say.no_file.format(name=code(pattern))
        listing = Listing(tuple(Entry(path, False) for path in paths), "\n[truncated" in result.text)
        counts = self._counts(listing.entries)
        return self._entries(self.say.matching.format(pattern=code(pattern), counts=counts), listing)

    def _folder(self, path: str, *, recursive: bool) -> str:
        if recursive:
            result = self.desk.ask("file_list", path=path or ".", recursive=True)
            listing = Unlisted(path, result.text) if result.failed else read_listing(result.text)
        else:
            listing = list_folder(self.desk, path)
        if isinstance(listing, Unlisted):
            return self._failed("file_list", listing.reason)
        place = self.say.folder.format(name=code(f"{path}/")) if path else self.say.here
        if not listing.entries:
            return self.say.empty_folder.format(place=place)
        heading = self.say.listed_all if recursive else self.say.listed
        return self._entries(heading.format(place=place, counts=self._counts(listing.entries)), listing)

    def _entries(self, heading: str, listing: Listing) -> str:
        shown = listing.entries[:_SHOWN_ENTRIES]
        lines = [f"- {code(entry.name + '/' * entry.folder)}" for entry in shown]
        if rest := len(listing.entries) - len(shown):
            lines.append(f"- {self.say.more.format(count=rest)}")
        if listing.cut:
            lines.append(f"- {self.say.cut}")
        return "\n".join([heading, "", *lines])

    def _counts(self, entries: Sequence[Entry]) -> str:
        folders = sum(entry.folder for entry in entries)
        counts = ((self.say.folders, folders), (self.say.files, len(entries) - folders))
        return self.say.and_word.join(counted(forms, count) for forms, count in counts if count)

    def _summarise_folder(self, path: str) -> str:
        listed = self._folder(path, recursive=False)
        listing = list_folder(self.desk, path)
        entries = listing.entries if isinstance(listing, Listing) else ()
        names = [entry.name for entry in entries if not entry.folder and not _BINARY.fullmatch(entry.name)]
        names.sort(key=lambda name: (not _README.fullmatch(name), name.startswith(".")))
        paths = [f"{path}/{name}" if path else name for name in names[:_FOLDER_FILES]]
        if not paths:
            return listed
        for each in paths:
            self.desk.want("file_read", path=each, limit=_PAGE)
        return "\n\n".join([listed, self.say.folder_about, "\n".join(f"- {self._facts(each)}" for each in paths)])

    # files

    def _about(self, wish: Wish) -> str:
        return self._each(wish.targets, self._facts, self._summarise_folder)

    def _read(self, wish: Wish) -> str:
        if not wish.targets:
            return self._summarise_folder("")
        return self._each(wish.targets, self._page, lambda path: self._folder(path, recursive=False))

    def _each(self, targets: Sequence[str], file: Callable[[str], str], folder: Callable[[str], str]) -> str:
        if not targets:
            return folder("")
        parts: list[str] = []
        waiting = False
        for target in targets:
            try:
                parts += [self._one(found, file, folder) for found in self._find(target)]
            except Waiting:
                waiting = True
        if waiting:
            raise Waiting
        return "\n\n".join(parts)

    def _one(self, found: Found | Missing, file: Callable[[str], str], folder: Callable[[str], str]) -> str:
        if isinstance(found, Missing):
            sentences = [self.say.no_file.format(name=code(found.name))]
            if found.near:
                sentences.append(self.say.near.format(names=self._names(found.near)))
            return self.say.space.join(sentences)
        text = folder(found.path) if found.folder else file(found.path)
        others = self.say.others.format(names=self._names(found.others)) if found.others else ""
        return "\n\n".join(filter(None, [text, others]))

    def _find(self, target: str) -> list[Found | Missing]:
        if _ITSELF.fullmatch(target):
            return [Found(self.last_file, False)] if self.last_file else [Found("", True)]
        whole = find_path(self.desk, target)
        parts = split_names(target)
        if isinstance(whole, Found) or len(parts) < 2:
            return [whole]
        return [find_path(self.desk, part) for part in parts]

    def _page(self, path: str) -> str:
        page = self._load(path)
        if isinstance(page, Result):
            return self._failed("file_read", page.text, name=path)
        if not page.lines:
            return self.say.empty_file.format(name=code(path))
        lines = _head(page.lines)
        heading = self.say.read if len(lines) == page.total else self.say.read_part
        shown = counted(self.say.lines, len(lines))
        return f"{heading.format(name=code(path), size=self._size(page), shown=shown)}\n\n{_fenced(lines)}"

    def _facts(self, path: str) -> str:
        page = self._load(path)
        if isinstance(page, Result):
            return self._failed("file_read", page.text, name=path)
        if not any(line.strip() for line in page.lines):
            return self.say.empty_file.format(name=code(path))
        facts = extract(path, page.lines)
        name = self.say.about.format(name=code(path), size=self._size(page))
        return self._describe(name, facts)

    def _describe(self, name: str, facts: Extract) -> str:
        say = self.say
        claims = [say.titled.format(title=facts.title)] if facts.title else []
        if facts.opening:
            claims.append(say.begins.format(opening=say.quote.format(text=facts.opening)))
        if not claims and not facts.names:
            claims.append(say.no_text)
        sentences = [self._sentence(say.sentence.format(name=name, claims=say.claims.join(claims))) if claims else name]
        if facts.headings:
            titles = [say.titles.format(text=heading) for heading in facts.headings]
            sentences.append(say.sections.format(names=self._listed(titles)))
        if facts.names:
            sentences.append(say.names.format(names=self._names(facts.names)))
        return say.space.join(sentences)

    def _sentence(self, text: str) -> str:
        """End a sentence, unless the words that it quotes end it already."""
        return text if re.search(r"[.!?。！？…]”?$", text) else text + self.say.stop

    def _load(self, path: str) -> Page | Result:
        result = self.desk.ask("file_read", path=path, limit=_PAGE)
        if result.failed:
            return result
        page = read_page(result.text)
        if page.total is not None or not page.lines:
            return page
        tail = self.desk.ask("file_read", path=path, offset=len(page.lines) + 1, limit=1)
        rest = read_page(tail.text)
        total = rest.total if rest.total is not None and rest.lines and not tail.failed else None
        return Page(page.lines, total)

    def _size(self, page: Page) -> str:
        if page.total is None:
            return counted(self.say.lines_unknown, len(page.lines))
        return counted(self.say.lines, page.total)

    # searches

    def _search(self, wish: Wish) -> str:
        within = self._within(wish)
        if within is None:
            targets: tuple[str, ...] = (" ".join([*wish.targets, wish.within]),)
            return self._search_all(targets, "")
        return self._search_all(wish.targets, within)

    def _within(self, wish: Wish) -> str | None:
        found = find_path(self.desk, wish.within) if wish.within else Found("", True)
        return found.path if isinstance(found, Found) else None

    def _search_all(self, texts: Sequence[str], within: str) -> str:
        for text in texts:
            self._want(text, within)
        return "\n\n".join(self._search_one(text, within) for text in texts)

    def _want(self, text: str, within: str) -> tuple[Result | None, Result | None]:
        lines = self.desk.want("grep", **_grep(text, within))
        names = None
        if self.desk.offers("glob") and not within:
            names = self.desk.want("glob", pattern=_name_pattern(text))
        return lines, names

    def _search_one(self, text: str, within: str) -> str:
        lines, names = self._want(text, within)
        if lines is None or (names is None and self.desk.offers("glob") and not within):
            raise Waiting
        parts = [self._hits(text, within, lines)]
        paths = () if names is None or names.failed else read_paths(names.text)
        if paths:
            parts.append(self.say.found_names.format(names=self._names(paths)))
        return "\n\n".join(parts)

    def _hits(self, text: str, within: str, result: Result) -> str:
        if result.failed:
            return self._failed("grep", result.text)
        hits = read_hits(result.text)
        if not hits:
            return self.say.found_none.format(text=code(text))
        heading = (self.say.found_in if within else self.say.found).format(
            text=code(text),
            lines=counted(self.say.lines, len(hits)),
            files=counted(self.say.files, len({hit.path for hit in hits})),
            place=code(within),
        )
        shown = [f"- {code(hit.path)} {hit.line}: {code(_short(hit.text))}" for hit in hits[:_SHOWN_HITS]]
        rest = [f"- {self.say.more.format(count=len(hits) - _SHOWN_HITS)}"] if len(hits) > _SHOWN_HITS else []
        if _MORE_HITS in result.text:
            rest.append(f"- {self.say.found_more}")
        return "\n".join([heading, "", *shown, *rest])

    # words

    def _failed(self, tool: str, reason: str, *, name: str = "") -> str:
        first = next((line.strip() for line in reason.split("\n") if line.strip()), "?")
        said = self.say.failed.format(tool=tool, reason=first)
        return f"{code(name)}: {said}" if name and name not in said else said

    def _names(self, names: Sequence[str]) -> str:
        return self._listed([code(name) for name in names])

    def _listed(self, names: Sequence[str]) -> str:
        rest = [self.say.more.format(count=len(names) - _SHOWN_NAMES)] if len(names) > _SHOWN_NAMES else []
        return self.say.comma.join([*names[:_SHOWN_NAMES], *rest])


def _grep(text: str, within: str) -> dict[str, object]:
    pattern = "(?i)" + re.sub(r"([\\.^$|?*+()\[\]{}])", r"\\\1", text)
    return {"pattern": pattern, "path": within} if within else {"pattern": pattern}


def _name_pattern(text: str) -> str:
    """Return a glob for names that hold `text`; one that is a pattern already, such as `*.py`, stays."""
    if _PATTERN.fullmatch(text):
        return text if "/" in text else f"**/{text}"
    return f"**/*{glob_escape(text)}*"


def _head(lines: Sequence[str]) -> Sequence[str]:
    size = 0
    for at, line in enumerate(lines):
        size += len(line) + 1
        if at and size > _SHOWN_TEXT:
            return lines[:at]
    return lines


def _fenced(lines: Sequence[str]) -> str:
    text = "\n".join(lines)
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"
