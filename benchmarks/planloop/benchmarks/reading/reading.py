"""Text → tree → canonical suite → cases, every fault gathered and placed on the way. Pure but for its `sources`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Final

from planloop.benchmarks.checks import asking, log, soft_figures
from planloop.benchmarks.compiling.filling import blank_faults, filled
from planloop.benchmarks.reading.acting import proof_of
from planloop.benchmarks.reading.placing import Reader
from planloop.benchmarks.reading.shelving import read_shelf
from planloop.benchmarks.reading.sources import SuiteSources
from planloop.benchmarks.reading.suite import Case, ReadSuite, Suite
from planloop.compiler.checking_served import check_served, check_web
from planloop.compiler.faults import Faults, Origins, Pointer, placed
from planloop.compiler.graph import Sources
from planloop.compiler.lowering import check_arguments
from planloop.compiler.normalising import Work, normalise
from planloop.compiler.reading import read_source
from planloop.compiler.source import SizeLimits
from planloop.schemas import patching
from planloop.schemas.case import CASE_S
from planloop.schemas.diagnostic import in_order
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.fields_suite import CASE_KIND_FIELDS
from planloop.schemas.frozen import mutable
from planloop.schemas.task import CheckSpec
from planloop.schemas.web_flows import Flows, flows_of, without_reuse

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
    """The suite in `content`, whose neighbours `sources` reads.

    With `library`, which plans read, the tools of ours that its cases name are looked for.
    """
    tree = read_source(content, file=file, limits=limits or SizeLimits())
    texts = {file: tree.text}
    if tree.value is None:
        return ReadSuite(None, tuple(in_order(tree.diagnostics)), texts)
    work = Work(Faults(), {})
    document = normalise(tree.value, "suite", work)
    reading = _Reading(document, Reader(sources, work.faults), library)
    suite = reading.suite()
    told = [*tree.diagnostics, *placed(work.faults.found, Origins(tree, work.moved))]
    diagnostics = tuple(
        dict.fromkeys(in_order(told))
    )  # What is wrong in a case of three languages is found three times.
    is_sound = not any(one.severity == "error" for one in diagnostics)
    return ReadSuite(suite if is_sound else None, diagnostics, texts)


@mutable
class _Reading:
    """One suite being read. Faults are told to `reader`."""

    document: JsonObject
    reader: Reader
    library: Sources | None
    cases: dict[str, Case] = field(default_factory=dict)

    @property
    def faults(self) -> Faults:
        return self.reader.faults

    def suite(self) -> Suite:
        document = self.document
        for name in ("suite", "cases"):
            if not document.get(name) and not self.faults.is_at((name,)):
                self.faults.add("P0210", f"a suite lacks `{name}`", "add it", to=())
        shelf = read_shelf(document, self.reader, self.library)
        defaults = document.get("defaults", {})
        for base, written in document.get("cases", {}).items():
            for case in self._cases(base, _over(defaults, written)):
                shelf.check(case, ("cases", base))
                self.cases[case.id] = case
        return Suite(
            name=str(document.get("suite", "")),
            about=str(document.get("about", "")),
            seed=int(document.get("seed", 0)),
            trials=int(document.get("trials", 1)),
            report=document.get("report", {}),
            cases=self.cases,
            worlds=shelf.worlds,
            pools=shelf.pools,
        )

    def _cases(self, base: str, written: JsonObject) -> Iterator[Case]:
        """One case, or one of each language."""
        languages = written.get("language", [""])
        for language in languages:
            id_ = f"{base}-{language}" if len(languages) > 1 else base
            if id_ in self.cases:
                self.faults.on_key("P0208", f"two cases are called `{id_}`", "rename one", to=("cases", base))
            yield self._case(id_, base, language, filled(written, {"language": language}) if language else written)

    def _case(self, id_: str, base: str, language: str, written: JsonObject) -> Case:
        to = ("cases", base)
        if not written.get("prompts"):
            self.faults.on_key("P0210", f"the case `{base}` lacks `prompts`", "say what the agent is told", to=to)
        self._blanks(written, to)
        checks = tuple(self._checks(base, written.get("checks", {})))
        proof = proof_of(written.get("proof", {}), (check.key for check in checks), (*to, "proof"), self.reader)
        decoys, world = written.get("decoys"), written.get("world")
        world = {"use": world} if isinstance(world, str) else world
        self._known("pools", (decoys or {}).get("pool"), (*to, "decoys", "pool"))
        if "serve" in written and not written.get("image"):
            self.faults.on_key("P0210", f"the case `{base}` serves without an `image`", "say what it runs in", to=to)
        self._known("worlds", (world or {}).get("use"), (*to, "world"))
        soft = tuple(written.get("soft", ()))
        for one in soft_figures.faults_of(soft):
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
            files=self.reader.texts(written.get("files", {}), (*to, "files")),
            image=written.get("image", ""),
            tools=tuple(written["tools"]) if "tools" in written else None,
            decoys={"pick": 8, "near": 0} | decoys if decoys else None,
            world=world,
            serve=_serve(written.get("serve")),
            agent=written.get("agent", {}),
            agents=self._agents(written, to),
            task=written.get("task", {}),
            budget=written.get("budget", {}),
            within_s=float(written.get("within", CASE_S)),
            soft=soft,
            check_files=self.reader.texts(written.get("check-files", {}), (*to, "check-files")),
            oracles=proof.oracles,
            mutants=proof.mutants,
            cheats=proof.cheats,
        )

    def _agents(self, written: JsonObject, to: Pointer) -> JsonObject:
        """The agents by name, as far as anything of them can be told before a plan is made of them."""
        agents: Json = written.get("agents", {})
        if isinstance(agents, dict):
            return agents
        self.faults.add("P0202", "`agents` is no map", "write `name: agent`", to=(*to, "agents"))
        return {}

    def _blanks(self, written: JsonObject, to: Pointer) -> None:
        """Tells of blanks that nothing fills, but not in files: there they may be their language's own."""
        known = ("url",) if "serve" in written else ()
        for name in ("prompts", "checks"):
            for one in blank_faults(written.get(name, ()), known, (*to, name)):
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
            for one in log.faults(check["log"]) if kinds[0] == "log" else ():
                self.faults.add(one.code, one.summary, one.hint, to=(*to, "checks", name, "log", *one.at))
            self._ask(kinds[0], check[kinds[0]], (*to, "checks", name, kinds[0]))
            timeout_s = float(check.get("timeout", CHECK_S))
            arguments = check_arguments(kinds[0], check)
            if kinds[0] == "web":
                arguments = self._web(arguments, flows_of(checks.items()), (*to, "checks", name, "web"))
            else:
                place = (*to, "checks", name, kinds[0])
                check_served(kinds[0], check[kinds[0]], place, self.faults, timeout_s=timeout_s, has_url=True)
            yield CheckSpec(name, kinds[0], arguments, timeout_s)

    def _ask(self, kind: str, arguments: Json, to: Pointer) -> None:
        """Tells what keeps a check from being judged, where its form is sound."""
        if not any((one.diagnostic.pointer or ())[: len(to)] == to for one in self.faults.found):
            for fault in asking.faults(kind, arguments):
                self.faults.add(fault.code, fault.summary, fault.hint, to=(*to, *fault.at))

    def _web(self, written: JsonObject, flows: Flows, to: Pointer) -> JsonObject:
        """A web check with what the suite calls things, and the steps that it reuses."""
        all_have, own = self.document.get("lexicon", {}), written.get("lexicon", {})
        # One that is no map has a fault of its own.
        check = written | {"lexicon": {**all_have, **own}} if all_have and isinstance(own, dict) else written
        check_web(check, to, self.faults, flows, has_url=True)
        return without_reuse(check, flows)


def _over(defaults: JsonObject, written: JsonObject) -> JsonObject:
    """A case over what all have. What it lays over a world's tables stands as it is: null takes a row away there."""
    merged: JsonObject = patching.merge(defaults, written)
    own, all_have = written.get("world"), defaults.get("world")
    if isinstance(own, dict):
        merged["world"] = {**(all_have if isinstance(all_have, dict) else {}), **own}
    return merged


def _serve(written: Json) -> JsonObject | None:
    if written is None:
        return None
    return SERVE | (written if isinstance(written, dict) else {"run": written})
