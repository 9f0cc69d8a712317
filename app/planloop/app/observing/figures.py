"""Figures of a plan for monitoring: what it is now, and what happened since somebody began to count.

The first are read from the objects, the second are a fold of the log's spans. A collector expects counters that begin
at nought with the process that counts, so nothing is read back from before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from typing import Final, Literal

from planloop.app.observing.spans import Begun, Ended, Look, Spans
from planloop.schemas import address as addresses
from planloop.schemas.frozen import frozen, mutable
from planloop.schemas.ledger import accounts_of
from planloop.schemas.lock import status_from_json
from planloop.schemas.record import Record
from planloop.schemas.resource import Resource

BOUNDS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds of what a duration is counted under, in seconds."""

Labels = tuple[tuple[str, str], ...]
HISTOGRAMS: Final = {
    "turn": ("planloop_turn_duration_seconds", "How long agents' turns took."),
    "model": ("gen_ai_client_operation_duration_seconds", "How long requests to models took."),
    "call": ("planloop_call_duration_seconds", "How long tool calls took."),
    "run": ("planloop_run_duration_seconds", "How long commands of tasks took."),
    "wait": ("planloop_lock_wait_seconds", "How long locks were waited for."),
    "held": ("planloop_lock_held_seconds", "How long locks were held."),
}
LABELS: Final = {
    "gen_ai.request.model": "model",
    "gen_ai.provider.name": "provider",
    "gen_ai.tool.name": "tool",
}


@frozen
class Sample:
    """One line: `name{labels} value`."""

    name: str
    labels: Labels
    value: float


@frozen
class Family:
    """Samples of one sort, with what they say."""

    name: str
    kind: Literal["gauge", "counter", "histogram"]
    help: str
    samples: Sequence[Sample]


@mutable
class _Histogram:
    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    sum_s: float = 0.0

    def add(self, seconds: float) -> None:
        at = next((index for index, bound in enumerate(BOUNDS_S) if seconds <= bound), len(BOUNDS_S))
        self.counts[at] += 1
        self.sum_s += seconds

    def samples(self, name: str, labels: Labels) -> Iterator[Sample]:
        total = 0
        for bound, count in zip((*(f"{bound:g}" for bound in BOUNDS_S), "+Inf"), self.counts, strict=True):
            total += count
            yield Sample(f"{name}_bucket", (*labels, ("le", bound)), total)
        yield Sample(f"{name}_sum", labels, self.sum_s)
        yield Sample(f"{name}_count", labels, total)


class Tally:
    """What happened since the first record that it was told of. `note` every record in order."""

    def __init__(self, plan: str, look: Look) -> None:
        self._spans = Spans(plan, look)
        self._open: dict[str, Begun] = {}
        self._durations: dict[tuple[str, Labels], _Histogram] = {}
        self._records: Counter[str] = Counter()
        self._tokens: Counter[tuple[str, str]] = Counter()

    def note(self, record: Record) -> None:
        """Counts what `record`, which is folded already, says."""
        self._records.update(entry.type for entry in record.draft.entries)
        for told in self._spans.note(record):
            if isinstance(told, Begun):
                self._open[told.key] = told
            elif (begun := self._open.pop(told.key, None)) is not None:
                self._end(begun, told)

    def families(self) -> Iterator[Family]:
        """What was counted, in an order that stays."""
        records = [Sample("planloop_records_total", (("type", one),), n) for one, n in sorted(self._records.items())]
        yield Family("planloop_records_total", "counter", "Records of the log, by type.", records)
        tokens = [
            Sample("gen_ai_client_token_usage_total", (("model", model), ("type", sort)), n)
            for (model, sort), n in sorted(self._tokens.items())
        ]
        yield Family("gen_ai_client_token_usage_total", "counter", "Tokens that models were given and wrote.", tokens)
        for sort, (name, words) in HISTOGRAMS.items():
            found = sorted((labels, one) for (kind, labels), one in self._durations.items() if kind == sort)
            samples = [sample for labels, one in found for sample in one.samples(name, labels)]
            yield Family(name, "histogram", words, samples)

    def _end(self, begun: Begun, ended: Ended) -> None:
        named = {LABELS[name]: str(value) for name, value in begun.attributes.items() if name in LABELS}
        labels = (*sorted(named.items()), ("error", ended.error))
        found = self._durations.setdefault((begun.sort, labels), _Histogram())
        found.add(max(0.0, ended.at - begun.at))
        for name, value in ended.attributes.items():
            if name.startswith("gen_ai.usage."):
                sort = name.removeprefix("gen_ai.usage.").removesuffix("_tokens")
                self._tokens[named.get("model", ""), sort] += int(value)


def standing(objects: Callable[[str], Iterable[Resource]], rev: int, epoch: int) -> Iterator[Family]:
    """What the plan is now. `objects` gives all objects of a kind."""
    yield Family(
        "planloop_revision", "gauge", "The newest revision of the log.", [Sample("planloop_revision", (), rev)]
    )
    yield Family("planloop_epoch", "gauge", "How often the plan was taken over.", [Sample("planloop_epoch", (), epoch)])
    states = Counter((kind, one.state) for kind in sorted(addresses.KINDS) for one in objects(kind))
    named = [
        Sample("planloop_objects", (("kind", kind), ("state", state)), n) for (kind, state), n in sorted(states.items())
    ]
    yield Family("planloop_objects", "gauge", "Objects of the plan, by kind and state.", named)
    yield from _locks(objects("lock"))
    yield from _spent(objects("agent"), objects("task"))


def _locks(locks: Iterable[Resource]) -> Iterator[Family]:
    known = [status_from_json(one.status) for one in locks]
    held, waiting = sum(len(one.holders) for one in known), sum(len(one.waiters) for one in known)
    yield Family("planloop_lock_holders", "gauge", "Grants of locks.", [Sample("planloop_lock_holders", (), held)])
    yield Family("planloop_lock_waiters", "gauge", "Waits for locks.", [Sample("planloop_lock_waiters", (), waiting)])


def _spent(agents: Iterable[Resource], tasks: Iterable[Resource]) -> Iterator[Family]:
    used = [
        Sample("planloop_agent_used", (("agent", one.address.partition("/")[2]), ("unit", unit)), float(amount))
        for one in agents
        for unit, amount in sorted((one.status.get("used") or {}).items())
    ]
    yield Family("planloop_agent_used", "gauge", "What each agent has used: tokens, usd, turns, calls, time_s.", used)
    left = [
        Sample("planloop_budget_left", (("task", one.address.partition("/")[2]), ("unit", unit)), float(account.left))
        for one in tasks
        for unit, account in sorted(accounts_of(one.status).items())
        if account.is_open
    ]
    yield Family("planloop_budget_left", "gauge", "What is left of each task's budget.", left)
