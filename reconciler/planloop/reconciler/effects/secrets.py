"""Resolve secret references: `env:NAME`, `file:PATH` and `secret:NAME`.

`secret:NAME`, the one or else the other.

Read when it is used and kept nowhere: no log, status or message has it, and faults name the place, never the content.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from os.path import normpath, realpath
from pathlib import Path

from planloop.schemas import limits
from planloop.schemas.objects.container import is_outside_plan
from planloop.schemas.secret import FOLDER, REFERENCES, is_secret_name, secret_places


class SecretMissing(Exception):
    """A secret is not where the plan says. The text names the place."""


def resolve_value(value: str, env: Mapping[str, str], folder: Path) -> str:
    """What `value` points at, with paths relative to `folder`; any other text as it stands. Raises SecretMissing."""
    return resolve_secret(value, env, folder) if value.startswith(REFERENCES) else value


def resolve_secret(reference: str, env: Mapping[str, str], folder: Path) -> str:
    """What `env:NAME`, `file:path` or `secret:NAME` holds. Raises SecretMissing, also for text that is none of them."""
    kind, _, where = reference.partition(":")
    if kind == "env":
        found = env.get(where, "")
        if not found:
            raise SecretMissing(f"the environment variable {where} is not set")
        return found
    if kind == "file":
        try:
            return _text(where, folder).strip()
        except (OSError, ValueError) as fault:
            reason = getattr(fault, "strerror", None) or "it is no text"
            raise SecretMissing(f"the key file {where} cannot be read: {reason}") from None
    if kind == "secret" and is_secret_name(where):
        return _first(where, env, folder)
    raise SecretMissing("a secret is named as `env:NAME`, `file:path` or `secret:NAME`, never written out")


def _text(where: str, folder: Path) -> str:
    """What the file at `where` holds. One in the plan's folder is a file there itself: whoever may write there could
    put a link in its place, to what the owner alone may read. Raises SecretMissing, OSError, ValueError.
    """
    path, own = folder / Path(where).expanduser(), Path(realpath(folder), normpath(where))
    if is_outside_plan(where) or normpath(where).startswith(f"{FOLDER}/"):
        return path.read_text()
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)) as file:
        found = os.fstat(file.fileno())
        # What was opened is compared with what has the name: a link may be put there and taken away at any moment.
        if realpath(path) != str(own) or not stat.S_ISREG(found.st_mode) or not os.path.samestat(found, own.lstat()):
            raise SecretMissing(f"the key file {where} is a link, or no file: name what it leads to from the root")
        if found.st_size > limits.FILE_BYTES_MAX:
            raise SecretMissing(f"the key file {where} has {found.st_size} bytes; the most is {limits.FILE_BYTES_MAX}")
        return file.read(limits.FILE_BYTES_MAX)


def _first(name: str, env: Mapping[str, str], folder: Path) -> str:
    """What the first place of `secret:<name>` holds that is there. Raises SecretMissing."""
    variable, file = secret_places(name)
    if env.get(name):
        return resolve_secret(variable, env, folder)
    path = file.partition(":")[2]
    if not (folder / path).exists():
        raise SecretMissing(f"the secret {name} is neither a variable of the environment nor the file {path}")
    return resolve_secret(file, env, folder)
