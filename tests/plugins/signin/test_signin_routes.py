"""Signing in, asking, signing out and changing the password, through the real application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

import halo_signin
from halo_kernel import Kernel, load_kernel_settings
from halo_kernel.testing import Front, VirtualClock, front, running_kernel
from halo_lib_settings import write_settings
from halo_signin.hashing import hash_password, is_hash, matches

OLD, NEW = "old password 1", "new password 2"


@pytest.fixture
def env() -> dict[str, str]:
    return {}


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def kernel(tmp_path: Path, env: dict[str, str], clock: VirtualClock) -> AsyncIterator[Kernel]:
    extra = {"signin": halo_signin}
    async with running_kernel(tmp_path / "home", extra=extra, env=env, clock=clock) as kernel:
        write_settings(kernel.settings, {"server.password": hash_password(OLD)})
        yield kernel


@pytest.fixture
def face(kernel: Kernel) -> Front:
    return front(kernel)


@pytest.fixture
async def browser(face: Front) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(face.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost:9527") as client:
        yield client


def stored(kernel: Kernel) -> str:
    """What the settings file holds."""
    text = (kernel.home / "secrets" / "settings.yaml").read_text()
    return text.split("password:")[1].split("\n")[0].strip().strip("\"'")


async def log_in(browser: httpx.AsyncClient, password: object = OLD) -> httpx.Response:
    return await browser.post("/api/auth/login", json={"password": password})


async def test_the_password_signs_in(browser: httpx.AsyncClient) -> None:
    """The right password sets the cookie, which is good for the operator's routes and for `check`."""
    assert (await browser.get("/api/auth/check")).status_code == 401
    answer = await log_in(browser)
    assert (answer.status_code, answer.json()) == (200, {"ok": True})
    assert "HttpOnly" in answer.headers["set-cookie"]
    assert (await browser.get("/api/server")).status_code == 200
    check = await browser.get("/api/auth/check")
    assert (check.status_code, check.json()) == (200, {"authenticated": True, "badge": "", "password": True})


@pytest.mark.parametrize("password", ["", "old password", OLD + " ", NEW])
async def test_any_other_password_does_not(browser: httpx.AsyncClient, password: str) -> None:
    """Wrong and empty passwords are 401 with one sentence, and set no cookie."""
    answer = await log_in(browser, password)
    assert (answer.status_code, answer.json()["error"]) == (401, "Invalid password")
    assert "set-cookie" not in answer.headers


async def test_a_malformed_login_names_the_field(browser: httpx.AsyncClient) -> None:
    """Bad input is told by field and does not count."""
    for _ in range(6):
        answer = await log_in(browser, 7)
        assert (answer.status_code, answer.json()["field"]) == (400, "password")
    assert (await log_in(browser)).status_code == 200


async def test_five_wrong_passwords_lock_out(browser: httpx.AsyncClient, clock: VirtualClock) -> None:
    """Empty and wrong ones count; then the right one waits too, for 15 minutes."""
    for password in ("", "a", "b", "c", "d"):
        assert (await log_in(browser, password)).status_code == 401
    locked = await log_in(browser)
    assert (locked.status_code, locked.json()["type"]) == (429, "LockedOut")
    assert locked.headers["retry-after"] == "900"
    clock.advance(900)
    assert (await log_in(browser)).status_code == 200


async def test_guesses_at_once_are_counted(browser: httpx.AsyncClient) -> None:
    """Twelve guesses at the same time are five guesses."""
    answers = await asyncio.gather(*(log_in(browser, f"guess {number}") for number in range(12)))
    assert sorted(answer.status_code for answer in answers) == [401] * 5 + [429] * 7


async def test_signing_out_ends_the_cookie_here(browser: httpx.AsyncClient, face: Front) -> None:
    """This browser is signed out; the cookie of another one stays good."""
    await log_in(browser)
    copy = dict(browser.cookies)
    answer = await browser.post("/api/auth/logout")
    assert answer.json() == {"ok": True}
    assert (await browser.get("/api/auth/check")).status_code == 401
    transport = httpx.ASGITransport(face.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost:9527", cookies=copy) as other:
        assert (await other.get("/api/auth/check")).status_code == 200


async def test_a_foreign_page_signs_nobody_in(browser: httpx.AsyncClient) -> None:
    """A page of another origin neither signs in nor out."""
    headers = {"Origin": "https://evil.example"}
    answer = await browser.post("/api/auth/login", json={"password": OLD}, headers=headers)
    assert answer.status_code == 403
    assert (await browser.post("/api/auth/logout", headers=headers)).status_code == 403


async def change(browser: httpx.AsyncClient, old: str, new: str) -> httpx.Response:
    return await browser.post("/api/auth/change-password", json={"oldPassword": old, "newPassword": new})


async def test_the_password_is_changed(browser: httpx.AsyncClient, kernel: Kernel) -> None:
    """The new password counts at once, is stored as a hash, and whoever is signed in stays so."""
    await log_in(browser)
    assert (await change(browser, OLD, NEW)).json() == {"ok": True}
    assert is_hash(stored(kernel))
    assert matches(stored(kernel), NEW)
    assert (await browser.get("/api/auth/check")).status_code == 200
    assert (await log_in(browser, OLD)).status_code == 401
    assert (await log_in(browser, NEW)).status_code == 200


async def test_only_who_is_signed_in_changes_it(browser: httpx.AsyncClient, kernel: Kernel) -> None:
    """A stranger who knows the password still has to sign in first."""
    before = stored(kernel)
    assert (await change(browser, OLD, NEW)).status_code == 401
    assert stored(kernel) == before


@pytest.mark.parametrize(
    ("old", "new", "status", "sentence"),
    [
        ("wrong", "x", 401, "Invalid password"),
        (OLD, "short1", 400, "at least 8 characters"),
        (OLD, "12345678", 400, "a letter"),
        (OLD, "abcdefgh", 400, "a digit"),
        (OLD, OLD, 400, "is the old one"),
    ],
)
async def test_a_bad_change_changes_nothing(
    browser: httpx.AsyncClient, kernel: Kernel, old: str, new: str, status: int, sentence: str
) -> None:
    """The old password is checked before the new one's strength, and that before whether it is new."""
    before = stored(kernel)
    await log_in(browser)
    answer = await change(browser, old, new)
    assert answer.status_code == status
    assert sentence in answer.json()["error"]
    assert stored(kernel) == before


async def test_guessing_the_old_password_locks_out(browser: httpx.AsyncClient) -> None:
    """Who found a signed-in browser cannot try passwords for ever."""
    await log_in(browser)
    for _ in range(5):
        assert (await change(browser, "guess", NEW)).status_code == 401
    assert (await change(browser, OLD, NEW)).status_code == 429


async def test_without_a_password_nobody_signs_in_with_one(browser: httpx.AsyncClient, kernel: Kernel) -> None:
    """Without one there is a sentence that says how to set one; no password opens the server."""
    write_settings(kernel.settings, {"server.password": None})
    for password in ("", OLD):
        answer = await log_in(browser, password)
        assert (answer.status_code, answer.json()["type"]) == (409, "Conflict")
        assert "halo password" in answer.json()["advice"]
    assert (await browser.get("/api/auth/check")).json()["password"] is False


async def test_the_first_password_needs_no_old_one(browser: httpx.AsyncClient, kernel: Kernel, face: Front) -> None:
    """Who came in by a link sets the first password without an old one."""
    write_settings(kernel.settings, {"server.password": None})
    answer = await browser.post("/api/auth/change-password", json={"newPassword": NEW}, headers=face.headers)
    assert answer.status_code == 200
    assert (await log_in(browser, NEW)).status_code == 200


async def test_a_password_set_beside_the_server_counts(browser: httpx.AsyncClient, kernel: Kernel) -> None:
    """`halo password` in another process needs no restart."""
    write_settings(load_kernel_settings(kernel.home, {}), {"server.password": hash_password(NEW)})
    assert (await log_in(browser, OLD)).status_code == 401
    assert (await log_in(browser, NEW)).status_code == 200


async def test_a_broken_file_keeps_the_password(browser: httpx.AsyncClient, kernel: Kernel) -> None:
    """A settings file that somebody broke locks nobody out and lets nobody in."""
    (kernel.home / "secrets" / "settings.yaml").write_text("server: [\n")
    assert (await log_in(browser, "")).status_code == 401
    assert (await log_in(browser)).status_code == 200


class TestManaged:
    """With `HALO_PASSWORD`."""

    @pytest.fixture
    def env(self) -> dict[str, str]:
        return {"HALO_PASSWORD": "from outside", "HALO_BADGE": "DEV"}

    async def test_the_variable_goes_before_the_file(self, browser: httpx.AsyncClient) -> None:
        """The variable's plain text signs in, the stored password does not; the badge is shown."""
        assert (await log_in(browser, OLD)).status_code == 401
        assert (await log_in(browser, "from outside")).status_code == 200
        assert (await browser.get("/api/auth/check")).json()["badge"] == "DEV"

    async def test_it_is_not_changed_here(self, browser: httpx.AsyncClient, kernel: Kernel) -> None:
        """A change is refused before anything else is looked at, and names the variable."""
        before = stored(kernel)
        await log_in(browser, "from outside")
        answer = await change(browser, "wrong", "x")
        assert answer.status_code == 400
        assert "HALO_PASSWORD" in answer.json()["error"]
        assert stored(kernel) == before
