"""The rows for containers, and for suites and runs, which are beside the plan: part of `table.py`'s table."""

from __future__ import annotations

from typing import Final

from planloop.server.api.operations import Operation, Parameter

RUNS: Final = "^[^,/]+/[^,/]+(,[^,/]+/[^,/]+){0,15}$"
CONTAINER: Final = "A container's name."
RUN: Final = "The suite and the run, as its folder is named: `notes` and `2026-11-23-1`."

CONTAINERS: Final[tuple[Operation, ...]] = (
    Operation(
        "GET",
        "containers/{name}/logs",
        "readContainerLog",
        "A page of what a container wrote, before a byte of it.",
        "OlderLog",
        parameters=(
            Parameter("log", "Which output, as the tail said: another run has another."),
            Parameter("before", "The page before this byte.", "integer"),
        ),
        of=CONTAINER,
        door="gateway",
    ),
    Operation(
        "GET",
        "containers/{name}/logs/tail",
        "followContainerLog",
        "The newest page of what a container writes, then what comes, over a websocket.",
        "LogFrame",
        of=CONTAINER,
        door="gateway",
        is_stream=True,
    ),
    Operation(
        "GET",
        "containers/{name}/chat",
        "chat",
        "A conversation with the agent that works with a container, over a websocket, until the container is over.",
        "ChatFrame",
        of=CONTAINER,
        door="gateway",
        is_stream=True,
    ),
)

BENCHES: Final[tuple[Operation, ...]] = (
    Operation(
        "GET",
        "suites",
        "listSuites",
        "The suites that are shipped, and those in the folder that is served.",
        "Suites",
        door="gateway",
        is_of_plan=False,
    ),
    Operation(
        "GET",
        "suites/{suite}",
        "getSuite",
        "One suite with its cases.",
        "SuiteTold",
        of="The `key` that the list has.",
        door="gateway",
        is_of_plan=False,
    ),
    Operation("GET", "runs", "listRuns", "All runs, the newest first.", "Runs", door="gateway", is_of_plan=False),
    Operation(
        "GET",
        "comparison",
        "compareRuns",
        "The report over several runs: those of a suite side by side, with what tells their models apart.",
        "Comparison",
        parameters=(Parameter("runs", "SUITE/RUN, with commas between.", pattern=RUNS, is_required=True),),
        door="gateway",
        is_of_plan=False,
    ),
    Operation(
        "GET",
        "runs/{suite}/{run}",
        "getRun",
        "One run, how far it is, and the report over it.",
        "RunTold",
        of=RUN,
        door="gateway",
        is_of_plan=False,
    ),
    Operation(
        "GET",
        "runs/{suite}/{run}/tail",
        "followRun",
        "What happens in a run, over a websocket, for as long as one listens.",
        "RunFrame",
        parameters=(Parameter("after", "Only events over this one.", "integer"),),
        of=RUN,
        door="gateway",
        is_stream=True,
        is_of_plan=False,
    ),
    Operation(
        "GET",
        "runs/{suite}/{run}/cases/{case}",
        "getCase",
        "A case and how it went with every model; with `model` and `trial` all that one of them did.",
        "CaseAnswer",
        parameters=(
            Parameter("model", "As the run calls it."),
            Parameter("trial", "Which of its trials, from 1.", "integer", minimum=1),
        ),
        of=f"{RUN} The id of the case.",
        door="gateway",
        is_of_plan=False,
    ),
    Operation(
        "GET",
        "runs/{suite}/{run}/blobs/{digest}",
        "getRunBlob",
        "What a check saw, as it is: a picture, a text, or a file.",
        "Bytes",
        of=f"{RUN} The blob's name: SHA-256 in hex.",
        door="gateway",
        is_of_plan=False,
    ),
)
