"""Passwords at rest: `scrypt$N=16384,r=8,p=1$<salt>$<hash>`, both parts in base64; and what makes one good enough."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets

_N, _R, _P = 16_384, 8, 1
_LENGTH = 32
_SALT = 16
_MEMORY = 64 * 1024 * 1024
_STORED = re.compile(r"scrypt\$N=(\d{1,7}),r=(\d{1,3}),p=(\d{1,3})\$([A-Za-z0-9+/=]+)\$([A-Za-z0-9+/=]+)")
_NO_TEXT = re.compile("[\ud800-\udfff]")  # what stands for bytes that are not UTF-8

MIN_LENGTH = 8
NO_TEXT = "The password must be UTF-8 text."


def weakness(password: str) -> str | None:
    """Return what a new password lacks, as a sentence, or None when it is good enough."""
    if _NO_TEXT.search(password):
        return NO_TEXT
    if len(password) < MIN_LENGTH:
        return f"The password must have at least {MIN_LENGTH} characters."
    if not any(char.isalpha() for char in password):
        return "The password must contain a letter."
    if not any(char.isdigit() for char in password):
        return "The password must contain a digit."
    return None


def hash_password(password: str) -> str:
    """Return what to store of a password."""
    salt = secrets.token_bytes(_SALT)
    digest = _scrypt(password, salt, _N, _R, _P, _LENGTH)
    return f"scrypt$N={_N},r={_R},p={_P}${_text(salt)}${_text(digest)}"


def is_hash(stored: str) -> bool:
    """Tell whether a stored value is meant as a hash; any other is the password itself."""
    return stored.startswith("scrypt$")


def matches(stored: str, given: str) -> bool:
    """Tell whether `given` is the stored password, in constant time. A hash takes some 50 ms: not on the event loop."""
    if not is_hash(stored):
        return hmac.compare_digest(stored.encode(), given.encode("utf-8", "surrogatepass"))
    found = _STORED.fullmatch(stored)
    if found is None:
        return False
    try:
        salt, digest = (base64.b64decode(part, validate=True) for part in found.group(4, 5))
        n, r, p = (int(part) for part in found.group(1, 2, 3))
        return hmac.compare_digest(digest, _scrypt(given, salt, n, r, p, len(digest)))
    except (binascii.Error, ValueError):  # not what we wrote: nothing can match it
        return False


def _scrypt(password: str, salt: bytes, n: int, r: int, p: int, length: int) -> bytes:
    secret = password.encode("utf-8", "surrogatepass")
    return hashlib.scrypt(secret, salt=salt, n=n, r=r, p=p, maxmem=_MEMORY, dklen=length)


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
