"""Which hooks an agent may add, change or remove: on itself and on its descendants. Pure.

Hooks that a person or an ancestor set, or that the agent set on itself, are fixed: the agent cannot remove, change or
read them, and no patch of other parts may change what they do. A new hook may run and use only what its author may run
and grant. A hook that attaches hooks is limited to the agent that it watches. (Law 6.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from planloop.reconciler.admission import command_policy, field_ownership
from planloop.reconciler.admission.canonical_patch import ALIASES
from planloop.reconciler.current_plan import CurrentPlan
from planloop.reconciler.diff.hook_diff import stated_name
from planloop.reconciler.diff.renames import rename_references
from planloop.schemas import address as addresses
from planloop.schemas import json_patch, json_pointer
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.json_patch import PatchOp
from planloop.schemas.log.patch import Author, Patch, PatchProblem
from planloop.schemas.objects.hook import is_hook_agent
from planloop.schemas.objects.model import parse_model_name
from planloop.schemas.resource import Resource, WantedObject
from planloop.schemas.rights import Rights, covers_model, is_covered, rights_from_json

HOOKS: Final = "hooks"
SHELVES: Final = ("lib:", "file:")
OF_AGENT: Final = frozenset({"mind", "prompt", "tools", "rights", "mixins"})
OF_ITS_TASK: Final = frozenset({"goal", "pause", "cancel"})
OF_PLACE: Final = frozenset({"cwd", "env"})
"""Fields that decide the answers of a hook: of the agent that answers, of its task, and of the task of a program."""

MINDS: Final = frozenset({"on", "rule", "run", "python", "agent"})
PathTokens = tuple[str, ...]


@frozen
class AgentPatch:
    """A patch by an agent during admission: the live plan, the result, and the addresses that move."""

    author: Author
    present: CurrentPlan
    document: JsonObject
    live: Mapping[str, Resource]
    wanted: Mapping[str, WantedObject]
    moves: Mapping[str, str]


def author_rights(author: Author, own: Resource) -> Rights:
    """The rights of the author. A hook has the rights of its task, but may only use its own tools."""
    rights = rights_from_json(own.spec["rights"])
    if not is_hook_author(author):
        return rights
    tools = tuple(own.spec["tools"])
    return replace(rights, tools=tools, grant_tools=tools)


def is_hook_author(author: Author) -> bool:
    """Whether the author is an agent that was created for a hook."""
    return author.kind == "agent" and is_hook_agent(f"agent/{author.name}")


def author_reach(author: Author) -> PathTokens:
    """The path below which an agent may attach hooks: its own, or for an agent of a hook, that of the watched agent."""
    path = () if author.name == "." else tuple(author.name.split("/"))
    return path[:-1] if is_hook_author(author) else path


def hook_op_faults(patch: Patch, present: CurrentPlan) -> Iterator[PatchProblem]:
    """Yield operations that change, test or copy hooks that are not the author's, before any path is looked up."""
    for op in patch.ops:
        if not _is_new(patch.author, op, present):
            yield from _hidden(patch.author, op.path, present)
        if op.op in ("move", "copy"):
            yield from _hidden(patch.author, op.source, present)
        looked_at = {"test": op.path, "move": op.source, "copy": op.source}.get(op.op, ())
        if HOOKS in looked_at and _place(looked_at) is None and not _is_set_below(patch.author, looked_at, present):
            yield _unseen(looked_at)  # Hooks named by agents, prototypes and mixins.


def hook_name_faults(author: Author, ops: Sequence[PatchOp], present: CurrentPlan) -> Iterator[PatchProblem]:
    """Yield uses of the plan's hooks as templates: from their names, an agent would learn what watches it.

    Names that descendants already use are allowed, so that they can be copied.
    """
    below = (*json_pointer.task_pointer(author_reach(author)), "tasks")
    known: set[str] | None = None
    for op in ops:
        within = op.path.index(HOOKS) if HOOKS in op.path else None
        value: Json = op.value
        if within is not None and op.op != "remove":
            for token in reversed(op.path[within + 1 :]):
                value = {token: value}
            value = {HOOKS: value} if isinstance(value, dict) else {HOOKS: [value]}
        for name in _names_in(value) if op.op in ("add", "replace") else ():
            if known is None and not name.startswith(SHELVES):
                known = set(
                    _names_in(
                        json_pointer.value_at(present.document, below)
                        if json_pointer.has_value(present.document, below)
                        else {}
                    )
                )
            if not name.startswith(SHELVES) and name not in (known or ()):
                what = f"agents may not use `{name}`: extend a hook of the library, such as `lib:planning`"
                yield PatchProblem("hook", what, op.path)


def _names_in(value: Json) -> Iterator[str]:
    """Yield the names of all hooks that hooks and agents in `value` refer to, in any form."""
    if isinstance(value, list):
        for item in value:
            yield from _names_in(item)
    if not isinstance(value, dict):
        return
    for key, inner in value.items():
        if key.rpartition("/")[2] == HOOKS:
            yield from _named_by(inner)
        yield from _names_in(inner)


def _named_by(hooks: Json) -> Iterator[str]:
    entries = list(hooks.values()) if isinstance(hooks, dict) else hooks if isinstance(hooks, list) else [hooks]
    for entry in entries:
        if isinstance(entry, str):
            yield entry
        elif isinstance(entry, dict):
            fields = {key.rpartition("/")[2]: inner for key, inner in entry.items()}
            if isinstance(fields.get("extends"), str):
                yield fields["extends"]
            elif isinstance(hooks, list) and MINDS.isdisjoint(fields):
                yield from entry  # Names with settings, as in an agent.


def is_own_addition(author: Author, op: PatchOp, present: CurrentPlan) -> bool:
    """Whether `op` adds a hook to the author's own agent, the only own field that it may set.

    A hook may add hooks only to the agents that it watches.
    """
    place = _place(op.path)
    is_there = place is not None and (place[0] == author_reach(author) or is_hook_author(author))
    return is_there and _is_new(author, op, present)


def _is_new(author: Author, op: PatchOp, present: CurrentPlan) -> bool:
    """Whether `op` adds hooks with new names within the author's reach."""
    place = _place(op.path)
    if op.op != "add" or place is None or place[0][: len(author_reach(author))] != author_reach(author):
        return False
    return len(place[1]) <= 1 and not json_pointer.has_value(present.document, op.path)


def _hidden(author: Author, path: PathTokens, present: CurrentPlan) -> Iterator[PatchProblem]:
    place = _place(path)
    if place is None:
        return
    names = place[1][:1] or tuple(_entries(present.document, place[0]))
    if not names or not all(_is_mine(author, place[0], name, present) for name in names):
        yield _unseen(path)


def _unseen(path: PathTokens) -> PatchProblem:
    what = f"you may not see or change `{json_pointer.render_pointer(path)}`"
    hint = "add hooks under new names to yourself or your descendants; only a hook itself decides when it ends"
    return PatchProblem("hook", what, path, hint)


def _is_set_below(author: Author, tokens: PathTokens, present: CurrentPlan) -> bool:
    """Whether `tokens` is a path below the author's own task that it or a descendant has set."""
    below = (*json_pointer.task_pointer(author_reach(author)), "tasks")
    return tokens[: len(below)] == below and _is_set_within(author, tokens, present)


def _place(path: PathTokens) -> tuple[PathTokens, PathTokens] | None:
    """The task whose hooks `path` refers to, and the rest of the path; None if it refers to something else."""
    rest, found = path, []
    while len(rest) >= 2 and ALIASES.get(rest[0], rest[0]) == "tasks":
        found.append(rest[1])
        rest = rest[2:]
    return (tuple(found), rest[1:]) if rest[:1] == (HOOKS,) else None


def _entries(document: JsonObject, path: PathTokens) -> JsonObject:
    tokens = (*json_pointer.task_pointer(path), HOOKS)
    found = json_pointer.value_at(document, tokens) if json_pointer.has_value(document, tokens) else {}
    return found if isinstance(found, dict) else {}


def _is_mine(author: Author, path: PathTokens, name: str, present: CurrentPlan) -> bool:
    """Whether the author may change the hook `name` of the task at `path`: a descendant's, set by it or a
    descendant."""
    tokens = (*json_pointer.task_pointer(path), HOOKS, name)
    return _is_below(path, author) and _is_set_within(author, tokens, present)


def _is_below(path: PathTokens, author: Author) -> bool:
    reach = author_reach(author)
    return len(path) > len(reach) and path[: len(reach)] == reach


def _is_set_within(author: Author, tokens: PathTokens, present: CurrentPlan) -> bool:
    stamp = field_ownership.last_change(present.stamps, tokens)
    if stamp is None or stamp.author.kind != "agent" or json_pointer.has_value(present.filed, tokens):
        return False
    setter, reach = author_reach(stamp.author), author_reach(author)
    if setter == reach and is_hook_author(stamp.author) and not is_hook_author(author):
        return False  # Its hook set that, not the agent itself.
    return setter[: len(reach)] == reach


def hook_faults_of(patch: AgentPatch) -> Iterator[PatchProblem]:
    """Yield each way in which the result would remove or change another author's hook, or attach a forbidden one."""
    yield from _declared_faults(patch)
    for one in patch.live.values():
        if one.kind == "hook" and not _is_as_it_was(patch, one) and not _is_own(patch, one):
            yield from _kept_faults(patch, one)
    own = patch.live.get(f"agent/{patch.author.name}")
    if own is None:
        return
    rights = author_rights(patch.author, own)
    for want in patch.wanted.values():
        if not want.address.startswith("hook/") or not _is_set_here(patch, want.spec):
            continue
        if (old := patch.live.get(want.address)) is None or old.spec != want.spec:
            if _is_newly_stated(patch, want.spec):
                yield from _decider_faults(patch, want, own, rights)
            yield from _above_faults(patch, want)


def is_authors_hook(patch: AgentPatch, agent: str) -> bool:
    """Whether the patch defines the hook of this agent, so that the author is responsible for the agent's rights."""
    hook = patch.wanted.get(agent)
    made_for = patch.wanted.get(hook.owner or "") if hook is not None else None
    if made_for is None or not _is_set_here(patch, made_for.spec):
        return False
    return _is_newly_stated(patch, made_for.spec)


def _declared_faults(patch: AgentPatch) -> Iterator[PatchProblem]:
    """Yield problems of hooks whose tasks were removed or replaced."""
    for path, entries in _declared(patch.present.document):
        for name, entry in entries.items():
            if _is_mine(patch.author, path, name, patch.present):
                continue
            moved = patch.moves.get(str(addresses.task_address(*path)), str(addresses.task_address(*path)))
            now = _entries(patch.document, addresses.parse_address(moved).path)
            if name not in now or not json_patch.same_json(now[name], entry):
                yield _untouchable(f"the patch would change the hooks that watch {moved}")


def _declared(document: JsonObject) -> Iterator[tuple[PathTokens, JsonObject]]:
    waiting: list[tuple[PathTokens, Json]] = [((), document)]
    while waiting:
        path, task = waiting.pop()
        if not isinstance(task, dict):
            continue
        if isinstance(task.get(HOOKS), dict):
            yield path, task[HOOKS]
        children = task.get("tasks")
        waiting += [((*path, name), child) for name, child in children.items()] if isinstance(children, dict) else []


def _is_own(patch: AgentPatch, hook: Resource) -> bool:
    """Whether the author may change or remove a live hook."""
    if hook.spec["is_root"]:
        return False
    set_at = addresses.parse_address(str(hook.spec["set_at"]))
    if set_at.kind == "task":
        return _is_mine(patch.author, set_at.path, stated_name(hook.spec), patch.present)
    tokens = (*json_pointer.task_pointer(set_at.path), "agent")
    if not _is_below(set_at.path, patch.author):
        return False
    return not json_pointer.has_value(patch.present.document, tokens) or _is_set_within(
        patch.author, tokens, patch.present
    )


def _answering(patch: AgentPatch, hook: Resource) -> Iterator[tuple[Resource, frozenset[str] | None]]:
    """Yield the objects that decide the answers of a hook, each with the relevant members of its spec; None for all.

    A program runs in the environment of the task where the hook is set; an agent answers with its own spec.
    """
    yield hook, None
    asked = str(hook.spec["mind"].get("address", ""))
    if asked:
        behind = patch.live.get(asked)
        task = None if behind is None else patch.live.get(str(behind.spec["task"]))
        if behind is not None:
            yield behind, None if is_hook_agent(asked) else OF_AGENT
        if task is not None and not is_hook_agent(asked):
            yield task, OF_ITS_TASK
    elif hook.spec["mind"]["kind"] != "rule":
        home = patch.live.get(str(addresses.task_address(*addresses.parse_address(str(hook.spec["set_at"])).path)))
        if home is not None:
            yield home, OF_PLACE


def _counting(spec: JsonObject, members: frozenset[str] | None) -> JsonObject:
    """The relevant part of a spec, without the rights that guard the files of hooks: they grow with each hook."""
    if members is None:
        return spec
    found = {name: spec[name] for name in members if name in spec}
    if "rights" in found:
        found["rights"] = {name: value for name, value in found["rights"].items() if name != "guarded"}
    return found


def _is_as_it_was(patch: AgentPatch, hook: Resource) -> bool:
    """Whether neither the hook nor its answering objects would change, as for nearly all hooks in a patch."""
    for one, members in _answering(patch, hook):
        want = patch.wanted.get(one.address)
        if want is None or one.deleting:
            return False
        if one.spec != want.spec and (members is None or members is OF_ITS_TASK):
            return False
        if one.spec != want.spec and _counting(one.spec, members) != _counting(want.spec, members):
            return False
    return True


def _is_less(was: JsonObject, budget: JsonObject) -> bool:
    """Whether a budget has a limit that was higher or absent before."""
    return any(unit not in was or float(bound) < float(was[unit]) for unit, bound in budget.items())


def _kept_faults(patch: AgentPatch, hook: Resource) -> Iterator[PatchProblem]:
    """Yield problems if a hook of another author, or an object that decides its answers, would change."""
    watched = patch.moves.get(str(hook.spec["watches"]), str(hook.spec["watches"]))
    if hook.deleting or watched not in patch.wanted:
        return
    for one, members in _answering(patch, hook):
        want = patch.wanted.get(patch.moves.get(one.address, one.address))
        was = rename_references(one.spec, patch.moves)
        is_less = members is OF_ITS_TASK and want is not None and _is_less(was["budget"], want.spec["budget"])
        if want is None or is_less or not json_patch.same_json(_counting(was, members), _counting(want.spec, members)):
            yield _untouchable(f"the patch would change the hooks that watch {watched}")
            return


def _untouchable(what: str) -> PatchProblem:
    hint = "change only hooks that you set on your descendants; cancel a task instead of removing it, or `request`"
    return PatchProblem("hook", what, (), hint)


def _is_set_here(patch: AgentPatch, spec: JsonObject) -> bool:
    """Whether a hook is set at a place where the author may attach hooks."""
    reach = author_reach(patch.author)
    return addresses.parse_address(str(spec["set_at"])).path[: len(reach)] == reach


def _is_newly_stated(patch: AgentPatch, spec: JsonObject) -> bool:
    """Whether the patch defines a hook that was not defined like this. Copies for new agents do not count."""
    set_at = addresses.parse_address(str(spec["set_at"]))
    task = str(addresses.task_address(*set_at.path))
    was = next((old for old, new in patch.moves.items() if new == task), task)
    before, after = _node(patch.present.document, addresses.parse_address(was).path), _node(patch.document, set_at.path)
    if set_at.kind == "agent":
        return before is None or before.get("agent") != (after or {}).get("agent")
    name = stated_name(spec)
    stated = [(node or {}).get(HOOKS, {}) for node in (before, after)]
    return stated[0].get(name) is None or not json_patch.same_json(stated[0][name], stated[1].get(name))


def _node(document: JsonObject, path: PathTokens) -> JsonObject | None:
    tokens = json_pointer.task_pointer(path)
    found = json_pointer.value_at(document, tokens) if json_pointer.has_value(document, tokens) else None
    return found if isinstance(found, dict) else None


def _decider_faults(patch: AgentPatch, want: WantedObject, own: Resource, rights: Rights) -> Iterator[PatchProblem]:
    """Yield problems of the program, agent or model of a new hook."""
    yield from command_policy.hook_command_faults(want, rights)
    mind = want.spec["mind"]
    if mind.get("kind") != "agent":
        return
    asked = str(mind["address"])
    if not is_hook_agent(asked):
        at = addresses.parse_address(asked).path
        if asked != own.address and not _is_below(at, patch.author):
            yield PatchProblem("rights", f"{want.address} would ask {asked}, which is neither you nor your descendant")
        return
    agent = patch.wanted.get(asked)
    stated = str(((agent.spec if agent is not None else {}).get("mind") or {}).get("stated", ""))
    mine = str((own.spec.get("mind") or {}).get("stated", ""))
    name = parse_model_name(stated)
    if stated and stated != mine and not is_covered(rights.grant_models, name.real, covers_model):
        yield PatchProblem("rights", f"{want.address} would use the model `{stated}`, which you may not grant")


def _above_faults(patch: AgentPatch, want: WantedObject) -> Iterator[PatchProblem]:
    """Yield problems if a new hook would watch an agent that answers for another author's hook."""
    watched = str(want.spec["watches"])
    if not is_hook_agent(watched) or watched not in patch.live:
        return
    hook = patch.live.get(patch.live[watched].owner or "")
    if hook is not None and not _is_own(patch, hook):
        yield _untouchable(f"{want.address} would watch an agent that you may not see")


def explain_hook_fault(author: Author, faults: Sequence[PatchProblem]) -> tuple[PatchProblem, ...]:
    """Return the problems in a form for `author`: agents must not learn which hooks exist."""
    if author.kind != "agent":
        return tuple(faults)
    return tuple(_without_names(fault) if " hook" in fault.message else fault for fault in faults)


def _without_names(fault: PatchProblem) -> PatchProblem:
    return fault if fault.diagnostic is None else PatchProblem(fault.rule, fault.message, fault.path)
