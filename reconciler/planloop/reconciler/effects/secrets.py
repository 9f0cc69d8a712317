"""Resolve secret references: `env:NAME`, `file:PATH` and `secret:NAME`.

`secret:NAME` is the environment variable or, if it is not set, the file of that name. A secret is read when it is used
and never stored: no log, status or message contains it, and errors name its location, never its value.
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
    """A secret is missing. The message names where it was expected."""


def resolve_value(value: str, env: Mapping[str, str], folder: Path) -> str:
    """The secret that `value` refers to, other text unchanged. Paths are relative to `folder`. Raises SecretMissing."""
    return resolve_secret(value, env, folder) if value.startswith(REFERENCES) else value


def resolve_secret(reference: str, env: Mapping[str, str], folder: Path) -> str:
    """The value of `env:NAME`, `file:path` or `secret:NAME`. Raises SecretMissing, also for any other text."""
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
            reason = getattr(fault, "strerror", None) or "it is not text"
            raise SecretMissing(f"the key file {where} cannot be read: {reason}") from None
    if kind == "secret" and is_secret_name(where):
        return _first(where, env, folder)
    raise SecretMissing("a secret is named as `env:NAME`, `file:path` or `secret:NAME`, never written out")


def _text(where: str, folder: Path) -> str:
    """The content of the file at `where`. Raises SecretMissing, OSError, ValueError.

    Inside the plan's folder it must be a regular file, not a link: an agent that can write there could otherwise link
    to a file that only the owner may read.
    """
    path, own = folder / Path(where).expanduser(), Path(realpath(folder), normpath(where))
    if is_outside_plan(where) or normpath(where).startswith(f"{FOLDER}/"):
        return path.read_text()
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)) as file:
        found = os.fstat(file.fileno())
        # Compare the opened file with the name's current file: a link can appear and disappear at any moment.
        if realpath(path) != str(own) or not stat.S_ISREG(found.st_mode) or not os.path.samestat(found, own.lstat()):
            raise SecretMissing(f"the key file {where} is a link, or no file: name what it leads to from the root")
        if found.st_size > limits.FILE_BYTES_MAX:
            raise SecretMissing(f"the key file {where} has {found.st_size} bytes; the most is {limits.FILE_BYTES_MAX}")
        return file.read(limits.FILE_BYTES_MAX)


def _first(name: str, env: Mapping[str, str], folder: Path) -> str:
    """The value of `secret:<name>`: the variable, or else the file. Raises SecretMissing."""
    variable, file = secret_places(name)
    if env.get(name):
        return resolve_secret(variable, env, folder)
    path = file.partition(":")[2]
    if not (folder / path).exists():
        raise SecretMissing(f"the secret {name} is neither a variable of the environment nor the file {path}")
    return resolve_secret(file, env, folder)
