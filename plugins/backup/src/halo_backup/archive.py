"""The file itself: a plain tar, whose last member holds the SHA-256 of everything before it.

Format: POSIX.1-2001 pax, https://pubs.opengroup.org/onlinepubs/9699919799/utilities/pax.html. Members are `HEAD`, what
was saved, `MANIFEST`, and the seal of the whole, `sha256`. So a file that was cut or changed anywhere is recognised.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from hashlib import sha256
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import IO

import msgspec

from halo_kernel import BadInput, NewerData, StorageUnavailable

from .disk import new_file
from .manifest import FORMAT, HEAD, MANIFEST, Head, Manifest, Member, is_safe, leads_out

CHUNK = 1 << 20
_BLOCK = 512
_LAST = "sha256"
_WORDS = 64
Tell = Callable[[str, int, int], None]  # what happens, how many bytes of how many


class Damaged(BadInput):
    """A backup that is not what was written; `faults` says what is wrong, the first of them is the message."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__(faults[0], field="file", advice="use another backup; nothing was changed")
        self.faults = tuple(faults)


class Writer:
    """Writes a backup from its head to its end. `counted` is told of every piece of a member that was written."""

    def __init__(self, file: IO[bytes], head: Head, counted: Callable[[int], None] = lambda count: None) -> None:
        self.members: list[Member] = []
        self._file = file
        self._counted = counted
        self._hash = sha256()
        self._add(HEAD, BytesIO(msgspec.json.encode(head)), mode=0o600)

    def add(self, name: str, source: IO[bytes], *, mode: int) -> None:
        """Add a file, read from where `source` stands to its end as it is now. Raises `StorageUnavailable`."""
        self.members.append(self._add(name, source, mode=mode))

    def add_bytes(self, name: str, data: bytes) -> None:
        """Add a small file."""
        self.add(name, BytesIO(data), mode=0o600)

    def add_link(self, name: str, target: str) -> None:
        """Add a symbolic link."""
        self._write(_header(name, 0, 0o777, link=target))
        self.members.append(Member(name=name, link=target))

    def finish(self, manifest: Manifest) -> None:
        """Add the manifest and the end."""
        self._add(MANIFEST, BytesIO(msgspec.json.encode(manifest)), mode=0o600)
        self._file.write(_end(self._hash.hexdigest()))

    def _add(self, name: str, source: IO[bytes], *, mode: int) -> Member:
        size = source.seek(0, os.SEEK_END) - source.seek(0)
        self._write(_header(name, size, mode))
        digest, left = sha256(), size
        while left:
            chunk = source.read(min(left, CHUNK))
            if not chunk:
                raise StorageUnavailable(f"{name} became shorter while it was copied")
            digest.update(chunk)
            self._write(chunk)
            self._counted(len(chunk))
            left -= len(chunk)
        self._write(bytes(-size % _BLOCK))
        return Member(name=name, size=size, sha256=digest.hexdigest(), mode=mode)

    def _write(self, data: bytes) -> None:
        self._hash.update(data)
        self._file.write(data)


def _header(name: str, size: int, mode: int, *, link: str = "") -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.linkname = size, mode, link
    info.type = tarfile.SYMTYPE if link else tarfile.REGTYPE
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "strict")


def _end(digest: str) -> bytes:
    """Return the last member and the two empty blocks that end a tar."""
    return _header(_LAST, _WORDS, 0o600) + digest.encode().ljust(_BLOCK, b"\0") + bytes(2 * _BLOCK)


_END = len(_end("0" * _WORDS))


class Archive(ExitStack):
    """A backup that is complete and unchanged, with its `manifest`; its members can be taken out."""

    def __init__(self, path: Path, tell: Tell) -> None:
        """Check the whole file. Raises `NewerData`, `Damaged`, `BadInput` for a file that is no backup."""
        super().__init__()
        try:
            file = self.enter_context(path.open("rb"))
        except OSError as error:
            raise BadInput(f"the backup {path} cannot be read: {error.strerror}", field="file") from error
        try:
            head = _read_head(file, path)
            digest_is_good = _check_end(file, path, tell)
            file.seek(0)
            self._tar = self.enter_context(tarfile.TarFile(fileobj=file))
            self._infos = {info.name: info for info in self._tar}
            self.manifest = self._manifest(path)
            if not digest_is_good or self.manifest.format != head.format:
                raise Damaged(self._damage(path))
            self._check_names(path)
        except (tarfile.TarError, OSError, EOFError, ValueError) as error:
            self.close()
            raise Damaged([f"{path} is damaged: {error}"]) from error
        except BaseException:
            self.close()
            raise

    def read(self, name: str) -> bytes:
        """Return a small member, checked. Raises `Damaged`."""
        target = BytesIO()
        self._copy(self._member(name), target)
        return target.getvalue()

    def extract(self, member: Member, target: Path, counted: Callable[[int], None] = lambda count: None) -> None:
        """Write a member to a new file, or make its link, checked. Raises `Damaged`, `StorageUnavailable`."""
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            if member.link:
                target.symlink_to(member.link)
                return
            with new_file(target) as file:
                self._copy(member, file, counted)
                file.flush()
                target.chmod(member.mode & 0o777)
                os.fsync(file.fileno())
        except OSError as error:
            raise StorageUnavailable(f"{target} cannot be written: {error.strerror}") from error

    def _copy(self, member: Member, target: IO[bytes], counted: Callable[[int], None] = lambda count: None) -> None:
        source, digest = self._tar.extractfile(self._infos[member.name]), sha256()
        while source is not None and (chunk := source.read(CHUNK)):
            digest.update(chunk)
            target.write(chunk)
            counted(len(chunk))
        if digest.hexdigest() != member.sha256:
            raise Damaged([f"{member.name} is not what the manifest says"])

    def _member(self, name: str) -> Member:
        found = next((member for member in self.manifest.members if member.name == name), None)
        if found is None or name not in self._infos:
            raise Damaged([f"{name} is missing"])
        return found

    def _manifest(self, path: Path) -> Manifest:
        source = self._tar.extractfile(self._infos[MANIFEST]) if MANIFEST in self._infos else None
        try:
            return msgspec.json.decode(source.read() if source else b"", type=Manifest)
        except msgspec.DecodeError as error:
            raise Damaged([f"{path} is damaged: its manifest cannot be read"]) from error

    def _damage(self, path: Path) -> list[str]:
        """Say which members differ, else that something between them does."""
        found: list[str] = []
        for member in self.manifest.members:
            try:
                self._member(member.name)
                if not member.link:
                    self._copy(member, BytesIO())
            except Damaged as damage:
                found += damage.faults
            except (tarfile.TarError, OSError, ValueError) as error:
                found.append(f"{member.name} cannot be read: {error}")
        return [f"{path} is damaged: {fault}" for fault in found or ["its checksum is wrong"]]

    def _check_names(self, path: Path) -> None:
        """Refuse members that the manifest does not name, and names that lead elsewhere."""
        names = [member.name for member in self.manifest.members]
        odd = [name for name in names if not is_safe(name)]
        if {*names, HEAD, MANIFEST, _LAST} != {*self._infos} or len(names) != len({*names}) or odd:
            raise Damaged([f"{path} is damaged: its manifest and its members differ{f' ({odd[0]!r})' if odd else ''}"])
        links = {member.name for member in self.manifest.members if member.link}
        for member in self.manifest.members:
            info = self._infos[member.name]
            if (info.linkname if info.issym() else "") != member.link or not (info.isreg() or info.issym()):
                raise Damaged([f"{path} is damaged: {member.name} is another kind of file"])
            above = {str(folder) for folder in PurePosixPath(member.name).parents}
            if above & links or (member.link and leads_out(member.place, member.link)):
                raise Damaged([f"{path} is damaged: {member.name} leads out of where it belongs"])


def _read_head(file: IO[bytes], path: Path) -> Head:
    """Return the head. Raises `BadInput` for a file that is no backup, `NewerData` for one of a later format."""
    head: Head | None = None
    with suppress(tarfile.TarError, msgspec.DecodeError, ValueError):
        info = tarfile.TarInfo.frombuf(file.read(_BLOCK), "utf-8", "strict")
        if info.name == HEAD and info.size <= _BLOCK:
            head = msgspec.json.decode(file.read(info.size), type=Head)
    if head is None:
        raise BadInput(f"{path} is no backup of Halo, or its beginning is damaged", field="file")
    if head.format > FORMAT:
        said = f"{path} was written in format {head.format} by Halo {head.halo}; this one knows {FORMAT}"
        raise NewerData(said, advice="use that version, or a later one; nothing was changed")
    return head


def _check_end(file: IO[bytes], path: Path, tell: Tell) -> bool:
    """Tell whether the file is what its end says. Raises `Damaged` for one that has no end."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _END))
    end, head = file.read(), _header(_LAST, _WORDS, 0o600)
    if not end.startswith(head[:_BLOCK]) and end[-2 * _BLOCK :] != bytes(2 * _BLOCK):
        raise Damaged([f"{path} is not complete: it ends after {size} bytes, in the middle"])
    file.seek(0)
    digest, done = sha256(), 0
    while done < size - _END:
        chunk = file.read(min(CHUNK, size - _END - done))
        if not chunk:
            return False
        digest.update(chunk)
        done += len(chunk)
        tell("Checking the file", done, size)
    return end == _end(digest.hexdigest())
