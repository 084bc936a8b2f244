"""Base URLs as people write them."""

from __future__ import annotations

import pytest

from halo_kernel import BadInput
from halo_lib_wire.vendors import Endpoint, parse_endpoint


@pytest.mark.parametrize(
    "text",
    [
        "http://127.0.0.1:8000/v1",
        "http://127.0.0.1:8000/v1/",
        "http://127.0.0.1:8000/v1//",
        " http://127.0.0.1:8000/v1 ",
        "http://127.0.0.1:8000/v1/chat/completions",
        "http://127.0.0.1:8000/v1/chat/completions/",
    ],
)
def test_every_way_to_write_it_means_one_url(text: str) -> None:
    """Slashes, spaces and the path of the call itself at the end do not matter."""
    endpoint = parse_endpoint(text, field="x", tails=("/chat/completions",))
    assert endpoint.url == "http://127.0.0.1:8000/v1"
    assert endpoint.path("chat/completions") == "http://127.0.0.1:8000/v1/chat/completions"


def test_a_base_url_without_a_path() -> None:
    """A base URL may have no path, or a query that stays."""
    assert parse_endpoint("https://api.deepseek.com/", field="x").path("models") == "https://api.deepseek.com/models"
    with_query = parse_endpoint("https://a.example/openai/v1?api-version=1", field="x")
    assert with_query.path("models") == "https://a.example/openai/v1/models?api-version=1"


@pytest.mark.parametrize(
    "text",
    ["", "localhost:8000", "ftp://a/b", "http://", "https:///v1", "http://a:99999/", "x", "http://a/ b", "http://a/ #"],
)
def test_what_is_no_url_is_refused(text: str) -> None:
    """Anything but an http or https URL with a host is refused in a sentence that names the field."""
    with pytest.raises(BadInput, match=r"base_url must be an http or https URL") as failure:
        parse_endpoint(text, field="base_url")
    assert failure.value.field == "base_url"


@pytest.mark.parametrize(
    ("url", "loopback"),
    [
        ("http://127.0.0.1:1", True),
        ("http://127.9.9.9:1", True),
        ("http://[::1]:1", True),
        ("http://localhost:1", True),
        ("http://models.localhost", True),
        ("http://192.168.0.1:1", False),
        ("http://localhost.example.com", False),
        ("http://0.0.0.0:1", False),
    ],
)
def test_loopback_is_this_machine_only(url: str, loopback: bool) -> None:
    """Only addresses of this machine count as local."""
    assert Endpoint(url).is_loopback is loopback


def test_people_see_no_credentials() -> None:
    """A URL is shown without the credentials and the query in it."""
    assert Endpoint("https://me:secret@a.example:8/v1?key=secret").shown == "https://a.example:8/v1"


def test_an_origin_has_its_port() -> None:
    """The default port is that of the scheme."""
    assert Endpoint("https://A.example/v1").origin == ("https", "a.example", 443)
    assert Endpoint("http://a.example").origin == ("http", "a.example", 80)
