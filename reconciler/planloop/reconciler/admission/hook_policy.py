"""Which hooks an agent may add, change or remove: on itself and on its descendants. Pure.

What is set above it, by a person, or by itself on itself stays as it is: nobody takes such a hook away, changes it or
looks at it, and no patch of other things changes what it does. What a new hook runs and asks is within what its author
may run and hand on. A hook that attaches one is held to the agent that it watches. (Law 6.)
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
"""What counts of an agent of the plan that is asked as a hook, of its task, and of the task where a program is set."""

MINDS: Final = frozenset({"on", "rule", "run", "python", "agent"})
PathTokens = tuple[str, ...]


@frozen
class AgentPatch:
    """A patch by an agent, on its way through the gate: what is, what would be, and which addresses move."""

    author: Author
    present: CurrentPlan
    document: JsonObject
    live: Mapping[str, Resource]
    wanted: Mapping[str, WantedObject]
    moves: Mapping[str, str]


def author_rights(author: Author, own: Resource) -> Rights:
    """What the author may do and hand on. A hook has the rights of its place, of which it may use its tools alone."""
    rights = rights_from_json(own.spec["rights"])
    if not is_hook_author(author):
        return rights
    tools = tuple(own.spec["tools"])
    return replace(rights, tools=tools, grant_tools=tools)


def is_hook_author(author: Author) -> bool:
    """Whether the author is an agent that was made for a hook."""
    return author.kind == "agent" and is_hook_agent(f"agent/{author.name}")


def author_reach(author: Author) -> PathTokens:
    """The path below which an agent may attach hooks: its own; of an agent that was made for one, whom it watches."""
    path = () if author.name == "." else tuple(author.name.split("/"))
    return path[:-1] if is_hook_author(author) else path


def hook_op_faults(patch: Patch, present: CurrentPlan) -> Iterator[PatchProblem]:
    """Operations that touch, test or copy hooks that are not the author's. Judged before anything is looked up."""
    for op in patch.ops:
        if not _is_new(patch.author, op, present):
            yield from _hidden(patch.author, op.path, present)
        if op.op in ("move", "copy"):
            yield from _hidden(patch.author, op.source, present)
        looked_at = {"test": op.path, "move": op.source, "copy": op.source}.get(op.op, ())
        if HOOKS in looked_at and _place(looked_at) is None and not _is_set_below(patch.author, looked_at, present):
            yield _unseen(looked_at)  # What agents, prototypes and mixins name.


def hook_name_faults(author: Author, ops: Sequence[PatchOp], present: CurrentPlan) -> Iterator[PatchProblem]:
    """Hooks of the plan that new ones are made from: by their names an agent would learn what watches it.

    Those that agents below it name already, copies of these may name.
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
    """What the hooks anywhere in `value` are made from, and those that agents in it name, however they are spelled."""
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
                yield from entry  # Names with their settings, as an agent has them.


def is_own_addition(author: Author, op: PatchOp, present: CurrentPlan) -> bool:
    """Whether `op` adds a hook to the author's own agent, which is the one of its own terms that it may set.

    A hook may add to those that it watches and to nothing else.
    """
    place = _place(op.path)
    is_there = place is not None and (place[0] == author_reach(author) or is_hook_author(author))
    return is_there and _is_new(author, op, present)


def _is_new(author: Author, op: PatchOp, present: CurrentPlan) -> bool:
    """Whether `op` adds hooks, within the author's reach, where there are none of the name."""
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
    """Whether `tokens` lead below the author's own task, to what it, or somebody there, has set."""
    below = (*json_pointer.task_pointer(author_reach(author)), "tasks")
    return tokens[: len(below)] == below and _is_set_within(author, tokens, present)


def _place(path: PathTokens) -> tuple[PathTokens, PathTokens] | None:
    """The task whose hooks `path` is about, and the rest of it within them; None when it is about something else."""
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
    """Whether the author may change the hook `name` of the task at `path`: one below it, set by it or from below."""
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
        return False  # What its hook set, it did not.
    return setter[: len(reach)] == reach


def hook_faults_of(patch: AgentPatch) -> Iterator[PatchProblem]:
    """Every way in which the result would take away or change a hook that is not the author's, or attach too much."""
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
            if _is_stated_anew(patch, want.spec):
                yield from _mind_faults(patch, want, own, rights)
            yield from _above_faults(patch, want)


def is_authors_hook(patch: AgentPatch, agent: str) -> bool:
    """Whether an agent made for a hook is one that the patch states anew: its author answers for what it may do."""
    hook = patch.wanted.get(agent)
    made_for = patch.wanted.get(hook.owner or "") if hook is not None else None
    if made_for is None or not _is_set_here(patch, made_for.spec):
        return False
    return _is_stated_anew(patch, made_for.spec)


def _declared_faults(patch: AgentPatch) -> Iterator[PatchProblem]:
    """Hooks of tasks that are in the plan no more, or are another."""
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
    """Whether a live hook is one that the author may change or take away."""
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
    """A hook and what decides over its answers, each with the members of its spec that count; None for all of them.

    Its program runs where it is set, in that place's surroundings; an agent of the plan answers as what it is there.
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
    """What of a spec counts; of rights not what guards the files of hooks, which grows with them."""
    if members is None:
        return spec
    found = {name: spec[name] for name in members if name in spec}
    if "rights" in found:
        found["rights"] = {name: value for name, value in found["rights"].items() if name != "guarded"}
    return found


def _is_as_it_was(patch: AgentPatch, hook: Resource) -> bool:
    """Whether nothing of the hook and of what is behind it would change: so for nearly all, whatever the patch."""
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
    """Whether a budget has a bound that was wider, or not there."""
    return any(unit not in was or float(bound) < float(was[unit]) for unit, bound in budget.items())


def _kept_faults(patch: AgentPatch, hook: Resource) -> Iterator[PatchProblem]:
    """A hook that is not the author's is as it was, wherever its agent is now, and so is what is behind it."""
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
    """Whether a hook stands where the author may attach some."""
    reach = author_reach(patch.author)
    return addresses.parse_address(str(spec["set_at"])).path[: len(reach)] == reach


def _is_stated_anew(patch: AgentPatch, spec: JsonObject) -> bool:
    """Whether the patch states a hook that was not stated so: its copies for agents that come are nothing new."""
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


def _mind_faults(patch: AgentPatch, want: WantedObject, own: Resource, rights: Rights) -> Iterator[PatchProblem]:
    """What a new hook would run or ask."""
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
    """A new hook watches no agent that stands behind somebody else's hook."""
    watched = str(want.spec["watches"])
    if not is_hook_agent(watched) or watched not in patch.live:
        return
    hook = patch.live.get(patch.live[watched].owner or "")
    if hook is not None and not _is_own(patch, hook):
        yield _untouchable(f"{want.address} would watch an agent that you may not see")


def explain_hook_fault(author: Author, faults: Sequence[PatchProblem]) -> tuple[PatchProblem, ...]:
    """Faults as `author` may read them: which hooks there are is not told to agents."""
    if author.kind != "agent":
        return tuple(faults)
    return tuple(_without_names(fault) if " hook" in fault.message else fault for fault in faults)


def _without_names(fault: PatchProblem) -> PatchProblem:
    return fault if fault.diagnostic is None else PatchProblem(fault.rule, fault.message, fault.path)
