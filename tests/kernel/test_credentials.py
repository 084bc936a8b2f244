"""Cookies, one-time links and the lock-out, under a clock that the test moves."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo_kernel import OPERATOR, LockedOut, Principal, Unauthorized, WrongCredentials
from halo_kernel.credentials import (
    COOKIE_LIFE,
    LINK_LIFE,
    LOCK_SECONDS,
    Attempts,
    Cookies,
    Credentials,
    Links,
)
from halo_kernel.testing import VirtualClock

KEY = bytes(range(32))


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def test_a_cookie_names_its_principal_and_age(clock: VirtualClock) -> None:
    """A cookie of ours is read back with whom it was made for, and how old it is."""
    cookies = Cookies(KEY, clock)
    value = cookies.sign(Principal(name="ann", access="readonly"))
    clock.advance(3600)
    assert cookies.read(value) == (Principal(name="ann", access="readonly"), 3600)


def test_a_cookie_is_a_jwt(clock: VirtualClock) -> None:
    """Other tools can read a cookie: HS256, with `iat` and `exp` in seconds."""
    head, body, _ = Cookies(KEY, clock).sign(OPERATOR).split(".")
    assert json.loads(base64.urlsafe_b64decode(head + "==")) == {"alg": "HS256", "typ": "JWT"}
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    assert claims["exp"] - claims["iat"] == COOKIE_LIFE == 14 * 86_400


def test_a_cookie_expires(clock: VirtualClock) -> None:
    """A cookie is good for 14 days and not a second longer."""
    cookies = Cookies(KEY, clock)
    value = cookies.sign(OPERATOR)
    clock.advance(COOKIE_LIFE - 1)
    assert cookies.read(value) is not None
    clock.advance(1)
    assert cookies.read(value) is None


@given(st.text(max_size=200))
def test_no_other_text_is_a_cookie(text: str) -> None:
    """Whatever a browser sends, only what was signed is read, and nothing raises."""
    assert Cookies(KEY, VirtualClock()).read(text) is None


@given(st.data())
def test_a_changed_cookie_is_none(data: st.DataObject) -> None:
    """One changed character anywhere makes a cookie worthless."""
    cookies = Cookies(KEY, VirtualClock())
    value = cookies.sign(OPERATOR)
    at = data.draw(st.integers(0, len(value) - 1))
    other = data.draw(st.sampled_from("ABCabc019-_.").filter(lambda char: char != value[at]))
    assert cookies.read(value[:at] + other + value[at + 1 :]) is None


def test_another_key_reads_nothing(clock: VirtualClock) -> None:
    """A cookie of another home is none of ours."""
    assert Cookies(b"x" * 32, clock).read(Cookies(KEY, clock).sign(OPERATOR)) is None


@pytest.mark.parametrize("content", [b"", b"ab" * 16, b"zz" * 32, b"\xff" * 64, b"\0" * 64])
def test_a_key_that_is_none_is_made_anew(tmp_path: Path, clock: VirtualClock, content: bytes) -> None:
    """A damaged key of cookies stops no server: a new one is kept, by which older cookies are none."""
    path = tmp_path / "secrets" / "cookie.key"
    path.parent.mkdir(mode=0o700)
    path.write_bytes(content)
    path.chmod(0o600)
    value = Credentials(tmp_path, clock).cookies.sign(OPERATOR)
    assert len(bytes.fromhex(path.read_text())) == 32
    assert Credentials(tmp_path, clock).cookies.read(value) is not None, "it outlives the server"


def test_a_cookie_without_our_claims_is_none(clock: VirtualClock) -> None:
    """A cookie that is signed with our key but says other things is none."""
    cookies = Cookies(KEY, clock)
    head = cookies.sign(OPERATOR).split(".")[0].encode()
    payload = head + b"." + base64.urlsafe_b64encode(b'{"iat":1}').rstrip(b"=")
    assert cookies.read((payload + b"." + cookies._signature(payload)).decode()) is None


def test_a_link_works_once(clock: VirtualClock) -> None:
    """A one-time link lets somebody in once."""
    links = Links(clock)
    token = links.make()
    assert links.use(token)
    assert not links.use(token)


def test_a_link_ends_after_five_minutes(clock: VirtualClock) -> None:
    """A link that nobody followed within five minutes lets nobody in."""
    links = Links(clock)
    early, late = links.make(), links.make()
    clock.advance(LINK_LIFE - 1)
    assert links.use(early)
    clock.advance(1)
    assert not links.use(late)


def test_a_link_keeps_no_token(clock: VirtualClock) -> None:
    """The server's memory holds a hash of a link's token, which has 256 random bits."""
    links = Links(clock)
    token = links.make()
    assert len(base64.urlsafe_b64decode(token + "==")) == 32
    assert token not in repr(vars(links))
    assert token.encode() not in links._ends


def test_an_unknown_link_is_wrong(clock: VirtualClock) -> None:
    """A token that no link ever had lets nobody in, nor does none."""
    assert not Links(clock).use("guess")
    assert not Links(clock).use("")


def test_links_are_bounded(clock: VirtualClock) -> None:
    """However many links are made, the newest thousand are kept."""
    links = Links(clock)
    first = links.make()
    tokens = [links.make() for _ in range(1000)]
    assert links.use(tokens[0])
    assert not links.use(first)


def guess(attempts: Attempts, scheme: str = "password", address: str = "10.0.0.1") -> None:
    """Give wrong credentials."""
    with pytest.raises(WrongCredentials), attempts.judging(scheme, address):
        raise WrongCredentials("wrong")


def give(attempts: Attempts, scheme: str = "password", address: str = "10.0.0.1") -> None:
    """Give right credentials."""
    with attempts.judging(scheme, address):
        pass


def test_five_wrong_lock_out_for_fifteen_minutes(clock: VirtualClock) -> None:
    """The fifth wrong credential locks out, for 15 minutes from the last one."""
    attempts = Attempts(clock)
    for _ in range(5):
        guess(attempts)
    with pytest.raises(LockedOut) as locked:
        give(attempts)
    assert locked.value.retry_after == LOCK_SECONDS == 900
    clock.advance(899)
    with pytest.raises(LockedOut):
        give(attempts)
    clock.advance(1)
    guess(attempts)
    give(attempts)


def test_what_is_judged_meanwhile_counts(clock: VirtualClock) -> None:
    """Of guesses that are judged at the same time five count as wrong, and a right one among them lets nobody in."""
    attempts = Attempts(clock)
    right, late = attempts.judging("password", "10.0.0.1"), attempts.judging("password", "10.0.0.1")
    right.__enter__()
    late.__enter__()
    for _ in range(5):
        guess(attempts)
    with pytest.raises(LockedOut):
        right.__exit__(None, None, None)
    wrong = WrongCredentials("wrong")
    with pytest.raises(LockedOut):
        late.__exit__(WrongCredentials, wrong, None)


def test_only_wrong_credentials_count(clock: VirtualClock) -> None:
    """Missing credentials, and whatever else fails, neither count nor clear the count."""
    attempts = Attempts(clock)
    for error in (
        [WrongCredentials("wrong")] * 4 + [Unauthorized("missing"), ValueError()] * 9 + [WrongCredentials("5")]
    ):
        with pytest.raises(type(error)), attempts.judging("password", "10.0.0.1"):
            raise error
    with pytest.raises(LockedOut):
        give(attempts)


def test_a_lock_is_for_one_scheme_and_address(clock: VirtualClock) -> None:
    """Neither another address nor another scheme is locked out with it."""
    attempts = Attempts(clock)
    for _ in range(5):
        guess(attempts)
    give(attempts, address="10.0.0.2")
    give(attempts, scheme="operator")


def test_right_credentials_clear_the_count(clock: VirtualClock) -> None:
    """After right credentials counting starts anew."""
    attempts = Attempts(clock)
    for _ in range(2):
        for _ in range(4):
            guess(attempts)
        give(attempts)


@pytest.mark.parametrize(
    ("one", "other"),
    [("2001:db8::1", "2001:db8::ffff:2"), ("::ffff:10.0.0.1", "10.0.0.1")],
)
def test_addresses_of_one_person_share_a_count(clock: VirtualClock, one: str, other: str) -> None:
    """A network of IPv6 addresses, and an IPv4 address however it is written, are one."""
    attempts = Attempts(clock)
    for address in (one, other, one, other, one):
        guess(attempts, address=address)
    with pytest.raises(LockedOut):
        give(attempts, address=other)


def test_counts_are_bounded(clock: VirtualClock) -> None:
    """A flood of addresses neither grows without bound nor lifts the newest locks."""
    attempts = Attempts(clock)
    for number in range(10_050):
        guess(attempts, address=f"host-{number}")
    for _ in range(5):
        guess(attempts)
    with pytest.raises(LockedOut):
        give(attempts)
    assert len(attempts._wrong) == 10_000


def test_the_token_is_compared_whole(tmp_path: Path, clock: VirtualClock) -> None:
    """Only the whole token is the token, and it is in no text about the credentials."""
    (tmp_path / "secrets").mkdir()
    credentials = Credentials(tmp_path, clock)
    assert credentials.is_token(credentials.token)
    assert not credentials.is_token(credentials.token[:-1])
    assert not credentials.is_token("")
    assert not credentials.is_token("é")
    assert credentials.token not in repr(credentials)
