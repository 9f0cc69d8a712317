"""What an agent's patch may change: checked on the resulting plan, so that no spelling of a patch evades it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from posixpath import normpath
from typing import Final
from urllib.parse import urlsplit

from planloop.reconciler.admission import command_policy, container_policy, hook_policy
from planloop.reconciler.admission.command_policy import has_same_surroundings
from planloop.reconciler.admission.hook_policy import AgentPatch
from planloop.reconciler.admission.scope import agent_task_path
from planloop.reconciler.current_plan import CurrentPlan
from planloop.schemas import address as addresses
from planloop.schemas import json_patch, json_pointer, patterns
from planloop.schemas.address import Address
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.json_patch import PatchOp, apply_ops
from planloop.schemas.log.patch import PatchProblem
from planloop.schemas.objects.agent import ADDRESS, DUMP, KEPT_ORIGIN, copied_agent_path, stated_models
from planloop.schemas.objects.hook import is_hook_agent
from planloop.schemas.objects.model import SAMPLING, parse_model_name
from planloop.schemas.objects.sandbox import sandbox_request
from planloop.schemas.resource import Resource, WantedObject
from planloop.schemas.rights import Rights, covers_model, is_covered

# Agents that are copies of others (`from`): which agents an agent may copy, and how `from` changes when the original is
# removed.
#
# A copy stores its initial experience in its status, so the original may be removed. A dangling name would be a compile
# error, so `from` is then set to `dump:kept`.

COPY_FROM = ("agent", "from")


def with_lost_sources_kept(present: CurrentPlan, document: JsonObject) -> JsonObject:
    """Return `document` with `dump:kept` in each unchanged `from` that names a task which no longer exists."""
    lost = [
        PatchOp("replace", (*json_pointer.task_pointer(path), *COPY_FROM), KEPT_ORIGIN)
        for path, name in _sources(document)
        if _is_lost(name, path, document) and _said(present.document, path) == name
    ]
    return apply_ops(document, lost) if lost else document


def is_source_bookkeeping(op: PatchOp, present: CurrentPlan, document: JsonObject) -> bool:
    """Whether `op` comes from `with_lost_sources_kept`, and not from the author of the patch that leads to `document`.

    An author that writes `dump:kept` while the original exists changes another agent, and is judged for it.
    """
    if op.path[-2:] != COPY_FROM or op.value != KEPT_ORIGIN or not json_pointer.has_value(present.document, op.path):
        return False
    name = json_pointer.value_at(present.document, op.path)
    return isinstance(name, str) and _is_lost(name, op.path[1:-2:2], document)


def _is_lost(name: str, path: tuple[str, ...], document: JsonObject) -> bool:
    """Whether the task at `path` is a copy of the agent `name`, which is not in `document`."""
    copied = copied_agent_path(name, path[:-1])
    return copied is not None and not json_pointer.has_value(document, json_pointer.task_pointer(copied))


def copy_source_faults(old: Resource | None, want: WantedObject, author: tuple[str, ...]) -> Iterator[PatchProblem]:
    """Problems if the agent `want` would copy an agent that is not a descendant of the author."""
    source = str(want.spec.get("source") or "")
    if not source.startswith(ADDRESS) or (old is not None and old.spec.get("source") == source):
        return
    path = addresses.parse_address(source).path
    if path[: len(author)] != author or len(path) == len(author):
        hint = "copy one of your descendants, or ask with `request`"
        yield PatchProblem("rights", f"{want.address} would copy {source}, which is not your descendant", (), hint)


def _sources(document: JsonObject) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the path of each task whose agent is a copy, with its `from`."""
    waiting: list[tuple[tuple[str, ...], JsonObject]] = [((), document)]
    while waiting:
        path, task = waiting.pop()
        agent = task.get("agent")
        if isinstance(agent, dict) and isinstance(name := agent.get("from"), str) and not name.startswith(DUMP):
            yield path, name
        children = task.get("tasks")
        if isinstance(children, Mapping):
            waiting += [((*path, name), child) for name, child in children.items() if isinstance(child, dict)]


def _said(document: JsonObject, path: tuple[str, ...]) -> Json:
    at = (*json_pointer.task_pointer(path), *COPY_FROM)
    return json_pointer.value_at(document, at) if json_pointer.has_value(document, at) else None


# The result of an agent's patch is checked, so that no form of a patch evades the rules.
#
# The author's own agent, agents outside its subtree, and the fields for people must not change. New commands must be
# ones that the author could run or grant (`planloop.reconciler.admission.command_policy`). The files that descendants
# read, lock and work in must be in the author's workspace. Children use models that the author or an ancestor has, and
# no weaker sandbox. The compiler narrows the rights of children, on the same result.

KEPT: Final = frozenset("acceptance budget protect cwd env when heal retries containers locks".split())
"""Lowered fields of the author's own task, and of tasks outside its subtree, that its patch must not change."""

LOCAL_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "::1"})


def agent_patch_faults(patch: AgentPatch) -> Iterator[PatchProblem]:
    """Yield each way in which the result would give the author, or other agents through it, more than it has."""
    author, live, wanted = patch.author, patch.live, patch.wanted
    path = agent_task_path(author)
    own = live.get(str(Address("agent", path)))
    if own is None:
        yield PatchProblem("scope", f"unknown agent `{author.name}`", (), "its task was removed or moved")
        return
    rights = hook_policy.author_rights(author, own)
    powers = _Powers(rights, own.spec, _models(live, path))
    yield from container_policy.container_faults(patch, rights, own.spec, str(_workspace(live, path)))
    for address, want in wanted.items():
        old = live.get(address)
        kind, at = addresses.parse_address(address).kind, addresses.parse_address(address).path
        is_below = _is_below(at, path)
        match kind:
            case "agent" if is_hook_agent(address):
                yield from _behind_faults(patch, old, want, powers)
            case "agent":
                task = str(addresses.task_address(*at))
                is_elsewhere = task not in wanted or not has_same_surroundings(live.get(task), wanted[task])
                if is_below:
                    yield from command_policy.agent_command_faults(old, want, rights, is_elsewhere=is_elsewhere)
                    yield from _child_faults(old, want, powers)
                    yield from copy_source_faults(old, want, path)
                else:
                    yield from _outside_faults(old, want)
            case "task":
                yield from command_policy.task_command_faults(old, want, rights, _inherited(wanted, at))
                if is_below:
                    yield from _reach_faults(old, want, rights, _workspace(live, path))
                else:
                    yield from _kept_faults(old, want)
            case "mcp":
                yield from command_policy.server_command_faults(old, want, rights)
            case "case" if old is None or old.spec != want.spec:
                # The author of a case could get a verdict for any benchmark entry.
                yield PatchProblem("rights", "only people may set `case`", (*json_pointer.task_pointer(at), "case"))


@frozen
class _Powers:
    """What an author can give to its children: its rights, its own spec, and the models among its relatives."""

    rights: Rights
    spec: JsonObject
    models: frozenset[str]


def _models(live: Mapping[str, Resource], author: tuple[str, ...]) -> frozenset[str]:
    """The models of the author, its ancestors and its descendants: agents that could grant models gave them."""
    found: set[str] = set()
    for address, one in live.items():
        at = addresses.parse_address(address)
        if at.kind == "agent" and (at.path == author[: len(at.path)] or _is_below(at.path, author)):
            found.update(stated_models(one.spec))
    return frozenset(found)


def _behind_faults(
    patch: AgentPatch, old: Resource | None, want: WantedObject, powers: _Powers
) -> Iterator[PatchProblem]:
    """Problems of an agent that answers for a hook. Agents of unchanged or copied hooks are not the author's doing."""
    if hook_policy.is_authors_hook(patch, want.address):
        yield from command_policy.agent_command_faults(old, want, powers.rights, is_elsewhere=False)
        yield from _child_faults(old, want, powers)


def _is_below(path: tuple[str, ...], author: tuple[str, ...]) -> bool:
    return len(path) > len(author) and path[: len(author)] == author


def _inherited(wanted: Mapping[str, WantedObject], path: tuple[str, ...]) -> JsonObject:
    """The environment variables of the parent of the task at `path`."""
    above = wanted.get(str(Address("task", path[:-1]))) if path else None
    return {} if above is None else dict(above.spec["env"])


def _workspace(live: Mapping[str, Resource], path: tuple[str, ...]) -> PurePosixPath:
    task = live.get(str(Address("task", path)))
    return PurePosixPath(task.spec.get("cwd", ".") if task is not None else ".")


def _outside_faults(old: Resource | None, want: WantedObject) -> Iterator[PatchProblem]:
    if old is None:
        yield PatchProblem("rights", f"the patch would create {want.address}, which is not your descendant")
    elif changes := [op for op in json_patch.diff_values(old.spec, want.spec) if not _follows(op, old, want)]:
        changed = ", ".join(dict.fromkeys(op.path[0] for op in changes))
        yield PatchProblem(
            "rights", f"the patch would change {changed} of {want.address}, which is not your descendant"
        )


def _follows(op: PatchOp, old: Resource, want: WantedObject) -> bool:
    """Whether a change is only a consequence of allowed changes.

    That is the case for hooks that the author attached (their list, or denials that guard their files), and for copies
    of an agent that was removed.
    """
    if op.path[:2] == ("rights", "guarded"):
        return set(old.spec["rights"].get("guarded", ())) <= set(want.spec["rights"].get("guarded", ()))
    return op.path[:1] == ("hooks",) or (op.path == ("source",) and op.value == KEPT_ORIGIN)


def _child_faults(old: Resource | None, want: WantedObject, powers: _Powers) -> Iterator[PatchProblem]:
    """Problems with the model of a child, and with the sandbox of its commands."""
    known = powers.models | set(() if old is None else stated_models(old.spec))
    for stated in stated_models(want.spec):
        name = parse_model_name(stated)
        if stated in known:
            continue
        if name.tape:
            yield PatchProblem(
                "rights", f"{want.address} would use the recording `{stated}`; only people may set recordings"
            )
        # The address of a model is an access to the network, so only rights that name it allow it.
        given = powers.rights.grant_models
        if name.url and (given is None or not is_covered(given, name.real, covers_model)):
            hint = f"a person can allow it with `rights: {{grant: {{models: ['{name.real}']}}}}`"
            yield PatchProblem(
                "rights", f"{want.address} would use a model at `{name.url}`, which you may not grant", (), hint
            )
    mind, before = want.spec.get("mind") or {}, ({} if old is None else old.spec.get("mind")) or {}
    for name, value in (mind.get("options") or {}).items() if mind.get("kind") == "model" else ():
        if name not in SAMPLING and (before.get("options") or {}).get(name) != value:
            yield PatchProblem("rights", f"only people may set the option `{name}` of {want.address}")
    if old is None or old.spec.get("sandbox") != want.spec.get("sandbox"):
        yield from _sandbox_faults(want, powers.spec.get("sandbox"))


def _sandbox_faults(want: WantedObject, own: Json) -> Iterator[PatchProblem]:
    bounds, least = _sandbox(want.spec.get("sandbox")), _sandbox(own)
    is_shown_more = bool(least.get("alone")) and not bounds.get("alone")
    if bounds["tier"] < least["tier"] or bounds.get("container") != least.get("container") or is_shown_more:
        yield PatchProblem("rights", f"the sandbox of {want.address} would be weaker than yours")
    for name in ("memory", "processes"):
        if name in least and bounds.get(name, least[name] + 1) > least[name]:
            yield PatchProblem("rights", f"`{name}` of {want.address} would be over your limit of {least[name]}")


def _sandbox(written: Json) -> JsonObject:
    return {**written, "tier": sandbox_request(written).tier} if isinstance(written, dict) else {"tier": written or 0}


def _reach_faults(
    old: Resource | None, want: WantedObject, rights: Rights, own: PurePosixPath
) -> Iterator[PatchProblem]:
    """Problems if a descendant would work in, lock, read or connect to something that the author may not."""
    before: JsonObject = {} if old is None else old.spec
    cwd = PurePosixPath(want.spec.get("cwd", "."))
    if (old is None or before.get("cwd") != want.spec.get("cwd")) and not _is_inside(cwd, own):
        yield PatchProblem(
            "rights",
            f"the workspace `{cwd}` of {want.address} is outside yours, `{own}`",
            (),
            f"use a folder below `{own}`",
        )
    for lock in want.spec.get("locks", ()):
        if lock not in before.get("locks", ()) and not _is_inside(PurePosixPath(lock), own):
            yield PatchProblem("rights", f"the lock `{lock}` of {want.address} is outside your workspace `{own}`")
    known = [check["arguments"] for check in before.get("acceptance", ())] if has_same_surroundings(old, want) else []
    for check in want.spec["acceptance"]:
        if check["arguments"] not in known:
            yield from _check_faults(want.address, check["arguments"], rights, (cwd, own))


_ABSOLUTE: Final = re.compile(r"\s*(//|[a-z][a-z0-9+.-]*:/|(data|javascript|blob|about|view-source):)", re.IGNORECASE)
"""The start of a URL that leaves the site where a check starts."""
_CONTENTS: Final = frozenset({"body", "json", "form", "headers", "expect", "subset", "contains"})
_ASKED_SCHEMES: Final = frozenset({"", "http", "https", "ws", "wss"})


def _check_faults(
    address: str, what: JsonObject, rights: Rights, folders: tuple[PurePosixPath, PurePosixPath]
) -> Iterator[PatchProblem]:
    """Problems of a check. It runs with the owner's rights, so its author may use only what it could access itself."""
    cwd, own = folders
    if what.get("path"):
        path = PurePosixPath(normpath(cwd / str(what["path"])))
        if not _is_inside(path, own) or not patterns.path_matches(rights.read, str(path)):
            yield PatchProblem("rights", f"a check of {address} would read `{what['path']}`, which you may not read")
    if not rights.network:
        for place in sorted({asked for asked in _asked_places(what) if not _is_local(asked)}):
            yield PatchProblem(
                "rights", f"a check of {address} would connect to `{place}`, but you may not use the network"
            )


def _asked_places(what: Json, key: str = "") -> Iterator[str]:
    """Yield the hosts, URLs and pages that a check names anywhere in its arguments.

    A page that a step opens can be a full URL. Bodies of requests and expected responses are not addresses.
    """
    if isinstance(what, dict):
        for name in what.keys() - _CONTENTS:
            yield from _asked_places(what[name], name)
    elif isinstance(what, list):
        for value in what:
            yield from _asked_places(value, key)
    elif isinstance(what, str) and (key in ("url", "host") or (key == "open" and _ABSOLUTE.match(what))):
        yield what


def _is_local(place: str) -> bool:
    """Whether a host, URL or port is on this machine; False if that is known only when the check runs."""
    if not _ABSOLUTE.match(place):
        return place in LOCAL_HOSTS or place.startswith((":", "/"))
    try:
        parts = urlsplit(place.strip())
    except ValueError:  # As in `http://[x]/`.
        return False
    return parts.scheme in _ASKED_SCHEMES and parts.hostname in LOCAL_HOSTS


def _kept_faults(old: Resource | None, want: WantedObject) -> Iterator[PatchProblem]:
    if old is None:
        return
    for op in json_patch.diff_values(old.spec, want.spec):
        if op.path[0] in KEPT:
            rule = "budget" if op.path[0] == "budget" else "rights"
            yield PatchProblem(
                rule, f"the patch would change {op.path[0]} of {want.address}, which belongs to its parent"
            )


def _is_inside(path: PurePosixPath, folder: PurePosixPath) -> bool:
    return ".." not in path.parts and not path.is_absolute() and path.is_relative_to(folder)
