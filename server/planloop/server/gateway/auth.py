"""Access checks of the gateway: host, origin, token, method; the tokens of links; TLS."""

from __future__ import annotations

import hmac
import ipaddress
import os
import ssl
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal, TypeAlias

import anyio
from aiohttp import web

from planloop.client.exit_codes import CommandError, ExitCode
from planloop.schemas.canonical_json import decode, encode
from planloop.schemas.frozen import frozen

# A page of another site can make a browser send requests here, and can point its own name at this machine. So the Host
# must be one of ours (DNS rebinding), the Origin, if there is one, too (a foreign page), and the token is in a header
# that a foreign page cannot set. There are no cookies: a browser would send them with every request, and to every other
# port of this machine.

Right: TypeAlias = Literal["read", "change"]
Scheme: TypeAlias = Literal["http", "https"]
RIGHT: Final = web.RequestKey("right", str)
"""What the token of a request allows."""
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
class LinkTokens:
    """The tokens of the gateway: `change` allows everything (None: read-only), `read` only reading."""

    read: str
    change: str | None


@frozen
class AccessDenied:
    """Why a request is refused: an HTTP status and a message."""

    status: int
    summary: str
    hint: str


@frozen
class SiteNames:
    """The names of a gateway, beside the address at which a request arrives: `hosts` as Host headers, `origins` as
    pages have them. `scheme` and `port` are those that it listens with.
    """

    scheme: Scheme
    port: int
    hosts: frozenset[str]
    origins: frozenset[str]

    def link(self, names: Sequence[str], address: str, machine: str) -> str:
        """Return the origin to print in links: by the first of the given `names`, else by the listening address,
        for which the name of the `machine` stands where it is every address.
        """
        if names:
            return _origins(self.scheme, self.port, names[0].lower())[-1]
        at = ipaddress.ip_address(address)
        host = machine if at.is_unspecified else f"[{at}]" if at.version == 6 else str(at)
        return _origins(self.scheme, self.port, host.lower())[-1]


def site_names(scheme: Scheme, port: int, names: Iterable[str]) -> SiteNames:
    """A gateway that answers at `port` to `names`: HOST (at that port), HOST:PORT, or SCHEME://HOST[:PORT] where
    something in front of it takes the requests. Raises CommandError for what is none of these.
    """
    origins = {origin for name in names for origin in _origins(scheme, port, name.lower())}
    return SiteNames(scheme, port, frozenset(origin.partition("://")[2] for origin in origins), frozenset(origins))


def _origins(scheme: Scheme, port: int, name: str) -> list[str]:
    said, _, host = name.rpartition("://")
    if said not in ("", *PORTS) or not host or any(char in "/?#@\\" or char.isspace() for char in host):
        raise CommandError(ExitCode.USAGE, f"`{name}` is no name of a host", "HOST, HOST:PORT or https://HOST")
    bare, stated = _parted(host)
    if (stated and not stated.isdecimal()) or (":" in bare and not bare.endswith("]")):
        raise CommandError(
            ExitCode.USAGE, f"`{name}` ends in no port", "an IPv6 address stands in brackets: [::1]:7077"
        )
    at = int(stated or (PORTS[said] if said else port))
    spoken = said or scheme
    return [f"{spoken}://{bare}:{at}", *([f"{spoken}://{bare}"] if at == PORTS[spoken] else [])]


def _parted(host: str) -> tuple[str, str]:
    """Split a Host header into host and port; the port is empty if there is none."""
    bare, colon, port = ("", "", "") if host.endswith("]") else host.rpartition(":")
    return (bare, port) if colon else (host, "")


def denied_place(headers: Mapping[str, str], names: SiteNames, arrived_at: str) -> AccessDenied | None:
    """Refuse a request with a foreign host name, or from a page of another site.

    `arrived_at` is the address of this machine that it reached, which nobody can point elsewhere: it is always ours.
    """
    host = headers.get("Host", "").lower()
    if host not in names.hosts and not _is_at(host, arrived_at, names):
        hint = f"{LINK}; plan serve --name NAME says what else it goes by"
        return AccessDenied(421, f"this is not the host `{host[:SHOWN_CHARS_MAX]}`", hint)
    origin = headers.get("Origin")
    if origin is not None and origin.lower() not in (f"{names.scheme}://{host}", *names.origins):
        return AccessDenied(403, f"a page of {origin[:SHOWN_CHARS_MAX]} may not ask here", LINK)
    return None


def _is_at(host: str, address: str, names: SiteNames) -> bool:
    bare, stated = _parted(host)
    port = stated or str(PORTS[names.scheme])
    try:
        return port == str(names.port) and ipaddress.ip_address(bare.strip("[]")) == ipaddress.ip_address(address)
    except ValueError:
        return False


def right_of(headers: Mapping[str, str], tokens: LinkTokens) -> Right | None:
    """Return what the token of the request allows; None without a valid token."""
    given = _token(headers).encode(errors="replace")
    if tokens.change is not None and hmac.compare_digest(given, tokens.change.encode()):
        return "change"
    return "read" if hmac.compare_digest(given, tokens.read.encode()) else None


def denied_token(method: str, right: Right | None) -> AccessDenied | None:
    """Refuse a request without a token, or a change with a read-only token."""
    if right is None:
        return AccessDenied(401, "a token is needed", f"{LINK}: its token is behind the #")
    if method not in SAFE and right != "change":
        return AccessDenied(403, "this link may only look", "plan serve prints the link that may change things, too")
    return None


def denied_handshake(headers: Mapping[str, str]) -> AccessDenied | None:
    """Refuse a request that is not a websocket handshake, or offers another protocol."""
    if headers.get("Upgrade", "").strip().lower() != "websocket":
        return AccessDenied(
            426, "this is a websocket", f"ask for it with Upgrade: websocket and the protocol {PROTOCOL}"
        )
    offered = _offered(headers)
    if offered and PROTOCOL not in offered:
        return AccessDenied(
            400, f"the websocket speaks {PROTOCOL}", "offer it in Sec-WebSocket-Protocol, beside the token"
        )
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


# The tokens of a plan's links: made once, kept in its state folder for this user alone, so that links stay good.

FILE: Final = "links.json"
TOKEN_CHARS_MIN: Final = 32
OTHERS_MODE: Final = 0o077  # The bits of a mode that let other users read a file.


def load_tokens(folder: Path, mint: Callable[[], str]) -> LinkTokens:
    """Return the tokens of the plan whose state is in `folder`; created with `mint` unless there are valid ones.

    Where nothing can be written they are good for as long as this process.
    """
    return _known(folder) or _new_tokens(folder, mint)


def create_tokens(folder: Path, mint: Callable[[], str]) -> LinkTokens:
    """Create new tokens over the old: all links that were given out are revoked. Raises OSError."""
    tokens = LinkTokens(read=mint(), change=mint())
    _written(folder, tokens, mint()).replace(folder / FILE)
    return tokens


class Links:
    """The current tokens: `tokens`, or those that another `plan serve --new-links` has written to `folder`."""

    def __init__(self, folder: Path, tokens: LinkTokens, *, read_only: bool) -> None:
        self._folder = folder
        self._read_only = read_only
        self._tokens = tokens
        self.dead = anyio.Event()

    @property
    def tokens(self) -> LinkTokens:
        """The valid tokens."""
        return replace(self._tokens, change=None) if self._read_only else self._tokens

    def look(self, moved: set[str]) -> None:
        """Reload the tokens if their file is among the changed ones, or if those are unknown.

        `dead` is set for those who came by an old one.
        """
        found = _known(self._folder) if not moved or FILE in moved else None
        if found is not None and found != self._tokens:
            self._tokens = found
            dead, self.dead = self.dead, anyio.Event()
            dead.set()


def _known(folder: Path) -> LinkTokens | None:
    known = read_tokens(folder / FILE)
    if not known.keys() >= {"read", "change"} or known["read"] == known["change"]:
        return None
    return LinkTokens(known["read"], known["change"])


def _new_tokens(folder: Path, mint: Callable[[], str]) -> LinkTokens:
    tokens = LinkTokens(read=mint(), change=mint())
    try:
        beside = _written(folder, tokens, mint())
    except OSError:
        return tokens
    try:
        # Whoever comes first has made them, if two begin at once; what is damaged or open to others is replaced.
        os.link(beside, folder / FILE)
    except OSError:
        if (known := _known(folder)) is not None:
            return known
        beside.replace(folder / FILE)
    finally:
        beside.unlink(missing_ok=True)
    return tokens


def _written(folder: Path, tokens: LinkTokens, name: str) -> Path:
    return write_tokens(folder / FILE, {"read": tokens.read, "change": tokens.change or ""}, name)


def read_tokens(file: Path) -> Mapping[str, str]:
    """Return the tokens in a file by name; none if it is missing, damaged, or readable by other users."""
    with suppress(OSError, ValueError):
        found = decode(file.read_bytes())
        if isinstance(found, dict) and not file.stat().st_mode & OTHERS_MODE:
            return {name: one for name, one in found.items() if isinstance(one, str) and len(one) >= TOKEN_CHARS_MIN}
    return {}


def write_tokens(file: Path, tokens: Mapping[str, str], suffix: str) -> Path:
    """Write a file beside `file` that only this user can read, to be renamed to it. Raises OSError."""
    beside = file.with_name(f"{file.name}.{suffix}")
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
        opened.write(encode(dict(tokens)))
    return beside


# TLS for the gateway, from the files that a person names.


def tls_context(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """Return the TLS context; None without files. Raises CommandError for unusable files."""
    if certificate is None:
        if key is not None:
            raise CommandError(ExitCode.USAGE, "--tls-key is given without --tls-cert", "give both")
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key, password=lambda: "")  # Nobody is asked for one in the background.
    except (OSError, ValueError) as error:
        words = getattr(error, "strerror", None) or getattr(error, "reason", None) or error
        hint = "both are PEM files that this user can read, the key one of that certificate and without a password"
        raise CommandError(ExitCode.USAGE, f"{certificate} cannot be used: {words}", hint) from None
    return context
