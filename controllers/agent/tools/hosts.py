"""Which addresses may be asked: the public internet, and of everything nearer only what the rights name.

A name is resolved once and the connection goes to the address that was looked at, so a name that answers differently
the second time gains nothing. An address inside another form of it (IPv4 in IPv6, 6to4, NAT64) is looked at as itself.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from typing import Final, TypeAlias
from urllib.parse import SplitResult, urlsplit, urlunsplit

import anyio

from controllers.agent.tools.faults import ToolDenied, ToolFailed
from schemas import limits, patterns
from schemas.frozen import frozen

Ip: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

PORTS: Final = {"http": 80, "https": 443}
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
    return ip.is_global and not (ip.is_multicast or ip.is_reserved or ip.is_unspecified)


def seen_through(ip: Ip) -> Ip:
    """The address that is really reached: the IPv4 one inside an IPv6 one."""
    if isinstance(ip, ipaddress.IPv4Address):
        return ip
    if ip.ipv4_mapped is not None:
        return ip.ipv4_mapped
    if ip.sixtofour is not None:
        return ip.sixtofour
    if ip in _NAT64:
        return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip


def names_of(place: Place) -> tuple[str, ...]:
    """Everything that a denial of the place may be written against: its URL, by host and by each address."""
    parts = urlsplit(place.url)
    hosts = (place.host, *place.addresses, *(str(seen_through(ipaddress.ip_address(a))) for a in place.addresses))
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
