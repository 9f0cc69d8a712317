"""Who may ask the gateway for what: pure decisions over a request's address, origin, token and method.

A page of another site can make a browser send requests here, and can point its own name at this machine. So the Host
must be one of ours (no foreign name), the Origin, where one is said, the same (no foreign page), and the token travels
in a header that no foreign page can set. Cookies are not used at all: the browser would send them along by itself, and
to every other port of this machine.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

from planloop.app.exits import Exit, Halt
from planloop.schemas.frozen import frozen

Right: TypeAlias = Literal["read", "change"]
Scheme: TypeAlias = Literal["http", "https"]
PROTOCOL: Final = "planloop.v1"  # What a websocket speaks; its token travels beside it, as `token.…`.
SAFE: Final = frozenset({"GET", "HEAD"})  # Nothing that these do changes anything.
PORTS: Final[Mapping[str, int]] = {"http": 80, "https": 443}  # Those that a Host header leaves out.
LINK: Final = "use the link that plan serve printed"
SHOWN_CHARS_MAX: Final = 100  # Of what a stranger sent, in our answer.

HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' blob: data:; font-src 'self'; worker-src 'self'; manifest-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "Server": "planloop",
    "X-Content-Type-Options": "nosniff",
}


@frozen
class Tokens:
    """What opens the gateway: `change` may do everything, None when nobody may; `read` may look."""

    read: str
    change: str | None


@frozen
class Denied:
    """Why a request is turned away, as an HTTP status with words."""

    status: int
    summary: str
    hint: str


@frozen
class Names:
    """What a gateway goes by, beside the address at which a request arrives: `hosts` as Host headers, `origins` as
    pages have them. `scheme` and `port` are those that it listens with.
    """

    scheme: Scheme
    port: int
    hosts: frozenset[str]
    origins: frozenset[str]

    def link(self, names: Sequence[str], address: str, machine: str) -> str:
        """The origin to print in links: by the first of the given `names`, else by the address that is listened at,
        for which the name of the `machine` stands where it is every address.
        """
        if names:
            return _origins(self.scheme, self.port, names[0].lower())[-1]
        at = ipaddress.ip_address(address)
        host = machine if at.is_unspecified else f"[{at}]" if at.version == 6 else str(at)
        return _origins(self.scheme, self.port, host.lower())[-1]


def names_of(scheme: Scheme, port: int, names: Iterable[str]) -> Names:
    """A gateway that answers at `port` to `names`: HOST (at that port), HOST:PORT, or SCHEME://HOST[:PORT] where
    something in front of it takes the requests. Raises Halt for what is none of these.
    """
    origins = {origin for name in names for origin in _origins(scheme, port, name.lower())}
    return Names(scheme, port, frozenset(origin.partition("://")[2] for origin in origins), frozenset(origins))


def _origins(scheme: Scheme, port: int, name: str) -> list[str]:
    said, _, host = name.rpartition("://")
    if said not in ("", *PORTS) or not host or any(char in "/?#@\\" or char.isspace() for char in host):
        raise Halt(Exit.USAGE, f"`{name}` is no name of a host", "HOST, HOST:PORT or https://HOST")
    bare, stated = _parted(host)
    if (stated and not stated.isdecimal()) or (":" in bare and not bare.endswith("]")):
        raise Halt(Exit.USAGE, f"`{name}` ends in no port", "an IPv6 address stands in brackets: [::1]:7077")
    at = int(stated or (PORTS[said] if said else port))
    spoken = said or scheme
    return [f"{spoken}://{bare}:{at}", *([f"{spoken}://{bare}"] if at == PORTS[spoken] else [])]


def _parted(host: str) -> tuple[str, str]:
    """A host as headers have it, without its port, and the port; empty where it says none."""
    bare, colon, port = ("", "", "") if host.endswith("]") else host.rpartition(":")
    return (bare, port) if colon else (host, "")


def denied_place(headers: Mapping[str, str], names: Names, arrived_at: str) -> Denied | None:
    """Whether the request came by a foreign name, or from a page of another site.

    `arrived_at` is the address of this machine that it reached, which nobody can point elsewhere: it is always ours.
    """
    host = headers.get("Host", "").lower()
    if host not in names.hosts and not _is_at(host, arrived_at, names):
        hint = f"{LINK}; plan serve --name NAME says what else it goes by"
        return Denied(421, f"this is not the host `{host[:SHOWN_CHARS_MAX]}`", hint)
    origin = headers.get("Origin")
    if origin is not None and origin.lower() not in (f"{names.scheme}://{host}", *names.origins):
        return Denied(403, f"a page of {origin[:SHOWN_CHARS_MAX]} may not ask here", LINK)
    return None


def _is_at(host: str, address: str, names: Names) -> bool:
    bare, stated = _parted(host)
    port = stated or str(PORTS[names.scheme])
    try:
        return port == str(names.port) and ipaddress.ip_address(bare.strip("[]")) == ipaddress.ip_address(address)
    except ValueError:
        return False


def right_of(headers: Mapping[str, str], tokens: Tokens) -> Right | None:
    """What the token of the request allows; None without a token of ours."""
    given = _token(headers).encode(errors="replace")
    if tokens.change is not None and hmac.compare_digest(given, tokens.change.encode()):
        return "change"
    return "read" if hmac.compare_digest(given, tokens.read.encode()) else None


def denied_token(method: str, right: Right | None) -> Denied | None:
    """Whether a request with that right may use that method."""
    if right is None:
        return Denied(401, "a token is needed", f"{LINK}: its token is behind the #")
    if method not in SAFE and right != "change":
        return Denied(403, "this link may only look", "plan serve prints the link that may change things, too")
    return None


def denied_handshake(headers: Mapping[str, str]) -> Denied | None:
    """Whether a request for a websocket is none, or speaks what we do not."""
    if headers.get("Upgrade", "").strip().lower() != "websocket":
        return Denied(426, "this is a websocket", f"ask for it with Upgrade: websocket and the protocol {PROTOCOL}")
    offered = _offered(headers)
    if offered and PROTOCOL not in offered:
        return Denied(400, f"the websocket speaks {PROTOCOL}", "offer it in Sec-WebSocket-Protocol, beside the token")
    return None


def _token(headers: Mapping[str, str]) -> str:
    scheme, _, token = headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return token.strip()
    # A browser's websocket takes no headers of its own, but names protocols.
    return next((one.removeprefix("token.") for one in _offered(headers) if one.startswith("token.")), "")


def _offered(headers: Mapping[str, str]) -> list[str]:
    said = headers.get("Sec-WebSocket-Protocol", "")
    return [one.strip() for one in said.split(",") if one.strip()]
