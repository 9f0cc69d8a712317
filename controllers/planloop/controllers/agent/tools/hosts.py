"""Which addresses may be asked: the public internet, and of everything nearer only what the rights name.

A name is resolved once and the connection goes to the address that was looked at, so a name that answers differently
the second time gains nothing. An IPv4 address inside an IPv6 one (mapped, NAT64) is looked at as itself.
What is public is decided by the tables below and not by `ipaddress`, whose tables differ between versions of Python.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias
from urllib.parse import SplitResult, urlsplit, urlunsplit

import anyio

from planloop.controllers.agent.tools.faults import ToolDenied, ToolFailed
from planloop.schemas import limits, patterns
from planloop.schemas.frozen import frozen

Ip: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

PORTS: Final = {"http": 80, "https": 443}
_SPECIAL: Final = tuple(
    ipaddress.IPv4Network(one)
    for one in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16"),
        *("192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
    )
)
"""The IANA IPv4 Special-Purpose Address Registry (RFC 6890 and later), and multicast."""
_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
"""What IANA assigns as global unicast: loopback, `fc00::/7`, `fe80::/10`, `fec0::/10`, `5f00::/16` … are outside."""
_SPECIAL_6: Final = tuple(
    ipaddress.IPv6Network(one) for one in ("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20")
)
"""The IANA IPv6 Special-Purpose Address Registry within global unicast; the first has Teredo, ORCHID, benchmarks …"""
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")


@frozen
class Place:
    """Where a URL leads: the URL as it is asked for, its host and port, and the addresses to connect to."""

    url: str
    host: str
    port: int
    addresses: tuple[str, ...] = ()


def place_of(url: str) -> Place:
    """The place that a URL names. Raises ToolFailed for what is no http or https URL."""
    if len(url) > limits.URL_CHARS_MAX:
        raise ToolFailed("BadUrl", f"a URL has at most {limits.URL_CHARS_MAX} characters")
    try:
        parts = urlsplit(url.strip())
        port = parts.port or PORTS.get(parts.scheme, 0)
        host = (parts.hostname or "").encode("idna").decode("ascii") if parts.hostname else ""
    except (ValueError, UnicodeError) as error:
        raise ToolFailed("BadUrl", f"not a URL: {error}") from error
    if parts.scheme not in PORTS or not host:
        raise ToolFailed("BadUrl", "only http:// and https:// URLs are fetched")
    if parts.username is not None or parts.password is not None:
        raise ToolFailed("BadUrl", "a URL with a user or password in it is not fetched")
    return Place(_plain(parts, host, port), host, port)


def _plain(parts: SplitResult, host: str, port: int) -> str:
    name = f"[{host}]" if ":" in host else host
    place = name if port == PORTS[parts.scheme] else f"{name}:{port}"
    return urlunsplit((parts.scheme, place, parts.path or "/", parts.query, ""))


async def resolved(place: Place, allowed: Sequence[str], *, is_loopback_only: bool) -> Place:
    """The place with its addresses, all of them allowed. Raises ToolDenied and ToolFailed.

    `allowed` are patterns of `host:port` that may lie in this machine or a private network.
    """
    try:
        found = await anyio.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ToolFailed("Unreachable", f"`{place.host}` is not known: {error.strerror or error}") from error
    addresses = tuple(dict.fromkeys(str(each[4][0]).partition("%")[0] for each in found))
    for address in addresses:
        _check(place, seen_through(ipaddress.ip_address(address)), allowed, is_loopback_only=is_loopback_only)
    return Place(place.url, place.host, place.port, addresses)


def _check(place: Place, ip: Ip, allowed: Sequence[str], *, is_loopback_only: bool) -> None:
    if is_loopback_only and not ip.is_loopback:
        raise ToolDenied(f"`{place.host}` is not on this machine, and nothing else may be asked here")
    if is_public(ip):
        return
    name = f"{place.host}:{place.port}"
    if not patterns.any_name([each for each in allowed if each != "all"], name):
        cure = f"the plan can allow it: `rights: {{hosts: ['{name}']}}`"
        raise ToolDenied(f"`{name}` leads to {ip}, which is no public address; {cure}")


def is_public(ip: Ip) -> bool:
    """Whether the address belongs to the open internet."""
    if isinstance(ip, ipaddress.IPv4Address):
        return not any(ip in network for network in _SPECIAL)
    return ip in _UNICAST and not any(ip in network for network in _SPECIAL_6)


def seen_through(ip: Ip) -> Ip:
    """The address that a connection reaches: the IPv4 address inside an IPv6 one.

    6to4 and Teredo are tunnels to whatever the address says, so they stay what they are, which is not public.
    """
    if isinstance(ip, ipaddress.IPv4Address):
        return ip
    if ip.ipv4_mapped is not None:
        return ip.ipv4_mapped
    if ip in _NAT64:
        return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip


def _inside(address: str) -> Iterator[str]:
    """The IPv4 addresses that stand in an IPv6 one, whatever form it has."""
    ip = ipaddress.ip_address(address)
    yield str(seen_through(ip))
    if isinstance(ip, ipaddress.IPv6Address):
        yield from (str(each) for each in (ip.sixtofour, *(ip.teredo or ())) if each is not None)


def names_of(place: Place) -> tuple[str, ...]:
    """Everything that a denial of the place may be written against: its URL, by host and by each address."""
    parts = urlsplit(place.url)
    hosts = (place.host, *place.addresses, *(each for one in place.addresses for each in _inside(one)))
    forms = [(host, f"[{host}]" if ":" in host else host) for host in dict.fromkeys(hosts)]
    tail = parts.path + (f"?{parts.query}" if parts.query else "")
    found = [place.url]
    for host, name in forms:
        found += [
            host,
            f"{name}{parts.path}",
            f"{parts.scheme}://{name}{tail}",
            f"{parts.scheme}://{name}:{place.port}{tail}",
        ]
    return tuple(dict.fromkeys(found))
