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

# A page of another site can make a browser send requests here, and can point its host name at this machine. Therefore
# the Host header must be a known one (against DNS rebinding), and the Origin header, if present, too (against foreign
# pages). The token is in a header that a foreign page cannot set. There are no cookies, because a browser would send
# them with every request and to every port of this machine.

Right: TypeAlias = Literal["read", "change"]
Scheme: TypeAlias = Literal["http", "https"]
RIGHT: Final = web.RequestKey("right", str)
"""The right that a request's token gives."""
PROTOCOL: Final = "planloop.v1"  # The websocket protocol. The token is offered as a second protocol, `token.…`.
SAFE: Final = frozenset({"GET", "HEAD"})  # Methods that change nothing.
PORTS: Final[Mapping[str, int]] = {"http": 80, "https": 443}  # Default ports, which a Host header omits.
LINK: Final = "use the link that plan serve printed"
READ_ONLY: Final = "this link is read-only"
READ_ONLY_HINT: Final = "use the other link that plan serve printed"
SHOWN_CHARS_MAX: Final = 100  # Of header values that are repeated in an answer.

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
    """The names under which a gateway answers, in addition to its address.

    `hosts` are values of the Host header, `origins` of the Origin header. It listens with `scheme` at `port`.
    """

    scheme: Scheme
    port: int
    hosts: frozenset[str]
    origins: frozenset[str]

    def link(self, names: Sequence[str], address: str, machine: str) -> str:
        """Return the origin to print in links: the first of `names`, or the listening address.

        If the server listens on all addresses, it is the name of the `machine`.
        """
        if names:
            return _origins(self.scheme, self.port, names[0].lower())[-1]
        at = ipaddress.ip_address(address)
        host = machine if at.is_unspecified else f"[{at}]" if at.version == 6 else str(at)
        return _origins(self.scheme, self.port, host.lower())[-1]


def site_names(scheme: Scheme, port: int, names: Iterable[str]) -> SiteNames:
    """Return the names of a gateway that listens at `port`.

    Each of `names` is HOST (at that port), HOST:PORT, or SCHEME://HOST[:PORT] for a reverse proxy. Raises CommandError
    for an invalid name.
    """
    origins = {origin for name in names for origin in _origins(scheme, port, name.lower())}
    return SiteNames(scheme, port, frozenset(origin.partition("://")[2] for origin in origins), frozenset(origins))


def _origins(scheme: Scheme, port: int, name: str) -> list[str]:
    said, _, host = name.rpartition("://")
    if said not in ("", *PORTS) or not host or any(char in "/?#@\\" or char.isspace() for char in host):
        raise CommandError(ExitCode.USAGE, f"invalid host name `{name}`", "write HOST, HOST:PORT or https://HOST")
    bare, stated = _parted(host)
    if (stated and not stated.isdecimal()) or (":" in bare and not bare.endswith("]")):
        raise CommandError(ExitCode.USAGE, f"invalid port in `{name}`", "write an IPv6 address in brackets: [::1]:7077")
    at = int(stated or (PORTS[said] if said else port))
    spoken = said or scheme
    return [f"{spoken}://{bare}:{at}", *([f"{spoken}://{bare}"] if at == PORTS[spoken] else [])]


def _parted(host: str) -> tuple[str, str]:
    """Split a Host header into host and port; the port may be empty."""
    bare, colon, port = ("", "", "") if host.endswith("]") else host.rpartition(":")
    return (bare, port) if colon else (host, "")


def denied_place(headers: Mapping[str, str], names: SiteNames, arrived_at: str) -> AccessDenied | None:
    """Refuse a request with an unknown host name, or from a page of another site.

    `arrived_at` is the address of this machine at which the request arrived. As a host name, it is always allowed.
    """
    host = headers.get("Host", "").lower()
    if host not in names.hosts and not _is_at(host, arrived_at, names):
        hint = f"{LINK}, or allow the name: plan serve --name NAME"
        return AccessDenied(421, f"unknown host name `{host[:SHOWN_CHARS_MAX]}`", hint)
    origin = headers.get("Origin")
    if origin is not None and origin.lower() not in (f"{names.scheme}://{host}", *names.origins):
        return AccessDenied(403, f"requests from pages of {origin[:SHOWN_CHARS_MAX]} are not allowed", LINK)
    return None


def _is_at(host: str, address: str, names: SiteNames) -> bool:
    bare, stated = _parted(host)
    port = stated or str(PORTS[names.scheme])
    try:
        return port == str(names.port) and ipaddress.ip_address(bare.strip("[]")) == ipaddress.ip_address(address)
    except ValueError:
        return False


def right_of(headers: Mapping[str, str], tokens: LinkTokens) -> Right | None:
    """Return the right that the request's token gives; None without a valid token."""
    given = _token(headers).encode(errors="replace")
    if tokens.change is not None and hmac.compare_digest(given, tokens.change.encode()):
        return "change"
    return "read" if hmac.compare_digest(given, tokens.read.encode()) else None


def denied_token(method: str, right: Right | None) -> AccessDenied | None:
    """Refuse a request without a token, or a change with a read-only token."""
    if right is None:
        return AccessDenied(401, "the request has no valid token", f"{LINK}; its token follows the #")
    if method not in SAFE and right != "change":
        return AccessDenied(403, READ_ONLY, READ_ONLY_HINT)
    return None


def denied_handshake(headers: Mapping[str, str]) -> AccessDenied | None:
    """Refuse a request that is not a websocket handshake, or offers another protocol."""
    if headers.get("Upgrade", "").strip().lower() != "websocket":
        return AccessDenied(
            426, "this path is a websocket", f"send `Upgrade: websocket` and offer the protocol {PROTOCOL}"
        )
    offered = _offered(headers)
    if offered and PROTOCOL not in offered:
        hint = "offer it in Sec-WebSocket-Protocol, together with the token"
        return AccessDenied(400, f"the websocket's protocol is {PROTOCOL}", hint)
    return None


def _token(headers: Mapping[str, str]) -> str:
    scheme, _, token = headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return token.strip()
    # A page cannot set headers of a websocket request, only its protocols.
    return next((one.removeprefix("token.") for one in _offered(headers) if one.startswith("token.")), "")


def _offered(headers: Mapping[str, str]) -> list[str]:
    protocols = headers.get("Sec-WebSocket-Protocol", "")
    return [one.strip() for one in protocols.split(",") if one.strip()]


# The tokens of a plan's links. They are kept in its state folder, readable only by this user, so that links stay valid.

FILE: Final = "links.json"
TOKEN_CHARS_MIN: Final = 32
OTHERS_MODE: Final = 0o077  # The bits of a mode that let other users read a file.


def load_tokens(folder: Path, mint: Callable[[], str]) -> LinkTokens:
    """Return the tokens of the plan whose state is in `folder`; create them with `mint` if there are no valid ones.

    If the folder is not writable, new tokens are valid only for this process.
    """
    return _known(folder) or _new_tokens(folder, mint)


def create_tokens(folder: Path, mint: Callable[[], str]) -> LinkTokens:
    """Replace the tokens, which revokes all earlier links. Raises OSError."""
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
        """Reload the tokens if their file has changed, or if it is unknown which files have (`moved` is empty).

        If the tokens are new, set `dead`, which closes connections that use an old token.
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
        # If two processes start at once, the first one's tokens win. An invalid or readable file is replaced.
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
    """Write a temporary file next to `file` that only this user can read, and return it. Raises OSError."""
    beside = file.with_name(f"{file.name}.{suffix}")
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
        opened.write(encode(dict(tokens)))
    return beside


def tls_context(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """Return the TLS context; None without files. Raises CommandError for unusable files."""
    if certificate is None:
        if key is not None:
            raise CommandError(ExitCode.USAGE, "--tls-key is given without --tls-cert", "give both")
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key, password=lambda: "")  # Do not ask for a password.
    except (OSError, ValueError) as error:
        words = getattr(error, "strerror", None) or getattr(error, "reason", None) or error
        hint = "use two readable PEM files: the certificate and its key, without a password"
        raise CommandError(ExitCode.USAGE, f"cannot use {certificate}: {words}", hint) from None
    return context
