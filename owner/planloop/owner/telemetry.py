"""Export spans and metrics of a running plan to an OpenTelemetry collector.

Off unless the environment has PLANLOOP_TELEMETRY=otlp. The standard OTEL_* variables configure the export. The packages
are in the extra `otel`, and are imported only if telemetry is on. Spans that are open when the owner stops are lost.
"""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.process import TELEMETRY_SWITCH
from planloop.schemas.log.record import Record
from planloop.server.observability.spans import Sort, SpanEnd, SpanReader, SpanStart, ViewLookup

if TYPE_CHECKING:
    from opentelemetry.metrics import Histogram
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

OTLP: Final = "otlp"
SCOPE: Final = "planloop"
FLUSH_S: Final = 3.0  # To send the rest when the owner stops: a collector that is down must not delay it longer.
DURATIONS: Final[Mapping[Sort, str]] = {
    "turn": "planloop.turn.duration",
    "model": "gen_ai.client.operation.duration",
    "call": "planloop.call.duration",
    "run": "planloop.run.duration",
    "wait": "planloop.lock.wait.duration",
    "held": "planloop.lock.held.duration",
}
TOKENS: Final = "gen_ai.client.token.usage"
RECONCILE: Final = "planloop.reconcile.duration"


def is_telemetry_enabled(env: Mapping[str, str]) -> bool:
    """Return whether the environment turns telemetry on. Raises CommandError for unknown values, missing packages."""
    asked = env.get(TELEMETRY_SWITCH, "").strip()
    if asked in ("", "0", "off", "none"):
        return False
    if asked != OTLP:
        raise CommandError(
            ExitCode.USAGE, f"unknown value {TELEMETRY_SWITCH}={asked!r}", f"set {TELEMETRY_SWITCH}={OTLP}, or unset it"
        )
    if importlib.util.find_spec("opentelemetry.sdk") is None:
        what = f"{TELEMETRY_SWITCH} is set, but the telemetry packages are not installed"
        raise CommandError(ExitCode.USAGE, what, f"pip install 'planloop[otel]', or unset {TELEMETRY_SWITCH}")
    return True


class TelemetryExporter:
    """Exports spans and metrics. Call `note` with each record in order, and `reconciled` after each reconcile."""

    def __init__(self, plan: str, look: ViewLookup, tracing: TracerProvider, metering: MeterProvider) -> None:
        self._spans = SpanReader(plan, look)
        self._plan = plan
        self._tracer = tracing.get_tracer(SCOPE)
        self._open: dict[str, tuple[Span, SpanStart]] = {}
        meter = metering.get_meter(SCOPE)
        self._durations: dict[Sort, Histogram] = {
            sort: meter.create_histogram(name, unit="s") for sort, name in DURATIONS.items()
        }
        self._tokens = meter.create_histogram(TOKENS, unit="{token}")
        self._reconciles = meter.create_histogram(RECONCILE, unit="s")

    def note(self, record: Record) -> None:
        """Start and end the spans of `record`, which is folded already."""
        for told in self._spans.note(record):
            if isinstance(told, SpanStart):
                self._begin(told)
            else:
                self._end(told)

    def reconciled(self, address: str, outcome: str, began_at: float, took_s: float) -> None:
        """Record a reconcile of the object at `address`. `began_at` is in seconds since 1970."""
        named = {"planloop.plan": self._plan, "planloop.kind": address.partition("/")[0], "planloop.outcome": outcome}
        self._reconciles.record(took_s, named)
        span = self._tracer.start_span(
            f"reconcile {address}", start_time=_ns(began_at), attributes={**named, "planloop.address": address}
        )
        span.end(_ns(began_at + took_s))

    def _begin(self, told: SpanStart) -> None:
        from opentelemetry import trace

        parent = self._open.get(told.parent or "")
        around = None if parent is None else trace.set_span_in_context(parent[0])
        kind = trace.SpanKind.CLIENT if told.sort == "model" else trace.SpanKind.INTERNAL
        span = self._tracer.start_span(
            told.name, context=around, kind=kind, attributes=told.attributes, start_time=_ns(told.at)
        )
        self._open[told.key] = (span, told)

    def _end(self, told: SpanEnd) -> None:
        from opentelemetry.trace import Status, StatusCode

        found = self._open.pop(told.key, None)
        if found is None:
            return
        span, begun = found
        span.set_attributes(told.attributes)
        error = {"error.type": told.error} if told.error else {}
        if told.error:
            span.set_status(Status(StatusCode.ERROR, told.error))
            span.set_attributes(error)
        span.end(_ns(told.at))
        few = {name: value for name, value in begun.attributes.items() if name in FEW}
        self._durations[begun.sort].record(max(0.0, told.at - begun.at), {**few, **error})
        for name, count in told.attributes.items():
            if name in ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"):
                sort = name.removeprefix("gen_ai.usage.").removesuffix("_tokens")
                self._tokens.record(int(count), {**few, "gen_ai.token.type": sort})


FEW: Final = frozenset({
    "planloop.plan", "gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.tool.name",
})  # fmt: skip
"""Attributes of metrics. They have few values, because every combination is stored: no agents, no tasks."""


@contextmanager
def start_exporter(plan: str, look: ViewLookup) -> Iterator[TelemetryExporter]:
    """Export to the collector of the OTEL_* variables while the block runs."""
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    about = Resource.create({"service.name": "planloop"})
    tracing = TracerProvider(resource=about, shutdown_on_exit=False)
    tracing.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    reader = PeriodicExportingMetricReader(OTLPMetricExporter())

    def close() -> None:
        tracing.shutdown()
        metering.shutdown()

    metering = MeterProvider(metric_readers=[reader], resource=about, shutdown_on_exit=False)
    try:
        yield TelemetryExporter(plan, look, tracing, metering)
    finally:
        # The SDK retries without regard to a time limit, so abandon it after FLUSH_S. Unsent data is lost.
        closing = threading.Thread(target=close, daemon=True)
        closing.start()
        closing.join(FLUSH_S)


def _ns(seconds: float) -> int:
    return int(seconds * 1_000_000_000)
