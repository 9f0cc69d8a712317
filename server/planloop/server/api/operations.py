"""Every operation of the HTTP API: method, path, parameters, body and answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from planloop.client.exit_codes import CommandError, ExitCode
from planloop.schemas import address as addresses
from planloop.schemas.frozen import frozen

# What an operation of the API is, and what a query must be to fit one.
#
# Paths are those below `/v1/` at the owner, and below `/v1/plans/NAME/` at the gateway. A parameter in braces that
# stands last takes the rest of the path, slashes included.

Method: TypeAlias = Literal["GET", "POST"]
Door: TypeAlias = Literal["both", "owner", "gateway"]
Kind: TypeAlias = Literal["integer", "text", "flag"]

REV_MAX: Final = 10**15 - 1  # Fifteen digits: every program's numbers hold it, and a log never gets there.
TEXT_CHARS_MAX: Final = 4_096  # Of an address, a reason, a word: what is longer is a message or a file.
QUERY_CHARS_MAX: Final = 1_024  # Of one parameter: a few of them, at twelve bytes a character, are a line of HTTP.
KIND: Final = f"({'|'.join(sorted(addresses.KINDS))})"
ADDRESS: Final = f"^{KIND}(/[^/]+)+$"
KINDS: Final = f"^({KIND}(,{KIND})*)?$"  # None is all.
POINTER: Final = r"^(/[\s\S]*)?$"
WHOLE: Final = frozenset({"rev"})  # Parameters of paths that are whole numbers.


@frozen
class Parameter:
    """One of the query. A `text` is held to `choices` or `pattern` where there are any; a `flag` is 0 or 1."""

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
    """One row. `name` is what generated clients call it; `answer` is the model of what comes with status 200.

    `of` says what the parameters in braces are. `door` is where it is had; `is_stream` says that it goes on without
    end, and that `answer` is one piece of it. One that is not the plan's (`is_of_plan`) is below `/v1/` at the gateway,
    too.
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
    """`given`, held to what the operation takes. Raises CommandError: USAGE, with all faults."""
    known = {one.name: one for one in operation.parameters}
    faults = [f"`{name[:100]}` is no parameter of {operation.path}" for name in given if name not in known]
    faults += [f"`{name}` is missing" for name, one in known.items() if one.is_required and name not in given]
    faults += [fault for name, text in given.items() if name in known and (fault := _fault(known[name], text))]
    if faults:
        takes = ", ".join(known) or "none"
        raise CommandError(ExitCode.USAGE, "\n".join(faults), f"it takes {takes}")
    return given


def _fault(one: Parameter, text: str) -> str:
    match one.kind:
        case "integer":
            is_number = text.isascii() and text.isdigit() and len(text) < 20
            if is_number and one.minimum <= int(text) <= one.maximum:
                return ""
            return f"`{one.name}` is a whole number from {one.minimum} to {one.maximum}, not `{text[:100]}`"
        case "flag":
            return "" if text in ("0", "1") else f"`{one.name}` is 1 or 0, not `{text[:100]}`"
        case "text":
            if one.choices and text not in one.choices:
                return f"`{one.name}` is one of {', '.join(one.choices)}, not `{text[:100]}`"
            if one.pattern and re.fullmatch(one.pattern, text) is None:
                return f"`{one.name}` cannot be `{text[:100]}`: {one.words[:1].lower()}{one.words[1:].rstrip('.')}"
            return "" if len(text) <= QUERY_CHARS_MAX else f"`{one.name}` is longer than {QUERY_CHARS_MAX} characters"


# The rows for containers, and for suites and runs, which are beside the plan: part of `table.py`'s table.

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


# Every operation of the API: one row says where it is, what it takes and gives, and what it is for.
#
# Free of pydantic, so that a read at the owner's socket costs no import: `request` and `answer` name models, which
# `planloop.server.api.validation` finds and a test holds to be there. To add a path, add its row here and its models,
# then run `make docs`, which rewrites `openapi.json` and the page's types.

AFTER: Final = Parameter("after", "Only what is over this revision.", "integer")
BEFORE: Final = Parameter("before", "Only what is under this revision, the newest of it.", "integer")
LIMIT: Final = Parameter("limit", "At most so many; a page may be shorter.", "integer", minimum=1)
AT: Final = Parameter("at", "As it was at this revision.", "integer")
FROM: Final = Parameter("after", "From this byte on.", "integer")
BEFORE_BYTE: Final = Parameter("before", "The page before this byte, in whole lines.", "integer")
AGENT: Final = "An agent's path, as `frontend/ui` or `agent/frontend/ui`; `~` is the root's."
KINDS_OF_REVISION: Final = ("patched", "refused", "held", "approved", "rejected", "forked")

TABLE: Final[tuple[Operation, ...]] = (
    *CONTAINERS,
    *BENCHES,
    Operation(
        "GET",
        "session",
        "getSession",
        "Which plan is served, and what the token allows.",
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
    Operation("GET", "status", "getStatus", "Which plan this is, how far it is, and who runs it.", "Status"),
    Operation(
        "GET",
        "objects",
        "listObjects",
        "Everything that the plan has, as of one revision, a page at a time.",
        "Objects",
        parameters=(
            Parameter("kind", f"Only these, with commas between: {', '.join(sorted(addresses.KINDS))}.", pattern=KINDS),
            AT,
            Parameter("from", "The `next` of the page before; give its `rev` as `at` with it."),
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
        of="As `task/frontend`; `task/~` is `task/.`, for who cannot send a dot.",
    ),
    Operation(
        "GET",
        "describe/{address}",
        "describeObject",
        "What `plan describe` says of an object: labels with words.",
        "Described",
        parameters=(AT,),
        of="As `lock/src/**`; `agent/~` is `agent/.`.",
    ),
    Operation(
        "GET",
        "log",
        "readLog",
        "Records of the log in their order: forwards after a revision, or the newest ones before one.",
        "LogPage",
        parameters=(
            AFTER,
            BEFORE,
            LIMIT,
            Parameter("type", "Only records that tell of a step whose type begins so, as `plan.` or `turn.ended`."),
            Parameter("about", "Only records that tell of a step of this object, or of one below it."),
        ),
    ),
    Operation(
        "GET",
        "messages",
        "readMessages",
        "Messages between people, agents and controllers, the newest ones before a revision.",
        "Messages",
        parameters=(Parameter("of", "Only those that this agent sent or received."), BEFORE, LIMIT),
    ),
    Operation(
        "GET",
        "why",
        "getWhy",
        "Who set a value of the plan, when, why, and over what.",
        "Why",
        parameters=(
            Parameter("at", "Where in the plan document, as a JSON pointer: `/tasks/build/goal`.", pattern=POINTER),
        ),
    ),
    Operation(
        "GET",
        "conversation/{agent}",
        "readConversation",
        "An agent's life in whole turns: the newest ones before a revision, or all after one.",
        "Conversation",
        parameters=(BEFORE, AFTER, Parameter("turns", "At most so many turns.", "integer", minimum=1)),
        of=AGENT,
    ),
    Operation(
        "GET",
        "prompt/{agent}",
        "readPrompt",
        "The system prompt that an agent's model was asked with in a turn, the last one if none is named.",
        "SystemPrompt",
        parameters=(BEFORE, Parameter("turn", "Of this turn of its newest run that took it.", "integer", minimum=0)),
        of=AGENT,
    ),
    Operation(
        "GET",
        "history",
        "readHistory",
        "Who changed the plan, when and why, the newest first.",
        "History",
        parameters=(
            BEFORE,
            LIMIT,
            Parameter("all", "Also what was refused, held, approved or rejected.", "flag"),
            Parameter("author", "Only by these: `human:cli`, `agent/ui`, or all of a sort, as `agent`."),
            Parameter("kind", "Only these.", choices=KINDS_OF_REVISION),
        ),
    ),
    Operation(
        "GET",
        "history/{rev}",
        "readRevision",
        "One revision: what it did to each object, and each field before and after.",
        "ChangeDetail",
        of="A revision that `history` has.",
    ),
    Operation(
        "GET", "waiting", "readWaiting", "Everything that waits for a person, in words.", "Waiting", parameters=(AT,)
    ),
    Operation("GET", "waits", "readWaits", "Locks, and who waits for whom.", "Waits", parameters=(AT,)),
    Operation(
        "GET",
        "blobs/{digest}",
        "readBlob",
        "A prompt, an output or another large text that a record names.",
        "Text",
        parameters=(FROM,),
        of="The blob's name: SHA-256 in hex.",
    ),
    Operation(
        "GET",
        "output/{op}",
        "readOutput",
        "What a running command has printed so far.",
        "Output",
        parameters=(FROM,),
        of="The `op` of the spec of its call.",
    ),
    Operation(
        "GET",
        "printed/{task}",
        "readPrinted",
        "What the command of a task printed in its newest run: the newest page, one before a byte, or one after it.",
        "Printed",
        parameters=(BEFORE_BYTE, FROM),
        of="A task's path, as `frontend/build` or `task/frontend/build`; `~` is the root's.",
    ),
    Operation("GET", "dump/{agent}", "dumpAgent", "An agent as a file, to be restored elsewhere.", "Dump", of=AGENT),
    Operation(
        "GET",
        "watch",
        "watch",
        "Each record as it comes, one a line; with `words` also what models write while they write it.",
        "LogRecord",
        parameters=(
            Parameter("after", "Only records after this revision; without it all of them.", "integer"),
            Parameter("words", 'Also `{"said": …}` for what models write.', "flag"),
        ),
        door="owner",
        is_stream=True,
    ),
    Operation(
        "GET",
        "tail",
        "tail",
        "Each record as it comes, over a websocket.",
        "Frame",
        parameters=(
            Parameter("after", "Only records after this revision; without it no records at all.", "integer"),
            Parameter("log", "Which log that revision is of, as `objects` says: closed with 4409 if it is another."),
            Parameter("words", 'Also `{"said": …}` for what models write.', "flag"),
        ),
        door="gateway",
        is_stream=True,
    ),
    Operation(
        "POST", "patch", "patch", "Changes the plan, or says what that would do (`dry_run`).", "PatchAnswer", "Patch"
    ),
    Operation("POST", "diff", "diff", "What applying a file's text would do.", "FilePreview", "Save"),
    Operation("POST", "file", "applyFile", "Applies a file's text, merged into what is live.", "Verdict", "Save"),
    Operation("POST", "preview", "previewFile", "What applying would do, to be applied later.", "SavedPreview", "Save"),
    Operation(
        "POST", "saved", "applyPreview", "Applies what `preview` gave, unless the plan moved.", "Verdict", "Saved"
    ),
    Operation("POST", "approve", "approve", "Says yes to what waits, or that a hook may go.", "Verdict", "Approve"),
    Operation("POST", "reject", "reject", "Says no to what waits.", "Written", "Reject"),
    Operation("POST", "rule", "rule", "Says how a conflict goes on.", "Verdict", "Rule"),
    Operation("POST", "unlock", "unlock", "Takes a lock from all who hold it.", "Unlocked", "Unlock"),
    Operation("POST", "settle", "settle", "Says whether a call in doubt happened.", "Written", "Settle"),
    Operation("POST", "rollback", "rollBack", "Brings back the plan of a revision.", "RollbackAnswer", "Rollback"),
    Operation("POST", "steer", "steer", "Pauses, resumes or cancels tasks.", "SteerAnswer", "Steer"),
    Operation("POST", "send", "send", "Sends a message to agents.", "Sent", "Send"),
    Operation("POST", "session", "moveSession", "Says who is talked with from now on.", "Session", "MoveSession"),
    Operation("POST", "restore", "restore", "Adds a dumped agent as a child of another.", "Verdict", "Restore"),
    Operation("POST", "prompt", "getPrompt", "The text of a prompt of a tool server.", "PromptText", "Prompt"),
    Operation(
        "POST", "guest/take", "takeSeat", "An MCP client plays an outside agent.", "SeatTaken", "TakeSeat", door="owner"
    ),
    Operation("POST", "guest/say", "say", "A client makes a call of its agent.", "Heard", "Say", door="owner"),
    Operation("POST", "guest/renew", "keepSeat", "A client is still there.", "SeatKept", "KeepSeat", door="owner"),
    Operation("POST", "guest/leave", "leaveSeat", "A client gives it up.", "SeatKept", "LeaveSeat", door="owner"),
    Operation("POST", "guest/withdraw", "withdraw", "Takes a call back.", "Withdrawn", "Withdraw", door="owner"),
    Operation(
        "POST",
        "guest/preview",
        "previewAgentsPatch",
        "What a patch by an outside agent would do.",
        "Preview",
        "AgentsPatch",
        door="owner",
    ),
    Operation("POST", "stop", "stop", "Ends whoever runs the plan.", "Stopping", "Stop"),
    Operation("GET", "edit", "getEditText", "The live plan as a text to edit.", "EditText", door="gateway"),
    Operation(
        "POST",
        "edit/look",
        "lookAtEdit",
        "The faults of a text, its changes and conflicts, and what it would do. Changes nothing.",
        "Look",
        "LookWish",
        door="gateway",
    ),
    Operation(
        "POST",
        "edit/apply",
        "applyEdit",
        "Applies a text, merged into what is live, as it was shown.",
        "EditVerdict",
        "ApplyWish",
        door="gateway",
    ),
    Operation(
        "POST",
        "edit/merge",
        "mergeIntoEdit",
        "A text with what others changed written into it.",
        "NewDraft",
        "Draft",
        door="gateway",
    ),
    Operation(
        "POST", "edit/pull", "writeFile", "Writes what is live into the plan file.", "Pulled", "Draft", door="gateway"
    ),
)
