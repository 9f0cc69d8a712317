"""TLS for the gateway, from the files that a person names."""

from __future__ import annotations

import ssl
from pathlib import Path

from planloop.app.exits import Exit, Halt


def context_of(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """What secures connections; None without files. Raises Halt for files that do not serve."""
    if certificate is None:
        if key is not None:
            raise Halt(Exit.USAGE, "--tls-key is given without --tls-cert", "give both")
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key, password=lambda: "")  # Nobody is asked for one in the background.
    except (OSError, ValueError) as error:
        words = getattr(error, "strerror", None) or getattr(error, "reason", None) or error
        hint = "both are PEM files that this user can read, the key one of that certificate and without a password"
        raise Halt(Exit.USAGE, f"{certificate} cannot be used: {words}", hint) from None
    return context
