"""What an operation of the API is, and what a query must be to fit one.

Paths are those below `/v1/` at the owner, and below `/v1/plans/NAME/` at the gateway. A parameter in braces that stands
last takes the rest of the path, slashes included.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from planloop.app.exits import Exit, Halt
from planloop.schemas import address as addresses
from planloop.schemas.frozen import frozen

Method: TypeAlias = Literal["GET", "POST"]
Door: TypeAlias = Literal["both", "owner", "gateway"]
Kind: TypeAlias = Literal["integer", "text", "flag"]

REV_MAX: Final = 10**15 - 1  # Fifteen digits: every program's numbers hold it, and a log never gets there.
TEXT_CHARS_MAX: Final = 4_096  # Of an address, a reason, a word: what is longer is a message or a file.
QUERY_CHARS_MAX: Final = 1_024  # Of one parameter: a few of them, at twelve bytes a character, are a line of HTTP.
KIND: Final = f"({'|'.join(sorted(addresses.KINDS))})"
ADDRESS: Final = f"^{KIND}(/[^/]+)+$"
KINDS: Final = f"^({KIND}(,{KIND})*)?$"  # None is all.
POINTER: Final = r"^(/[\s\S]*)?$"
WHOLE: Final = frozenset({"rev"})  # Parameters of paths that are whole numbers.


@frozen
class Parameter:
    """One of the query. A `text` is held to `choices` or `pattern` where there are any; a `flag` is 0 or 1."""

    name: str
    words: str
    kind: Kind = "text"
    minimum: int = 0
    maximum: int = REV_MAX
    choices: tuple[str, ...] = ()
    pattern: str = ""
    is_required: bool = False


@frozen
class Operation:
    """One row. `name` is what generated clients call it; `answer` is the model of what comes with status 200.

    `of` says what the parameters in braces are. `door` is where it is had; `is_stream` says that it goes on without
    end, and that `answer` is one piece of it. One that is not the plan's (`is_of_plan`) is below `/v1/` at the gateway,
    too.
    """

    method: Method
    path: str
    name: str
    summary: str
    answer: str
    request: str = ""
    parameters: tuple[Parameter, ...] = ()
    of: str = ""
    door: Door = "both"
    is_stream: bool = False
    is_of_plan: bool = True

    @property
    def takes(self) -> tuple[str, ...]:
        """The names of the parameters in braces."""
        return tuple(re.findall(r"\{(\w+)\}", self.path))


def query(operation: Operation, given: Mapping[str, str]) -> Mapping[str, str]:
    """`given`, held to what the operation takes. Raises Halt: USAGE, with all faults."""
    known = {one.name: one for one in operation.parameters}
    faults = [f"`{name[:100]}` is no parameter of {operation.path}" for name in given if name not in known]
    faults += [f"`{name}` is missing" for name, one in known.items() if one.is_required and name not in given]
    faults += [fault for name, text in given.items() if name in known and (fault := _fault(known[name], text))]
    if faults:
        takes = ", ".join(known) or "none"
        raise Halt(Exit.USAGE, "\n".join(faults), f"it takes {takes}")
    return given


def _fault(one: Parameter, text: str) -> str:
    match one.kind:
        case "integer":
            is_number = text.isascii() and text.isdigit() and len(text) < 20
            if is_number and one.minimum <= int(text) <= one.maximum:
                return ""
            return f"`{one.name}` is a whole number from {one.minimum} to {one.maximum}, not `{text[:100]}`"
        case "flag":
            return "" if text in ("0", "1") else f"`{one.name}` is 1 or 0, not `{text[:100]}`"
        case "text":
            if one.choices and text not in one.choices:
                return f"`{one.name}` is one of {', '.join(one.choices)}, not `{text[:100]}`"
            if one.pattern and re.fullmatch(one.pattern, text) is None:
                return f"`{one.name}` cannot be `{text[:100]}`: {one.words[:1].lower()}{one.words[1:].rstrip('.')}"
            return "" if len(text) <= QUERY_CHARS_MAX else f"`{one.name}` is longer than {QUERY_CHARS_MAX} characters"
