"""All limits of the product, each with its unit and reason (law 11)."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

# Input.
PLAN_FILE_BYTES_MAX: Final = 1 << 20  # Enough for 15,000 tasks written out one by one. `--max-size` raises it.
PLAN_FILE_BYTES_LAST: Final = 64 << 20  # Largest value of `--max-size`.
YAML_ALIASES_MAX: Final = 100  # Ten nested levels of aliases expand to gigabytes; people use a handful.
PLAN_NODES_MAX: Final = 100_000  # After expansion. About 20,000 tasks, more than a person can follow.
PLAN_DEPTH_MAX: Final = 64  # Parsers recurse; both YAML readers fail between 200 and 500.
FOREIGN_DEPTH_MAX: Final = 100  # Nesting of JSON that a program prints. The fold and the masking of secrets recurse.
DIAGNOSTICS_SHOWN_MAX: Final = 20  # More errors usually have one cause.
PATCH_OPS_MAX: Final = 5_000  # Per patch. Each operation copies the maps on its path, and a map can have 10,000 keys.
PATCH_POINTER_CHARS_MAX: Final = 16_384  # Path of a patch operation. Messages and records repeat it.
PATCH_VALUES_MAX: Final = 4 * PLAN_NODES_MAX  # Values that one patch adds or copies. Each use of an alias counts.
PATCH_BYTES_MAX: Final = 64 << 20  # Text in these values. A short `copy` can repeat a long text.
SUGGESTIONS_MAX: Final = (  # "did you mean" compares every name: too slow for more errors.
    2 * DIAGNOSTICS_SHOWN_MAX
)  # "did you mean" compares every name, which is too slow for thousands of errors.
PROTOTYPE_DEPTH_MAX: Final = 32  # `extends` of `extends`. Plans in practice use three levels.

# Execution.
TASK_DEPTH_MAX: Final = 16  # Delegation deeper than this is a loop, not a plan.
TASK_ID_CHARS_MAX: Final = 40  # An id that is made from a goal. Names stay readable in a tree.
CHILDREN_MAX: Final = 10_000  # Per task.
PARALLEL_DEFAULT: Final = 8  # Effects that run at the same time.
RETRIES_DEFAULT: Final = 0
QUEUE_LENGTH_MAX: Final = 200_000  # Addresses. Each object has at most one entry, so this also limits objects.

# Sandboxes.
SANDBOX_PROCESSES: Final = 1_024  # Default per bubblewrap sandbox. A large build has 200.
SANDBOX_TMP_BYTES: Final = 1 << 30  # Per in-memory folder that a sandboxed command can write: /tmp and its home.
SANDBOX_PROXY_PORT: Final = 3128  # The usual port of HTTP proxies. Nothing else listens inside the sandbox.
SANDBOX_EMPTY_S: Final = (  # For killed processes to leave their cgroup. A slower one hangs in the kernel.
    2.0  # Time for killed processes to leave their cgroup. A process that needs longer hangs in the kernel.
)
SANDBOX_PROBE_S: Final = 10.0  # Time to run `true` in a sandbox. It usually takes 0.02 s.
SANDBOX_RETRY_S: Final = 1.0  # First delay before an unavailable sandbox is tried again. Each delay doubles.
SANDBOX_RETRY_CAP_S: Final = 30.0  # Longest delay, so that an installed package is noticed soon.
SANDBOX_CONNECTIONS_MAX: Final = (  # Concurrent proxy connections of one command. Browsers open 6 per host.
    64  # Concurrent connections of one command through the proxy. Browsers open 6 per host.
)
SANDBOX_REFUSALS_TOLD: Final = 8  # Blocked hosts listed in the output of a command.
WAY_LINKS_MAX: Final = 40  # Symbolic links followed on the path to a folder. Linux has the same limit.

# Time, in seconds.
CHECK_TIMEOUT_S: Final = 600.0
CALL_TIMEOUT_S: Final = 600.0
OUTSIDE_TURN_S: Final = 3_600.0  # Default for one turn of a command-line agent. The turn is a whole task.
MCP_CLIENT_LEASE_S: Final = 300.0  # Default time within which an MCP client must make a call. Models think long.
MCP_CLIENT_LEASE_MIN_S: Final = 1.0  # A shorter lease would expire between two calls of a working client.
MODEL_CONNECT_S: Final = 15.0  # A provider that has not accepted a connection by then is unreachable.
MODEL_CANCEL_S: Final = (  # For the litellm process to close a connection. Otherwise its exit closes it.
    2.0  # Time for the litellm process to close a connection. Then planloop closes it when the process ends.
)
MODEL_LINGER_S: Final = 0.5  # Time for a response body to end after its last event. Then the connection is not reused.
STORE_CLOSE_S: Final = 30.0  # Time to write queued records at the end. A disk that needs longer hangs.
TERM_GRACE_S: Final = 5.0  # Between TERM and KILL of a process group.
BACKOFF_BASE_S: Final = 0.05
FIGHT_REPEATS_MAX: Final = 8  # Writes of the same content in a window. A state machine passes a state a few times.
FIGHT_WRITES_MAX: Final = 2_000  # Writes of any content in a window. A counter or clock in a status hides repeats.
BACKOFF_CAP_S: Final = 60.0
BACKOFF_JITTER: Final = 0.2  # Share of the delay, in both directions. It spreads retries of simultaneous failures.
FILE_SETTLE_S: Final = 0.02  # A saved file is read when its size and hash have not changed for this long.
FILE_MISSING_GRACE_S: Final = 2.0  # Editors replace the inode. A file that is missing for less is being saved.

# Locks.
LOCK_TTL_S: Final = 600.0  # A lease without progress of its holder expires after this time, if another task waits.
LOCK_AGEING_S: Final = 30.0  # Waiting this long raises the priority of a waiter by one step, so every waiter is served.
LOCK_PRIORITY_MAX: Final = 20  # Steps in both directions. A request can overtake only those up to 20 minutes older.
LOCK_NAMES_SHOWN: Final = 3  # Holders named in a sentence. `plan get locks` lists all.
LOCKS_TOLD_MAX: Final = 32  # Locks of an agent listed in its prompt, in every turn.
LOCK_WAITERS_SHOWN: Final = 12  # In a description. `-o yaml` lists all.

# Containers.
CONTAINER_PIDS_DEFAULT: Final = 2_048  # As in Podman. It contains a fork bomb.
CONTAINER_BACKOFF_S: Final = 0.5  # First delay before a retry. Each delay doubles.
CONTAINER_STEADY_S: Final = 10.0  # After this run time the failure count starts again at 0, as in other engines.
CONTAINER_STOP_S: Final = 10.0  # Between TERM and KILL.
CONTAINER_PROGRESS_S: Final = 2.0  # Interval between progress records of a pull or build.
CONTAINER_LOOK_S: Final = 60.0  # Interval of inspections that find what engine events missed, while containers exist.
CONTAINERS_DOWN_S: Final = 90.0  # Time to remove all containers of a plan. Then the remaining ones are reported.
CONTAINER_LAST_CHARS: Final = 2_000  # End of the container's output in its status.
CONTAINERS_OF_AGENTS: Final = 4  # Default number of containers that agents may have at a time.
CONTAINERS_TOLD_MAX: Final = 16  # Containers of its task listed in an agent's prompt, in every turn.
CONTAINER_WAIT_S: Final = 120.0  # Time that a tool waits for a container to start. The start continues after that.
CONTAINER_LINES_SHOWN: Final = 200  # Lines of output in an answer. The complete output is a blob.
ENGINE_CALL_S: Final = 30.0  # One API call. Calls that take longer state their own limit.
ENGINE_LOOK_S: Final = 10.0  # Inspection of one container of many, so that a stuck one does not delay the others.
ENGINE_PULL_S: Final = 1_800.0  # Several gigabytes over a slow connection.
ENGINE_BUILD_S: Final = 1_800.0
ROOTFS_BYTES_MAX: Final = 16 << 30  # Unpacked. The largest common images, with a desktop or CUDA, have half of that.
SUITE_BYTES_MAX: Final = 16 << 20  # A suite, or the plan of its run. Importers and compilers write them.
IMPORTED_BYTES_MAX: Final = 64 << 20  # One file of a public data set. The largest of BFCL has 3 MiB.
ROOTFS_FILES_MAX: Final = 300_000  # Names in memory, 1 KiB each. A full desktop has 200,000.
TAR_HEADER_BYTES_MAX: Final = 1 << 20  # All headers of one file, including its long name and attributes.
XZ_MEMORY_BYTES_MAX: Final = 256 << 20  # Dictionary. `xz -9` needs 65 MiB.
APT_ANSWER_S: Final = 300.0  # Query for available packages. The first one downloads the lists.
IMAGE_STEP_S: Final = 600.0  # One program that runs during the build of a stock image: unpacking, `jlink`.
ENGINE_CALLS_AT_ONCE: Final = 16  # Threads. A small engine handles fewer concurrent calls.
ENGINE_STREAMS_AT_ONCE: Final = 256  # Threads that wait for output: logs, events, commands in containers.

# Pages.
FETCH_S: Final = 30.0  # One fetch including redirects.
FETCH_REDIRECTS_MAX: Final = 5  # Browsers allow 20. Five are enough for a shop, a login and their pages.
FETCH_BYTES_MAX: Final = 4 << 20  # One page, unpacked: the largest articles with their markup.
FETCH_JSON_BYTES_MAX: Final = 256 << 10  # JSON that is passed on unchanged in the record of the call.
URL_CHARS_MAX: Final = 4_096

# Programs under test.
HTTP_ANSWER_S: Final = 10.0  # Default for one response. Users do not wait longer.
HTTP_BODY_BYTES_MAX: Final = 1 << 20  # Response to a step. Patterns search all of it.
HTTP_REDIRECTS_MAX: Final = 10
HTTP_REPEATS_MAX: Final = 1_000
HTTP_PARALLEL_MAX: Final = 64
SOCKET_CONNECT_S: Final = 5.0  # To open a websocket.
SOCKET_SETTLE_S: Final = 0.1  # Time for a server to register a new connection.
SOCKET_HEAR_S: Final = 2.0  # Default time until a sent message is received.
SOCKET_FRAME_BYTES_MAX: Final = 1 << 20
SOCKET_FRAMES_MAX: Final = 1_000  # Received by one client. A program that sends more fails the check.
SOCKET_CLIENTS_MAX: Final = 32
SOCKET_WAYS_MAX: Final = 48  # Paths times frame formats. Each combination takes seconds.
TRANSCRIPT_BYTES_MAX: Final = 256 << 10  # Messages to a program and its answers.
OBSERVING_S: Final = 40.0  # To open a page, type into it and watch its socket. It takes 3 s on an idle machine.
OBSERVED_FRAMES_MAX: Final = 100  # Frames of a page's own socket.
OBSERVED_FRAME_CHARS_MAX: Final = 8 << 10  # Longer frames are not chat messages.
OBSERVED_SOCKETS_MAX: Final = 8  # With all frames, escaped, they fit into 64 MiB of program output.

# Tool servers.
SERVER_START_S: Final = 60.0  # From process start to the tool list. npx may download the server first.
SERVER_STOP_S: Final = 2.0  # Between the end of its input and TERM.
SERVER_SETTLE_S: Final = 1.0  # Time to read responses that a server sent just before it exited.
SERVER_PROBE_S: Final = 5.0  # Time for a server to answer a ping after one of its calls timed out.
PROMPT_WAIT_S: Final = 30.0  # Time that a person waits for the text of a server's prompt.
SERVER_LINGER_S: Final = 5.0  # Time that an unused server keeps running, since the next task may need it.
SERVER_LISTED_EVERY_S: Final = 1.0  # Interval between tool lists of a server that reports changes continuously.
SERVER_STEADY_S: Final = 60.0  # After this run time the failure count starts again at 0.
SERVER_FAILURES_MAX: Final = 6  # Consecutive failures. Then agents continue without the server.
SERVER_UNREACHABLE_S: Final = 30.0  # Minimum time to retry a refused URL, since its server may be restarting.
SERVER_RETRY_CAP_S: Final = 5.0  # Longest delay between these retries.
SERVER_QUEUE_MAX: Final = 256  # Requests that wait until their server accepts them.
SERVER_TOOLS_MAX: Final = 512  # Per server. Models get lost with fewer.
WORLD_FILE_BYTES_MAX: Final = 16 << 20  # File of a simulated world. A suite with thousands of functions has 2 MB.
WORLD_NODES_MAX: Final = 2_000_000  # Values in such a file.
WORLD_ROWS_KEPT_MAX: Final = 1_000  # Rows that an agent has changed. Its status contains them.
SERVER_PAGES_MAX: Final = 64  # Pages of one list. It stops a server whose pages never end.
SERVER_OFFER_BYTES_MAX: Final = 64 << 10  # Description and schema of one tool. Every prompt contains them.
SERVER_MESSAGE_BYTES_MAX: Final = 32 << 20  # One line of a server. A large image in base64 fits.
SERVER_FIELD_BYTES_MAX: Final = 8 << 10  # Line of an event other than its data. A longer line is ignored.
SERVER_DATA_LINES_MAX: Final = 4_096  # Data lines of one event that are kept separate. More lines are joined.
SERVER_PENDING_MAX: Final = 1_024  # Requests to a server that have no response yet.
SERVER_REFUSAL_BYTES_MAX: Final = 64 << 10  # Part of an HTTP error body that is searched for a reason.
SERVER_INTEGER_DIGITS_MAX: Final = 300  # Integer in a response. A longer one stays text.
SERVER_LIST_S: Final = 8.0  # List of prompts or resources. A server that has none may not respond.
SERVER_PART_CHARS_MAX: Final = 2_000  # Text in a content part of unknown type. Longer texts are encoded data.
SERVER_LOG_BYTES_MAX: Final = 1 << 20  # Log output of a server. The older half is dropped.
INPUT_WAIT_S: Final = 600.0  # Time for a person to answer a server's question. Servers time out too.
INPUT_ROUNDS_MAX: Final = 10  # Questions in one call.
PROGRESS_EVERY_S: Final = 1.0  # Interval between progress records of a call.

# Storage and results.
OUTPUT_SHOWN_BYTES: Final = 8 << 10  # Command output in a result: half head, half tail.
COMMAND_FILE_BYTES_MAX: Final = 8 << 30  # Any file that a command writes, and its output while no owner runs.
OUTPUT_KEPT_BYTES_MAX: Final = 64 << 20  # Per command, as a blob. A command that prints more is stopped.
PROMPT_ARGUMENT_BYTES_MAX: Final = 120 << 10  # Prompt passed as an argument. Linux accepts 128 KiB per argument.
MIND_OUTPUT_BYTES_MAX: Final = 4 << 20  # Answer of an agent program. A reply that contains whole files fits.
FILE_BYTES_MAX: Final = 1 << 20  # File that a tool reads or writes whole. Larger files need the shell.
FILE_SHOWN_BYTES: Final = 32 << 10  # Part of a file in a result. Line ranges return the rest.
FILES_SEEN_MAX: Final = 512  # Digests of read files per agent. A file whose digest was dropped must be read again.
FILES_LISTED_MAX: Final = 1_000  # Paths in one listing.
FILES_SEARCHED_MAX: Final = 20_000  # Files that one search reads.
SEARCH_HITS_MAX: Final = 200
MESSAGE_BYTES_MAX: Final = 16 << 10  # Body of one message. Longer texts belong in a file.
SAID_BYTES_MAX: Final = 2 << 20  # One call of an MCP client. A file that a tool writes whole fits.
SAID_MAX: Final = 16  # Queued calls of one MCP client.
SAID_KEPT_MAX: Final = 32  # Call ids kept per MCP client to detect repeats. Clients repeat a call soon.
CHILDREN_NAMED_MAX: Final = 5  # Blocking child tasks named in one line.
CLAIM_BYTES_MAX: Final = 16 << 10  # Result or reason of a task.
INBOX_MESSAGES_MAX: Final = 256  # Unread messages of one agent. Further messages are rejected with "full".
HISTORY_SHOWN_MAX: Final = 1_000  # Revisions listed at once.
DIFFERENCES_RECORDED_MAX: Final = 200  # Listed in one record for display. The objects contain every change.
VALUE_SHOWN_CHARS: Final = 80  # Value quoted in a sentence. `plan get` prints all of it.
MATCHED_ITEMS_MAX: Final = 1_000  # List that is compared with a `set`. The comparison is quadratic.
SPECS_KEPT_MAX: Final = 4_096  # Parsed agent and task specs in memory, about 2 KiB each.
PROMPTS_KEPT_MAX: Final = 256  # Prompts of working agents in memory. A dropped prompt is rebuilt from the log.
STATUSES_KEPT_MAX: Final = 512  # Parsed statuses of working agents in memory.
TOOLSETS_KEPT_MAX: Final = 256  # Encoded tool lists in memory, about 8 KiB each, one per set of tools.
OUTLINE_LINES_MAX: Final = 500  # Plan as text for an agent. The outline of a subtask shows the rest.
DIFF_LINES_MAX: Final = 4_000  # Two compared files. The comparison is quadratic in the worst case.
LINKS_MAX: Final = 40  # Symbolic links on a path, as in the kernel.
HOST_NAME_CHARS_MAX: Final = 63  # DNS label. Engines reject longer ones.
PATH_CHARS_MAX: Final = 4_096  # PATH_MAX.
REASON_CHARS_MAX: Final = 500  # Reason that an agent gives for a patch.
TURN_ACTIONS_MAX: Final = 64  # Calls in one reply.
PASS_STEPS_MAX: Final = 64  # Steps of one agent in one reconcile. A turn has about five.
IDLE_TURNS_MAX: Final = 16  # Consecutive turns without a call after which the decider asked for another turn.
CLAIMS_REJECTED_MAX: Final = 32  # Rejected `done` claims in one incarnation. Then the task fails.
BRIDGES_MAX: Final = 32  # Per agent. Every message across the tree checks them.
DUMP_BYTES_MAX: Final = 16 << 20  # Agent in a file: about four million tokens of transcript.
EDGE_WINDOW_S: Final = 60.0  # Window in which messages from one agent to another are counted.
EDGE_MESSAGES_MAX: Final = 60  # From one agent to another in that window. More is a loop.
EDGE_KEYS_MAX: Final = 32  # Idempotency keys kept per recipient. Senders repeat a message soon.
EDGES_KEPT_MAX: Final = 64  # Recipients counted per sender. The longest silent one is dropped first.
ANSWER_BYTES_MAX: Final = 8 << 10  # One speaker in a thread. All others read it; longer texts belong in a file.
SPEAKERS_MAX: Final = 32  # Turns to speak in one discussion. A round is one turn per speaker.
LISTENERS_MAX: Final = 64  # Per discussion. Each keeps what it receives in its inbox until its next turn.
ANSWER_WAIT_S: Final = 3_600.0  # One answer, which may be a child's whole task.
SAME_CALL_MAX: Final = 3  # Consecutive equal calls with equal arguments. Then the condition Stuck is set.
REPEATS_MAX: Final = 3  # Equal failed attempts. Then the agent has no other solution.
TRIED_KEPT_MAX: Final = 8  # Failed attempts that are compared with the next one.
TRIED_CHARS_MAX: Final = 1_000  # Compared part of an answer: head and tail.
ESCALATE_AFTER: Final = 3  # Default number of rejected answers before a stronger model continues.
MODEL_WINDOW_TOKENS: Final = 128_000  # Default context window. Most models have had it since 2024.
MODEL_OUTPUT_TOKENS: Final = 8_192  # Default length of one reply. A whole file fits.
MODEL_STREAM_BYTES_MAX: Final = 32 << 20  # One response as sent. Each token takes about 250 bytes of JSON.
MODEL_REPLY_CHARS_MAX: Final = 2 << 20  # One reply with its arguments: half a million tokens in several records.
REPLY_ENDS_MAX: Final = 2  # Chunks that state the end of a reply: the last one, and the one with usage.
ERRORS_NESTED_MAX: Final = 4  # Levels of JSON errors in the message of another error. Each gateway adds one.
TEXT_CALLS_MAX: Final = 64  # Calls in one such text.
TEXT_CALLS_CHARS_MAX: Final = 256 << 10  # Text that is searched for calls. A call with a whole file is shorter.
MODEL_HEADER_BYTES_MAX: Final = 64 << 10  # One response header. Gateways repeat policies and limits in headers.
MODEL_EVENT_LINES_MAX: Final = (  # Per event. Vendors send one; each further line is decoded again with those before.
    64  # Per event. Vendors send one line. Each further line is decoded again with those before it.
)
MODEL_PIECES_HELD: Final = 1_000  # Buffered chunks between the litellm process and its reader. Then reading waits.
MODEL_LOWERED_MAX: Final = 3  # Repeats of one request with a shorter reply.
MODEL_TRIES_MAX: Final = 8  # Consecutive attempts of one request, about two minutes. Then the agent is blocked.
MODEL_RETRY_AFTER_MAX_S: Final = 86_400.0  # Longest `Retry-After` that is obeyed: daily quotas.
MODEL_BACKOFF_BASE_S: Final = 1.0  # Delay before the second attempt if the provider gives none. Each delay doubles.
EMPTY_REPLIES_MAX: Final = 2  # Consecutive empty replies. The prompt is repeated once. Then the agent is blocked.
OLD_RESULT_BYTES: Final = 1 << 10  # Result of an old turn after compaction: head and tail.
SUMMARY_TOKENS_MAX: Final = 2_048  # Summary of a conversation: four headings with short lines.
TOO_LONG_TRIES_MAX: Final = 3  # Attempts to shorten a prompt that a model rejected as too long.
RECALL_BYTES: Final = 16 << 10  # Old turn that an agent reads again.
PROMPT_NAMES_MAX: Final = 8  # Chain of prompts that refer to each other. A longer chain is a cycle.
RECALL_HITS_MAX: Final = 20  # Turns listed by one search of the history.
HEARD_WORDS_MAX: Final = 1_000  # Buffered text chunks per listener of a model. A slow listener misses later ones.
CHAT_LINES_KEPT: Final = 1_000  # Chat input lines in a history file next to the log.
CHAT_LINES_AHEAD: Final = 100  # Chat lines queued while an answer is pending. More lines stay in the terminal.
REPLAY_NOTES_MAX: Final = 200  # Differing records that a replay reports.
STREAM_CHARS_MAX: Final = 16 << 10  # End of a reply in progress, for watching clients.
WIRE_NAME_CHARS_MAX: Final = 64  # Tool name in the OpenAI API and compatible ones.
MODEL_ERROR_CHARS: Final = 500  # Error text of a provider. The rest is HTML or the quoted request.
SECRET_CHARS_MIN: Final = 6  # Masking a shorter value would mask ordinary words.
SHELL_DEPTH_MAX: Final = 16  # Nested substitutions and scripts in a shell line. Deeper ones are not parsed.
SHELL_WORDS_MAX: Final = 256  # Words of one command in a shell line. Further words count as unknown.
SHELL_ARITHMETIC_CHARS: Final = 1_000
SHELL_COMPARED_CHARS: Final = 4_096  # Uncertain command that is compared with denials.
WRAPPED_WORDS_MAX: Final = 64  # Words of a command after `env` or `xargs`. Each could start the denied command.

# Mixins.
MIXIN_PROGRAM_S: Final = 30.0  # Program before or after a call. The call waits for it.
MIXIN_WORDS_CHARS_MAX: Final = 2_000  # Reason or comment of such a program. The agent reads it.
CACHE_ENTRIES_MAX: Final = 1_024  # Cached answers per agent, a few KiB each.
CACHE_GOOD_S: Final = 600.0  # Default lifetime of a cached answer.

# Locks that agents take.
LOCK_WAIT_S: Final = 120.0  # Default wait of a call for a lock: one turn of a model and its tools. Then it is refused.
LOCK_WAIT_MAX_S: Final = 3_600.0  # Longest wait that a call may request.
LOCKS_DECLARED_MAX: Final = 256  # Per task. Each inspection of a lock reads all locks near it.
LOCKS_AT_ONCE_MAX: Final = 64  # Paths in one request. A folder needs one glob.
LOCK_REASON_CHARS_MAX: Final = 200  # Every waiter reads it.
LOCK_FILES_WATCHED_MAX: Final = (  # Files of other holders compared around a shell command: milliseconds.
    256  # Files of other holders compared before and after a shell command. Takes milliseconds.
)
LOCK_FILE_BYTES_MAX: Final = 4 << 20  # Such a file. Larger files are not source code.

# Hooks.
HOOK_PROGRAM_S: Final = 60.0  # Default time for the verdict of a program or function.
HOOK_AGENT_S: Final = 600.0  # Default time for the verdict of an agent, which may read first.
HOOK_REWRITES_MAX: Final = 3  # Rewrites of the arguments of one call. Hooks that continue disagree.
HOOK_SENT_BACK_MAX: Final = 3  # Rejections of one final answer. Then it is accepted.
HOOK_NUDGES_MAX: Final = 3  # Consecutive wake-ups of an agent by nothing but a hook's comment.
HOOK_OUTPUT_BYTES_MAX: Final = 1 << 20  # Output of a hook program. A verdict with a whole file as an argument fits.
HOOK_TRANSCRIPT_BYTES_MAX: Final = 4 << 20  # End of the transcript, for scripts that read it.
HOOK_TRANSCRIPT_TURNS_MAX: Final = 100  # Turns in one request to a hook.
TURNS_SEARCHED_MAX: Final = 10_000  # Newest turns in which a hook searches for a text.
HOOK_TRANSCRIPT_CHARS_MAX: Final = 10_000  # Per message of the transcript.
HOOK_TRANSCRIPT_SHOWN_BYTES: Final = 128 << 10  # End of all messages together.
HOOK_FILES_KEPT_MAX: Final = 32_768  # Digests of known files of all agents, about 8 MiB.
HOOK_MEMORY_BYTES_MAX: Final = 64 << 10  # State of a hook between verdicts. The log contains each change.

# Rules of hooks.
HOOKS_MAX: Final = 64  # Per agent. Each can run at every call.
RULE_CLAUSES_MAX: Final = 64  # Per rule. Each clause is evaluated at every request.
RULE_NESTING_MAX: Final = 16  # Nesting of `any`, `all` and `not`. Rules in practice use three levels.
RULE_PATTERN_CHARS_MAX: Final = 500  # Regular expression.
RULE_PATTERN_STEPS_MAX: Final = 192  # Compiled steps of an expression, with counted repeats expanded.
RULE_PATTERN_KEPT_MAX: Final = 4_096  # Cached character decisions of one expression, about 1 MiB.
RULE_TEXT_CHARS_MAX: Final = 16 << 10  # Text that an expression searches. Half a second in the worst case.
RULE_WORDS_CHARS_MAX: Final = 4_000  # Reason or comment after its placeholders are filled in. The agent reads it.
RULE_NOTES_MAX: Final = 16  # Texts that a hook keeps for the agent that it consults. The oldest are dropped.
RULE_NAMES_MAX: Final = 256  # Counters, marks and children per hook. The oldest are dropped.
RULE_NAME_CHARS_MAX: Final = 64  # Such a name after its placeholders are filled in. Every verdict stores all names.
RULE_COUNT_MAX: Final = 10**15  # Counter. Every JSON parser reads this integer exactly.

# Hooks that are agents.
HOOK_SHOWN_BYTES: Final = (4_096, 1_024, 256, 64)
"""Length of each text in a request to a hook: the first value with which the request fits into a message."""
HOOK_ITEMS_SHOWN_MAX: Final = 32  # Entries of one list in the request: children, messages, files.
HOOK_WORDS_CHARS_MAX: Final = 2_000  # Reason or comment of a hook. The watched agent reads it.
HOOK_OBJECTS_MAX: Final = 64  # Braces of an answer that are tried as the start of a JSON object.

# Budgets.
BUDGET_TOLD_AT: Final = 0.8  # Used share at which an agent and its parent get a notice.
HANDOVER_SHARE: Final = Decimal("0.05")  # Share of a limit that an LLM agent keeps for its last turn …
HANDOVER_SHARE_MAX: Final = Decimal("0.5")  # … and at most, so that a small budget is mostly for work.
HANDOVER_FLOORS: Final = {"tokens": 4_000, "usd": "0.01", "time_s": 10.0, "calls": 1, "turns": 1}
"""Minimum of the reserve: a prompt of a few thousand tokens and a page of answer, one call, one turn."""
HANDOVER_OUTPUT_TOKENS: Final = 2_000  # Last answer: two pages on what is done and what is left.
HANDOVER_BYTES_MAX: Final = 12 << 10  # Part of it in the message to the parent agent.
OUTPUT_TOKENS_MIN: Final = 256  # Shortest reply that is worth a request when a budget is nearly used up.
USAGE_SLACK: Final = (
    32  # Factor by which a provider's token count may differ from ours: repeated letters, rare scripts.
)
USAGE_ADDED_TOKENS: Final = 65_536  # Tokens that a provider may add to a prompt: its own instructions, search results.
USAGE_THOUGHT_TOKENS: Final = 262_144  # Hidden reasoning tokens that a provider counts: the longest output on offer.
USAGE_MAX: Final = 1e15  # Tokens or dollars that a program reports. A larger value is invalid.
USAGE_DIGITS_MAX: Final = 18  # Digits of a count in text form.
USAGE_BYTES_MAX: Final = 4 << 10  # A provider's usage report in the log.
USAGE_OFF_SHARE: Final = 0.25  # Difference between a provider's count and ours, as a share of ours, that is reported.

# Forks.
GIT_S: Final = 600.0  # One git command. A snapshot of a large repository reads every file once.
GIT_WORDS_LINES: Final = 3  # Last lines of a git error, which contain the cause.
FORK_ROUNDS_MAX: Final = 8  # Merges of a working tree that keeps changing. Then the fork waits.
FORK_CHECKS_MAX: Final = 3  # Consecutive repeats of the checks after a merge. Then the fork is merged unchecked.
FORK_LOOK_S: Final = 5.0  # Interval at which a merge that a person resolves is inspected.
FORK_LOCKS_MAX: Final = 64  # Locks on single files that a fork changed. More files are locked by their parent folder.
FORK_NAME_BYTES_MAX: Final = 120  # Path of a task in file and branch names, which can have 255 bytes in all.
FORK_FILES_SHOWN: Final = 10  # Conflicting files named in a sentence. `plan describe` lists all.

# The log.
SNAPSHOT_EVERY_RECORDS: Final = 512  # About 10 ms of folding at the next start. Written when the writer is idle, …
SNAPSHOT_RECORDS_MAX: Final = (  # … requested again after half that number while it is busy; at the latest here.
    4_096  # … requested again after half that number while it is busy, and at the latest here.
)
BATCH_RECORDS_MAX: Final = 2_048  # Per transaction. Limits the memory of a flush and the wait of its first record.
RECENT_RECORDS_MAX: Final = 512  # In memory for watchers. A watcher that is further behind reads the log.
LOG_CONNECTIONS_MAX: Final = 4  # Open connections per log reader. Further threads open and close their own.
PAST_VIEWS_MAX: Final = 8  # Cached views per reader. Moving on a timeline revisits a few of them.
BLOB_ROW_BYTES_MAX: Final = 128 << 10  # Larger blobs are files, which cost less than a row.

# Conflicts.
CONFLICT_AFTER_S: Final = 5.0  # A longer wait for a lock becomes a conflict. Most writes take less.
CONFLICT_LATER: Final = (  # Factor of the wait so far, after which a wait without conflict is inspected again.
    4  # Factor of the wait so far after which a wait that cannot become a conflict is inspected again.
)
CONFLICT_ANSWER_S: Final = (  # To resolve a conflict and to follow the resolution: two turns. Then it escalates.
    90.0  # Time to resolve a conflict and to follow the resolution: two turns. Then it is escalated.
)
CONFLICT_RAISED_MAX: Final = 2  # Escalations without an answer. Then a person has to resolve the conflict.
CONFLICTS_OPEN_MAX: Final = 48  # Open conflicts. Further waits stay in the queue.
CONFLICTS_KEPT_MAX: Final = 64  # Including resolved ones. The newest is always kept, so no number is reused.
CONFLICT_RECORDS_MAX: Final = 2_000  # Log records searched for the changes of both parties, about 20 ms.
CONFLICT_FILES_SHOWN: Final = 4  # Per party, with differences. Further files are counted.
CONFLICT_DIFF_BYTES: Final = 1 << 10  # Difference of one file. Both sides and their texts fit into one message.
CONFLICT_WORDS_MAX: Final = 500  # Intent or proposal. The other party and the resolver read it.
CONFLICT_PLAN_MAX: Final = 2_000  # Message of the resolver to the parties.
RULINGS_TOLD: Final = 8  # Resolutions of a task in its agent's prompt.
CONFLICT_PATHS_MAX: Final = 16  # Paths in one `contest` call.

# Edits that need approval.
CANCELS_HELD_OVER: Final = 3  # An edit that cancels more running tasks than this, or half of them, waits for approval.

# Grading works on a copy of the workspace.
GRADED_ENTRIES_MAX: Final = 50_000  # Files, folders and links. A program with all dependencies has 20,000.
GRADED_BYTES_MAX: Final = 2 << 30
GRADED_DEPTH_MAX: Final = 100  # Nested folders. The functions that walk them recurse.

# Checks of calls.
NEEDED_CALLS_MAX: Final = 64  # Per check. The largest public answer key has a dozen.
ASSIGNING_STEPS_MAX: Final = 2_000  # To assign calls to checks. Usual checks take a few dozen.

# Web checks.
WEB_STEPS_MAX: Final = 100  # Per list. A game of chess takes eighty.
WEB_CONTEXTS_MAX: Final = 6  # Concurrent users. Each is a browser context of about 50 MB.
WEB_GRID_SIDE_MAX: Final = 40  # Rows or columns of a board.
WEB_COUNT_MAX: Final = 10_000  # Counted elements on a page.
WEB_WAIT_S_MAX: Final = 120.0  # Until one element is visible.
WEB_REUSED_DEEP_MAX: Final = 4  # Depth of checks that reuse other checks.
WEB_CANDIDATES_MAX: Final = 3  # Elements that one target can match.
WEB_CLEAR_TRIES_MAX: Final = 20  # Attempts to delete browser storage, 0.1 s apart.
WEB_LOOKS_MAX: Final = 2  # Loads of a page whose tab crashes.
WEB_WAYS_MAX: Final = 16  # Paths through a flow. Two targets with three candidates each have nine.
WEB_ANSWER_S_MAX: Final = 20.0  # Until a page loads, or responds to an inspection.
WEB_START_S_MAX: Final = 60.0  # Start and end of the browser on a busy machine.
WEB_NAME_CHARS_MAX: Final = 60  # Text that names a field or a button. Longer texts are prose.
WEB_TYPED_CHARS_MAX: Final = 200  # Typed key by key. A longer text is pasted.
WEB_TREE_LINES_MAX: Final = 2_000  # Stored accessibility tree.

# API responses.
OBJECTS_ANSWER_MAX: Final = 20_000  # Objects in one response, about 40 MiB. Further ones are on the next page.
LOG_ANSWER_BYTES_MAX: Final = 8 << 20  # Records in one response. Each can contain a file.
TEXT_ANSWER_BYTES_MAX: Final = 4 << 20  # Blob or output in one response.

# Benchmark reports.
RUNS_FOLDED_MAX: Final = 64  # Runs in memory of the server. Other runs are folded again from their events.
RUNS_TOLD_MAX: Final = 1_000  # Newest runs in one list.
RUNS_COMPARED_MAX: Final = 16  # Per page: 120 pairs of models, if each run has one.
CASE_AGENTS_MAX: Final = 20  # Transcripts per entry: its agent and its helpers.
CASE_ITEMS_MAX: Final = 1_000  # Newest items of one transcript.
CASE_CALLS_MAX: Final = 1_000  # Per entry.
SUITES_LOOKED_AT_MAX: Final = 500  # Folder entries that are searched for suites.
LOG_PAGE_BYTES: Final = 64 << 10  # Container output in one response.
RUN_EVENTS_TOLD_MAX: Final = 200  # Newest events of a running benchmark in one frame.
CHAT_ITEMS_SHOWN_MAX: Final = 200  # Earlier messages shown when a person joins a chat.
