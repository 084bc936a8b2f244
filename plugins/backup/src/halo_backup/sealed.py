"""Secrets in a backup: one small tar, encrypted as a whole with a key that is made from a passphrase.

scrypt (RFC 7914) and AES-256-GCM (NIST SP 800-38D), both of `cryptography`.
"""

from __future__ import annotations

import secrets
import tarfile
from collections.abc import Mapping
from io import BytesIO

from halo_kernel import BadInput

from .manifest import Seal

SHORTEST = 8
COST = 1 << 17
_MOST = 1 << 20  # of scrypt's cost n, so that a strange file cannot take all memory


def seal(files: Mapping[str, bytes], passphrase: str) -> tuple[Seal, bytes]:
    """Return files, by name, as one encrypted value, and how to open it."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    how = Seal(n=COST, r=8, p=1, salt=secrets.token_bytes(16), nonce=secrets.token_bytes(12))
    packed = BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o600
            tar.addfile(info, BytesIO(data))
    return how, AESGCM(_key(how, passphrase)).encrypt(how.nonce, packed.getvalue(), None)


def unseal(how: Seal, data: bytes, passphrase: str) -> Mapping[str, bytes]:
    """Return the files. Raises `BadInput` for a wrong passphrase."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        packed = AESGCM(_key(how, passphrase)).decrypt(how.nonce, data, None)
    except InvalidTag as error:
        advice = "give the one that the backup was made with; nothing was changed"
        raise BadInput("the passphrase is wrong", field="passphrase", advice=advice) from error
    with tarfile.open(fileobj=BytesIO(packed), mode="r:") as tar:
        found = {info.name: tar.extractfile(info) for info in tar if info.isreg()}
        return {name: file.read() for name, file in found.items() if file is not None}


def _key(how: Seal, passphrase: str) -> bytes:
    from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

    if not (2 <= how.n <= _MOST and how.r == 8 and how.p == 1):
        raise BadInput("the secrets are encrypted in a way that is not ours", field="file")
    return Scrypt(salt=how.salt, length=32, n=how.n, r=how.r, p=how.p).derive(passphrase.encode())
