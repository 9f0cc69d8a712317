"""Every operation of the API: one row says where it is, what it takes and gives, and what it is for.

Free of pydantic, so that a read at the owner's socket costs no import: `request` and `answer` name models, which
`naming.py` finds and a test holds to be there. To add a path, add its row here and its models, then run `make docs`,
which rewrites `openapi.json` and the page's types.
"""

from __future__ import annotations

from typing import Final

from planloop.schemas import address as addresses
from planloop.server.api.bench_table import BENCHES, CONTAINERS
from planloop.server.api.operations import KINDS, POINTER, Operation, Parameter

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
