"""Telemetry of a real plan: spans and metrics in a real collector, /metrics in Prometheus' own parser."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.folder import Folder
from tests.fakes.model_server.running import started
from tests.server.gateway.gateways import Served, served

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]

WRITES = {"name": "write", "arguments": {"path": "a.txt", "content": "hello"}}
TELLS = [{"reply": {"text": "I write", "calls": [WRITES]}}, {"reply": {"text": "done"}}]
PLAN = """\
plan: p
models: {{test: {{url: '{url}'}}}}
tasks:
  a: {{goal: write, agent: {{model: test/m, tools: [write]}}, acceptance: [{{require-file: a.txt}}]}}
  b: {{needs: [a], run: 'exit 3'}}
"""


class Collector:
    """Takes what is exported to it over HTTP. `fails` has it refuse everything."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.metrics: dict[str, Any] = {}
        self.asked = 0

    def take(self, path: str, body: bytes) -> None:
        self.asked += 1
        if path == "/v1/traces":
            traces = ExportTraceServiceRequest.FromString(body)
            self.spans += [s for one in traces.resource_spans for scope in one.scope_spans for s in scope.spans]
        else:
            found = ExportMetricsServiceRequest.FromString(body)
            for one in found.resource_metrics:
                self.metrics |= {m.name: m for scope in one.scope_metrics for m in scope.metrics}


@contextmanager
def collecting() -> Iterator[tuple[Collector, dict[str, str]]]:
    """A collector, and the environment that has an owner tell it."""
    collector = Collector()

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            collector.take(self.path, self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            where = f"http://127.0.0.1:{server.server_port}"
            yield collector, {"OTEL_EXPORTER_OTLP_ENDPOINT": where, "OTEL_EXPORTER_OTLP_COMPRESSION": "none"}
        finally:
            server.shutdown()
            thread.join()


def attributes(span: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, str(one.value.WhichOneof("value"))) for one in span.attributes}


def run_to_its_end(folder: Folder, env: dict[str, str]) -> None:
    with started(TELLS, folder.path) as server:
        folder.write("p.plan.yaml", PLAN.format(url=server.url))
        assert folder.run("apply", "--yes", "p.plan.yaml", env=env, timeout_s=60.0).code == 10


def test_collector_gets_turns_requests_calls_commands_locks_and_reconciles(folder: Folder) -> None:
    with collecting() as (collector, env):
        run_to_its_end(folder, {**env, "PLANLOOP_TELEMETRY": "otlp"})

    by_name = {span.name: span for span in collector.spans}
    turn = next(span for span in collector.spans if span.name == "invoke_agent a")
    chat, tool = by_name["chat m"], by_name["execute_tool write"]
    assert {chat.trace_id, tool.trace_id} <= {s.trace_id for s in collector.spans if s.name == "invoke_agent a"}
    assert tool.parent_span_id == turn.span_id
    assert turn.parent_span_id == b""
    said = attributes(chat)
    assert (said["gen_ai.operation.name"], said["gen_ai.provider.name"], said["gen_ai.request.model"]) == (
        "chat",
        "test",
        "m",
    )
    assert said["gen_ai.usage.input_tokens"] > 0
    assert attributes(tool)["gen_ai.tool.name"] == "write"
    assert by_name["run b"].status.code == 2
    assert attributes(by_name["run b"])["error.type"] == "CommandFailed"
    assert "hold lock/a.txt" in by_name
    assert {"reconcile task/a", "reconcile agent/a"} <= set(by_name)
    assert all(span.end_time_unix_nano >= span.start_time_unix_nano for span in collector.spans)
    assert {"gen_ai.client.operation.duration", "gen_ai.client.token.usage", "planloop.turn.duration"} <= set(
        collector.metrics
    )
    assert not any("hello" in str(attributes(span)) for span in collector.spans), "no arguments, no texts"


def test_without_the_switch_nothing_is_exported(folder: Folder) -> None:
    with collecting() as (collector, env):
        run_to_its_end(folder, env)

    assert collector.asked == 0


def test_collector_that_accepts_all_and_never_answers_delays_nothing(folder: Folder) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"http://127.0.0.1:{silent.getsockname()[1]}"
        run_to_its_end(folder, {"PLANLOOP_TELEMETRY": "otlp", "OTEL_EXPORTER_OTLP_ENDPOINT": where})


def test_an_unknown_switch_is_refused(folder: Folder) -> None:
    folder.write("p.plan.yaml", PLAN.format(url="http://127.0.0.1:1"))
    said = folder.run("apply", "--yes", "p.plan.yaml", env={"PLANLOOP_TELEMETRY": "statsd"})
    assert said.code == 2, said.text
    assert "PLANLOOP_TELEMETRY=otlp" in said.err


def test_prometheus_reads_what_a_plan_is_and_what_happened_since(folder: Folder) -> None:
    with started(TELLS, folder.path) as server:
        folder.write("p.plan.yaml", PLAN.format(url=server.url).replace("tasks:", "tasks:\n  first: {run: 'true'}"))
        assert folder.run("apply", "--yes", "p.plan.yaml", "--target", "task/first").code == 0
        with served(folder.path) as gateway:
            assert folder.run("apply", "--yes", "p.plan.yaml").code == 10
            last = max(record["rev"] for record in folder.records())
            families = metrics(gateway)
            while families["planloop_revision"].samples[0].value < last:
                families = metrics(gateway)
            assert gateway.ask("GET", "/metrics", token="-").status == 401

    objects = {(s.labels["kind"], s.labels["state"]): s.value for s in families["planloop_objects"].samples}
    assert objects["task", "failed"] == 2
    assert objects["agent", "ended"] == 1
    model = next(s for s in families["gen_ai_client_operation_duration_seconds"].samples if s.name.endswith("_count"))
    assert (model.labels["model"], model.value) == ("m", 2)
    tokens = {s.labels["type"]: s.value for s in families["gen_ai_client_token_usage"].samples}
    assert tokens["input"] > 0


def metrics(gateway: Served) -> dict[str, Any]:
    answer = gateway.ask("GET", "/metrics")
    assert answer.status == 200, answer
    return {one.name: one for one in text_string_to_metric_families(answer.body.decode())}
