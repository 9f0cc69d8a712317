"""Parse a suite: text → tree → canonical suite → cases. Collects every problem with its place."""

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
    """Reads the files that a suite names; the parser touches no file itself."""

    def read(self, path: str) -> bytes:
        """The bytes of a file beside the suite. Raises OSError."""
        ...

    def tree(self, path: str) -> Mapping[str, bytes]:
        """Every file below a folder beside the suite, by its path in it, sorted. Raises OSError."""
        ...


class FolderSuiteSources:
    """A `SuiteSources` for a suite in `folder`; nothing outside of it is read."""

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
"""Of one part of a path, on the file systems that people have."""


@frozen
class SuiteFileReader:
    """Reads through `sources` and reports `faults`."""

    sources: SuiteSources
    faults: Problems

    def world(self, path: str, to: Pointer) -> JsonObject:
        """The document of the world, or the pool of tools, in a file; an empty map when there is none in it."""
        content = self._content(path, to)
        if content is None:
            return {}
        read = read_world(content, file=path)
        for one in read.diagnostics:
            place = f"{one.span.file}:{one.span.line}: " if one.span is not None else f"{path}: "
            self.faults.add(one.code, f"{place}{one.summary}", one.hint, to=to)
        return read.document or {}

    def texts(self, written: Json, to: Pointer) -> Mapping[str, str]:
        """Texts by path: of a folder if `written` is its name, else of a map, whose values may be `{from: file}`."""
        if isinstance(written, str):
            return self._folder(written, to)
        if not isinstance(written, dict):
            self.faults.add("P0202", "files are a folder, or texts by path", "write `path: text`", to=to)
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
                self.faults.add("P0214", f"`{name}` is not text", "files of a suite are UTF-8 texts", to=to)
        return found

    def _unreadable(self, path: str, error: OSError, to: Pointer) -> None:
        why = error.strerror or str(error)
        self.faults.add("P0214", f"`{path}` cannot be read: {why}", "it is looked for beside the suite", to=to)

    def _is_inside(self, path: str, to: Pointer) -> bool:
        parts = path.split("/")
        is_inside = not path.startswith("/") and ".." not in parts
        is_name = parts[-1] not in ("", ".") and "\0" not in path
        if not is_inside:
            self.faults.add("P0218", f"`{path}` is outside of the workspace", "write a path within it", to=to)
        elif not is_name or max(len(part.encode()) for part in parts) > NAME_BYTES_MAX:
            self.faults.add("P0218", f"no file can be called `{path}`", "write a path such as src/a.txt", to=to)
            return False
        return is_inside

    def _check_nesting(self, files: Mapping[str, str], to: Pointer) -> None:
        """Report files that are a parent of other files."""
        if len(files) < 2:
            return
        whole = {PurePosixPath(path): path for path in files}
        for place, path in whole.items():
            if above := next((whole[one] for one in place.parents if one in whole), None):
                hint = "a path is a file or a folder"
                self.faults.add("P0218", f"`{path}` lies below `{above}`, which is a file", hint, to=to)


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
    """The first thing that keeps a check of `kind` from being judged; nothing for other kinds."""
    if kind not in _READ:
        return
    try:
        found = _READ[kind](arguments)
    except BadCheck as error:
        yield ValueProblem(error.at, "P0223", str(error), error.hint)
        return
    if not getattr(found, "probes", 1):
        yield ValueProblem((), "P0210", f"this `{kind}` asks for nothing", _ASKS[kind])


def tools_named_in(kind: str, arguments: Json) -> Iterator[tuple[ValuePath, str]]:
    """The tools that a check of `kind` names, but for patterns, each with its place; none of one that has faults."""
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
_CALL = "write `- tool: {argument: value}`, a line for each call"


def parse_proofs(written: JsonObject, checks: Iterable[str], to: Pointer, reader: SuiteFileReader) -> CaseProofs:
    """The proofs as `written`. Each mutant names the `checks` of its case that it is killed by."""
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
    check_steps(script or (), (*to, "script"), reader.faults)
    _check_calls(calls or (), (*to, "calls"), reader.faults)
    return ScriptedAct(
        files=files,
        calls=base.calls if calls is None else tuple(calls),
        says=written.get("says", base.says),
        script=base.script if script is None else tuple(script),
        kills=tuple(written.get("kills", ())),
    )


def _check_calls(calls: Iterable[Json], to: Pointer, faults: Problems) -> None:
    for index, call in enumerate(calls):
        if not isinstance(call, dict) or len(call) != 1 or not isinstance(next(iter(call.values())), dict):
            faults.add("P0202", "a call is one tool with its arguments", _CALL, to=(*to, str(index)))


def _base(written: JsonObject, oracles: Mapping[str, ScriptedAct], to: Pointer, reader: SuiteFileReader) -> ScriptedAct:
    name = written.get("base")
    if name is None:
        return ScriptedAct()
    if name not in oracles:
        hint = did_you_mean(name, oracles) or "a mutant begins as one of the case's oracles"
        reader.faults.add("P0213", f"there is no oracle `{name}`", hint, to=(*to, "base"))
        return ScriptedAct()
    return replace(oracles[name], kills=())


def _replaced(path: str, text: str | None, pairs: list[Any], to: Pointer, reader: SuiteFileReader) -> str:
    if text is None:
        reader.faults.add("P0213", f"its base has no file `{path}`", "name one of its files", to=(*to, path))
        return ""
    if not all(map(_is_pair, pairs)):
        reader.faults.add("P0202", f"what is replaced in `{path}` is a list of pairs of texts", _FORM, to=(*to, path))
        return text
    for old, new in pairs:
        if old not in text:
            reader.faults.add("P0213", f"`{path}` has no `{old}`", "a mutant must differ", to=(*to, path))
        text = text.replace(old, new)
    return text


def _is_pair(pair: Json) -> bool:
    is_two = isinstance(pair, list) and len(pair) == 2 and all(isinstance(part, str) for part in pair)
    return is_two and pair[0] != ""


def _check_kills(name: str, kills: Iterable[str], checks: Iterable[str], to: Pointer, reader: SuiteFileReader) -> None:
    kills = list(kills)
    if not kills:
        reader.faults.on_key("P0210", f"the mutant `{name}` lacks `kills`", "name the check that tells of it", to=to)
    for check in kills:
        if check not in checks:
            hint = did_you_mean(check, list(checks)) or "one of the case's checks"
            reader.faults.add("P0213", f"the case has no check `{check}`", hint, to=(*to, "kills"))


@frozen
class SuiteResources:
    """The documents of a suite's worlds and pools, by name; one that has faults is empty."""

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
            hint = did_you_mean(tool, known) if known else "name the `world` that it acts in"
            self.reader.faults.add("P0213", f"nobody simulates `{tool}`", hint, to=(*to, "tools", str(index)))

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
                self.reader.faults.add("P0213", f"the case has no tool `{tool}`", did_you_mean(tool, known), to=place)

    @property
    def _anywhere(self) -> dict[str, None]:
        """What may be free or forbidden in some case of the suite."""
        return dict.fromkeys((READS, *_simulated((*self.worlds.values(), *self.pools.values()))))

    def _check_own(self, case: Case, tool: str, to: Pointer) -> None:
        """Report an unknown built-in tool, as the plan of a run would."""
        if self.library is None:
            return
        faults = Problems()
        named = SymbolTable(self.library, faults, read_library)
        named.take_plan({"agents": case.plan.agents})
        Toolsets(named, faults).opened((tool,), ())
        for one in (found.diagnostic for found in faults.found):
            if one.code == "P0410":  # A plan works without a tool; a measured model must have what the case says.
                self.reader.faults.add("P0213", one.summary, "`plan explain tools` lists what there is", to=to)
            else:
                self.reader.faults.add(one.code, one.summary, one.hint, to=to)

    def _check_rows(self, world: JsonObject, rows: JsonObject, to: Pointer) -> None:
        for one in world_from_document({**world, "overlays": {"with": rows}}).diagnostics:
            below = (one.pointer or ())[2:]
            self.reader.faults.add(one.code, one.summary, one.hint, to=(*to, *below))


def _simulated(catalogs: Iterable[JsonObject]) -> list[str]:
    return [tool for resources in catalogs for tool in resources.get("tools", {})]


def read_resources(document: JsonObject, reader: SuiteFileReader, library: Sources | None) -> SuiteResources:
    """The suite's `worlds` and `pools`. `library` has the toolsets that a case may name."""
    worlds = {name: reader.world(path, ("worlds", name)) for name, path in document.get("worlds", {}).items()}
    pools = {name: reader.world(path, ("pools", name)) for name, path in document.get("pools", {}).items()}
    of: dict[str, str] = {}
    for name, world in worlds.items():
        for server in dict.fromkeys(tool.partition(".")[0] for tool in world.get("tools", {})):
            if (other := of.setdefault(server, name)) != name:
                words = f"the worlds `{other}` and `{name}` both have tools of `{server}`"
                reader.faults.add("P0208", words, "call those of one of them otherwise", to=("worlds", name))
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
    """Parse the suite in `content`; `sources` reads the files beside it.

    With `library`, the library that plans use, the built-in tools that its cases name are checked.
    """
    tree = read_source(content, file=file, limits=limits or SizeLimits())
    texts = {file: tree.text}
    if tree.value is None:
        return ReadSuite(None, tuple(sort_diagnostics(tree.diagnostics)), texts)
    work = Normalisation(Problems(), {})
    document = normalise_document(tree.value, "suite", work)
    reading = _Reading(document, SuiteFileReader(sources, work.faults), library)
    suite = reading.suite()
    told = [*tree.diagnostics, *place_problems(work.faults.found, Origins(tree, work.moved))]
    diagnostics = tuple(
        dict.fromkeys(sort_diagnostics(told))
    )  # A problem of a case in three languages is found three times.
    is_sound = not any(one.severity == "error" for one in diagnostics)
    return ReadSuite(suite if is_sound else None, diagnostics, texts)


@mutable
class _Reading:
    """One suite being read. Problems are reported to `reader`."""

    document: JsonObject
    reader: SuiteFileReader
    library: Sources | None
    cases: dict[str, Case] = field(default_factory=dict)

    @property
    def faults(self) -> Problems:
        return self.reader.faults

    def suite(self) -> Suite:
        document = self.document
        for name in ("suite", "cases"):
            if not document.get(name) and not self.faults.is_at((name,)):
                self.faults.add("P0210", f"a suite lacks `{name}`", "add it", to=())
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
        """One case, or one of each language."""
        languages = written.get("language", [""])
        for language in languages:
            id_ = f"{base}-{language}" if len(languages) > 1 else base
            if id_ in self.cases:
                self.faults.on_key("P0208", f"two cases are called `{id_}`", "rename one", to=("cases", base))
            yield self._case(
                id_, base, language, fill_placeholders(written, {"language": language}) if language else written
            )

    def _case(self, id_: str, base: str, language: str, written: JsonObject) -> Case:
        to = ("cases", base)
        if not written.get("prompts"):
            self.faults.on_key("P0210", f"the case `{base}` lacks `prompts`", "say what the agent is told", to=to)
        self._blanks(written, to)
        checks = tuple(self._checks(base, written.get("checks", {})))
        proofs = parse_proofs(written.get("proof", {}), (check.key for check in checks), (*to, "proof"), self.reader)
        decoys, world = written.get("decoys"), written.get("world")
        world = {"use": world} if isinstance(world, str) else world
        self._known("pools", (decoys or {}).get("pool"), (*to, "decoys", "pool"))
        if "serve" in written and not written.get("image"):
            self.faults.on_key("P0210", f"the case `{base}` serves without an `image`", "say what it runs in", to=to)
        self._known("worlds", (world or {}).get("use"), (*to, "world"))
        soft = tuple(written.get("soft", ()))
        for one in soft_figures.soft_figure_problems(soft):
            tell = self.faults.on_key if one.is_key else self.faults.add
            tell(one.code, one.summary, one.hint, to=(*to, "soft", *one.at))
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
        """The agents by name, as far as anything of them can be told before a plan is made of them."""
        agents: Json = written.get("agents", {})
        if isinstance(agents, dict):
            return agents
        self.faults.add("P0202", "`agents` is no map", "write `name: agent`", to=(*to, "agents"))
        return {}

    def _blanks(self, written: JsonObject, to: Pointer) -> None:
        """Report placeholders that nothing fills, except in files: there they may belong to the language."""
        known = ("url",) if "serve" in written else ()
        for name in ("prompts", "checks"):
            for one in placeholder_problems(written.get(name, ()), known, (*to, name)):
                self.faults.add(one.code, one.summary, one.hint, to=one.at)

    def _known(self, table: str, name: Json, to: tuple[str, ...]) -> None:
        known = self.document.get(table, {})
        if name is not None and name not in known:
            hint = f"there are {', '.join(known)}" if known else f"add it to the suite's `{table}`"
            self.faults.add("P0213", f"there is no `{name}` among the suite's `{table}`", hint, to=to)

    def _checks(self, base: str, checks: Mapping[str, JsonObject]) -> Iterator[CheckSpec]:
        to = ("cases", base)
        if not checks:
            self.faults.on_key("P0210", f"the case `{base}` lacks `checks`", "say how it is judged", to=to)
        for name, check in checks.items():
            kinds = [kind for kind in KINDS if kind in check]
            if len(kinds) != 1:
                said = " and ".join(f"`{kind}`" for kind in kinds) or "of none"
                hint = f"one of {', '.join(KINDS)}"
                self.faults.add("P0211", f"a check is of one kind, this is {said}", hint, to=(*to, "checks", name))
                continue
            for one in log.log_check_problems(check["log"]) if kinds[0] == "log" else ():
                self.faults.add(one.code, one.summary, one.hint, to=(*to, "checks", name, "log", *one.at))
            self._ask(kinds[0], check[kinds[0]], (*to, "checks", name, kinds[0]))
            timeout_s = float(check.get("timeout", CHECK_S))
            arguments: JsonObject = check[kinds[0]]
            if kinds[0] in CHECK_KINDS:
                fields = self._with_lexicon(check) if kinds[0] == "web" else check
                declared = DeclaredCheck(kinds[0], fields, timeout_s, checks.items(), has_url=True)
                report_check_problems(declared, (*to, "checks", name, kinds[0]), self.faults)
                arguments = CHECK_KINDS[kinds[0]].arguments(declared)
            yield CheckSpec(name, kinds[0], arguments, timeout_s)

    def _ask(self, kind: str, arguments: Json, to: Pointer) -> None:
        """Report what makes a well-formed check impossible to judge."""
        if not any((one.diagnostic.pointer or ())[: len(to)] == to for one in self.faults.found):
            for fault in check_problems(kind, arguments):
                self.faults.add(fault.code, fault.summary, fault.hint, to=(*to, *fault.at))

    def _with_lexicon(self, check: JsonObject) -> JsonObject:
        """A web check with the names of the suite's lexicon beside its own."""
        all_have, own = self.document.get("lexicon", {}), check["web"].get("lexicon", {})
        if not all_have or not isinstance(own, dict):  # Another problem is reported for one that is not a map.
            return check
        return check | {"web": check["web"] | {"lexicon": {**all_have, **own}}}


def _over(defaults: JsonObject, written: JsonObject) -> JsonObject:
    """A case over the defaults. Rows that it adds to a world's tables stay as written: null deletes a row there."""
    merged: JsonObject = json_patch.merge_values(defaults, written)
    own, all_have = written.get("world"), defaults.get("world")
    if isinstance(own, dict):
        merged["world"] = {**(all_have if isinstance(all_have, dict) else {}), **own}
    return merged


def _serve(written: Json) -> JsonObject | None:
    if written is None:
        return None
    return SERVE | (written if isinstance(written, dict) else {"run": written})
