"""What a call is about, as rights look at it: widely for denials, strictly for allowances.

A wide reading names everything that the call may touch; a strict one what it is sure to touch and nothing else, or None
where that cannot be told. Paths of the file tools are read strictly where they are used, after links (`workspace.py`).
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from urllib.parse import unquote, urlsplit

from planloop.schemas import limits
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.shell_lines import UNDECIDED, commands_in, inside, simple_commands


def untold(_: JsonObject) -> tuple[str, ...]:
    """Wide, for tools that are told apart by name only: a denial of some of their calls covers all."""
    return (UNDECIDED,)


def untellable(_: JsonObject) -> None:
    """Strict, for the same tools: an allowance of some of their calls allows none."""


def path(arguments: JsonObject) -> tuple[str, ...]:
    """The path as it was given; where it leads is looked at again when it is used."""
    return (str(arguments.get("path", ".")),)


def paths(arguments: JsonObject) -> tuple[str, ...]:
    """Several paths as they were given."""
    given = arguments.get("paths", ())
    return tuple(map(str, given)) if isinstance(given, list) else (str(given),)


def commands(arguments: JsonObject) -> tuple[str, ...]:
    """Every command that may be in a shell line."""
    return commands_in(str(arguments.get("command", "")))


def plain_commands(arguments: JsonObject) -> tuple[str, ...] | None:
    """The simple commands of a shell line."""
    return simple_commands(str(arguments.get("command", "")))


def commands_inside(arguments: JsonObject) -> tuple[str, ...]:
    """Every command that may be in a shell line, each after the container that it is run in: `sut: npm test`."""
    return inside(str(arguments.get("name", "")), commands(arguments))


def plain_commands_inside(arguments: JsonObject) -> tuple[str, ...] | None:
    """The simple commands of such a line."""
    found = plain_commands(arguments)
    return None if found is None else inside(str(arguments.get("name", "")), found)


def image(arguments: JsonObject) -> tuple[str, ...]:
    """The image of a container."""
    return (str(arguments.get("image", "")),)


def name(arguments: JsonObject) -> tuple[str, ...]:
    """A container by its name."""
    return (str(arguments.get("name", "")),)


def plain_texts(arguments: JsonObject) -> tuple[str, ...] | None:
    """Every text in the arguments of a tool that reads them in a way of its own.

    None when one of them could be a path or a URL that leads elsewhere than it seems to, or when there is none.
    """
    found = tuple(_texts(list(arguments.values())))
    return found if found and all(map(_is_plain, found)) else None


def plain_url(arguments: JsonObject) -> tuple[str, ...] | None:
    """The URL that is fetched."""
    url = str(arguments.get("url", ""))
    return (url,) if _is_plain(url) else None


def wide_url(arguments: JsonObject) -> tuple[str, ...]:
    """The URL, and its host alone and with its path, in case a denial names them."""
    url = str(arguments.get("url", ""))
    try:
        parts = urlsplit(url)
    except ValueError:
        return (url, UNDECIDED)
    host = parts.hostname or ""
    return (url, host, f"{host}{parts.path}", f"{parts.scheme}://{host}{parts.path}")


def subjects_of(arguments: JsonObject) -> tuple[str, ...]:
    """Every text in the arguments, and each as the paths that it may name, for denials to be matched against.

    A server reads a path in its own way, so `x/../.git/a`, `/abs/.git/a`, `file:///abs/.git/a` and `%2egit/a` are all
    taken for `.git/a` as well. Covering too much is safe. Links in the server's own files are beyond us.
    """
    found: dict[str, None] = {}
    for text in _texts(list(arguments.values())):
        found[text] = None
        if len(text) <= limits.PATH_CHARS_MAX:
            found.update(dict.fromkeys(_paths_in(text)))
    return tuple(found)


def _texts(values: list[Json]) -> Iterator[str]:
    """The texts in `values`, those in nested lists and maps and the keys of maps too."""
    waiting = list(reversed(values))
    while waiting:
        value = waiting.pop()
        match value:
            case str():
                yield value
            case dict():
                waiting.extend([*value.values(), *value])
            case list():
                waiting.extend(value)


def _paths_in(text: str) -> Iterator[str]:
    plain = unquote(text)
    if "://" in plain:
        plain = _path_of_url(plain)
    names = [name for name in posixpath.normpath(plain.strip().replace("\\", "/")).split("/") if name]
    for index in range(len(names)):
        yield "/".join(names[index:])


def _path_of_url(text: str) -> str:
    try:
        return urlsplit(text).path
    except ValueError:
        return text


def _is_plain(text: str) -> bool:
    """Whether the text means the same to whoever reads it: no steps back, no second spelling, nobody before a host."""
    if any(sign in text for sign in "\\%\0\n\r\t") or text != text.strip():
        return False
    scheme, mark, rest = text.partition("://")
    names = (rest if mark else text).split("?", 1)[0].split("/")
    if mark and (scheme not in ("http", "https") or "@" in names[0]):
        return False
    return not {".", ".."}.intersection(names) and "" not in names[1:-1]
