"""The resolver for connections that a model or a remote names: nothing inner unless it is listed."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Iterable
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from halo_kernel import Address, BadFile, BadInput, Forbidden
from halo_kernel.egress import Egress, is_public, parse_allowed
from halo_kernel.settings import EgressSettings, load_kernel_settings

PUBLIC = ("8.8.8.8", "2606:4700:4700::1111")
INNER = (
    *("127.0.0.1", "127.8.9.10", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.31.255.254", "192.168.1.1", "100.64.0.1"),
    *("169.254.169.254", "169.254.170.2", "168.63.129.16", "100.100.100.200", "192.0.0.192"),
    *("224.0.0.1", "239.1.2.3", "240.0.0.1", "255.255.255.255", "192.0.2.1", "198.18.0.1", "192.88.99.1"),
    *("::1", "::", "fe80::1", "fe80::1%2", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "2001:db8::1", "100::1"),
    *("::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "64:ff9b::169.254.169.254", "64:ff9b::a00:1"),
    *("64:ff9b:1::808:808", "2002:7f00:1::", "2002:a9fe:a9fe::1", "2002:808:808::1", "2001:0:a00:1::1", "4000::1"),
)


def egress(*allow: str, **names: Iterable[str]) -> Egress:
    """Return an egress with `allow` whose DNS knows `names`, in which `_` stands for a dot, and what is numeric."""
    known = {name.replace("_", "."): ips for name, ips in names.items()}

    async def look_up(host: str) -> Iterable[str]:
        if host in known:
            return known[host]
        found = await asyncio.get_running_loop().getaddrinfo(
            host, None, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
        )
        return [str(at[0]) for *_, at in found]

    return Egress(lambda: allow, look_up=look_up)


async def dialled(resolved: Awaitable[Iterable[object]]) -> list[str]:
    return [str(getattr(each, "ip", None)) for each in await resolved]


@pytest.mark.parametrize("ip", INNER)
async def test_no_inner_address_is_dialled(ip: str) -> None:
    """Loopback, private, link-local, metadata, multicast, reserved and translated ones are refused by any name."""
    for host in (ip, "rebound.example"):
        with pytest.raises(Forbidden) as raised:
            await egress(rebound_example=[ip]).resolve(host, 80)
        plain = str(getattr(ipaddress.ip_address(ip), "ipv4_mapped", None) or ipaddress.ip_address(ip))
        assert host in raised.value.message or plain in raised.value.message
        assert plain in raised.value.message
        assert "egress.allow" in raised.value.advice


@pytest.mark.parametrize(
    "host", ["2130706433", "0x7f000001", "0177.0.0.1", "0x7f.1", "127.1", "127.0.1", "017700000001", "0"]
)
async def test_spellings_of_loopback_are_seen_through(host: str) -> None:
    """Decimal, octal, hexadecimal and short IPv4 addresses are what the system makes of them."""
    with pytest.raises(Forbidden):
        await Egress(lambda: ()).resolve(host, 80)


async def test_localhost_is_refused_by_the_system_s_own_look_up() -> None:
    """The real resolver is asked, and its answer is checked."""
    with pytest.raises(Forbidden, match=r"localhost leads to (127\.0\.0\.1|::1)"):
        await Egress(lambda: ()).resolve("localhost", 80)


async def test_public_addresses_pass_in_the_order_of_the_look_up() -> None:
    """What is returned are addresses with the port, the name beside them, each once; inner ones are left out."""
    found = await egress(a_example=["10.0.0.1", PUBLIC[1], PUBLIC[0], PUBLIC[0]]).resolve("a.example", 443)
    assert found == [Address(host="a.example", ip=ip, port=443) for ip in reversed(PUBLIC)]


async def test_an_ipv4_address_in_ipv6_clothes_is_dialled_as_ipv4() -> None:
    """What was checked is what is dialled: the mapped address never comes back; a translator's does, once checked."""
    assert await dialled(egress().resolve("[::ffff:8.8.8.8]", 80)) == ["8.8.8.8"]
    assert await dialled(egress().resolve("64:ff9b::808:808", 80)) == ["64:ff9b::808:808"]


ADDRESSES = st.ip_addresses() | st.builds(
    lambda prefix, low: ipaddress.IPv6Address(int(ipaddress.IPv6Address(prefix)) | int(low)),
    st.sampled_from(["::ffff:0:0", "64:ff9b::", "::", "2002::", "fe80::", "2001::", "2000::"]),
    st.ip_addresses(v=4),
)


@given(ADDRESSES)
@example(ipaddress.IPv6Address("64:ff9b::8.8.8.8"))
def test_nothing_is_public_that_python_calls_inner(ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    """The verdict is never laxer than the standard library's on the address, or on the one inside it."""
    inner = getattr(ip, "ipv4_mapped", None) or ip
    if inner.version == 6 and inner in ipaddress.ip_network("64:ff9b::/96"):
        inner = ipaddress.IPv4Address(int(inner) & 0xFFFFFFFF)
    if is_public(inner):
        assert inner.is_global
        assert not (inner.is_private or inner.is_loopback or inner.is_link_local or inner.is_multicast)
        assert not (inner.is_reserved or inner.is_unspecified)
        assert getattr(inner, "sixtofour", None) is None
        assert getattr(inner, "teredo", None) is None


@given(st.ip_addresses(v=4))
def test_the_public_internet_stays_reachable(ip: ipaddress.IPv4Address) -> None:
    """An IPv4 address that the standard library calls global is refused only for the few reasons that we name."""
    ours = map(ipaddress.ip_network, ("168.63.129.16/32", "192.88.99.0/24", "192.0.0.0/24", "224.0.0.0/3"))
    assert is_public(ip) == (ip.is_global and not any(ip in network for network in ours))


@pytest.mark.parametrize(
    ("entry", "host", "ip", "port"),
    [
        ("10.0.0.0/8", "a.example", "10.1.2.3", 80),
        ("10.1.2.3", "a.example", "10.1.2.3", 80),
        ("10.1.2.3:8080", "10.1.2.3", "10.1.2.3", 8080),
        ("10.0.0.0/8:8080", "a.example", "10.1.2.3", 8080),
        ("10.0.0.0/8", "a.example", "64:ff9b::a01:203", 80),
        ("127.0.0.1", "a.example", "::ffff:127.0.0.1", 80),
        ("fd00::/8", "a.example", "fd00::7", 80),
        ("[fd00::/8]:443", "a.example", "fd00::7", 443),
        ("::1", "[::1]", "::1", 80),
        ("[::1]", "a.example", "::1", 80),
        ("[::1]:8080", "a.example", "::1", 8080),
        ("fe80::/10", "fe80::1%2", "fe80::1%2", 80),
        ("A.example", "a.EXAMPLE.", "10.1.2.3", 80),
        ("a.example:443", "a.example", "169.254.169.254", 443),
        ("*.ts.net", "box.tail.ts.net", "100.64.0.1", 80),
        ("*.ts.net:22", "box.ts.net", "100.64.0.1", 22),
    ],
)
async def test_what_is_listed_is_allowed(entry: str, host: str, ip: str, port: int) -> None:
    """A host, a domain, an address or a network opens itself, with a port only that one."""
    known = host.rstrip(".").lower()
    gate = egress("8.8.8.8", entry, **{each.replace(".", "_"): [ip] for each in (known, host)})
    found = await gate.resolve(host, port)
    assert len(found) == 1
    if parse_allowed(entry)[1]:
        with pytest.raises(Forbidden):
            await gate.resolve(host, port + 1)


@pytest.mark.parametrize(
    ("entry", "host"),
    [("*.ts.net", "ts.net"), ("*.ts.net", "evilts.net"), ("a.example", "b.a.example"), ("10.0.0.0/16", "a.example")],
)
async def test_what_is_not_listed_stays_refused(entry: str, host: str) -> None:
    """An entry opens nothing that merely resembles it."""
    with pytest.raises(Forbidden):
        await egress(entry, **{host.replace(".", "_"): ["10.1.2.3"]}).resolve(host, 80)


async def test_the_list_counts_as_it_is_now() -> None:
    """A change of the setting counts for the next look-up."""
    allow: list[str] = []
    gate = Egress(lambda: allow)
    with pytest.raises(Forbidden):
        await gate.resolve("127.0.0.1", 80)
    allow.append("127.0.0.0/8")
    assert await dialled(gate.resolve("127.0.0.1", 80)) == ["127.0.0.1"]


@pytest.mark.parametrize("entry", ["", "10.0.0.0/99", "http://a.example", "a b", "a.example:0", "a.example:70000"])
def test_an_entry_that_means_nothing_is_refused_with_its_text(tmp_path: Path, entry: str) -> None:
    """The settings name the entry and what it may be."""
    file = tmp_path / "secrets" / "settings.yaml"
    file.parent.mkdir()
    file.write_text("egress:\n  allow: ['*.ts.net', '10.0.0.0/8:80']\n")
    assert load_kernel_settings(tmp_path, {}).of(EgressSettings).allow == ("*.ts.net", "10.0.0.0/8:80")
    file.write_text(f"egress:\n  allow: [{entry!r}]\n")
    with pytest.raises(BadFile) as raised:
        load_kernel_settings(tmp_path, {})
    assert repr(entry) in raised.value.message


@given(st.text(max_size=30) | st.from_regex(r"[\[\]0-9a-f:./%*]{0,24}", fullmatch=True))
def test_any_entry_is_read_or_refused(entry: str) -> None:
    """Whatever a person writes is an entry or one sentence about it."""
    try:
        parse_allowed(entry)
    except ValueError as error:
        assert repr(entry) in str(error)


@pytest.mark.parametrize("host", ["", " ", "a b", "a\0b", "a/b", "a@b", "127.0.0.1/8", "a..b", "y" * 70 + ".com"])
async def test_what_dns_cannot_carry_is_bad_input(host: str) -> None:
    """A host that no look-up could have names the field."""
    with pytest.raises(BadInput) as raised:
        await Egress(lambda: ()).resolve(host, 80)
    assert raised.value.field == "host"


@pytest.mark.parametrize("host", ["127.0.0.1\0.ts.net", "127.0.0.1 .ts.net", "127.0.0.1/.ts.net", "127.0.0.1\n.ts.net"])
async def test_a_listed_domain_cannot_be_worn_by_another_host(host: str) -> None:
    """A name that the system's look-up cuts short is not matched at full length."""
    with pytest.raises(BadInput):
        await Egress(lambda: ["*.ts.net"]).resolve(host, 80)


async def test_an_unknown_name_is_an_os_error() -> None:
    """A name without an address fails like a connection, so that clients treat it as one."""
    with pytest.raises(OSError):
        await egress().resolve("nowhere.invalid", 80)


async def test_what_is_resolved_can_be_dialled() -> None:
    """An address goes into `asyncio.open_connection` as it is."""
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        port: int = server.sockets[0].getsockname()[1]
        (address,) = await Egress(lambda: [f"127.0.0.1:{port}"]).resolve("127.1", port)
        reader, writer = await asyncio.open_connection(address.ip, address.port)
        assert await reader.read() == b""
        writer.close()
