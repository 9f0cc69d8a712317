"""Processor seconds of each test with all its processes, and the budget that it must keep.

As root, each worker runs in a control group of its own, so processes that outlive their parents count too.
Otherwise the kernel's account of this process and its finished children is used. The set-up of a fixture of a wider
scope than a function is not billed to the test that needs it first.
"""

from __future__ import annotations

import json
import os
import resource
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.suite.selection import NIGHTLY, function_of, marks

BUDGET_CPU_S: Final[Mapping[str, float]] = {"": 0.5, "process": 3.0, "browser": 5.0, "engine": 5.0, "sweep": 10.0}
"""By mark; without a mark, under the empty string. Tests that run in nightly only have none."""
ITEMS_PER_FUNCTION: Final = 20
TOLERANCE: Final = 1.5
"""A test fails when it uses this many times its budget."""
PROBE_STEPS: Final = 200_000
PROBE_S: Final = 0.016
"""The result of `probe_s` where the budgets were set, with CPython 3.11."""
OFFENDERS: Final = Path(__file__).with_name("offenders.json")
"""Test functions that are over their budget, and what each may use. The list may only shrink."""
CGROUPS: Final = Path("/sys/fs/cgroup")
PREFIX: Final = "planloop-tests-"


@cache
def offenders() -> Mapping[str, Mapping[str, float]]:
    """What the listed functions may use, by node id: `cpu_s` of one item, and `items` of a function."""
    found: dict[str, dict[str, float]] = json.loads(OFFENDERS.read_text())
    return found


def budget(item: pytest.Item) -> float | None:
    """Processor seconds that `item` may use, by its marks or as a listed offender; None if it is unlimited."""
    reasons = marks(item)
    if reasons & NIGHTLY:
        return None
    own = max(BUDGET_CPU_S[reason] for reason in reasons or {""})
    return max(own, offenders()["cpu_s"].get(function_of(item.nodeid), 0.0))


def pace() -> float:
    """The factor by which the same work costs more processor seconds now than where the budgets were set, at least 1.

    All work costs more on a slower machine, and beside programs that share its caches.
    """
    return max(1.0, min(probe_s() for _ in range(3)) / PROBE_S)


def probe_s() -> float:
    """Processor seconds of a fixed piece of work in this process."""
    before = time.process_time()
    table: dict[int, tuple[int, ...]] = {}
    for number in range(PROBE_STEPS):
        table[number * 7919 & 0xFFFF] = (number, number)
    return time.process_time() - before


def too_many_items(items: Sequence[pytest.Item]) -> list[str]:
    """One line for each function with more than 20 items that is neither a `sweep` nor a known offender."""
    counts: dict[str, int] = {}
    for item in items:
        if not marks(item) & {"sweep", "network"}:
            counts[function_of(item.nodeid)] = counts.get(function_of(item.nodeid), 0) + 1
    known = offenders()["items"]
    return [
        f"{function}: {count} items, at most {ITEMS_PER_FUNCTION} (mark it `sweep`, or check a table in one test)"
        for function, count in sorted(counts.items())
        if count > max(ITEMS_PER_FUNCTION, known.get(function, 0))
    ]


@dataclass(slots=True)
class Account:
    """Processor seconds used so far by this process and by all that it started."""

    group: Path | None = None
    shared_s: float = 0.0
    """What fixtures of a wider scope than a function used since the current test began."""
    started_s: float = 0.0
    is_in_shared: bool = False

    @classmethod
    def opened(cls, name: str) -> Account:
        """An account in a control group of its own where this process may make one."""
        return cls(_own_group(name))

    def used_s(self) -> float:
        """Processor seconds since this process began."""
        if self.group is None:
            own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
            return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
        if (usage := self.group / "cpuacct.usage").exists():
            return int(usage.read_text()) / 1e9
        fields = dict(line.split() for line in (self.group / "cpu.stat").read_text().splitlines())
        return int(fields["usage_usec"]) / 1e6

    def test_begins(self) -> None:
        self.started_s, self.shared_s = self.used_s(), 0.0

    def test_s(self) -> float:
        """Processor seconds of the current test, without shared fixtures."""
        return self.used_s() - self.started_s - self.shared_s

    @contextmanager
    def fixture(self, scope: str) -> Iterator[None]:
        """Count what the block uses as shared, unless `scope` is a function's."""
        if scope == "function" or self.is_in_shared:
            yield
            return
        before, self.is_in_shared = self.used_s(), True
        try:
            yield
        finally:
            self.is_in_shared = False
            self.shared_s += self.used_s() - before

    def closed(self) -> None:
        """Leave the control group and remove it. If a process is still in it, a later run removes it."""
        if self.group is not None:
            with suppress(OSError):
                (self.group.parent / "cgroup.procs").write_text(str(os.getpid()))
                self.group.rmdir()


def _own_group(name: str) -> Path | None:
    """A new control group with this process in it: of version 1 (`cpuacct`) or 2. None where that is not allowed."""
    version_1 = CGROUPS / "cpuacct"
    parent = version_1 if version_1.is_dir() else CGROUPS
    remove_left_behind(parent)
    made = parent / f"{PREFIX}{name}-{os.getpid()}"
    try:
        made.mkdir()
    except OSError:
        return None
    try:
        (made / "cgroup.procs").write_text(str(os.getpid()))
    except OSError:
        made.rmdir()
        return None
    return made


def remove_left_behind(parent: Path) -> None:
    """Remove the groups of workers that have ended: one that was killed could not do it itself."""
    for group in parent.glob(f"{PREFIX}*"):
        if not Path("/proc", group.name.rpartition("-")[2]).exists():
            with suppress(OSError):  # A process is still in it, or another worker has removed it.
                group.rmdir()
