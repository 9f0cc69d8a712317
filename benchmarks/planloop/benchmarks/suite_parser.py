"""Parse a suite: text → tree → canonical suite → cases. Collects all problems with their locations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any, Final, Protocol

from planloop.benchmarks.checks import abstain, call_rules, log, soft_figures, state
from planloop.benchmarks.checks.call_rules import READS, BadCheck, CallRules
from planloop.benchmarks.runs.run_compiler import placeholder_problems
from planloop.benchmarks.suite import Case, CasePlan, CaseProofs, CaseSetting, ReadSuite, ScriptedAct, Suite
from planloop.benchmarks.worlds.world_file import read_world, world_from_document
from planloop.compiler.check.agents import check_steps
from planloop.compiler.check.tasks import report_check_problems
from planloop.compiler.graph import Sources
from planloop.compiler.names import did_you_mean, nearest_name
from planloop.compiler.normalise import Normalisation, normalise_document
from planloop.compiler.plan_compiler import read_library
from planloop.compiler.problems import Origins, Pointer, Problems, place_problems
from planloop.compiler.read import read_source
from planloop.compiler.resolve.symbols import SymbolTable, Toolsets
from planloop.compiler.source import SizeLimits
from planloop.schemas import json_patch
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.checks.kinds import CHECK_KINDS, DeclaredCheck
from planloop.schemas.diagnostic import ValuePath, ValueProblem, sort_diagnostics
from planloop.schemas.frozen import frozen, mutable
from planloop.schemas.objects.case import CASE_S
from planloop.schemas.objects.task import CheckSpec
from planloop.schemas.spec.suite import CASE_KIND_FIELDS
from planloop.schemas.spec.template_placeholders import fill_placeholders
from planloop.schemas.tools import AGENT_TOOL, TOOLS

FILES_MAX: Final = 2000
BYTES_MAX: Final = 16 << 20


class SuiteSources(Protocol):
    """Reads the files that a suite names; the parser itself accesses no files."""

    def read(self, path: str) -> bytes:
        """Return the bytes of a file; `path` is relative to the suite. Raises OSError."""
        ...

    def tree(self, path: str) -> Mapping[str, bytes]:
        """Return all files below a folder by their path in it, sorted. Raises OSError."""
        ...


class FolderSuiteSources:
    """A `SuiteSources` for a suite in `folder`. Refuses paths outside of the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()

    def read(self, path: str) -> bytes:
        return _bounded(self._inside(path))

    def tree(self, path: str) -> Mapping[str, bytes]:
        top = self._inside(path)
        if not top.is_dir():
            raise NotADirectoryError(f"{path} is not a folder")
        names = sorted(one for one in top.rglob("*") if one.is_file() and "__pycache__" not in one.parts)
        if len(names) > FILES_MAX:
            raise OSError(f"{path} has more than {FILES_MAX} files")
        return {one.relative_to(top).as_posix(): _bounded(self._inside(one)) for one in names}

    def _inside(self, path: str | Path) -> Path:
        found = (self._folder / path).resolve()
        if not found.is_relative_to(self._folder):
            raise PermissionError(f"{path} is outside of the suite's folder")
        return found


def _bounded(path: Path) -> bytes:
    if path.stat().st_size > BYTES_MAX:
        raise OSError(f"{path.name} has more than {BYTES_MAX >> 20} MiB")
    return path.read_bytes()


NAME_BYTES_MAX: Final = 255
"""Maximal length of a path segment on common file systems."""


@frozen
class SuiteFileReader:
    """Reads files from `sources` and reports problems to `problems`."""

    sources: SuiteSources
    problems: Problems

    def world(self, path: str, to: Pointer) -> JsonObject:
        """Return the document of the world or pool of tools in a file; an empty map if the file is invalid."""
        content = self._content(path, to)
        if content is None:
            return {}
        read = read_world(content, file=path)
        for one in read.diagnostics:
            place = f"{one.span.file}:{one.span.line}: " if one.span is not None else f"{path}: "
            self.problems.add(one.code, f"{place}{one.summary}", one.hint, to=to)
        return read.document or {}

    def texts(self, written: Json, to: Pointer) -> Mapping[str, str]:
        """Return texts by path: of the folder `written`, or of a map, whose values may be `{from: file}`."""
        if isinstance(written, str):
            return self._folder(written, to)
        if not isinstance(written, dict):
            self.problems.add(
                "P0202", "files must be the name of a folder, or a map from paths to texts", "write `path: text`", to=to
            )
            return {}
        found: dict[str, str] = {}
        for path, value in written.items():
            if isinstance(value, dict) and set(value) == {"from"}:
                source = str(value["from"])
                found |= self._from(path, source, (*to, path))
            else:
                found[path] = value if isinstance(value, str) else str(value)
        inside = {path: text for path, text in found.items() if self._is_inside(path, to)}
        self._check_nesting(inside, to)
        return inside

    def _from(self, path: str, source: str, to: Pointer) -> Mapping[str, str]:
        try:
            tree = self.sources.tree(source)
        except NotADirectoryError:
            content = self._content(source, to)
            return {} if content is None else self._decoded({path: content}, to)
        except OSError as error:
            self._unreadable(source, error, to)
            return {}
        return self._decoded({f"{path}/{name}": content for name, content in tree.items()}, to)

    def _folder(self, path: str, to: Pointer) -> Mapping[str, str]:
        try:
            return self._decoded(self.sources.tree(path), to)
        except OSError as error:
            self._unreadable(path, error, to)
            return {}

    def _content(self, path: str, to: Pointer) -> bytes | None:
        try:
            return self.sources.read(path)
        except OSError as error:
            self._unreadable(path, error, to)
            return None

    def _decoded(self, files: Mapping[str, bytes], to: Pointer) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for name, content in files.items():
            try:
                found[name] = content.decode()
            except UnicodeDecodeError:
                self.problems.add("P0214", f"`{name}` is not UTF-8 text", "convert or remove the file", to=to)
        return found

    def _unreadable(self, path: str, error: OSError, to: Pointer) -> None:
        why = error.strerror or str(error)
        self.problems.add(
            "P0214", f"`{path}` cannot be read: {why}", "write a path relative to the suite's file", to=to
        )

    def _is_inside(self, path: str, to: Pointer) -> bool:
        parts = path.split("/")
        is_inside = not path.startswith("/") and ".." not in parts
        is_name = parts[-1] not in ("", ".") and "\0" not in path
        if not is_inside:
            self.problems.add(
                "P0218", f"`{path}` is outside of the workspace", "write a path inside the workspace", to=to
            )
        elif not is_name or max(len(part.encode()) for part in parts) > NAME_BYTES_MAX:
            self.problems.add("P0218", f"invalid path `{path}`", "write a path such as src/a.txt", to=to)
            return False
        return is_inside

    def _check_nesting(self, files: Mapping[str, str], to: Pointer) -> None:
        """Report files that are also a parent folder of other files."""
        if len(files) < 2:
            return
        whole = {PurePosixPath(path): path for path in files}
        for place, path in whole.items():
            if above := next((whole[one] for one in place.parents if one in whole), None):
                hint = "rename one of them"
                self.problems.add("P0218", f"`{path}` is inside `{above}`, which is a file", hint, to=to)


_READ: Final[Mapping[str, Callable[[Json], object]]] = MappingProxyType(
    {"calls": call_rules.parse_call_rules, "state": state.parse_state, "abstain": abstain.parse_abstain}
)

_ASKS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "calls": "add `need`, `forbid` or `extra: deny`",
        "state": "add `after`, `tables` or `new`",
    }
)


def check_problems(kind: str, arguments: Json) -> Iterator[ValueProblem]:
    """Yield the first problem of a check of `kind` that makes it impossible to judge; nothing for other kinds."""
    if kind not in _READ:
        return
    try:
        found = _READ[kind](arguments)
    except BadCheck as error:
        yield ValueProblem(error.at, "P0223", str(error), error.hint)
        return
    if not getattr(found, "probes", 1):
        yield ValueProblem((), "P0210", f"this `{kind}` requires nothing", _ASKS[kind])


def tools_named_in(kind: str, arguments: Json) -> Iterator[tuple[ValuePath, str]]:
    """Yield the tools that a check of `kind` names, without patterns, with their locations. Nothing for invalid
    checks."""
    found = _rules(kind, arguments)
    if found is None:
        return
    for at, need in enumerate(found.needs):
        yield from ((("need", str(at), "tool", str(place)), tool) for place, tool in enumerate(need.tools))
    for member, shapes in (("free", found.free), ("forbid", found.forbid)):
        named = ((str(at), shape.tool) for at, shape in enumerate(shapes) if "*" not in shape.tool)
        yield from (((member, at), tool) for at, tool in named)


def _rules(kind: str, arguments: Json) -> CallRules | None:
    try:
        match kind:
            case "calls":
                return call_rules.parse_call_rules(arguments)
            case "abstain":
                return abstain.parse_abstain(arguments)[0]
            case _:
                return None
    except BadCheck:
        return None


_FORM = "write `path: [[old, new]]`"
_CALL = "write `- tool: {argument: value}`, one line for each call"


def parse_proofs(written: JsonObject, checks: Iterable[str], to: Pointer, reader: SuiteFileReader) -> CaseProofs:
    """Parse the proofs of a case. `checks` are the names of its checks, which mutants refer to."""
    checks = list(checks)
    oracles = {name: _act(one, {}, (*to, "oracles", name), reader) for name, one in written.get("oracles", {}).items()}
    mutants = {
        name: _act(one, oracles, (*to, "mutants", name), reader) for name, one in written.get("mutants", {}).items()
    }
    for name, mutant in mutants.items():
        _check_kills(name, mutant.kills, checks, (*to, "mutants", name), reader)
    cheats = written.get("cheats", {})
    if isinstance(cheats, str):
        return CaseProofs(oracles, mutants, "standard")
    return CaseProofs(
        oracles, mutants, {name: _act(one, oracles, (*to, "cheats", name), reader) for name, one in cheats.items()}
    )


def _act(written: JsonObject, oracles: Mapping[str, ScriptedAct], to: Pointer, reader: SuiteFileReader) -> ScriptedAct:
    base = _base(written, oracles, to, reader)
    files = {**base.files, **reader.texts(written.get("files", {}), (*to, "files"))}
    for path, pairs in written.get("replace", {}).items():
        files[path] = _replaced(path, files.get(path), pairs, (*to, "replace"), reader)
    script, calls = written.get("script"), written.get("calls")
    check_steps(script or (), (*to, "script"), reader.problems)
    _check_calls(calls or (), (*to, "calls"), reader.problems)
    return ScriptedAct(
        files=files,
        calls=base.calls if calls is None else tuple(calls),
        says=written.get("says", base.says),
        script=base.script if script is None else tuple(script),
        kills=tuple(written.get("kills", ())),
    )


def _check_calls(calls: Iterable[Json], to: Pointer, problems: Problems) -> None:
    for index, call in enumerate(calls):
        if not isinstance(call, dict) or len(call) != 1 or not isinstance(next(iter(call.values())), dict):
            problems.add("P0202", "a call must be a map of one tool and its arguments", _CALL, to=(*to, str(index)))


def _base(written: JsonObject, oracles: Mapping[str, ScriptedAct], to: Pointer, reader: SuiteFileReader) -> ScriptedAct:
    name = written.get("base")
    if name is None:
        return ScriptedAct()
    if name not in oracles:
        hint = did_you_mean(name, oracles) or "name an oracle of the case"
        reader.problems.add("P0213", f"unknown oracle `{name}`", hint, to=(*to, "base"))
        return ScriptedAct()
    return replace(oracles[name], kills=())


def _replaced(path: str, text: str | None, pairs: list[Any], to: Pointer, reader: SuiteFileReader) -> str:
    if text is None:
        reader.problems.add("P0213", f"the base has no file `{path}`", "name a file of the base", to=(*to, path))
        return ""
    if not all(map(_is_pair, pairs)):
        reader.problems.add(
            "P0202", f"the replacements in `{path}` must be a list of pairs of texts", _FORM, to=(*to, path)
        )
        return text
    for old, new in pairs:
        if old not in text:
            reader.problems.add(
                "P0213", f"`{path}` does not contain `{old}`", "write a text that the file contains", to=(*to, path)
            )
        text = text.replace(old, new)
    return text


def _is_pair(pair: Json) -> bool:
    is_two = isinstance(pair, list) and len(pair) == 2 and all(isinstance(part, str) for part in pair)
    return is_two and pair[0] != ""


def _check_kills(name: str, kills: Iterable[str], checks: Iterable[str], to: Pointer, reader: SuiteFileReader) -> None:
    kills = list(kills)
    if not kills:
        reader.problems.on_key(
            "P0210", f"the mutant `{name}` has no `kills`", "name the checks that must fail for it", to=to
        )
    for check in kills:
        if check not in checks:
            hint = did_you_mean(check, list(checks)) or "name a check of the case"
            reader.problems.add("P0213", f"the case has no check `{check}`", hint, to=(*to, "kills"))


@frozen
class SuiteResources:
    """The documents of a suite's worlds and pools by name; invalid ones are empty."""

    worlds: Mapping[str, JsonObject]
    pools: Mapping[str, JsonObject]
    reader: SuiteFileReader
    library: Sources | None = None

    def check(self, case: Case, to: Pointer) -> None:
        """Report unknown tools of the case and its checks, and rows for unknown tables."""
        use = None if case.setting.world is None else str(case.setting.world.get("use"))
        pool = None if case.setting.decoys is None else str(case.setting.decoys.get("pool"))
        catalogs = [table.get(name, {}) for table, name in ((self.worlds, use), (self.pools, pool)) if name is not None]
        if all(catalogs):  # Otherwise other problems are reported.
            self._check_tools(case, catalogs, to)
            self._check_calls(case, catalogs, to)
        if case.setting.world is not None and case.setting.world.get("with") and (world := self.worlds.get(use or "")):
            self._check_rows(world, case.setting.world["with"], (*to, "world", "with"))

    def _check_tools(self, case: Case, catalogs: list[JsonObject], to: Pointer) -> None:
        known = _simulated(catalogs)
        for index, tool in enumerate(case.setting.tools or ()):
            if "." not in tool.partition("(")[0]:
                self._check_own(case, tool, (*to, "tools", str(index)))
                continue
            if "*" in tool or tool in known:
                continue
            hint = did_you_mean(tool, known) if known else "add the `world` that has it"
            self.reader.problems.add(
                "P0213", f"no world or pool has the tool `{tool}`", hint, to=(*to, "tools", str(index))
            )

    def _check_calls(self, case: Case, catalogs: list[JsonObject], to: Pointer) -> None:
        """Report unknown tools in the case's checks.

        A needed tool must exist in this case. A free or forbidden tool may be shared by several cases with different
        worlds. An invented tool may be forbidden, unless its name is close to an existing one.
        """
        ours = (*TOOLS, *(f"{AGENT_TOOL}{name}" for name in case.plan.agents), *(case.setting.tools or ()))
        here = dict.fromkeys((*_simulated(catalogs), *ours))
        for check in case.checks:
            for at, tool in tools_named_in(check.kind, check.arguments):
                known = here if at[0] == "need" or tool in here else self._anywhere | here
                if tool in known or (at[0] == "forbid" and nearest_name(tool, known) is None):
                    continue
                place = (*to, "checks", check.key, check.kind, *at)
                self.reader.problems.add("P0213", f"the case has no tool `{tool}`", did_you_mean(tool, known), to=place)

    @property
    def _anywhere(self) -> dict[str, None]:
        """All tools that may be free or forbidden in some case of the suite."""
        return dict.fromkeys((READS, *_simulated((*self.worlds.values(), *self.pools.values()))))

    def _check_own(self, case: Case, tool: str, to: Pointer) -> None:
        """Report an unknown built-in tool, like the compiler of plans."""
        if self.library is None:
            return
        problems = Problems()
        named = SymbolTable(self.library, problems, read_library)
        named.take_plan({"agents": case.plan.agents})
        Toolsets(named, problems).opened((tool,), ())
        for one in (found.diagnostic for found in problems.found):
            if (
                one.code == "P0410"
            ):  # For a plan this is a warning, but a measured model must have all tools of the case.
                self.reader.problems.add("P0213", one.summary, "`plan explain tools` lists the built-in tools", to=to)
            else:
                self.reader.problems.add(one.code, one.summary, one.hint, to=to)

    def _check_rows(self, world: JsonObject, rows: JsonObject, to: Pointer) -> None:
        for one in world_from_document({**world, "overlays": {"with": rows}}).diagnostics:
            below = (one.pointer or ())[2:]
            self.reader.problems.add(one.code, one.summary, one.hint, to=(*to, *below))


def _simulated(catalogs: Iterable[JsonObject]) -> list[str]:
    return [tool for resources in catalogs for tool in resources.get("tools", {})]


def read_resources(document: JsonObject, reader: SuiteFileReader, library: Sources | None) -> SuiteResources:
    """Read the suite's `worlds` and `pools`. `library` has the toolsets that a case may name."""
    worlds = {name: reader.world(path, ("worlds", name)) for name, path in document.get("worlds", {}).items()}
    pools = {name: reader.world(path, ("pools", name)) for name, path in document.get("pools", {}).items()}
    of: dict[str, str] = {}
    for name, world in worlds.items():
        for server in dict.fromkeys(tool.partition(".")[0] for tool in world.get("tools", {})):
            if (other := of.setdefault(server, name)) != name:
                words = f"the worlds `{other}` and `{name}` both have tools of `{server}`"
                reader.problems.add("P0208", words, "rename the server in one of them", to=("worlds", name))
    return SuiteResources(worlds, pools, reader, library)


CHECK_S: Final = 60.0
KINDS: Final = tuple(row.name for row in CASE_KIND_FIELDS)
SERVE: Final[JsonObject] = {"run": "auto", "port": 8080, "ready": {"http": "/", "within": 30.0}}


def read_suite(
    content: bytes,
    *,
    file: str,
    sources: SuiteSources,
    limits: SizeLimits | None = None,
    library: Sources | None = None,
) -> ReadSuite:
    """Parse the suite in `content`. `sources` reads the files that it names.

    With `library`, the library of plans, the names of built-in tools are checked, too.
    """
    tree = read_source(content, file=file, limits=limits or SizeLimits())
    texts = {file: tree.text}
    if tree.value is None:
        return ReadSuite(None, tuple(sort_diagnostics(tree.diagnostics)), texts)
    work = Normalisation(Problems(), {})
    document = normalise_document(tree.value, "suite", work)
    reading = _Reading(document, SuiteFileReader(sources, work.faults), library)
    suite = reading.suite()
    found = [*tree.diagnostics, *place_problems(work.faults.found, Origins(tree, work.moved))]
    diagnostics = tuple(dict.fromkeys(sort_diagnostics(found)))  # A problem of a case is found once for each language.
    is_sound = not any(one.severity == "error" for one in diagnostics)
    return ReadSuite(suite if is_sound else None, diagnostics, texts)


@mutable
class _Reading:
    """Parses one suite. Problems are reported to `reader`."""

    document: JsonObject
    reader: SuiteFileReader
    library: Sources | None
    cases: dict[str, Case] = field(default_factory=dict)

    @property
    def problems(self) -> Problems:
        return self.reader.problems

    def suite(self) -> Suite:
        document = self.document
        for name in ("suite", "cases"):
            if not document.get(name) and not self.problems.is_at((name,)):
                self.problems.add("P0210", f"the suite has no `{name}`", "add it", to=())
        resources = read_resources(document, self.reader, self.library)
        defaults = document.get("defaults", {})
        for base, written in document.get("cases", {}).items():
            for case in self._cases(base, _over(defaults, written)):
                resources.check(case, ("cases", base))
                self.cases[case.id] = case
        return Suite(
            name=str(document.get("suite", "")),
            about=str(document.get("about", "")),
            seed=int(document.get("seed", 0)),
            trials=int(document.get("trials", 1)),
            report=document.get("report", {}),
            cases=self.cases,
            worlds=resources.worlds,
            pools=resources.pools,
        )

    def _cases(self, base: str, written: JsonObject) -> Iterator[Case]:
        """Yield one case, or one for each language."""
        languages = written.get("language", [""])
        for language in languages:
            id_ = f"{base}-{language}" if len(languages) > 1 else base
            if id_ in self.cases:
                self.problems.on_key("P0208", f"two cases are called `{id_}`", "rename one", to=("cases", base))
            yield self._case(
                id_, base, language, fill_placeholders(written, {"language": language}) if language else written
            )

    def _case(self, id_: str, base: str, language: str, written: JsonObject) -> Case:
        to = ("cases", base)
        if not written.get("prompts"):
            self.problems.on_key("P0210", f"the case `{base}` has no `prompts`", "add the prompt of the agent", to=to)
        self._blanks(written, to)
        checks = tuple(self._checks(base, written.get("checks", {})))
        proofs = parse_proofs(written.get("proof", {}), (check.key for check in checks), (*to, "proof"), self.reader)
        decoys, world = written.get("decoys"), written.get("world")
        world = {"use": world} if isinstance(world, str) else world
        self._known("pools", (decoys or {}).get("pool"), (*to, "decoys", "pool"))
        if "serve" in written and not written.get("image"):
            self.problems.on_key(
                "P0210", f"the case `{base}` has `serve`, but no `image`", "add the image that it runs in", to=to
            )
        self._known("worlds", (world or {}).get("use"), (*to, "world"))
        soft = tuple(written.get("soft", ()))
        for one in soft_figures.soft_figure_problems(soft):
            report = self.problems.on_key if one.is_key else self.problems.add
            report(one.code, one.summary, one.hint, to=(*to, "soft", *one.at))
        return Case(
            id=id_,
            base=base,
            prompts=tuple(written.get("prompts", ())),
            checks=checks,
            about=written.get("about", ""),
            language=language,
            tags={name: str(value) for name, value in written.get("tags", {}).items()},
            setting=CaseSetting(
                files=self.reader.texts(written.get("files", {}), (*to, "files")),
                image=written.get("image", ""),
                tools=tuple(written["tools"]) if "tools" in written else None,
                decoys={"pick": 8, "near": 0} | decoys if decoys else None,
                world=world,
                serve=_serve(written.get("serve")),
            ),
            plan=CasePlan(
                agent=written.get("agent", {}),
                agents=self._agents(written, to),
                task=written.get("task", {}),
                budget=written.get("budget", {}),
                within_s=float(written.get("within", CASE_S)),
            ),
            proofs=proofs,
            soft=soft,
            check_files=self.reader.texts(written.get("check-files", {}), (*to, "check-files")),
        )

    def _agents(self, written: JsonObject, to: Pointer) -> JsonObject:
        """Return the agents by name. Only their form is checked here; compiling the run's plan checks the rest."""
        agents: Json = written.get("agents", {})
        if isinstance(agents, dict):
            return agents
        self.problems.add("P0202", "`agents` must be a map", "write `name: agent`", to=(*to, "agents"))
        return {}

    def _blanks(self, written: JsonObject, to: Pointer) -> None:
        """Report unknown placeholders, except in files, where they may belong to the language."""
        known = ("url",) if "serve" in written else ()
        for name in ("prompts", "checks"):
            for one in placeholder_problems(written.get(name, ()), known, (*to, name)):
                self.problems.add(one.code, one.summary, one.hint, to=one.at)

    def _known(self, table: str, name: Json, to: tuple[str, ...]) -> None:
        known = self.document.get(table, {})
        if name is not None and name not in known:
            hint = f"use one of {', '.join(known)}" if known else f"add it to the suite's `{table}`"
            self.problems.add("P0213", f"the suite's `{table}` have no `{name}`", hint, to=to)

    def _checks(self, base: str, checks: Mapping[str, JsonObject]) -> Iterator[CheckSpec]:
        to = ("cases", base)
        if not checks:
            self.problems.on_key("P0210", f"the case `{base}` has no `checks`", "add at least one", to=to)
        for name, check in checks.items():
            kinds = [kind for kind in KINDS if kind in check]
            if len(kinds) != 1:
                named = " and ".join(f"`{kind}`" for kind in kinds) or "none"
                hint = f"use one of {', '.join(KINDS)}"
                self.problems.add(
                    "P0211", f"a check must have one kind, this has {named}", hint, to=(*to, "checks", name)
                )
                continue
            for one in log.log_check_problems(check["log"]) if kinds[0] == "log" else ():
                self.problems.add(one.code, one.summary, one.hint, to=(*to, "checks", name, "log", *one.at))
            self._report_unjudgeable(kinds[0], check[kinds[0]], (*to, "checks", name, kinds[0]))
            timeout_s = float(check.get("timeout", CHECK_S))
            arguments: JsonObject = check[kinds[0]]
            if kinds[0] in CHECK_KINDS:
                fields = self._with_lexicon(check) if kinds[0] == "web" else check
                declared = DeclaredCheck(kinds[0], fields, timeout_s, checks.items(), has_url=True)
                report_check_problems(declared, (*to, "checks", name, kinds[0]), self.problems)
                arguments = CHECK_KINDS[kinds[0]].arguments(declared)
            yield CheckSpec(name, kinds[0], arguments, timeout_s)

    def _report_unjudgeable(self, kind: str, arguments: Json, to: Pointer) -> None:
        """Report problems that make a well-formed check impossible to judge."""
        if not any((one.diagnostic.pointer or ())[: len(to)] == to for one in self.problems.found):
            for problem in check_problems(kind, arguments):
                self.problems.add(problem.code, problem.summary, problem.hint, to=(*to, *problem.at))

    def _with_lexicon(self, check: JsonObject) -> JsonObject:
        """A web check with the names of the suite's lexicon added to its own."""
        all_have, own = self.document.get("lexicon", {}), check["web"].get("lexicon", {})
        if not all_have or not isinstance(own, dict):  # If it is not a map, that is reported elsewhere.
            return check
        return check | {"web": check["web"] | {"lexicon": {**all_have, **own}}}


def _over(defaults: JsonObject, written: JsonObject) -> JsonObject:
    """Merge a case over the defaults. Rows that it adds to a world are not merged: there, null deletes a row."""
    merged: JsonObject = json_patch.merge_values(defaults, written)
    own, all_have = written.get("world"), defaults.get("world")
    if isinstance(own, dict):
        merged["world"] = {**(all_have if isinstance(all_have, dict) else {}), **own}
    return merged


def _serve(written: Json) -> JsonObject | None:
    if written is None:
        return None
    return SERVE | (written if isinstance(written, dict) else {"run": written})
