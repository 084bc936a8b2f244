"""How passwords are stored and judged."""

from __future__ import annotations

import base64
import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halo_signin.hashing import hash_password, is_hash, matches, weakness


@settings(max_examples=10, deadline=None)
@given(st.text(max_size=30), st.text(max_size=30))
def test_only_the_password_matches_its_hash(password: str, other: str) -> None:
    """A hash matches the password it was made of, whatever characters it has, and no other."""
    stored = hash_password(password)
    assert matches(stored, password)
    assert matches(stored, other) is (other == password)


def test_the_format_is_the_documented_one() -> None:
    """`scrypt$N=16384,r=8,p=1$<salt>$<hash>`, 32 bytes, in base64: another program can check it."""
    stored = hash_password("correct horse 1")
    scheme, parameters, salt, digest = stored.split("$")
    assert (scheme, parameters) == ("scrypt", "N=16384,r=8,p=1")
    raw = hashlib.scrypt(b"correct horse 1", salt=base64.b64decode(salt), n=16384, r=8, p=1, dklen=32)
    assert base64.b64decode(digest) == raw
    assert is_hash(stored)


def test_the_same_password_is_stored_differently() -> None:
    """Two hashes of one password share nothing that tells."""
    assert hash_password("same pass 1").split("$")[2:] != hash_password("same pass 1").split("$")[2:]


def test_a_plain_value_is_compared_as_it_is() -> None:
    """What is no hash is the password itself, as `HALO_PASSWORD` holds it."""
    assert matches("plain text 1", "plain text 1")
    assert not matches("plain text 1", "plain text")
    assert not is_hash("plain text 1")


@pytest.mark.parametrize(
    "stored",
    [
        "scrypt$N=16384,r=8,p=1$!!!!$AAAA",
        "scrypt$N=3,r=8,p=1$AAAA$AAAA",
        "scrypt$N=1048576,r=99,p=1$AAAA$AAAA",
        "scrypt$N=16384,r=8,p=1$A$A",
        "scrypt$",
    ],
)
def test_a_broken_hash_matches_nothing(stored: str) -> None:
    """A hash that cannot be computed lets nobody in, not even with its own text."""
    assert not matches(stored, stored)
    assert not matches(stored, "")


@pytest.mark.parametrize(
    ("password", "lack"),
    [
        ("", "8 characters"),
        ("short 1", "8 characters"),
        ("12345678", "a letter"),
        ("abcdefgh", "a digit"),
        ("abcdefg1", None),
        ("пароль-12", None),
        ("密码密码密码密1", None),
    ],
)
def test_a_weak_password_is_told_why(password: str, lack: str | None) -> None:
    """At least 8 characters, a letter, a digit, in any script; the sentence names what is missing."""
    told = weakness(password)
    assert (told is None) if lack is None else (told is not None and lack in told)
