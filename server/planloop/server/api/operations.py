"""Every operation of the HTTP API: method, path, parameters, body and answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from planloop.client.exit_codes import CommandError, ExitCode
from planloop.schemas import address as addresses
from planloop.schemas.frozen import frozen

# An operation of the API, and the check of a request's query against it.
#
# Paths are relative to `/v1/` at the owner and to `/v1/plans/NAME/` at the gateway. If the last part of a path is a
# parameter in braces, it takes the rest of the path, slashes included.

Method: TypeAlias = Literal["GET", "POST"]
Door: TypeAlias = Literal["both", "owner", "gateway"]
Kind: TypeAlias = Literal["integer", "text", "flag"]

REV_MAX: Final = 10**15 - 1  # Fifteen digits: a JSON number holds it exactly in every language, and no log is as long.
TEXT_CHARS_MAX: Final = 4_096  # Of an address, a reason or a name. Longer texts are messages or files.
QUERY_CHARS_MAX: Final = 1_024  # Of one parameter. Encoded, a few of them (12 bytes a character) fit an HTTP line.
KIND: Final = f"({'|'.join(sorted(addresses.KINDS))})"
ADDRESS: Final = f"^{KIND}(/[^/]+)+$"
KINDS: Final = f"^({KIND}(,{KIND})*)?$"  # Empty means all kinds.
POINTER: Final = r"^(/[\s\S]*)?$"
WHOLE: Final = frozenset({"rev"})  # Path parameters that are integers.


@frozen
class Parameter:
    """A query parameter. A `text` must match `choices` or `pattern` if they are set; a `flag` is 0 or 1."""

    name: str
    words: str
    kind: Kind = "text"
    minimum: int = 0
    maximum: int = REV_MAX
    choices: tuple[str, ...] = ()
    pattern: str = ""
    is_required: bool = False


@frozen
class Operation:
    """An operation of the API. `name` is its name in generated clients; `answer` is the model of the 200 response.

    `of` describes the path parameters. `door` says which server offers the operation. If `is_stream`, the response is a
    stream and `answer` is the model of one item. If `is_of_plan` is false, the path is relative to `/v1/` at the
    gateway, too.
    """

    method: Method
    path: str
    name: str
    summary: str
    answer: str
    request: str = ""
    parameters: tuple[Parameter, ...] = ()
    of: str = ""
    door: Door = "both"
    is_stream: bool = False
    is_of_plan: bool = True

    @property
    def takes(self) -> tuple[str, ...]:
        """The names of the parameters in braces."""
        return tuple(re.findall(r"\{(\w+)\}", self.path))


def checked_query(operation: Operation, given: Mapping[str, str]) -> Mapping[str, str]:
    """Return `given` after checking it against the operation. Raises CommandError: USAGE, with all errors."""
    known = {one.name: one for one in operation.parameters}
    errors = [f"unknown parameter `{name[:100]}` of {operation.path}" for name in given if name not in known]
    errors += [f"`{name}` is missing" for name, one in known.items() if one.is_required and name not in given]
    errors += [error for name, text in given.items() if name in known and (error := _error(known[name], text))]
    if errors:
        takes = ", ".join(known) or "none"
        raise CommandError(ExitCode.USAGE, "\n".join(errors), f"its parameters: {takes}")
    return given


def _error(one: Parameter, text: str) -> str:
    """Return why `text` is not valid for the parameter; empty if it is."""
    match one.kind:
        case "integer":
            is_number = text.isascii() and text.isdigit() and len(text) < 20
            if is_number and one.minimum <= int(text) <= one.maximum:
                return ""
            return f"`{one.name}` must be an integer from {one.minimum} to {one.maximum}, not `{text[:100]}`"
        case "flag":
            return "" if text in ("0", "1") else f"`{one.name}` must be 0 or 1, not `{text[:100]}`"
        case "text":
            if one.choices and text not in one.choices:
                return f"`{one.name}` must be one of {', '.join(one.choices)}, not `{text[:100]}`"
            if one.pattern and re.fullmatch(one.pattern, text) is None:
                return f"`{one.name}` cannot be `{text[:100]}`: {one.words[:1].lower()}{one.words[1:].rstrip('.')}"
            return "" if len(text) <= QUERY_CHARS_MAX else f"`{one.name}` is longer than {QUERY_CHARS_MAX} characters"


# Operations on containers, and on benchmark suites and runs, which do not belong to a plan: parts of TABLE.

RUNS: Final = "^[^,/]+/[^,/]+(,[^,/]+/[^,/]+){0,15}$"
CONTAINER: Final = "The container's name."
RUN: Final = "The names of the suite and of the run's folder, such as `notes` and `2026-11-23-1`."

CONTAINERS: Final[tuple[Operation, ...]] = (
    Operation(
        "GET",
        "containers/{name}/logs",
        "readContainerLog",
        "A page of a container's output, before a byte offset.",
        "OlderLog",
        parameters=(
            Parameter("log", "The `log` of the tail. It identifies the output; each run has another."),
            Parameter("before", "The page before this byte offset.", "integer"),
        ),
        of=CONTAINER,
        door="gateway",
    ),
    Operation(
        "GET",
        "containers/{name}/logs/tail",
        "followContainerLog",
        "The newest page of a container's output, then new output as it is written, over a websocket.",
        "LogFrame",
        of=CONTAINER,
        door="gateway",
        is_stream=True,
    ),
    Operation(
        "GET",
        "containers/{name}/chat",
        "chat",
        "A conversation with the agent that works with a container, over a websocket, until the container ends.",
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
        "All suites: the built-in ones and those in the served folder.",
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
        of="The suite's `key` in the list.",
        door="gateway",
        is_of_plan=False,
    ),
    Operation("GET", "runs", "listRuns", "All runs, the newest first.", "Runs", door="gateway", is_of_plan=False),
    Operation(
        "GET",
        "comparison",
        "compareRuns",
        "A report on several runs: the runs of a suite side by side, and how their models differ.",
        "Comparison",
        parameters=(Parameter("runs", "SUITE/RUN, separated by commas.", pattern=RUNS, is_required=True),),
        door="gateway",
        is_of_plan=False,
    ),
    Operation(
        "GET",
        "runs/{suite}/{run}",
        "getRun",
        "One run, its progress, and its report.",
        "RunTold",
        of=RUN,
        door="gateway",
        is_of_plan=False,
    ),
    Operation(
        "GET",
        "runs/{suite}/{run}/tail",
        "followRun",
        "The events of a run as they happen, over a websocket.",
        "RunFrame",
        parameters=(Parameter("after", "Only events after this one.", "integer"),),
        of=RUN,
        door="gateway",
        is_stream=True,
        is_of_plan=False,
    ),
    Operation(
        "GET",
        "runs/{suite}/{run}/cases/{case}",
        "getCase",
        "A case and its result with each model. With `model` and `trial`: everything that happened in that trial.",
        "CaseAnswer",
        parameters=(
            Parameter("model", "The model's name in the run."),
            Parameter("trial", "The number of the trial, from 1.", "integer", minimum=1),
        ),
        of=f"{RUN} The id of the case.",
        door="gateway",
        is_of_plan=False,
    ),
    Operation(
        "GET",
        "runs/{suite}/{run}/blobs/{digest}",
        "getRunBlob",
        "A file that a check recorded: an image, a text or another file.",
        "Bytes",
        of=f"{RUN} The blob's name: SHA-256 in hex.",
        door="gateway",
        is_of_plan=False,
    ),
)


# Every operation of the API, one row each.
#
# This module does not import pydantic, so that reads at the owner's socket stay fast. `request` and `answer` name
# models that `planloop.server.api.validation` finds; a test checks that they exist. To add an operation, add its row
# here and its models, then run `make docs`, which rewrites `openapi.json` and the page's types.

AFTER: Final = Parameter("after", "Only records after this revision.", "integer")
BEFORE: Final = Parameter("before", "The newest records before this revision.", "integer")
LIMIT: Final = Parameter("limit", "The largest number of items. A page may be shorter.", "integer", minimum=1)
AT: Final = Parameter("at", "The state at this revision.", "integer")
FROM: Final = Parameter("after", "Start at this byte offset.", "integer")
BEFORE_BYTE: Final = Parameter("before", "The page before this byte offset, in whole lines.", "integer")
AGENT: Final = "The agent's path, such as `frontend/ui` or `agent/frontend/ui`. `~` is the root agent."
KINDS_OF_REVISION: Final = ("patched", "refused", "held", "approved", "rejected", "forked")

TABLE: Final[tuple[Operation, ...]] = (
    *CONTAINERS,
    *BENCHES,
    Operation(
        "GET",
        "session",
        "getSession",
        "The served plan, and the right that the token gives.",
        "Who",
        door="gateway",
        is_of_plan=False,
    ),
    Operation(
        "GET",
        "openapi.json",
        "getDescription",
        "This description.",
        "Description",
        door="gateway",
        is_of_plan=False,
    ),
    Operation("GET", "status", "getStatus", "The plan's name, its revision, and its owner process.", "Status"),
    Operation(
        "GET",
        "objects",
        "listObjects",
        "All objects of the plan at one revision, in pages.",
        "Objects",
        parameters=(
            Parameter(
                "kind", f"Only these kinds, separated by commas: {', '.join(sorted(addresses.KINDS))}.", pattern=KINDS
            ),
            AT,
            Parameter("from", "The `next` of the previous page. Also send that page's `rev` as `at`."),
            LIMIT,
        ),
    ),
    Operation(
        "GET",
        "objects/{address}",
        "getObject",
        "One object.",
        "Resource",
        parameters=(AT,),
        of="The object's address, such as `task/frontend`. Clients that cannot send `task/.` send `task/~`.",
    ),
    Operation(
        "GET",
        "describe/{address}",
        "describeObject",
        "The description of an object that `plan describe` prints, as labels and texts.",
        "Described",
        parameters=(AT,),
        of="The object's address, such as `lock/src/**`. `agent/~` is `agent/.`.",
    ),
    Operation(
        "GET",
        "log",
        "readLog",
        "Records of the log, in order: those after a revision, or the newest ones before a revision.",
        "LogPage",
        parameters=(
            AFTER,
            BEFORE,
            LIMIT,
            Parameter("type", "Only records with a step whose type starts with this: `plan.`, `turn.ended`."),
            Parameter("about", "Only records with a step of this object or of an object below it."),
        ),
    ),
    Operation(
        "GET",
        "messages",
        "readMessages",
        "Messages between people, agents and controllers: the newest ones before a revision.",
        "Messages",
        parameters=(Parameter("of", "Only messages that this agent sent or received."), BEFORE, LIMIT),
    ),
    Operation(
        "GET",
        "why",
        "getWhy",
        "Who set a value of the plan, when and why, and which value it replaced.",
        "Why",
        parameters=(Parameter("at", "A JSON pointer into the plan document: `/tasks/build/goal`.", pattern=POINTER),),
    ),
    Operation(
        "GET",
        "conversation/{agent}",
        "readConversation",
        "An agent's conversation, in whole turns: the newest ones before a revision, or all after one.",
        "Conversation",
        parameters=(BEFORE, AFTER, Parameter("turns", "The largest number of turns.", "integer", minimum=1)),
        of=AGENT,
    ),
    Operation(
        "GET",
        "prompt/{agent}",
        "readPrompt",
        "The system prompt that an agent's model got in a turn, by default in its last turn.",
        "SystemPrompt",
        parameters=(BEFORE, Parameter("turn", "This turn, of the newest run that has it.", "integer", minimum=0)),
        of=AGENT,
    ),
    Operation(
        "GET",
        "history",
        "readHistory",
        "The changes of the plan, with author, time and reason, newest first.",
        "History",
        parameters=(
            BEFORE,
            LIMIT,
            Parameter("all", "Also changes that were refused, held, approved or rejected.", "flag"),
            Parameter("author", "Only by this author: `human:cli`, `agent/ui`, or `agent` for all agents."),
            Parameter("kind", "Only revisions of this kind.", choices=KINDS_OF_REVISION),
        ),
    ),
    Operation(
        "GET",
        "history/{rev}",
        "readRevision",
        "One revision: its effect on each object, and each changed field before and after.",
        "ChangeDetail",
        of="A revision from `history`.",
    ),
    Operation("GET", "waiting", "readWaiting", "Everything that waits for an operator.", "Waiting", parameters=(AT,)),
    Operation("GET", "waits", "readWaits", "Locks, their holders and waiters.", "Waits", parameters=(AT,)),
    Operation(
        "GET",
        "blobs/{digest}",
        "readBlob",
        "A prompt, an output or another large text to which a record refers.",
        "Text",
        parameters=(FROM,),
        of="The blob's name: SHA-256 in hex.",
    ),
    Operation(
        "GET",
        "output/{op}",
        "readOutput",
        "The output of a running command so far.",
        "Output",
        parameters=(FROM,),
        of="The `op` in the spec of the command's call.",
    ),
    Operation(
        "GET",
        "printed/{task}",
        "readPrinted",
        "The output of a task's command in its newest run: the newest page, or a page before or after a byte offset.",
        "Printed",
        parameters=(BEFORE_BYTE, FROM),
        of="The task's path, such as `frontend/build` or `task/frontend/build`. `~` is the root task.",
    ),
    Operation("GET", "dump/{agent}", "dumpAgent", "An agent as a file that `restore` accepts.", "Dump", of=AGENT),
    Operation(
        "GET",
        "watch",
        "watch",
        "Every record as it is written, one a line. With `words` also the text of models while they write it.",
        "LogRecord",
        parameters=(
            Parameter("after", "Only records after this revision. Default: all records.", "integer"),
            Parameter("words", 'Also `{"said": …}` with the text of models while they write it.', "flag"),
        ),
        door="owner",
        is_stream=True,
    ),
    Operation(
        "GET",
        "tail",
        "tail",
        "Every record as it is written, over a websocket.",
        "Frame",
        parameters=(
            Parameter("after", "Only records after this revision. Without `after`, no records are sent.", "integer"),
            Parameter("log", "The `log` of `objects`. If the log has been replaced, the close code is 4409."),
            Parameter("words", 'Also `{"said": …}` with the text of models while they write it.', "flag"),
        ),
        door="gateway",
        is_stream=True,
    ),
    Operation("POST", "patch", "patch", "Change the plan, or preview the change (`dry_run`).", "PatchAnswer", "Patch"),
    Operation("POST", "diff", "diff", "Preview applying a plan file.", "FilePreview", "Save"),
    Operation("POST", "file", "applyFile", "Apply a plan file: merge it into the live plan.", "Verdict", "Save"),
    Operation("POST", "preview", "previewFile", "Preview applying a plan file, for `saved`.", "SavedPreview", "Save"),
    Operation(
        "POST", "saved", "applyPreview", "Apply a preview, unless the plan has changed since.", "Verdict", "Saved"
    ),
    Operation("POST", "approve", "approve", "Approve a pending action or the removal of a hook.", "Verdict", "Approve"),
    Operation("POST", "reject", "reject", "Reject a pending action.", "Written", "Reject"),
    Operation("POST", "rule", "rule", "Resolve a conflict.", "Verdict", "Rule"),
    Operation("POST", "unlock", "unlock", "Take a lock away from all its holders.", "Unlocked", "Unlock"),
    Operation("POST", "settle", "settle", "Record whether a call of unknown outcome happened.", "Written", "Settle"),
    Operation("POST", "rollback", "rollBack", "Restore the plan of a revision.", "RollbackAnswer", "Rollback"),
    Operation("POST", "steer", "steer", "Pause, resume or cancel tasks.", "SteerAnswer", "Steer"),
    Operation("POST", "send", "send", "Send a message to agents.", "Sent", "Send"),
    Operation("POST", "session", "moveSession", "Set the agent that chats talk with.", "Session", "MoveSession"),
    Operation("POST", "restore", "restore", "Add a dumped agent as a child of another agent.", "Verdict", "Restore"),
    Operation("POST", "prompt", "getPrompt", "Get the text of a prompt from a tool server.", "PromptText", "Prompt"),
    Operation(
        "POST", "guest/take", "takeSeat", "Lease an external agent's task.", "SeatTaken", "TakeSeat", door="owner"
    ),
    Operation("POST", "guest/say", "say", "Make a call as the leased agent.", "Heard", "Say", door="owner"),
    Operation("POST", "guest/renew", "keepSeat", "Renew the lease.", "SeatKept", "KeepSeat", door="owner"),
    Operation("POST", "guest/leave", "leaveSeat", "Release the lease.", "SeatKept", "LeaveSeat", door="owner"),
    Operation("POST", "guest/withdraw", "withdraw", "Withdraw a call.", "Withdrawn", "Withdraw", door="owner"),
    Operation(
        "POST",
        "guest/preview",
        "previewAgentsPatch",
        "Preview a patch by an external agent.",
        "Preview",
        "AgentsPatch",
        door="owner",
    ),
    Operation("POST", "stop", "stop", "Stop the plan's owner process.", "Stopping", "Stop"),
    Operation("GET", "edit", "getEditText", "The live plan as a text to edit.", "EditText", door="gateway"),
    Operation(
        "POST",
        "edit/look",
        "lookAtEdit",
        "Check a text: its errors, its changes, its conflicts and its effects. Changes nothing.",
        "Look",
        "LookWish",
        door="gateway",
    ),
    Operation(
        "POST",
        "edit/apply",
        "applyEdit",
        "Apply a checked text: merge it into the live plan.",
        "EditVerdict",
        "ApplyWish",
        door="gateway",
    ),
    Operation(
        "POST",
        "edit/merge",
        "mergeIntoEdit",
        "Merge the changes of others into a text.",
        "NewDraft",
        "Draft",
        door="gateway",
    ),
    Operation(
        "POST", "edit/pull", "writeFile", "Write the live plan into the plan file.", "Pulled", "Draft", door="gateway"
    ),
)
