"""Metrics of a plan, and their Prometheus text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from typing import Final, Literal

from planloop.schemas import address as addresses
from planloop.schemas.frozen import frozen, mutable
from planloop.schemas.log.record import Record
from planloop.schemas.objects.budget import accounts_of
from planloop.schemas.objects.lock import lock_status_from_json
from planloop.schemas.resource import Resource
from planloop.server.observability.spans import SpanEnd, SpanReader, SpanStart, ViewLookup

# Metrics of a plan: gauges with its current state, and counters of events since the process started.
#
# Gauges are read from the objects, counters from the log's spans. Prometheus expects counters to start at zero with
# their process, so earlier records are not counted.

BOUNDS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds of the buckets for durations, in seconds."""

LabelValues = tuple[tuple[str, str], ...]
HISTOGRAMS: Final = {
    "turn": ("planloop_turn_duration_seconds", "Duration of agents' turns."),
    "model": ("gen_ai_client_operation_duration_seconds", "Duration of requests to models."),
    "call": ("planloop_call_duration_seconds", "Duration of tool calls."),
    "run": ("planloop_run_duration_seconds", "Duration of tasks' commands."),
    "wait": ("planloop_lock_wait_seconds", "Time spent waiting for locks."),
    "held": ("planloop_lock_held_seconds", "Time that locks were held."),
}
LABEL_NAMES: Final = {
    "gen_ai.request.model": "model",
    "gen_ai.provider.name": "provider",
    "gen_ai.tool.name": "tool",
}


@frozen
class MetricSample:
    """One sample: `name{labels} value`."""

    name: str
    labels: LabelValues
    value: float


@frozen
class MetricFamily:
    """The samples of one metric, with its help text."""

    name: str
    kind: Literal["gauge", "counter", "histogram"]
    help: str
    samples: Sequence[MetricSample]


@mutable
class _Histogram:
    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    sum_s: float = 0.0

    def add(self, seconds: float) -> None:
        at = next((index for index, bound in enumerate(BOUNDS_S) if seconds <= bound), len(BOUNDS_S))
        self.counts[at] += 1
        self.sum_s += seconds

    def samples(self, name: str, labels: LabelValues) -> Iterator[MetricSample]:
        total = 0
        for bound, count in zip((*(f"{bound:g}" for bound in BOUNDS_S), "+Inf"), self.counts, strict=True):
            total += count
            yield MetricSample(f"{name}_bucket", (*labels, ("le", bound)), total)
        yield MetricSample(f"{name}_sum", labels, self.sum_s)
        yield MetricSample(f"{name}_count", labels, total)


class MetricCounters:
    """Counters of what happened since the first noted record. Call `note` with every record, in order."""

    def __init__(self, plan: str, look: ViewLookup) -> None:
        self._spans = SpanReader(plan, look)
        self._open: dict[str, SpanStart] = {}
        self._durations: dict[tuple[str, LabelValues], _Histogram] = {}
        self._records: Counter[str] = Counter()
        self._tokens: Counter[tuple[str, str]] = Counter()

    def note(self, record: Record) -> None:
        """Count `record`, which is folded already."""
        self._records.update(entry.type for entry in record.draft.entries)
        for event in self._spans.note(record):
            if isinstance(event, SpanStart):
                self._open[event.key] = event
            elif (start := self._open.pop(event.key, None)) is not None:
                self._end(start, event)

    def families(self) -> Iterator[MetricFamily]:
        """Yield the counters, in a stable order."""
        records = [
            MetricSample("planloop_records_total", (("type", one),), n) for one, n in sorted(self._records.items())
        ]
        yield MetricFamily("planloop_records_total", "counter", "Records of the log, by type.", records)
        tokens = [
            MetricSample("gen_ai_client_token_usage_total", (("model", model), ("type", sort)), n)
            for (model, sort), n in sorted(self._tokens.items())
        ]
        yield MetricFamily("gen_ai_client_token_usage_total", "counter", "Input and output tokens of models.", tokens)
        for sort, (name, words) in HISTOGRAMS.items():
            found = sorted((labels, one) for (kind, labels), one in self._durations.items() if kind == sort)
            samples = [sample for labels, one in found for sample in one.samples(name, labels)]
            yield MetricFamily(name, "histogram", words, samples)

    def _end(self, start: SpanStart, ended: SpanEnd) -> None:
        named = {LABEL_NAMES[name]: str(value) for name, value in start.attributes.items() if name in LABEL_NAMES}
        labels = (*sorted(named.items()), ("error", ended.error))
        found = self._durations.setdefault((start.sort, labels), _Histogram())
        found.add(max(0.0, ended.at - start.at))
        for name, value in ended.attributes.items():
            if name.startswith("gen_ai.usage."):
                sort = name.removeprefix("gen_ai.usage.").removesuffix("_tokens")
                self._tokens[named.get("model", ""), sort] += int(value)


def current_metrics(objects: Callable[[str], Iterable[Resource]], rev: int, epoch: int) -> Iterator[MetricFamily]:
    """Yield the gauges of a plan's current state. `objects` returns all objects of a kind."""
    yield MetricFamily(
        "planloop_revision", "gauge", "The newest revision of the log.", [MetricSample("planloop_revision", (), rev)]
    )
    yield MetricFamily(
        "planloop_epoch", "gauge", "Number of owner processes so far.", [MetricSample("planloop_epoch", (), epoch)]
    )
    states = Counter((kind, one.state) for kind in sorted(addresses.KINDS) for one in objects(kind))
    named = [
        MetricSample("planloop_objects", (("kind", kind), ("state", state)), n)
        for (kind, state), n in sorted(states.items())
    ]
    yield MetricFamily("planloop_objects", "gauge", "Objects of the plan, by kind and state.", named)
    yield from _lock_samples(objects("lock"))
    yield from _cost_samples(objects("agent"), objects("task"))


def _lock_samples(locks: Iterable[Resource]) -> Iterator[MetricFamily]:
    known = [lock_status_from_json(one.status) for one in locks]
    held, waiting = sum(len(one.holders) for one in known), sum(len(one.waiters) for one in known)
    yield MetricFamily(
        "planloop_lock_holders", "gauge", "Holders of locks.", [MetricSample("planloop_lock_holders", (), held)]
    )
    yield MetricFamily(
        "planloop_lock_waiters", "gauge", "Waiters for locks.", [MetricSample("planloop_lock_waiters", (), waiting)]
    )


def _cost_samples(agents: Iterable[Resource], tasks: Iterable[Resource]) -> Iterator[MetricFamily]:
    used = [
        MetricSample("planloop_agent_used", (("agent", one.address.partition("/")[2]), ("unit", unit)), float(amount))
        for one in agents
        for unit, amount in sorted((one.status.get("used") or {}).items())
    ]
    yield MetricFamily("planloop_agent_used", "gauge", "Use of each agent: tokens, usd, turns, calls, time_s.", used)
    left = [
        MetricSample(
            "planloop_budget_left", (("task", one.address.partition("/")[2]), ("unit", unit)), float(account.left)
        )
        for one in tasks
        for unit, account in sorted(accounts_of(one.status).items())
        if account.is_open
    ]
    yield MetricFamily("planloop_budget_left", "gauge", "The rest of each task's budget.", left)


# The Prometheus text format, version 0.0.4 (prometheus.io, "Exposition formats").

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def prometheus_text(families: Iterable[MetricFamily]) -> str:
    """Return all families that have samples, each with its help and type."""
    return "".join(line for family in families if family.samples for line in _lines(family))


def _lines(family: MetricFamily) -> Iterator[str]:
    yield f"# HELP {family.name} {_escaped(family.help)}\n"
    yield f"# TYPE {family.name} {family.kind}\n"
    for sample in family.samples:
        yield f"{sample.name}{_labels(sample.labels)} {_number(sample.value)}\n"


def _labels(labels: LabelValues) -> str:
    quote = '\\"'
    pairs = ",".join(f'{name}="{_escaped(value).replace(chr(34), quote)}"' for name, value in labels)
    return f"{{{pairs}}}" if pairs else ""


def _escaped(words: str) -> str:
    return words.replace("\\", "\\\\").replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
