"""Which `Host` and `Origin` are let in."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo_kernel import Forbidden, ServerSettings
from halo_kernel.http.origins import Origins


def origins(bound: str = "127.0.0.1", **settings: Any) -> Origins:
    return Origins(bound=bound, server=ServerSettings(**settings))


LOOPBACK = origins()


def passes(origins: Origins, method: str = "GET", scheme: str = "operator", **headers: str) -> bool:
    try:
        origins.check(method, {name.replace("_", "-"): value for name, value in headers.items()}, scheme=scheme)
    except Forbidden:
        return False
    return True


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:9527", "127.0.0.1:9527", "127.8.8.8", "[::1]:9527", "halo.localhost:1", "LOCALHOST."],
)
def test_loopback_names_pass(host: str) -> None:
    """Every way to name this machine passes."""
    assert passes(LOOPBACK, host=host)


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "evil.example:9527",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "192.168.1.5",
        "10.1",
    ],
)
def test_foreign_names_are_refused(host: str) -> None:
    """A name that a foreign page could have made lead here is refused, for reading too."""
    assert not passes(LOOPBACK, host=host)


def test_a_request_without_a_name_is_refused() -> None:
    """A request without `Host` is refused."""
    assert not passes(LOOPBACK)


def test_the_bound_host_passes() -> None:
    """The host that the server was told to listen on passes, and so does any address when it listens on all."""
    assert passes(origins("halo.lan"), host="halo.lan:9527")
    everywhere = origins("0.0.0.0")
    assert passes(everywhere, host="192.168.1.5:9527")
    assert not passes(everywhere, host="evil.example")


def test_listed_hosts_pass() -> None:
    """`allowed_hosts` lists names, `.name` all below one, `*` everything."""
    assert passes(origins(allowed_hosts=("halo.example",)), host="Halo.Example:443")
    below = origins(allowed_hosts=(".halo.example",))
    assert passes(below, host="a.halo.example")
    assert not passes(below, host="ahalo.example")
    assert passes(origins(allowed_hosts=("*",)), host="anything.example")


@pytest.mark.parametrize("scheme", ["signed", "account:web"])
def test_schemes_without_cookies_take_any_host(scheme: str) -> None:
    """Webhooks come in under names of their own, and read no cookie."""
    assert passes(LOOPBACK, "POST", scheme, host="hooks.example", origin="https://evil.example")


def test_schemes_without_cookies_keep_to_listed_origins() -> None:
    """Once origins are listed, they hold for every scheme."""
    listed = origins(cors_origins=("https://good.example",))
    assert passes(listed, "POST", "account:web", host="x", origin="https://good.example")
    assert not passes(listed, "POST", "account:web", host="x", origin="https://evil.example")
    assert passes(listed, "POST", "account:web", host="x")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "WEBSOCKET"])
@pytest.mark.parametrize("scheme", ["operator", "public", "other"])
def test_foreign_origins_change_nothing(method: str, scheme: str) -> None:
    """No page of another origin changes anything, loopback included."""
    for origin in ("https://evil.example", "http://localhost:3000", "null", "http://127.0.0.1:9527", "", "file://"):
        assert not passes(LOOPBACK, method, scheme, host="localhost:9527", origin=origin), origin
    assert passes(LOOPBACK, method, scheme, host="localhost:9527", origin="http://localhost:9527")
    assert passes(LOOPBACK, method, scheme, host="localhost:9527")


def test_foreign_origins_may_ask_for_what_they_cannot_read() -> None:
    """Reading needs no `Origin` check: without CORS headers a foreign page sees no answer."""
    assert passes(LOOPBACK, "GET", host="localhost", origin="https://evil.example")
    assert LOOPBACK.cors("https://evil.example", scheme="operator") == {}


def test_a_page_of_another_site_without_an_origin_is_refused() -> None:
    """What browsers say in `Sec-Fetch-Site` counts where they leave `Origin` out."""
    assert not passes(LOOPBACK, "POST", host="localhost", sec_fetch_site="cross-site")
    assert passes(LOOPBACK, "POST", host="localhost", sec_fetch_site="same-origin")


def test_default_ports_are_the_same_port() -> None:
    """`https://halo.example` and `halo.example:443` are one place."""
    proxied = origins(allowed_hosts=("halo.example",))
    assert passes(proxied, "POST", host="halo.example", origin="https://halo.example")
    assert passes(proxied, "POST", host="halo.example:443", origin="https://halo.example")
    assert not passes(proxied, "POST", host="halo.example", origin="https://halo.example:444")


def test_listed_origins_change_and_read() -> None:
    """A listed origin may do what the server's own pages may, with the cookie."""
    listed = origins(cors_origins=("https://good.example/",))
    assert passes(listed, "POST", host="localhost", origin="https://good.example")
    allowed = listed.cors("https://good.example", scheme="operator")
    assert allowed["Access-Control-Allow-Origin"] == "https://good.example"
    assert allowed["Access-Control-Allow-Credentials"] == "true"


def test_an_empty_list_lets_token_pages_read_without_cookies() -> None:
    """Without a list, routes that read no cookie answer any page, without credentials."""
    allowed = LOOPBACK.cors("https://any.example", scheme="account:web")
    assert allowed == {"Access-Control-Allow-Origin": "https://any.example", "Vary": "Origin"}


def test_a_forwarded_name_counts_behind_a_proxy_only() -> None:
    """`X-Forwarded-Host` is believed behind a trusted proxy, and must itself be allowed."""
    headers = {"host": "127.0.0.1:9527", "x_forwarded_host": "halo.example", "origin": "https://halo.example"}
    assert not passes(LOOPBACK, "POST", **headers)
    assert not passes(origins(trust_proxy=True), "POST", **headers)
    assert passes(origins(trust_proxy=True, allowed_hosts=("halo.example",)), "POST", **headers)


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_header_is_judged(host: str, origin: str) -> None:
    """Whatever the headers hold, the check answers yes or no."""
    passes(origins("0.0.0.0", allowed_hosts=(".a",)), "POST", host=host, origin=origin)
