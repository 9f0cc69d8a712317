"""`plan doctor`."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.plan_paths import plans_in
from planloop.reconciler.store import backend
from planloop.schemas.frozen import frozen

EXAMPLE = """
\b
Example:
  plan doctor
"""
BOUNDS = ("cpu", "memory", "pids")
FREE_BYTES_LEAST = 100 << 20


@frozen
class DoctorFinding:
    """Result of one check. `cure` is the fix, empty if there is no problem; `is_needed`: every plan requires it."""

    what: str
    said: str
    cure: str = ""
    is_needed: bool = True


@click.command(epilog=EXAMPLE)
def command() -> None:
    """Check this machine for missing programs, and show how to install them.

    Exit 1 if something that every plan requires is missing.
    """
    found = list(findings(Path.cwd()))
    for one in found:
        mark = "ok" if not one.cure else "missing" if one.is_needed else "without"
        click.echo(f"{mark:<8} {one.what:<18} {one.said}" + (f"   help: {one.cure}" if one.cure else ""))
    if any(one.cure and one.is_needed for one in found):
        raise CommandError(ExitCode.FAILED)


def findings(root: Path) -> Iterator[DoctorFinding]:
    """Run all checks, the most important first."""
    version = ".".join(map(str, sys.version_info[:3]))
    cure = "" if sys.version_info >= (3, 11) else "install Python 3.11 or newer"
    yield DoctorFinding("python", version, cure)
    database = backend.database_version()
    yield DoctorFinding(database.name, database.version, database.fix)
    yield _yaml()
    yield _folder(root)
    for program, what_for in (("sh", "commands and checks"),):
        yield _program(program, what_for, is_needed=True)
    yield _program("git", "plans that work in repositories", is_needed=False)
    yield _sandbox()
    yield _containers()
    yield from _servers(root)
    yield from _plans(root)


def _yaml() -> DoctorFinding:
    import yaml

    if hasattr(yaml, "CSafeLoader"):
        return DoctorFinding("yaml", f"{yaml.__version__} with its C parser")
    return DoctorFinding("yaml", f"{yaml.__version__} without its C parser: reading plans is ten times slower",
                   "pip install --force-reinstall pyyaml", is_needed=False)  # fmt: skip


def _folder(root: Path) -> DoctorFinding:
    import os

    free = shutil.disk_usage(root).free
    if not os.access(root, os.W_OK):
        return DoctorFinding("this folder", "not writable", f"chmod u+w {root}, or use another folder")
    if free < FREE_BYTES_LEAST:
        return DoctorFinding("this folder", f"{free >> 20} MiB free", "free some disk space")
    return DoctorFinding("this folder", f"writable, {free >> 30} GiB free")


def _program(program: str, what_for: str, *, is_needed: bool) -> DoctorFinding:
    path = shutil.which(program)
    cure = "" if path else f"install {program} with your system's package manager"
    return DoctorFinding(program, path or f"not found; only for {what_for}", cure, is_needed)


def _containers() -> DoctorFinding:
    """Check the container engine: its address, and the limits that it enforces."""
    import anyio

    from planloop.client import engine_access, process
    from planloop.containers.engine.engine import HOST, EngineFailed

    try:
        facts = anyio.run(engine_access.container_engine().facts)
    except EngineFailed as failed:
        return DoctorFinding("containers", f"{failed}; only for plans with containers", failed.hint, is_needed=False)
    named = f" ({HOST})" if process.environment().get(HOST) else ""
    held = [bound for bound in BOUNDS if bound in facts.bounds]
    lost = [bound for bound in BOUNDS if bound not in facts.bounds]
    limits = f"enforces limits of {', '.join(held)}" if held else "enforces no limits"
    said = f"{facts.name} {facts.version} at {facts.address}{named}; {limits}"
    cure = f"its kernel cannot limit {' and '.join(lost)}: see the warnings of docker info" if lost else ""
    return DoctorFinding("containers", said, cure, is_needed=False)


def _sandbox() -> DoctorFinding:
    """Check whether bubblewrap and its filter can sandbox commands, and what enforces their limits."""
    from planloop.owner import sandbox

    answer, bounds = sandbox.try_bubblewrap()
    works = "tier 2 (bubblewrap) works, with its system call filter"
    said = f"{works}; {bounds}" if answer.is_had else f"{answer.why}; {bounds}"
    return DoctorFinding("sandbox", said, answer.cure, is_needed=False)


def _servers(root: Path) -> Iterator[DoctorFinding]:
    """Check the programs that start the tool servers of the plans in this folder."""
    from planloop.client.plan_sources import FolderSources
    from planloop.compiler import plan_compiler
    from planloop.schemas.objects.mcp import SERVER_HINTS, mcp_from_json

    programs: dict[str, list[str]] = {}
    for file in sorted(path for path in root.glob("*.plan.*") if path.suffix in (".yaml", ".yml", ".edn")):
        graph = plan_compiler.compile_source(file.read_bytes(), file=file.name, sources=FolderSources(root)).graph
        for address, wanted in {} if graph is None else graph.objects.items():
            if address.startswith("mcp/") and (command := mcp_from_json(wanted.spec).command):
                programs.setdefault(command[0], []).append(f"{address} of {file.name}")
    for program, users in programs.items():
        path = shutil.which(str(root / program) if "/" in program else program)
        cure = "" if path else SERVER_HINTS.get(program, "install it, or write its path into `command`")
        yield DoctorFinding(
            Path(program).name, path or f"not found; only for {', '.join(users)}", cure, is_needed=False
        )


def _plans(root: Path) -> Iterator[DoctorFinding]:
    from planloop.client.owner_client import READ_TIMEOUT_S, OwnerClient, OwnerGone, OwnerHung

    for place in plans_in(root):
        try:
            status = OwnerClient(place.folder, timeout_s=READ_TIMEOUT_S).get("status")
            yield DoctorFinding(f"plan {place.name}", f"process {status['pid']} runs it, rev {status['rev']}")
        except OwnerGone:
            yield DoctorFinding(f"plan {place.name}", "not running")
        except OwnerHung as hung:
            cure = "wait if it is busy; plan down --force kills it, and plan apply resumes the plan"
            yield DoctorFinding(f"plan {place.name}", hung.summary, cure, is_needed=False)
