"""What an agent's patch may come to: judged on the result, so that no spelling of a patch slips past it.

Its own agent and every agent outside its subtree stay exactly as they were; a command that any task would run, or run
elsewhere than before, is one that the author could run or grant itself; what the tasks below it read, lock and work in
lies in its own workspace.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from posixpath import normpath
from typing import Final
from urllib.parse import urlsplit

from reconciler.admitting.scoping import task_path
from schemas import patching, patterns
from schemas.address import Address
from schemas.encoding import JsonObject
from schemas.patch import Author, Fault
from schemas.resource import Resource, Wanted
from schemas.rights import Rights, rights_from_json

SHELL: Final = "shell"
KEPT: Final = frozenset("acceptance budget protect cwd env when heal retries containers locks".split())
"""Lowered fields of the author's own task, and of tasks outside its subtree, that its patch must leave alone."""

SURROUNDINGS: Final = ("cwd", "env")
"""Where and with what a command runs decides what it does: `make` in another folder is another command."""

LOCAL_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "::1"})


def rights_faults(author: Author, live: Mapping[str, Resource], wanted: Mapping[str, Wanted]) -> Iterator[Fault]:
    """Every way in which the result would give the author, or others through it, more than it has."""
    path = task_path(author)
    own = live.get(str(Address("agent", path)))
    if own is None:
        yield Fault("scope", f"there is no agent `{author.name}` in this plan", (), "its task was removed or moved")
        return
    rights = rights_from_json(own.spec["rights"])
    for address, want in wanted.items():
        old = live.get(address)
        kind, _, rest = address.partition("/")
        is_below = _is_below(() if rest == "." else tuple(rest.split("/")), path)
        if kind == "agent":
            task = f"task/{rest}"
            is_elsewhere = task not in wanted or not _is_where_it_was(live.get(task), wanted[task])
            yield from _agent_faults(old, want, rights, is_below=is_below, is_elsewhere=is_elsewhere)
        elif kind == "task":
            yield from _task_command_faults(old, want, rights)
            if is_below:
                yield from _reach_faults(old, want, rights, _workspace(live, path))
            else:
                yield from _kept_faults(old, want)


def allows(rights: Rights, tool: str, subjects: Sequence[str]) -> bool:
    """Whether `rights` let their holder use or grant `tool` on `subjects`; a denial always wins."""
    is_given = any(patterns.any_name(given, tool) for given in (rights.tools, rights.grant_tools))
    return is_given and not patterns.denied_by(rights.deny, tool, subjects)


def _is_below(path: tuple[str, ...], author: tuple[str, ...]) -> bool:
    return len(path) > len(author) and path[: len(author)] == author


def _workspace(live: Mapping[str, Resource], path: tuple[str, ...]) -> PurePosixPath:
    task = live.get(str(Address("task", path)))
    return PurePosixPath(task.spec.get("cwd", ".") if task is not None else ".")


def _is_where_it_was(old: Resource | None, want: Wanted) -> bool:
    return old is not None and all(old.spec.get(name) == want.spec.get(name) for name in SURROUNDINGS)


def _agent_faults(
    old: Resource | None, want: Wanted, rights: Rights, *, is_below: bool, is_elsewhere: bool
) -> Iterator[Fault]:
    if not is_below:
        if old is None:
            yield Fault("rights", f"the patch would make {want.address}, which is not below you")
        elif patching.difference(old.spec, want.spec):
            changed = ", ".join(dict.fromkeys(op.path[0] for op in patching.difference(old.spec, want.spec)))
            yield Fault("rights", f"the patch would change {changed} of {want.address}, which is not below you")
        return
    mind = want.spec.get("mind") or {}
    if (old is None or is_elsewhere or old.spec.get("mind") != mind) and mind.get("kind") in ("program", "python"):
        program = _line(mind["argv"]) if "argv" in mind else f"python {mind['target']}"
        yield from _command_faults(want.address, program, rights)


def _task_command_faults(old: Resource | None, want: Wanted, rights: Rights) -> Iterator[Fault]:
    known = set(_commands(old.spec)) if old is not None and _is_where_it_was(old, want) else set()
    for command in _commands(want.spec):
        if command not in known:
            yield from _command_faults(want.address, command, rights)


def _reach_faults(old: Resource | None, want: Wanted, rights: Rights, own: PurePosixPath) -> Iterator[Fault]:
    """What a task below would work in, lock, read or ask that its author may not."""
    before: JsonObject = {} if old is None else old.spec
    cwd = PurePosixPath(want.spec.get("cwd", "."))
    if (old is None or before.get("cwd") != want.spec.get("cwd")) and not _is_inside(cwd, own):
        yield Fault(
            "rights",
            f"the workspace `{cwd}` of {want.address} is outside your own, `{own}`",
            (),
            f"give it a folder below `{own}`",
        )
    for lock in want.spec.get("locks", ()):
        if lock not in before.get("locks", ()) and not _is_inside(PurePosixPath(lock), own):
            yield Fault("rights", f"the lock `{lock}` of {want.address} is outside your workspace `{own}`")
    known = [check["arguments"] for check in before.get("acceptance", ())] if _is_where_it_was(old, want) else []
    for check in want.spec["acceptance"]:
        if check["arguments"] not in known:
            yield from _check_faults(want.address, check["arguments"], rights, (cwd, own))


def _check_faults(
    address: str, what: JsonObject, rights: Rights, folders: tuple[PurePosixPath, PurePosixPath]
) -> Iterator[Fault]:
    """A check reads and asks as the owner does, so its author may write only what it could look at itself."""
    cwd, own = folders
    if what.get("path"):
        path = PurePosixPath(normpath(cwd / str(what["path"])))
        if not _is_inside(path, own) or not patterns.any_path(rights.read, str(path)):
            yield Fault("rights", f"a check of {address} would read `{what['path']}`, which you may not read")
    host = urlsplit(str(what["url"])).hostname if "url" in what else what.get("host")
    if host and not rights.network and host not in LOCAL_HOSTS:
        yield Fault("rights", f"a check of {address} would ask `{host}`, and you may not use the network")


def _kept_faults(old: Resource | None, want: Wanted) -> Iterator[Fault]:
    if old is None:
        return
    for op in patching.difference(old.spec, want.spec):
        if op.path[0] in KEPT:
            rule = "budget" if op.path[0] == "budget" else "rights"
            yield Fault(rule, f"the patch would change {op.path[0]} of {want.address}, which belongs to its parent")


def _command_faults(address: str, command: str, rights: Rights) -> Iterator[Fault]:
    if not allows(rights, SHELL, patterns.commands_in(command)):
        yield Fault(
            "rights",
            f"{address} would run `{command}`, and you may neither run that nor grant it",
            (),
            "use checks that run no command (require-file, contains, json), or `request` the shell",
        )


def _commands(task: JsonObject) -> Iterator[str]:
    for what in (task["work"], *(check["arguments"] for check in task["acceptance"])):
        if what.get("shell"):
            yield str(what["shell"])
        elif what.get("argv"):
            yield _line(what["argv"])


def _line(argv: Sequence[str]) -> str:
    """The words as a shell line; what a shell is given to run is that line itself."""
    words = [str(word) for word in argv]
    return words[2] if len(words) == 3 and words[1] == "-c" else " ".join(words)


def _is_inside(path: PurePosixPath, folder: PurePosixPath) -> bool:
    return ".." not in path.parts and not path.is_absolute() and path.is_relative_to(folder)
