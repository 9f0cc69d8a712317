"""Find the operation that a request asks for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache

from planloop.client.exit_codes import CommandError, ExitCode
from planloop.schemas.frozen import frozen
from planloop.server.api.operations import QUERY_CHARS_MAX, TABLE, WHOLE, Door, Operation


@frozen
class RequestTarget:
    """What a request asks for: a path as the table has it, of a plan or beside it."""

    method: str
    path: str
    is_of_plan: bool = True


@frozen
class RoutedRequest:
    """A request that found its row, with what stands for the parameters in braces."""

    operation: Operation
    values: Mapping[str, str]


class MethodNotAllowed(CommandError):
    """There is such a path, for `allowed`."""

    def __init__(self, wanted: RequestTarget, allowed: str) -> None:
        words = f"`{wanted.path[:100]}` takes {allowed}, not {wanted.method[:10]}"
        super().__init__(ExitCode.USAGE, words, f"send it with {allowed}")
        self.allowed = allowed


def route(wanted: RequestTarget, door: Door) -> RoutedRequest:
    """The operation that is wanted. Raises CommandError: NOT_FOUND; MethodNotAllowed."""
    method, path = wanted.method, wanted.path
    found = [row for row in _rows(wanted) if row.operation.door in ("both", door)]
    fitting = [row for row in found if row.operation.method == ("GET" if method == "HEAD" else method)]
    if fitting:
        # `containers/{name}` takes slashes, too: the row that says more of the path is meant.
        return _bounded(max(fitting, key=lambda one: (not one.values, len(one.operation.path))))
    if found:
        raise MethodNotAllowed(wanted, ", ".join(sorted({one.operation.method for one in found})))
    raise CommandError(
        ExitCode.NOT_FOUND, f"the API has no `{path[:100]}`", "plan version on both sides tells if they differ"
    )


def _bounded(one: RoutedRequest) -> RoutedRequest:
    for name, value in one.values.items():
        if len(value) > QUERY_CHARS_MAX:
            raise CommandError(
                ExitCode.USAGE, f"`{value[:100]}…` is too long for {name}", f"at most {QUERY_CHARS_MAX} characters"
            )
    return one


def _rows(wanted: RequestTarget) -> Iterator[RoutedRequest]:
    path = wanted.path
    for row in TABLE:
        if row.is_of_plan is not wanted.is_of_plan:
            continue
        if row.path == path:
            yield RoutedRequest(row, {})
        elif row.takes and path.startswith(row.path.partition("{")[0]):
            found = _pattern(row.path).fullmatch(path)
            if found is not None:
                yield RoutedRequest(row, found.groupdict())


@cache
def _pattern(path: str) -> re.Pattern[str]:
    parts = re.split(r"\{(\w+)\}", path)
    last = len(parts) - 2 if not parts[-1] else -1
    found = (_part(part, is_last=at == last) if at % 2 else re.escape(part) for at, part in enumerate(parts))
    return re.compile("".join(found))


def _part(name: str, *, is_last: bool) -> str:
    """One parameter in braces; one that stands last takes slashes, too."""
    if name in WHOLE:
        return rf"(?P<{name}>[0-9]{{1,15}})"
    return f"(?P<{name}>[\\s\\S]+)" if is_last else f"(?P<{name}>[^/]+)"
