"""Errors of commands as text: refused patches with their violations, unexpected exceptions as a message or a bug
report.
"""

from __future__ import annotations

import errno
import shlex
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from planloop.client.exit_codes import CommandError, ExitCode
from planloop.schemas.canonical_json import JsonObject

# A refused patch: each violation with its rule, fix and exit code.

EXIT_OF_RULE: Final[Mapping[str, ExitCode]] = {
    "schema": ExitCode.INVALID,
    "conflict": ExitCode.CONFLICT,
    "stale": ExitCode.CONFLICT,
}


def refused_error(verdict: JsonObject) -> CommandError:
    """Return the error for a refused patch."""
    faults = verdict["faults"]
    lines = [violation_line(problem) for problem in faults]
    hints = dict.fromkeys(problem["hint"] for problem in faults if problem["hint"])
    return CommandError(exit_code_of_rule(faults), "\n".join(lines), "\n".join(hints), label="refused")


def exit_code_of_rule(faults: Sequence[JsonObject]) -> ExitCode:
    """Return the exit code of the most serious violation: refused, then conflict, then invalid."""
    codes = {EXIT_OF_RULE.get(problem["rule"], ExitCode.REFUSED) for problem in faults}
    return next(
        (code for code in (ExitCode.REFUSED, ExitCode.CONFLICT, ExitCode.INVALID) if code in codes), ExitCode.REFUSED
    )


def violation_line(problem: JsonObject) -> str:
    """Return one violation as text: location, message and rule."""
    from planloop.client.render.records import short_path

    where = f"{short_path(tuple(problem['path']))}: " if problem["path"] else ""
    return f"{where}{problem['message']} ({problem['rule']})"


# An unexpected exception. Errors of the environment (a full disk, no permission, a damaged log) are explained.
# Anything else is a bug: one line on the terminal, the traceback in a file, exit 70.


def explain_exception(error: BaseException) -> CommandError | None:
    """Return an explained error for an error of the environment; None for a bug of planloop."""
    if isinstance(error, BaseExceptionGroup):
        inner = {type(found): found for found in map(explain_exception, error.exceptions)}
        return inner.popitem()[1] if len(inner) == 1 else None
    if isinstance(error, CommandError):
        return error
    if isinstance(error, OSError):
        return _explained_engine(error) or _explained_os(error)
    return _explained_engine(error) or _explained_text(error)


def _explained_text(error: BaseException) -> CommandError | None:
    """Explain an argument that the log cannot store: invalid UTF-8, or a number that is not finite."""
    if isinstance(error, UnicodeEncodeError):
        return CommandError(ExitCode.USAGE, "the input has bytes that are not valid UTF-8", "encode the text as UTF-8")
    if isinstance(error, ValueError) and "not JSON compliant" in str(error):
        return CommandError(
            ExitCode.USAGE, "the input has a number that is not finite", "give a finite number, or text"
        )
    return None


def _explained_os(error: OSError) -> CommandError | None:
    where = f" ({error.filename})" if error.filename else ""
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return CommandError(
                ExitCode.FAILED, f"the disk is full{where}", "free some space and run the command again"
            )
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return _explained_permission(error, where)
        case errno.EISDIR | errno.ENOTDIR:
            stands = (
                "expected a file, found a folder" if error.errno == errno.EISDIR else "expected a folder, found a file"
            )
            return CommandError(ExitCode.FAILED, f"{stands}{where}", "move it away and run the command again")
        case errno.ENOENT:
            return CommandError(ExitCode.NOT_FOUND, f"no such file{where}", "check the path")
    return None


def _explained_permission(error: OSError, where: str) -> CommandError:
    if error.errno == errno.EROFS:
        return CommandError(ExitCode.FAILED, f"the file system is read-only{where}", "use a writable folder")
    folder = str(Path(error.filename).parent) if isinstance(error.filename, str) else "."
    hint = f"check the owner and mode of the folder: ls -ld {shlex.quote(folder)}"
    return CommandError(ExitCode.FAILED, f"permission denied{where}", hint)


def _explained_engine(error: BaseException) -> CommandError | None:
    # Looked up, not imported: a command that has not loaded the engine's errors cannot have raised them.
    errors = sys.modules.get("planloop.reconciler.errors")
    if errors is None:
        return None
    if isinstance(error, errors.StoreFailed):
        return CommandError(ExitCode.FAILED, str(error), error.hint)
    if isinstance(error, errors.StoreCorrupt):
        return CommandError(ExitCode.FAILED, f"the log is damaged: {error}", error.hint)
    if isinstance(error, errors.NotOwner):
        return CommandError(ExitCode.CONFLICT, str(error), "plan down stops it")
    return None


def bug_report(error: BaseException, arguments: Sequence[str]) -> str:
    """Write the traceback to a file, and return the lines to print."""
    where = traceback.extract_tb(error.__traceback__)
    last = f" at {Path(where[-1].filename).name}:{where[-1].lineno}" if where else ""
    text = f"plan {' '.join(arguments)}\nPython {sys.version}\n\n{''.join(traceback.format_exception(error))}"
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="planloop-report-", suffix=".txt", delete=False, encoding="utf-8", errors="backslashreplace"
        ) as file:
            file.write(text)
        kept = file.name
    except OSError:
        kept = "(the report could not be saved)"
    summary = str(error).splitlines()[0] if str(error) else ""
    return (
        f"error: internal error: {type(error).__name__}: {summary}{last}\n"
        f"report: {kept}\nhelp: running work continues; please attach the report file to an issue"
    )
