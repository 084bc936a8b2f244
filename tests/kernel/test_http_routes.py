"""Route records through the real application: who is let in, what is read, how failures look."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import msgspec
import pytest

from halo_kernel import (
    OPERATOR,
    BadFile,
    BadInput,
    Conflict,
    ConstraintFailed,
    CursorGone,
    DeliveryFailed,
    Exchange,
    Forbidden,
    HaloError,
    Kernel,
    LeaseHeld,
    LeaseLost,
    LockedOut,
    ModelError,
    NewerData,
    NotFound,
    PluginFailed,
    Principal,
    PromptTooLarge,
    QueueFull,
    Reply,
    Route,
    ServerRunning,
    SessionClosed,
    Stopping,
    StorageUnavailable,
    TooLarge,
    Unauthorized,
    WorkspaceUnusable,
    WrongCredentials,
    hook,
)
from halo_kernel import errors as error_tree
from halo_kernel.testing import Front, VirtualClock, front, running_kernel

FAILURES: list[tuple[HaloError, int]] = [
    (HaloError("odd"), 500),
    (BadInput("text: is required.", field="text"), 400),
    (BadFile("agent.yaml:3: bad", path="agent.yaml", line=3, field="name"), 400),
    (TooLarge("too large", limit=10), 413),
    (NotFound("no such session", advice="list them"), 404),
    (Conflict("not now"), 409),
    (SessionClosed("closed"), 409),
    (QueueFull("full"), 429),
    (LeaseHeld("held", holder="pid 4"), 409),
    (ConstraintFailed("not unique"), 409),
    (ServerRunning("runs", url="http://127.0.0.1:1"), 409),
    (PromptTooLarge("too much", contributors=[["root", "AGENTS.md", 9]], advice="say less"), 409),
    (Unauthorized("who?"), 401),
    (WrongCredentials("wrong"), 401),
    (LockedOut("locked", retry_after=899.2), 429),
    (Forbidden("no"), 403),
    (CursorGone("gone"), 410),
    (StorageUnavailable("disk full"), 503),
    (LeaseLost("lost"), 503),
    (NewerData("newer"), 503),
    (WorkspaceUnusable("missing"), 409),
    (DeliveryFailed("the chat is gone", permanent=True, retry_after=2.0), 500),
    (ModelError("429", kind="throttle", retry_after=3.5), 502),
    (PluginFailed("hung", plugin="x", hook="provide_routes"), 500),
    (Stopping("bye"), 503),
]


class Note(msgspec.Struct, frozen=True):
    text: str
    tags: list[str] = []


@dataclass
class Probe:
    """Routes of every scheme, and one for each failure."""

    seen: list[Exchange] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    vouched: int = 0

    @hook
    def provide_routes(self) -> Iterable[Route]:
        """Provide them."""
        simple = ("operator", "public", "signed", "account:test", "other")
        return [
            *(Route(method="GET", path=f"/api/as/{auth}", handler=self.who, summary="", auth=auth) for auth in simple),
            *(Route(method="POST", path=f"/api/as/{auth}", handler=self.who, summary="", auth=auth) for auth in simple),
            Route(method="GET", path="/api/optional", handler=self.who, summary="", optional=True),
            Route(method="POST", path="/api/note", handler=self.note, summary="", request=Note, body_limit=100),
            Route(method="POST", path="/api/raw", handler=self.raw, summary="", auth="signed", body_limit=100),
            Route(method="POST", path="/api/guess", handler=self.guess, summary="", auth="public", attempts="guess"),
            Route(method="GET", path="/api/items/{item}", handler=self.item, summary="", auth="public"),
            Route(method="GET", path="/api/items/all", handler=self.all_items, summary="", auth="public"),
            Route(method="GET", path="/api/rest/{rest:path}", handler=self.item, summary="", auth="public"),
            Route(method="GET", path="/api/defect", handler=self.defect, summary="", auth="public"),
            Route(method="GET", path="/api/quits", handler=self.quits, summary="", auth="public"),
            Route(method="GET", path="/api/cancels", handler=self.cancels, summary="", auth="public"),
            Route(method="get", path="/api/health", handler=self.defect, summary="", auth="public"),
            Route(method="GET", path="/api/unsayable", handler=self.unsayable, summary="", auth="public"),
            Route(method="GET", path="/api/text", handler=self.text, summary="", auth="public"),
            Route(method="GET", path="/api/nothing", handler=self.nothing, summary="", auth="public"),
            *(
                Route(method="GET", path=f"/api/fail/{at}", handler=self.failing(error), summary="", auth="public")
                for at, (error, _) in enumerate(FAILURES)
            ),
        ]

    @hook
    async def authenticate(self, request: object, scheme: str) -> Principal | None:
        """Vouch for `x-key: right` of the scheme that is asked for."""
        self.asked.append(scheme)
        key = request.headers.get("x-key")  # type: ignore[attr-defined]
        if key is None or scheme not in ("account:test", "other"):
            return None
        if key != "right":
            raise WrongCredentials("The key is wrong.")
        self.vouched += 1
        return Principal(name="keyed", scheme="account:test")

    async def who(self, exchange: Exchange) -> dict[str, str]:
        self.seen.append(exchange)
        return {"name": exchange.principal.name, "scheme": exchange.principal.scheme, "address": exchange.address}

    async def note(self, exchange: Exchange) -> object:
        assert isinstance(exchange.body, Note)
        return {"text": exchange.body.text, "tags": exchange.body.tags}

    async def raw(self, exchange: Exchange) -> object:
        return {"length": len(await exchange.raw.body())}

    async def guess(self, exchange: Exchange) -> object:
        await asyncio.sleep(0)
        if exchange.query.get("answer") != "right":
            raise WrongCredentials("Wrong.")
        return Reply(body={"ok": True}, signed_in=OPERATOR)

    async def item(self, exchange: Exchange) -> object:
        return dict(exchange.params)

    async def all_items(self, exchange: Exchange) -> object:
        return "all"

    async def defect(self, exchange: Exchange) -> object:
        raise RuntimeError("secret detail")

    async def quits(self, exchange: Exchange) -> object:
        raise SystemExit(3)

    async def cancels(self, exchange: Exchange) -> object:
        raise asyncio.CancelledError

    async def unsayable(self, exchange: Exchange) -> object:
        return {"value": object()}

    async def text(self, exchange: Exchange) -> object:
        return Reply(body="héllo", media_type="text/plain", headers={"Cache-Control": "max-age=60"})

    async def nothing(self, exchange: Exchange) -> None:
        return None

    def failing(self, error: HaloError) -> Callable[[Exchange], object]:
        async def fail(exchange: Exchange) -> object:
            raise error

        return fail


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def probe() -> Probe:
    return Probe()


@pytest.fixture
async def kernel(tmp_path: Path, probe: Probe, clock: VirtualClock) -> AsyncIterator[Kernel]:
    async with running_kernel(tmp_path / "home", extra={"probe": probe}, clock=clock) as kernel:
        yield kernel


@pytest.fixture
def face(kernel: Kernel) -> Front:
    return front(kernel)


@pytest.fixture
async def client(face: Front) -> AsyncIterator[httpx.AsyncClient]:
    """A stranger's client."""
    transport = httpx.ASGITransport(face.app, client=("10.1.1.1", 5000))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost:9527") as client:
        yield client


def cookie_of(face: Front, principal: Principal = OPERATOR) -> dict[str, str]:
    return {"Cookie": f"halo_token={face.credentials.cookies.sign(principal)}"}


# Who is let in


@pytest.mark.parametrize("path", ["/api/as/operator", "/api/server"])
async def test_the_operator_needs_credentials(client: httpx.AsyncClient, face: Front, path: str) -> None:
    """Nobody gets in without, and the token gets in through either header."""
    refused = await client.get(path)
    assert (refused.status_code, refused.json()["type"]) == (401, "Unauthorized")
    assert refused.headers["www-authenticate"].startswith("Bearer")
    for headers in ({"Authorization": f"Bearer {face.token}"}, {"x-token": face.token}, cookie_of(face)):
        assert (await client.get(path, headers=headers)).status_code == 200


async def test_a_wrong_token_is_wrong(client: httpx.AsyncClient) -> None:
    """A token that is not this server's is refused as wrong, not as missing."""
    for headers in ({"Authorization": "Bearer nonsense"}, {"x-token": "nonsense"}):
        refused = await client.get("/api/as/operator", headers=headers)
        assert (refused.status_code, refused.json()["type"]) == (401, "WrongCredentials")


async def test_five_wrong_tokens_lock_out(client: httpx.AsyncClient, face: Front, clock: VirtualClock) -> None:
    """After five wrong tokens the address waits 15 minutes from the last, but the right one is never kept out."""
    for _ in range(5):
        assert (await client.get("/api/as/operator", headers={"x-token": "no"})).status_code == 401
    locked = await client.get("/api/as/operator", headers={"x-token": "no"})
    assert (locked.status_code, locked.json()["type"], locked.headers["retry-after"]) == (429, "LockedOut", "900")
    assert (await client.get("/api/as/public")).status_code == 200
    assert (await client.get("/api/as/operator", headers={"x-token": face.token})).status_code == 200
    clock.advance(900)
    assert (await client.get("/api/as/operator", headers={"x-token": "no"})).status_code == 401


async def test_missing_credentials_do_not_count(client: httpx.AsyncClient, face: Front) -> None:
    """A page that polls without having signed in locks nobody out; nor do cookies of other servers on this host."""
    for _ in range(8):
        await client.get("/api/as/operator")
        await client.get("/api/as/operator", headers={"Cookie": "halo_token=of.another.server"})
    assert (await client.get("/api/as/operator", headers=face.headers)).status_code == 200


async def test_another_address_is_not_locked_out(client: httpx.AsyncClient, face: Front) -> None:
    """Who guesses locks out nobody else."""
    for _ in range(6):
        await client.get("/api/as/operator", headers={"x-token": "no"})
    other = httpx.ASGITransport(face.app, client=("10.2.2.2", 1))
    async with httpx.AsyncClient(transport=other, base_url="http://localhost:9527", headers=face.headers) as neighbour:
        assert (await neighbour.get("/api/as/operator")).status_code == 200


async def test_public_and_signed_need_nothing(client: httpx.AsyncClient, probe: Probe) -> None:
    """Open schemes let anyone in, as a principal that may do nothing elsewhere."""
    assert (await client.get("/api/as/public")).json()["scheme"] == "public"
    assert (await client.get("/api/as/signed")).json()["scheme"] == "signed"
    assert {each.principal.access for each in probe.seen} == {"readonly"}
    assert probe.asked == []


async def test_a_plugin_vouches_for_its_own_scheme_only(client: httpx.AsyncClient, face: Front, probe: Probe) -> None:
    """The hook is asked for the route's scheme alone; what it vouches for counts there alone."""
    right = {"x-key": "right"}
    assert (await client.get("/api/as/account:test", headers=right)).json()["name"] == "keyed"
    assert probe.asked == ["account:test"]
    assert (await client.get("/api/as/account:test")).status_code == 401
    # it vouches for `account:test`, which is nothing on a route of `other`
    assert (await client.get("/api/as/other", headers=right)).status_code == 401
    # and the operator's credentials are nothing on either
    assert (await client.get("/api/as/account:test", headers=face.headers)).status_code == 401
    # nor is the plugin's asked for the operator's
    assert (await client.get("/api/as/operator", headers=right)).status_code == 401
    assert "operator" not in probe.asked


async def test_a_plugins_scheme_locks_out(client: httpx.AsyncClient, probe: Probe) -> None:
    """Wrong credentials of a plugin's scheme count, and while locked the plugin is not asked."""
    for _ in range(5):
        assert (await client.get("/api/as/account:test", headers={"x-key": "no"})).status_code == 401
    asked = len(probe.asked)
    assert (await client.get("/api/as/account:test", headers={"x-key": "right"})).status_code == 429
    assert len(probe.asked) == asked
    assert probe.vouched == 0


async def test_a_burst_of_guesses_gets_five(client: httpx.AsyncClient) -> None:
    """Guesses made at the same time are counted one after the other."""
    answers = await asyncio.gather(*(client.post("/api/guess?answer=no") for _ in range(20)))
    assert sorted(answer.status_code for answer in answers) == [401] * 5 + [429] * 15
    assert (await client.post("/api/guess?answer=right")).status_code == 429


async def test_right_answers_clear_a_handlers_count(client: httpx.AsyncClient) -> None:
    """A right password after four wrong ones starts counting anew."""
    for _ in range(2):
        for _ in range(4):
            assert (await client.post("/api/guess?answer=no")).status_code == 401
        assert (await client.post("/api/guess?answer=right")).status_code == 200


async def test_optional_routes_know_who_signed_in(client: httpx.AsyncClient, face: Front) -> None:
    """An optional route is answered for anyone, and says who it is."""
    assert (await client.get("/api/optional")).json()["scheme"] == "public"
    assert (await client.get("/api/optional", headers={"x-token": "no"})).json()["scheme"] == "public"
    assert (await client.get("/api/optional", headers=cookie_of(face))).json()["scheme"] == "operator"


async def test_a_cookie_of_another_scheme_is_nothing(client: httpx.AsyncClient, face: Front) -> None:
    """A principal of one scheme is nothing on a route of another, however it is signed."""
    headers = cookie_of(face, Principal(name="x", scheme="account:test"))
    assert (await client.get("/api/as/operator", headers=headers)).status_code == 401


# The cookie


async def test_signing_in_sets_a_careful_cookie(client: httpx.AsyncClient) -> None:
    """The cookie is out of scripts' reach, stays on this site, and lasts 14 days."""
    answer = await client.post("/api/guess?answer=right")
    value = answer.headers["set-cookie"]
    assert value.startswith("halo_token=")
    assert {"Path=/", "HttpOnly", "SameSite=lax", "Max-Age=1209600"} <= {part.strip() for part in value.split(";")}
    assert "Secure" not in value
    assert (await client.get("/api/as/operator")).status_code == 200


def set_up(kernel: Kernel, line: str) -> None:
    """Say something about the server in the settings."""
    (kernel.home / "secrets" / "settings.yaml").write_text(f"server:\n  {line}\n")


async def test_the_cookie_is_secure_behind_https(kernel: Kernel) -> None:
    """Behind https the cookie never travels in the clear."""
    set_up(kernel, "trust_proxy: true")
    transport = httpx.ASGITransport(front(kernel).app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost:9527") as client:
        answer = await client.post("/api/guess?answer=right", headers={"x-forwarded-proto": "https"})
    assert answer.headers["set-cookie"].endswith("Secure")


async def test_an_old_cookie_is_renewed(client: httpx.AsyncClient, face: Front, clock: VirtualClock) -> None:
    """A cookie older than a day is replaced on use, so that who comes daily stays signed in."""
    headers = cookie_of(face)
    clock.advance(86_000)
    assert "set-cookie" not in (await client.get("/api/as/operator", headers=headers)).headers
    clock.advance(1_000)
    renewed = await client.get("/api/as/operator", headers=headers)
    assert renewed.headers["set-cookie"].startswith("halo_token=")
    clock.advance(13 * 86_400)
    client.cookies.clear()
    assert (await client.get("/api/as/operator", headers=headers)).status_code == 401


# Host, Origin, address


async def test_a_foreign_host_is_refused(client: httpx.AsyncClient, face: Front) -> None:
    """A name that was made to lead here is refused, whatever credentials come along."""
    refused = await client.get("/api/as/operator", headers={**face.headers, "Host": "evil.example"})
    assert (refused.status_code, refused.json()["type"]) == (403, "Forbidden")
    assert "allowed_hosts" in refused.json()["advice"]
    assert (await client.get("/api/health", headers={"Host": "evil.example"})).status_code == 403


async def test_a_foreign_origin_changes_nothing(client: httpx.AsyncClient, face: Front, probe: Probe) -> None:
    """A foreign page's request with the cookie reaches no handler."""
    headers = {**cookie_of(face), "Origin": "https://evil.example"}
    assert (await client.post("/api/as/operator", headers=headers)).status_code == 403
    assert probe.seen == []
    ours = {**cookie_of(face), "Origin": "http://localhost:9527"}
    assert (await client.post("/api/as/operator", headers=ours)).status_code == 200


async def test_settings_of_hosts_and_origins_count_at_once(
    client: httpx.AsyncClient, face: Front, kernel: Kernel
) -> None:
    """Names that are added to the settings are answered without a restart."""
    headers = {**face.headers, "Host": "halo.example", "Origin": "https://halo.example"}
    assert (await client.post("/api/as/operator", headers=headers)).status_code == 403
    set_up(kernel, "allowed_hosts: [halo.example]")
    assert (await client.post("/api/as/operator", headers=headers)).status_code == 200


async def test_a_listed_origin_is_answered_with_cors(client: httpx.AsyncClient, face: Front, kernel: Kernel) -> None:
    """A listed origin passes its preflight and may read answers and failures."""
    set_up(kernel, "cors_origins: [https://good.example]")
    asked = {"Origin": "https://good.example", "Access-Control-Request-Method": "POST"}
    preflight = await client.options("/api/as/operator", headers=asked)
    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-credentials"] == "true"
    assert "PATCH" in preflight.headers["access-control-allow-methods"]
    assert preflight.headers["access-control-max-age"] == "86400"
    answer = await client.post("/api/as/operator", headers={**face.headers, "Origin": "https://good.example"})
    assert answer.headers["access-control-allow-origin"] == "https://good.example"
    failed = await client.post("/api/as/operator", headers={"Origin": "https://good.example"})
    assert failed.status_code == 401
    assert failed.headers["access-control-allow-origin"] == "https://good.example"
    foreign = await client.options("/api/as/operator", headers={**asked, "Origin": "https://evil.example"})
    assert "access-control-allow-origin" not in foreign.headers


async def test_the_address_comes_from_a_trusted_proxy_only(
    client: httpx.AsyncClient, face: Front, kernel: Kernel
) -> None:
    """`X-Forwarded-For` is believed only when the setting says so."""
    headers = {"x-forwarded-for": "1.2.3.4, 10.0.0.1"}
    assert (await client.get("/api/as/public", headers=headers)).json()["address"] == "10.1.1.1"
    set_up(kernel, "trust_proxy: true")
    assert (await client.get("/api/as/public", headers=headers)).json()["address"] == "1.2.3.4"


# Bodies


async def test_a_body_becomes_a_struct(client: httpx.AsyncClient, face: Front) -> None:
    """A good body reaches the handler as the route's struct."""
    answer = await client.post("/api/note", json={"text": "hi", "tags": ["a"]}, headers=face.headers)
    assert answer.json() == {"text": "hi", "tags": ["a"]}


@pytest.mark.parametrize(
    ("body", "where", "rule"),
    [
        (b"{}", "text", "text: Object missing required field `text`."),
        (b"", "text", "text: Object missing required field `text`."),
        (b'{"text": 1}', "text", "text: Expected `str`, got `int`."),
        (b'{"text": "a", "tags": ["b", 2]}', "tags[1]", "tags[1]: Expected `str`, got `int`."),
        (b'{"text": "a", "sender": "b"}', "sender", "sender: Object contains unknown field `sender`."),
        (b"[]", "", "The body: Expected `object`, got `array`."),
        (b"{", "", "The body is not valid JSON"),
        (b'{"text": "\xff"}', "", "The body is not valid JSON"),
        (b"[" * 99, "", "The body"),
    ],
)
async def test_a_bad_body_names_the_field_and_the_rule(
    client: httpx.AsyncClient, face: Front, body: bytes, where: str, rule: str
) -> None:
    """Bad input is one clear sentence, with the field beside it."""
    answer = await client.post("/api/note", content=body, headers=face.headers)
    assert answer.status_code == 400
    told = answer.json()
    assert (told["type"], told.get("field", "")) == ("BadInput", where)
    assert told["error"].startswith(rule)


async def test_the_limit_counts_announced_and_chunked_bodies(client: httpx.AsyncClient, face: Front) -> None:
    """A body over the limit is refused whether its length was announced or not; one at the limit is read."""

    async def pieces(count: int) -> AsyncIterator[bytes]:
        for _ in range(count):
            yield b" " * 10

    exact = b'{"text":"%s"}' % (b"a" * 89)
    assert len(exact) == 100
    assert (await client.post("/api/note", content=exact, headers=face.headers)).status_code == 200
    for content in (exact + b" ", pieces(11)):
        refused = await client.post("/api/note", content=content, headers=face.headers)
        assert (refused.status_code, refused.json()["type"], refused.json()["limit"]) == (413, "TooLarge", 100)
    assert (await client.post("/api/note", content=pieces(10), headers=face.headers)).status_code == 400


async def test_the_limit_holds_for_handlers_that_read_themselves(client: httpx.AsyncClient) -> None:
    """A handler that checks the raw body reads no more than its route allows."""
    assert (await client.post("/api/raw", content=b"x" * 100)).json() == {"length": 100}
    assert (await client.post("/api/raw", content=b"x" * 101)).status_code == 413


# Answers


@pytest.mark.parametrize("at", range(len(FAILURES)), ids=[type(error).__name__ for error, _ in FAILURES])
async def test_every_error_has_a_status_and_a_shape(client: httpx.AsyncClient, at: int) -> None:
    """Each class of the error tree has its status, and tells its sentence, its type and its facts."""
    error, status = FAILURES[at]
    answer = await client.get(f"/api/fail/{at}")
    assert answer.status_code == status
    told = answer.json()
    assert (told["error"], told["type"]) == (error.message, type(error).__name__)
    assert told.get("advice", "") == error.advice
    assert {name: value for name, value in vars(error).items() if name in told and name != "message"} == {
        name: value for name, value in told.items() if name not in ("error", "type")
    }


def test_every_error_class_is_tried() -> None:
    """The list of failures above is the whole tree."""
    tree = {each for each in vars(error_tree).values() if isinstance(each, type) and issubclass(each, HaloError)}
    assert tree == {type(error) for error, _ in FAILURES}


async def test_retries_are_timed(client: httpx.AsyncClient) -> None:
    """Answers that ask to come again say after how many seconds."""
    at = {type(error): number for number, (error, _) in enumerate(FAILURES)}
    assert (await client.get(f"/api/fail/{at[LockedOut]}")).headers["retry-after"] == "900"
    assert (await client.get(f"/api/fail/{at[ModelError]}")).headers["retry-after"] == "4"
    assert (await client.get(f"/api/fail/{at[QueueFull]}")).headers["retry-after"] == "1"


async def test_a_defect_tells_only_a_reference(client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture) -> None:
    """An unexpected exception is logged under a reference, and only the reference is told."""
    for path in ("/api/defect", "/api/unsayable", "/api/quits", "/api/cancels"):
        caplog.clear()
        answer = await client.get(path)
        assert answer.status_code == 500
        assert "secret detail" not in answer.text
        reference = answer.json()["error"].split("reference ")[1].rstrip(").")
        assert any(reference in str(record.msg) for record in caplog.records)


async def test_answers_of_every_kind(client: httpx.AsyncClient) -> None:
    """Text goes out as text, None as 204, any value as JSON; every answer has careful headers."""
    text = await client.get("/api/text")
    assert (text.text, text.headers["content-type"]) == ("héllo", "text/plain; charset=utf-8")
    assert text.headers["cache-control"] == "max-age=60"
    nothing = await client.get("/api/nothing")
    assert (nothing.status_code, nothing.content) == (204, b"")
    one = await client.get("/api/items/a%2Fb")
    assert one.headers["cache-control"] == "no-store"
    assert one.headers["x-content-type-options"] == "nosniff"
    assert one.headers["referrer-policy"] == "same-origin"


async def test_the_most_exact_path_answers(client: httpx.AsyncClient) -> None:
    """A fixed path goes before one with a parameter, whatever the order of the records."""
    assert (await client.get("/api/items/all")).json() == "all"
    assert (await client.get("/api/items/one")).json() == {"item": "one"}
    assert (await client.get("/api/rest/a/b")).json() == {"rest": "a/b"}


async def test_the_kernels_own_paths_are_its_own(
    client: httpx.AsyncClient, face: Front, caplog: pytest.LogCaptureFixture
) -> None:
    """A plugin that claims a path of the kernel's does not get it, and is degraded with a reason that names both."""
    assert (await client.get("/api/health")).json()["status"] == "ok"
    rows = (await client.get("/api/server", headers=face.headers)).json()["plugins"]
    probe = next(row for row in rows if row["name"] == "probe")
    assert probe["state"] == "degraded"
    assert "GET /api/health is claimed by kernel and probe" in probe["reason"]
    assert any("route claimed twice" in str(record.msg) for record in caplog.get_records("setup"))


async def test_unknown_paths_and_methods(client: httpx.AsyncClient) -> None:
    """An unknown path is 404, a known one with another method 405 with what it allows; people read a sentence."""
    missing = await client.get("/api/absent")
    assert (missing.status_code, missing.json()["type"]) == (404, "NotFound")
    wrong = await client.put("/api/items/all")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
    page = await client.get("/absent", headers={"Accept": "text/html"})
    assert page.headers["content-type"] == "text/plain; charset=utf-8"
    assert page.text == "There is nothing at /absent.\n"


async def test_nothing_new_while_stopping(client: httpx.AsyncClient, kernel: Kernel, face: Front) -> None:
    """Once the server stops, every request is told so."""
    answer = await client.post("/api/server/stop", headers=face.headers)
    assert answer.json() == {"stopping": True}
    assert kernel.stopping.is_set()
    refused = await client.get("/api/as/public")
    assert (refused.status_code, refused.json()["type"]) == (503, "Stopping")
