"""Resolve agents: prototype, then mixins, then own fields. Every value knows its origin.

Order, from weakest to strongest: the chain of `extends`, furthest first; the mixins, in the order stated; the agent's
own fields. Maps merge, lists and plain values replace, but denials and hooks unite, and rights and budgets only narrow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Final

from planloop.compiler.names import did_you_mean
from planloop.compiler.problems import Pointer, Problems
from planloop.compiler.resolve.mixins import MixinSteps, lower_mixin, mixin_steps
from planloop.compiler.resolve.symbols import Declaration, SymbolTable, Toolsets, list_patterns
from planloop.schemas import limits
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen, mutable, remade
from planloop.schemas.rights import Patterns, covers_call, is_covered, meet_patterns

DECIDERS: Final = ("script", "python", "run", "model", "outside")
_UNITING: Final = ("deny", "hooks")
_OWN_ONLY: Final = frozenset("from extends mixins doc rights settings prompt tools before around after".split())


@frozen
class ResolvedAgent:
    """An agent with nothing left to look up.

    `fields` are merged; `prompt` is its own text, `added` what each mixin adds to it; `tools` are opened, None for
    whatever its rights allow, and then `beside` what it has that goes by no such word; `named` are those written out
    singly, with their places; `lines` are the rights lines that all hold, with theirs; `mixins` are the names, settings
    and lowered steps in order, `steps` what they were lowered from; `provenance` maps a field to its
    origin in words; `name` is its name or, for an inline agent, the prototype that it extends; `at` is where it is
    written in the plan; `files` are the files that define it; `bounds` are all budgets that it
    narrows to, with their places.
    """

    name: str
    fields: Mapping[str, Json]
    prompt: str = ""
    added: Mapping[str, str] = field(default_factory=dict)
    tools: Patterns = None
    named: tuple[tuple[str, Pointer], ...] = ()
    beside: tuple[str, ...] = ()
    lines: tuple[tuple[JsonObject, Pointer], ...] = ()
    mixins: tuple[JsonObject, ...] = ()
    steps: Mapping[str, MixinSteps] = field(default_factory=dict)
    provenance: Mapping[str, str] = field(default_factory=dict)
    at: Pointer = ()
    files: tuple[str, ...] = ()
    bounds: tuple[tuple[JsonObject, Pointer], ...] = ()

    @property
    def instructions(self) -> str:
        """Its whole prompt but what servers know."""
        texts = (part for part in (self.prompt, *self.added.values()) if not isinstance(part, ServedPromptName))
        return "\n\n".join(text for text in texts if text)

    @property
    def served_prompts(self) -> tuple[str, ...]:
        """Return the prompts of servers that are placed ahead of it, as `server/name`."""
        return tuple(str(part) for part in (self.prompt, *self.added.values()) if isinstance(part, ServedPromptName))

    @property
    def mind(self) -> str:
        """Which sort of mind it has: script, python, run, model, outside, or nothing that was said."""
        return next((name for name in DECIDERS if name in self.fields), "")


def is_mcp_client(how: Json) -> bool:
    """Whether the field `outside` says that an MCP client takes the task, and that no command does it."""
    return not isinstance(how, dict) or "run" not in how


FILE: Final = "file:"
NOBODY: Final = ResolvedAgent("", {})


@mutable
class AgentResolver:
    """Resolves agents, each declared one once."""

    shelves: SymbolTable
    toolsets: Toolsets
    faults: Problems
    servers: frozenset[str] = frozenset()
    _known: dict[str, ResolvedAgent | None] = field(default_factory=dict)
    _open: list[str] = field(default_factory=list)

    def check_declared(self, document: JsonObject) -> None:
        """Resolves every agent that the plan declares, used or not, so that its problems are reported."""
        for name in document.get("agents", {}):
            self.named(name, ("agents", name))
        for name, mixin in document.get("mixins", {}).items():
            steps = MixinSteps(f"mixins/{name}", mixin_steps(mixin), ("mixins", name))
            lower_mixin(steps, mixin.get("settings", {}), self.faults)

    def named(self, reference: str, to: Pointer) -> ResolvedAgent | None:
        """The agent or prototype that `reference` names; None with a problem at `to`."""
        if reference in self._known:
            return self._known[reference]
        declared = self.shelves.find("agents", reference, to)
        if declared is None:
            return None  # Not cached: every place that names it gets the problem.
        if declared.words in self._open:
            ring = " → ".join([*self._open[self._open.index(declared.words) :], declared.words])
            self.faults.add(
                "P0215", f"prototypes extend each other in a cycle: {ring}", "remove one of these `extends`", to=to
            )
            return None
        if len(self._open) >= limits.PROTOTYPE_DEPTH_MAX:
            summary = f"prototypes extend each other more than {limits.PROTOTYPE_DEPTH_MAX} levels deep"
            self.faults.add("P0224", summary, "merge some of them", to=to)
            return None
        self._open.append(declared.words)
        found = self.made(declared.value, declared.words, declared.pointer or to, name=reference)
        self._open.pop()
        self._known[reference] = found
        return found

    def made(self, own: JsonObject, words: str, to: Pointer, *, name: str = "") -> ResolvedAgent:
        """The agent with the fields `own`, written at `to`. Unknown names are reported and left out."""
        base = self.named(own["extends"], (*to, "extends")) if "extends" in own else None
        merge = _Merge(base or NOBODY, self.toolsets, self.faults)
        for index, item in enumerate(own.get("mixins", ())):
            self._mix(merge, item, (*to, "mixins", str(index)))
        merge.take(own, words, to)
        merge.settings(own.get("settings", {}))
        self._check_hooks(own, to)
        if "prompt" in own:
            merge.prompt(self.prompt_text(own["prompt"], (*to, "prompt")), f"{words}: {own['prompt'][:60]}")
        found = merge.done(name or (base.name if base else ""), to)
        return remade(found, files=tuple(dict.fromkeys((*found.files, *self._files_of(own, found)))))

    def _files_of(self, own: JsonObject, found: ResolvedAgent) -> Iterator[str]:
        """The files beside the plan that `own` names: prototypes, mixins, toolsets, prompts and functions."""
        mixins = (name for item in own.get("mixins", ()) for name in (item if isinstance(item, dict) else (item,)))
        prompt = own.get("prompt", "")
        for _ in range(limits.PROMPT_NAMES_MAX):
            declared = None if "\n" in prompt else self.shelves.own.get("prompts", {}).get(prompt)
            prompt = prompt if declared is None else str(declared.value)
        names = [str(own.get("extends", "")), *map(str, mixins), *own.get("tools", ()), prompt]
        names += (reference for reference in self.shelves.used if not reference.startswith("lib:"))
        yield from (name.removeprefix(FILE) for name in names if name.startswith(FILE) or name in self.shelves.used)
        functions = [own.get("python", "")]
        functions += (
            step["with"] for mixin in found.mixins for step in mixin.get("steps", ()) if step["do"] == "python"
        )
        yield from (name.rpartition(":")[0] for name in functions if name and not name.startswith("lib:"))

    def _mix(self, merge: _Merge, item: Json, to: Pointer) -> None:
        pairs = item.items() if isinstance(item, dict) else [(item, {})]
        for reference, settings in pairs:
            declared = self.shelves.find("mixins", reference, to)
            if declared is not None:
                self._check_hooks(declared.value, declared.pointer or to)
                merge.mix(declared, settings, self._added_prompt(declared, to), declared.pointer or to)

    def _check_hooks(self, own: JsonObject, to: Pointer) -> None:
        """Report unknown hooks that `own`, an agent or a mixin, names."""
        for index, item in enumerate(own.get("hooks", ())):
            for hook in item if isinstance(item, dict) else (item,):
                self.shelves.find("hooks", hook, (*to, "hooks", str(index)))

    def _added_prompt(self, declared: Declaration, to: Pointer) -> str:
        written = declared.value.get("prompt", "")
        return self.prompt_text(written, to) if written else ""

    def prompt_text(self, written: str, to: Pointer) -> str:
        """The text behind a prompt: of the library, a file, one of the plan's prompts, or itself."""
        for _ in range(limits.PROMPT_NAMES_MAX):
            declared = self.shelves.peek("prompts", written) if "\n" not in written else None
            if written.startswith(("lib:", "file:")):
                declared = self.shelves.find("prompts", written, to)
                return "" if declared is None else str(declared.value)
            if written.startswith("mcp:"):
                return self._served(written, to)
            if declared is None:
                return written
            written = str(declared.value)
        self.faults.add("P0215", "prompts refer to each other in a cycle", "replace one of the names by a text", to=to)
        return ""

    def _served(self, written: str, to: Pointer) -> str:
        server, slash, name = written.removeprefix("mcp:").partition("/")
        if server not in self.servers:
            self.faults.add("P0213", f"unknown server `{server}`", did_you_mean(server, sorted(self.servers)), to=to)
        elif not slash or not name:
            self.faults.add("P0223", f"`{written}` does not name a prompt", "write it as `mcp:server/name`", to=to)
        return ServedPromptName(f"{server}/{name}")


class ServedPromptName(str):
    """The `server/name` of a prompt whose text only a running server knows."""

    __slots__ = ()


class _Merge:
    """One agent in the making."""

    def __init__(self, base: ResolvedAgent, toolsets: Toolsets, faults: Problems) -> None:
        self._base = base
        self._toolsets = toolsets
        self._faults = faults
        self._tools = base.tools
        self._named = list(base.named)
        self._beside = base.beside
        self._fields: dict[str, Json] = dict(base.fields)
        self._provenance = dict(base.provenance)
        self._lines = list(base.lines)
        self._bounds = list(base.bounds)
        self._mixins: dict[str, JsonObject] = {str(mixin["name"]): dict(mixin) for mixin in base.mixins}
        self._steps = dict(base.steps)
        self._prompt = base.prompt
        self._added = dict(base.added)

    def take(self, own: JsonObject, words: str, to: Pointer) -> None:
        """Lays `own`, written at `to`, over what there is."""
        if any(mind in own for mind in DECIDERS):
            for mind in DECIDERS:
                self._fields.pop(mind, None)  # A script is not also a model because its prototype was one.
            if "model" not in own:
                self._fields.pop("escalate", None)
        for name, value in own.items():
            if name in _OWN_ONLY:
                continue
            self._fields[name] = _merged(name, self._fields.get(name), value)
            self._provenance[name] = words
        if "budget" in own:
            self._bounds.append((own["budget"], (*to, "budget")))
        if "rights" in own:
            self._lines.append((own["rights"], (*to, "rights")))
            self._provenance["rights"] = words
        if "deny" in own:
            self._toolsets.denials(own["deny"], (*to, "deny"))
        if "tools" in own:
            self._narrow_tools(own["tools"], (*to, "tools"))
            self._provenance["tools"] = words

    def _narrow_tools(self, written: list[str], to: Pointer) -> None:
        opened = self._toolsets.opened(written, to)
        named = [(name, (*to, str(index))) for name, index in opened.named]
        for name, place in named:
            if not is_covered(self._tools, name, covers_call):
                summary = f"{self._base.name or 'the prototype'} does not have the tool `{name}`"
                hint = f"remove it, or add it to the prototype, which has {list_patterns(self._tools)}"
                self._faults.add("P0304", summary, hint, to=place)
        self._tools = meet_patterns(self._tools, opened.patterns, covers_call)
        self._beside = opened.beside
        self._named += named

    def mix(self, declared: Declaration, settings: JsonObject, prompt: str, to: Pointer) -> None:
        """Lays a mixin over what there is."""
        self.take(declared.value, declared.words.after("mixin"), to)
        known = self._mixins.get(declared.name, {"name": declared.name, "settings": {}})
        merged = _merged("", declared.value.get("settings", {}), known["settings"])
        self._mixins[declared.name] = {"name": declared.name, "settings": _merged("", merged, settings)}
        self._steps[declared.name] = MixinSteps(declared.words.after("mixin"), mixin_steps(declared.value), to)
        if prompt:
            self._added[declared.name] = prompt

    def settings(self, settings: JsonObject) -> None:
        """Lays the agent's own settings over those of the mixins they name."""
        for name, values in settings.items():
            mixin = self._mixins.setdefault(name, {"name": name, "settings": {}})
            self._mixins[name] = {**mixin, "settings": _merged("", mixin["settings"], values)}

    def prompt(self, text: str, words: str) -> None:
        self._prompt = text
        self._provenance["prompt"] = words

    def _lower(self) -> None:
        """Puts the settings into the steps of the mixins; their denials unite with those there are."""
        for name, mixin in self._mixins.items():
            steps = self._steps.get(name)
            if steps is None or not steps.points:
                continue
            low = lower_mixin(steps, mixin["settings"], self._faults)
            self._mixins[name] = {**mixin, "from": steps.source, "steps": list(low.steps)}
            if low.deny:
                self._toolsets.denials(low.deny, (*steps.to, "before"))
                self._fields["deny"] = _merged("deny", self._fields.get("deny", []), list(low.deny))
                self._provenance["deny"] = steps.source
        if sources := [str(mixin["from"]) for mixin in self._mixins.values() if "from" in mixin]:
            self._provenance["mixins"] = ", then ".join(sources)

    def done(self, name: str, at: Pointer) -> ResolvedAgent:
        self._lower()
        return ResolvedAgent(
            name=name,
            fields=self._fields,
            prompt=self._prompt,
            added=self._added,
            tools=self._tools,
            beside=self._beside if self._tools is None else (),
            named=tuple((name, to) for name, to in self._named if is_covered(self._tools, name, covers_call)),
            lines=tuple(self._lines),
            bounds=tuple(self._bounds),
            mixins=tuple(self._mixins.values()),
            steps=self._steps,
            provenance=self._provenance,
            at=at,
            files=self._base.files,
        )


def _merged(name: str, old: Json, new: Json) -> Json:
    if name in _UNITING and isinstance(old, list):
        return [*old, *(item for item in new if item not in old)]
    if name == "budget" and isinstance(old, dict):
        return smaller_budget(old, new)
    if isinstance(old, dict) and isinstance(new, dict):
        return {**old, **{key: _merged("", old.get(key), value) for key, value in new.items()}}
    return new


def smaller_budget(one: JsonObject, other: JsonObject) -> JsonObject:
    """Unit by unit the smaller of the two, and what only one of them states."""
    out = dict(one)
    for unit, value in other.items():
        out[unit] = value if unit not in out or float(value) < float(out[unit]) else out[unit]
    return out
