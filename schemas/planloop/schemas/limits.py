"""Every bound in the product, with its unit and its reason (law 11). Nothing else holds a bare limit."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

# What may be read.
PLAN_FILE_BYTES_MAX: Final = 1 << 20  # A plan is written by hand; 5,000 tasks take 350 KB. `--max-size` raises it.
PLAN_FILE_BYTES_LAST: Final = 64 << 20  # What it raises that to at most.
YAML_ALIASES_MAX: Final = 100  # Ten nested levels of aliases expand to gigabytes; people use a handful.
PLAN_NODES_MAX: Final = 100_000  # After expansion: about 20,000 tasks, well past what a person can steer.
PLAN_DEPTH_MAX: Final = 64  # Parsers recurse; both YAML readers fail between 200 and 500.
FOREIGN_DEPTH_MAX: Final = 100  # Of JSON that a program prints: what folds and masks it recurses.
DIAGNOSTICS_SHOWN_MAX: Final = 20  # More faults than that are one cause repeated.
PATCH_OPS_MAX: Final = 5_000  # Of one patch: each copies the maps on its path, and a map may have 10,000 keys.
PATCH_POINTER_CHARS_MAX: Final = 16_384  # Of a path in a patch, which messages and records repeat.
PATCH_VALUES_MAX: Final = 4 * PLAN_NODES_MAX  # That the operations of a patch add or copy, aliases counted each time.
PATCH_BYTES_MAX: Final = 64 << 20  # Of the text in these values: `copy` repeats a long text for a few bytes.
SUGGESTIONS_MAX: Final = 2 * DIAGNOSTICS_SHOWN_MAX  # "did you mean" looks at every name: not for thousands of faults.
PROTOTYPE_DEPTH_MAX: Final = 32  # `extends` of `extends`; people stop at three.

# What may run.
TASK_DEPTH_MAX: Final = 16  # Delegation deeper than this is a loop, not a plan.
TASK_ID_CHARS_MAX: Final = 40  # Of an id made from a goal: names stay readable in a tree.
CHILDREN_MAX: Final = 10_000  # Of one task.
PARALLEL_DEFAULT: Final = 8  # Effects at once, when the plan does not say.
RETRIES_DEFAULT: Final = 0
QUEUE_LENGTH_MAX: Final = 200_000  # Addresses; one per object at most, so this is the object bound.

# Sandboxes.
SANDBOX_PROCESSES: Final = 1_024  # At once in one bubblewrap when the plan does not say; a large build has 200.
SANDBOX_TMP_BYTES: Final = 1 << 30  # Of each folder in memory that an enclosed command writes: /tmp, its home.
SANDBOX_PROXY_PORT: Final = 3128  # Inside, where nothing else listens; the one that proxies have.
SANDBOX_EMPTY_S: Final = 2.0  # For killed processes to leave their cgroup; one that takes longer hangs in the kernel.
SANDBOX_PROBE_S: Final = 10.0  # To run `true` in an enclosure; it takes 0.02.
SANDBOX_RETRY_S: Final = 1.0  # Before one that is not to be had is tried again; it doubles.
SANDBOX_RETRY_CAP_S: Final = 30.0  # Who installs what is missing waits no longer.
SANDBOX_CONNECTIONS_MAX: Final = 64  # Through the proxy of one command at once; browsers take 6 for each host.
SANDBOX_REFUSALS_TOLD: Final = 8  # Hosts named in the output of a command that was refused them.
WAY_LINKS_MAX: Final = 40  # Followed on the way to a folder: the most that Linux does.

# Time, in seconds.
CHECK_TIMEOUT_S: Final = 600.0
CALL_TIMEOUT_S: Final = 600.0
OUTSIDE_TURN_S: Final = 3_600.0  # One turn of a command-line agent, when the plan does not say: it does a whole task.
MCP_CLIENT_LEASE_S: Final = 300.0  # For an MCP client to say something, when the plan does not say: models think long.
MCP_CLIENT_LEASE_MIN_S: Final = 1.0  # A shorter one would lapse between two calls of a client that is at work.
MODEL_CONNECT_S: Final = 15.0  # A provider that does not take a connection by then will not.
MODEL_CANCEL_S: Final = 2.0  # For litellm's process to close a connection; after that it is closed when it ends.
MODEL_LINGER_S: Final = 0.5  # For the end of a body after its last event; then the connection is not used again.
STORE_CLOSE_S: Final = 30.0  # For writing what is queued at the end; a disk that takes longer hangs.
TERM_GRACE_S: Final = 5.0  # Between TERM and KILL of a process group.
BACKOFF_BASE_S: Final = 0.05
FIGHT_REPEATS_MAX: Final = 8  # Of one content in a window: a state machine passes a state a few times, a fight forever.
FIGHT_WRITES_MAX: Final = 2_000  # In a window, whatever the content: a counter or a clock in a status hides repeats.
BACKOFF_CAP_S: Final = 60.0
BACKOFF_JITTER: Final = 0.2  # Share of the delay, either way: spreads retries that failed together.
FILE_SETTLE_S: Final = 0.02  # A save is taken when size and hash stood still this long.
FILE_MISSING_GRACE_S: Final = 2.0  # Editors replace the inode: a gap this long is a save in progress.

# Locks.
LOCK_TTL_S: Final = 600.0  # A lease whose holder shows no progress for so long goes to who waits for it.
LOCK_AGEING_S: Final = 30.0  # One step of priority is worth so long a wait: who waits long enough is before anybody.
LOCK_PRIORITY_MAX: Final = 20  # Steps that count, either way: nobody is overtaken by who comes 20 minutes later.
LOCK_NAMES_SHOWN: Final = 3  # Holders named in a sentence; `plan get locks` has them all.
LOCKS_TOLD_MAX: Final = 32  # Of those that an agent holds, in its prompt: each turn has them anew.
LOCK_WAITERS_SHOWN: Final = 12  # In a description; `-o yaml` has all of them.

# Containers.
CONTAINER_PIDS_DEFAULT: Final = 2_048  # As with Podman: who forks without end takes the machine otherwise.
CONTAINER_BACKOFF_S: Final = 0.5  # Before the first new try; it doubles.
CONTAINER_STEADY_S: Final = 10.0  # Who has run this long begins a new count of failures, as with other engines.
CONTAINER_STOP_S: Final = 10.0  # Between TERM and KILL.
CONTAINER_PROGRESS_S: Final = 2.0  # Between two words on a pull or a build: each is a record.
CONTAINER_LOOK_S: Final = 60.0  # Between looks at what events may have missed, while there are containers.
CONTAINERS_DOWN_S: Final = 90.0  # For taking all of a plan down; what is left by then is named.
CONTAINER_LAST_CHARS: Final = 2_000  # Of what it wrote last, in its status.
CONTAINERS_OF_AGENTS: Final = 4  # Made by agents at a time, where rights do not say.
CONTAINERS_TOLD_MAX: Final = 16  # Of its task, in an agent's prompt: each turn has them anew.
CONTAINER_WAIT_S: Final = 120.0  # Of a tool, until a container is up; it comes up all the same when that is over.
CONTAINER_LINES_SHOWN: Final = 200  # Of its output, to who asks for it; the whole is a blob.
ENGINE_CALL_S: Final = 30.0  # One call of the engine; what takes longer says so.
ENGINE_LOOK_S: Final = 10.0  # At one container among many: one that is stuck holds up no others.
ENGINE_PULL_S: Final = 1_800.0  # Some gigabytes over a slow line.
ENGINE_BUILD_S: Final = 1_800.0
ROOTFS_BYTES_MAX: Final = 16 << 30  # Unpacked: the largest images in use, with a desktop or CUDA, are about half.
SUITE_BYTES_MAX: Final = 16 << 20  # A suite, or the plan of its run: made by importers and compilers, not by hand.
IMPORTED_BYTES_MAX: Final = 64 << 20  # One file of a public set of cases; the largest of BFCL has 3 MiB.
ROOTFS_FILES_MAX: Final = 300_000  # Held in memory by name, 1 KiB each; a full desktop has 200,000.
TAR_HEADER_BYTES_MAX: Final = 1 << 20  # All headers of one file, with its long name and attributes.
XZ_MEMORY_BYTES_MAX: Final = 256 << 20  # For its dictionary; `xz -9` takes 65 MiB.
APT_ANSWER_S: Final = 300.0  # For which packages there are; the first time it fetches the lists.
IMAGE_STEP_S: Final = 600.0  # One program run while a stock image is made: unpacking, `jlink`.
ENGINE_CALLS_AT_ONCE: Final = 16  # Threads; more than a small engine works on at once.
ENGINE_STREAMS_AT_ONCE: Final = 256  # Threads that wait for output: logs, events, commands inside.

# Pages.
FETCH_S: Final = 30.0  # One fetch with all its redirects; a slower page is another tool's work.
FETCH_REDIRECTS_MAX: Final = 5  # Browsers take 20; five are a shop, a login and a loop.
FETCH_BYTES_MAX: Final = 4 << 20  # Of one page, unpacked: the largest articles with their markup.
FETCH_JSON_BYTES_MAX: Final = 256 << 10  # Of JSON handed on as it stands; it is in the record of the call.
URL_CHARS_MAX: Final = 4_096

# Programs under test.
HTTP_ANSWER_S: Final = 10.0  # Of one answer when a step says nothing; people wait no longer.
HTTP_BODY_BYTES_MAX: Final = 1 << 20  # Of an answer to a step: patterns are looked for in all of it.
HTTP_REDIRECTS_MAX: Final = 10
HTTP_REPEATS_MAX: Final = 1_000
HTTP_PARALLEL_MAX: Final = 64
SOCKET_CONNECT_S: Final = 5.0  # To open a websocket.
SOCKET_SETTLE_S: Final = 0.1  # For a server to take in who has just connected.
SOCKET_HEAR_S: Final = 2.0  # Until what was said is heard, when a step says nothing.
SOCKET_FRAME_BYTES_MAX: Final = 1 << 20
SOCKET_FRAMES_MAX: Final = 1_000  # Heard by one client; who floods it is told.
SOCKET_CLIENTS_MAX: Final = 32
SOCKET_WAYS_MAX: Final = 48  # Paths times shapes of frames; each takes seconds.
TRANSCRIPT_BYTES_MAX: Final = 256 << 10  # Of what was said to a program and what it answered.
OBSERVING_S: Final = 40.0  # To open a page, type into it and see what its socket does; 3 on a machine at rest.
OBSERVED_FRAMES_MAX: Final = 100  # Of a page's own socket.
OBSERVED_FRAME_CHARS_MAX: Final = 8 << 10  # What is longer is no message.
OBSERVED_SOCKETS_MAX: Final = 8  # With all their frames, escaped, they fit into an answer of a program: 64 MiB.

# Tool servers.
SERVER_START_S: Final = 60.0  # From spawn to its list of tools: npx may have to download it first.
SERVER_STOP_S: Final = 2.0  # Between the end of its input and TERM.
SERVER_SETTLE_S: Final = 1.0  # For requests to have the answers that came right before a server ended.
SERVER_PROBE_S: Final = 5.0  # For a server that let a call time out to show that it lives.
PROMPT_WAIT_S: Final = 30.0  # A person who wants a prompt of a server said waits so long for its text.
SERVER_LINGER_S: Final = 5.0  # It stays this long when nobody needs it: the next task may.
SERVER_LISTED_EVERY_S: Final = 1.0  # Between two listings of a server that says all the time that it has changed.
SERVER_STEADY_S: Final = 60.0  # Who has run this long begins a new count of failures.
SERVER_FAILURES_MAX: Final = 6  # In a row; after that agents continue without it.
SERVER_UNREACHABLE_S: Final = 30.0  # Least time to try a URL where nothing listens: its server may be restarting.
SERVER_RETRY_CAP_S: Final = 5.0  # Longest pause between two tries until then.
SERVER_QUEUE_MAX: Final = 256  # Requests that wait for their server to take them.
SERVER_TOOLS_MAX: Final = 512  # Of one server; a model is lost in fewer.
WORLD_FILE_BYTES_MAX: Final = 16 << 20  # Of a simulated world: a suite of thousands of functions has 2 MB.
WORLD_NODES_MAX: Final = 2_000_000  # Values in such a file.
WORLD_ROWS_KEPT_MAX: Final = 1_000  # Rows that an agent may have changed: its status has them.
SERVER_PAGES_MAX: Final = 64  # Of one list: a paginator without end is no list.
SERVER_OFFER_BYTES_MAX: Final = 64 << 10  # Description and schema of one tool; a model reads it in every prompt.
SERVER_MESSAGE_BYTES_MAX: Final = 32 << 20  # One line of a server: a large image as text fits.
SERVER_FIELD_BYTES_MAX: Final = 8 << 10  # Of a line of an event that is not its data; a longer one is left out.
SERVER_DATA_LINES_MAX: Final = 4_096  # Of the data of one event, kept apart; more are joined.
SERVER_PENDING_MAX: Final = 1_024  # Requests to a server that are remembered until they are answered.
SERVER_REFUSAL_BYTES_MAX: Final = 64 << 10  # Of the body of an HTTP error that is looked at for a reason.
SERVER_INTEGER_DIGITS_MAX: Final = 300  # Of an integer in an answer; a longer one stays text.
SERVER_LIST_S: Final = 8.0  # For a list of prompts or resources: a server that knows none may not answer at all.
SERVER_PART_CHARS_MAX: Final = 2_000  # Of one text in a part of unknown kind; longer ones are encoded data.
SERVER_LOG_BYTES_MAX: Final = 1 << 20  # Of what a server prints about itself; the older half goes.
INPUT_WAIT_S: Final = 600.0  # For an answer that a server asks for: servers keep their own state no longer.
INPUT_ROUNDS_MAX: Final = 10  # Of questions in one call.
PROGRESS_EVERY_S: Final = 1.0  # Between two records of how far a call is.

# What is kept.
OUTPUT_SHOWN_BYTES: Final = 8 << 10  # Of a command, to whoever called it: half head, half tail.
COMMAND_FILE_BYTES_MAX: Final = 8 << 30  # Of any file a command writes; its output too, when no owner lives to watch.
OUTPUT_KEPT_BYTES_MAX: Final = 64 << 20  # Of one command, as a blob; then its process group is stopped.
PROMPT_ARGUMENT_BYTES_MAX: Final = 120 << 10  # Of a prompt given as an argument: Linux takes 128 KiB in one.
MIND_OUTPUT_BYTES_MAX: Final = 4 << 20  # Of a program that takes turns: a reply with whole files in it fits.
FILE_BYTES_MAX: Final = 1 << 20  # Of a file that a tool reads or writes whole; larger ones are the shell's work.
FILE_SHOWN_BYTES: Final = 32 << 10  # Of a file, to whoever read it: ranges of lines show the rest.
FILES_SEEN_MAX: Final = 512  # Digests of read files kept per agent; one forgotten has to be read again.
FILES_LISTED_MAX: Final = 1_000  # Paths in one listing.
FILES_SEARCHED_MAX: Final = 20_000  # Looked at by one search.
SEARCH_HITS_MAX: Final = 200
MESSAGE_BYTES_MAX: Final = 16 << 10  # Body of one message; longer things are files.
SAID_BYTES_MAX: Final = 2 << 20  # Of one call that an MCP client makes: a file that tools write whole fits.
SAID_MAX: Final = 16  # Calls of one MCP client that wait for their turn.
SAID_KEPT_MAX: Final = 32  # Ids of its calls that are remembered: who sends one again does so soon.
CHILDREN_NAMED_MAX: Final = 5  # Of children that stand in the way of something, where they are named in one line.
CLAIM_BYTES_MAX: Final = 16 << 10  # Of a result or reason.
INBOX_MESSAGES_MAX: Final = 256  # Unread messages of one agent; a sender past it is told "full".
HISTORY_SHOWN_MAX: Final = 1_000  # Revisions listed at once.
DIFFERENCES_RECORDED_MAX: Final = 200  # In one record, for announcing; the objects' changes are all there anyway.
VALUE_SHOWN_CHARS: Final = 80  # Of a value quoted in a sentence; the rest is one `plan get` away.
MATCHED_ITEMS_MAX: Final = 1_000  # Of a list that is held to a `set`: each is compared with each.
SPECS_KEPT_MAX: Final = 4_096  # Parsed specs of agents and tasks in memory: about 2 KiB each.
PROMPTS_KEPT_MAX: Final = 256  # Of agents at work, in memory; one that is not kept is made anew from the log.
STATUSES_KEPT_MAX: Final = 512  # Parsed statuses of agents at work, in memory.
TOOLSETS_KEPT_MAX: Final = 256  # Encoded tool lists in memory: about 8 KiB each, one for each set that agents have.
OUTLINE_LINES_MAX: Final = 500  # Of the plan as text for an agent; a task below shows the rest.
DIFF_LINES_MAX: Final = 4_000  # Of two files compared: comparing is quadratic in the worst case.
LINKS_MAX: Final = 40  # Symbolic links on the way to a file, as the kernel has it: more is a loop.
HOST_NAME_CHARS_MAX: Final = 63  # Of a label in the DNS: engines refuse longer ones.
PATH_CHARS_MAX: Final = 4_096  # PATH_MAX: what is longer names no file.
REASON_CHARS_MAX: Final = 500  # Of the reason that an agent gives for a patch.
TURN_ACTIONS_MAX: Final = 64  # Calls in one reply.
PASS_STEPS_MAX: Final = 64  # Of one agent in one reconcile: a turn has about five; then the queue gets its turn.
IDLE_TURNS_MAX: Final = 16  # In a row, of a mind that asks for another turn at once and does nothing in it.
CLAIMS_REJECTED_MAX: Final = 32  # Of one incarnation; then its task fails, for nothing else ends such a loop.
BRIDGES_MAX: Final = 32  # Of one agent: every message across the tree looks through them.
DUMP_BYTES_MAX: Final = 16 << 20  # Of an agent in a file: about four million tokens of transcript.
EDGE_WINDOW_S: Final = 60.0  # In which what one agent sends another is counted.
EDGE_MESSAGES_MAX: Final = 60  # From one agent to another in that time: more is a loop, not a conversation.
EDGE_KEYS_MAX: Final = 32  # Idempotency keys remembered for each receiver: who sends again does so soon.
EDGES_KEPT_MAX: Final = 64  # Receivers an agent's counts are kept for; the longest silent one is forgotten first.
ANSWER_BYTES_MAX: Final = 8 << 10  # Of one speaker in a thread: all others read it too; longer things are files.
SPEAKERS_MAX: Final = 32  # Turns to speak in one discussion; a round is one turn for each speaker.
LISTENERS_MAX: Final = 64  # Of one discussion: each keeps what it hears in its inbox until its next turn.
ANSWER_WAIT_S: Final = 3_600.0  # For one answer: a child's whole task fits. Whoever is slower is heard when it ends.
SAME_CALL_MAX: Final = 3  # The same call with the same arguments in a row raises Stuck.
REPEATS_MAX: Final = 3  # Of an attempt that failed: the third time an agent has shown that it has nothing else.
TRIED_KEPT_MAX: Final = 8  # Failed attempts that are compared with the next: four pairs of two.
TRIED_CHARS_MAX: Final = 1_000  # Of an answer that is compared: head and tail.
ESCALATE_AFTER: Final = 3  # Rejected answers before a stronger model goes on, when the plan does not say.
MODEL_WINDOW_TOKENS: Final = 128_000  # Of a model that nobody states the window of: what most have had since 2024.
MODEL_OUTPUT_TOKENS: Final = 8_192  # Of one reply, when the plan does not say: a whole file fits.
MODEL_STREAM_BYTES_MAX: Final = 32 << 20  # Of one answer on the wire; each token comes in about 250 bytes of JSON.
MODEL_REPLY_CHARS_MAX: Final = (
    2 << 20
)  # Of one reply, text and arguments: half a million tokens; several records hold it.
REPLY_ENDS_MAX: Final = 2  # Pieces that state the end of a reply: the last, and that with usage. Not every piece.
ERRORS_NESTED_MAX: Final = 4  # Levels of errors as JSON text in the message of another: each gateway adds one.
TEXT_CALLS_MAX: Final = 64  # Calls in one such text.
TEXT_CALLS_CHARS_MAX: Final = 256 << 10  # Of a text that is looked through for calls: a whole file in one is less.
MODEL_HEADER_BYTES_MAX: Final = 64 << 10  # Of one header of an answer: gateways repeat policies and limits there.
MODEL_EVENT_LINES_MAX: Final = 64  # Of one event: vendors send one; each more is decoded anew with those before.
MODEL_PIECES_HELD: Final = 1_000  # Of a reply between litellm's process and whoever reads it; then reading waits.
MODEL_LOWERED_MAX: Final = 3  # Times that one request is repeated with a shorter reply: a server may never be content.
MODEL_TRIES_MAX: Final = 8  # Attempts of one request in a row: about two minutes of back-off, then somebody looks.
MODEL_RETRY_AFTER_MAX_S: Final = (
    86_400.0  # Of what a provider wants to be left alone: daily quotas; then it is asked anyway.
)
MODEL_BACKOFF_BASE_S: Final = 1.0  # Before the second attempt, when the provider says nothing; doubles each time.
EMPTY_REPLIES_MAX: Final = 2  # In a row: what was told is told once more, and then somebody looks.
OLD_RESULT_BYTES: Final = 1 << 10  # Of a result in an old turn when a conversation is made shorter: head and tail.
SUMMARY_TOKENS_MAX: Final = 2_048  # Of the summary of a conversation; four headings of short lines.
TOO_LONG_TRIES_MAX: Final = 3  # Of making a prompt shorter that a model refused for its length.
RECALL_BYTES: Final = 16 << 10  # Of a turn that is read back.
PROMPT_NAMES_MAX: Final = 8  # A prompt may name another of the plan's; so many names on a row are a ring.
RECALL_HITS_MAX: Final = 20  # Turns that one search of the past shows.
HEARD_WORDS_MAX: Final = 1_000  # Stretches of text that wait for who listens to a model; a slow one misses the rest.
CHAT_LINES_KEPT: Final = 1_000  # Of what a person wrote in chats, in a file beside the log.
CHAT_LINES_AHEAD: Final = 100  # That wait for an answer which is out; more stay where they come from.
REPLAY_NOTES_MAX: Final = 200  # Records in other words that a replay keeps; a systematic one would fill memory.
STREAM_CHARS_MAX: Final = 16 << 10  # Of a reply under way, its newest end, for whoever watches.
WIRE_NAME_CHARS_MAX: Final = 64  # Of a tool's name, by OpenAI's API and all that are like it.
MODEL_ERROR_CHARS: Final = 500  # Of what a provider says went wrong: the rest is HTML or the request quoted back.
SECRET_CHARS_MIN: Final = 6  # Masking a shorter value would eat ordinary words.
SHELL_DEPTH_MAX: Final = 16  # Of substitutions and scripts in one another in a shell line; what is deeper is not read.
SHELL_WORDS_MAX: Final = 256  # Of one command in a shell line; the rest may be anything.
SHELL_ARITHMETIC_CHARS: Final = 1_000
SHELL_COMPARED_CHARS: Final = 4_096  # Of a command that is not certain, when a denial is looked for.
WRAPPED_WORDS_MAX: Final = 64  # Of a command behind `env` or `xargs`: each could be the one that is denied.

# Mixins.
MIXIN_PROGRAM_S: Final = 30.0  # For a program before or after a call: the call waits for it.
MIXIN_WORDS_CHARS_MAX: Final = 2_000  # Of a reason or comment of such a program; the agent reads it.
CACHE_ENTRIES_MAX: Final = 1_024  # Answers kept for one agent: a few KiB each.
CACHE_GOOD_S: Final = 600.0  # For an answer when the mixin does not say.

# Locks that agents take.
LOCK_WAIT_S: Final = 120.0  # For a lock when a call does not say: a turn of a model and its tools; then it is refused.
LOCK_WAIT_MAX_S: Final = 3_600.0  # That a call may say: whoever holds a file longer is to be asked about it.
LOCKS_DECLARED_MAX: Final = 256  # Of one task; each look at a lock goes through all that are near it.
LOCKS_AT_ONCE_MAX: Final = 64  # Paths in one wish; a folder is one glob.
LOCK_REASON_CHARS_MAX: Final = 200  # Everybody who waits is told it.
LOCK_FILES_WATCHED_MAX: Final = 256  # Files of others that are compared around a shell command: some milliseconds.
LOCK_FILE_BYTES_MAX: Final = 4 << 20  # Of such a file; what is larger is no source text.

# Hooks.
HOOK_PROGRAM_S: Final = 60.0  # For a program's or a function's verdict, when the hook does not say.
HOOK_AGENT_S: Final = 600.0  # For an agent's verdict, when the hook does not say: it may read before it answers.
HOOK_REWRITES_MAX: Final = 3  # Of the arguments of one call; hooks that go on disagree with each other or themselves.
HOOK_SENT_BACK_MAX: Final = 3  # Times that hooks send one final answer back; then it is taken as it is.
HOOK_NUDGES_MAX: Final = 3  # Times in a row that nothing but a hook's comment wakes an agent.
HOOK_OUTPUT_BYTES_MAX: Final = 1 << 20  # Of a hook's program: a verdict with a whole file as an argument fits.
HOOK_TRANSCRIPT_BYTES_MAX: Final = 4 << 20  # Of what was said, for scripts that look into it: its newest end.
HOOK_TRANSCRIPT_TURNS_MAX: Final = 100  # Shown with one question to a hook.
TURNS_SEARCHED_MAX: Final = 10_000  # By a hook for a text, the newest first.
HOOK_TRANSCRIPT_CHARS_MAX: Final = 10_000  # Of one message in it.
HOOK_TRANSCRIPT_SHOWN_BYTES: Final = 128 << 10  # Of all of them: its newest end.
HOOK_FILES_KEPT_MAX: Final = 32_768  # Digests of files that agents know, of all agents: about 8 MiB.
HOOK_MEMORY_BYTES_MAX: Final = 64 << 10  # Of what a hook keeps between verdicts; it is in the log each time it changes.

# Rules of hooks.
HOOKS_MAX: Final = 64  # Over one agent: each may be asked at every call.
RULE_CLAUSES_MAX: Final = 64  # Of one rule; each is looked at whenever the hook is asked.
RULE_NESTING_MAX: Final = 16  # Of `any`, `all` and `not` in each other; people stop at three.
RULE_PATTERN_CHARS_MAX: Final = 500  # Of a regular expression.
RULE_PATTERN_STEPS_MAX: Final = 192  # It is made into so many steps at most, counted repeats written out.
RULE_PATTERN_KEPT_MAX: Final = 4_096  # Of what one expression has learnt about characters: about 1 MiB.
RULE_TEXT_CHARS_MAX: Final = 16 << 10  # That an expression looks through, in half a second at the worst.
RULE_WORDS_CHARS_MAX: Final = 4_000  # Of a reason or comment with its blanks filled in; the agent reads it.
RULE_NOTES_MAX: Final = 16  # Texts that a hook keeps for an agent that it may consult; the oldest are forgotten.
RULE_NAMES_MAX: Final = 256  # Counters, marks and children that one hook remembers; the oldest are forgotten.
RULE_NAME_CHARS_MAX: Final = 64  # Of such a name with its blanks filled in: all of them are kept with each verdict.
RULE_COUNT_MAX: Final = 10**15  # Of a counter: it stays a number that everybody reads alike.

# Hooks that are agents.
HOOK_SHOWN_BYTES: Final = (4_096, 1_024, 256, 64)
"""Of one text in what a hook is shown; the first of these with which the whole fits into a message."""
HOOK_ITEMS_SHOWN_MAX: Final = 32  # Of one list in it: children, messages, files.
HOOK_WORDS_CHARS_MAX: Final = 2_000  # Of a reason or comment of a hook; the agent that it watches reads it.
HOOK_OBJECTS_MAX: Final = 64  # Braces in an answer that are tried as the beginning of a JSON object.

# Budgets.
BUDGET_TOLD_AT: Final = 0.8  # Share that is used when an agent and the one above it are told.
HANDOVER_SHARE: Final = Decimal("0.05")  # Of a bound that a thinking agent keeps for its last turn …
HANDOVER_SHARE_MAX: Final = Decimal("0.5")  # … and at most, so that a small budget is mostly for work.
HANDOVER_FLOORS: Final = {"tokens": 4_000, "usd": "0.01", "time_s": 10.0, "calls": 1, "turns": 1}
"""At least so much is kept: a prompt of a few thousand tokens and a page of answer, one call, one turn."""
HANDOVER_OUTPUT_TOKENS: Final = 2_000  # Of the last answer: two pages say what is done and what is left to do.
HANDOVER_BYTES_MAX: Final = 12 << 10  # Of it, as the agent above is told it: the message has room for the rest.
OUTPUT_TOKENS_MIN: Final = 256  # Of a reply that is still worth asking for when a budget is nearly used up.
USAGE_SLACK: Final = (
    32  # Times that a provider's count of tokens may differ from ours: runs of one letter, rare scripts.
)
USAGE_ADDED_TOKENS: Final = 65_536  # That a provider may add to a prompt: its own instructions, search results.
USAGE_THOUGHT_TOKENS: Final = 262_144  # Of thoughts that a provider counts and does not show: the longest output sold.
USAGE_MAX: Final = 1e15  # Of a count of tokens, or of dollars, that a program reports: more is no count.
USAGE_DIGITS_MAX: Final = 18  # Of a count that comes as text: more are absurd, and slow to read.
USAGE_BYTES_MAX: Final = 4 << 10  # Of what a provider says of usage, as the log keeps it.
USAGE_OFF_SHARE: Final = 0.25  # Of our own count by which a provider's may differ before it is told.

# Forks.
GIT_S: Final = 600.0  # One step of git: a snapshot of a large repository reads every file once.
GIT_WORDS_LINES: Final = 3  # Of what git says went wrong: its last lines have the cause.
FORK_ROUNDS_MAX: Final = 8  # Of merging what moved on meanwhile; then it waits, for somebody is busy there.
FORK_CHECKS_MAX: Final = 3  # Of checks run once more on what was merged, in a row; then it comes back as it is.
FORK_LOOK_S: Final = 5.0  # How soon a merge that a person mends is looked at again.
FORK_LOCKS_MAX: Final = 64  # Of files that a fork changed, one by one; more are locked as the folder above them.
FORK_NAME_BYTES_MAX: Final = 120  # Of a task's path in names of files and branches, which have 255 for all of it.
FORK_FILES_SHOWN: Final = 10  # Of files in conflict, in one sentence; `plan describe` has them all.

# The log.
SNAPSHOT_EVERY_RECORDS: Final = 512  # Folded again at the next start: about 10 ms. Written when the writer is idle, …
SNAPSHOT_RECORDS_MAX: Final = 4_096  # … asked again half as many later when it is not, and at the latest here.
BATCH_RECORDS_MAX: Final = 2_048  # Of one transaction: bounds the memory of a flush and how long the first one waits.
RECENT_RECORDS_MAX: Final = 512  # Kept in memory for watchers; one that is further behind reads the log.
LOG_CONNECTIONS_MAX: Final = 4  # Kept open by one reader of a log; more threads open more, closed after use.
PAST_VIEWS_MAX: Final = 8  # Kept by one reader: moving along a timeline goes back and forth over a few stretches.
BLOB_ROW_BYTES_MAX: Final = 128 << 10  # Larger blobs are files: twice through the database costs more than a file.

# Conflicts.
CONFLICT_AFTER_S: Final = 5.0  # A longer wait for a lock is told to who is above both; most writes take less.
CONFLICT_LATER: Final = 4  # Times as long as it has waited: when a wait that could open none is looked at again.
CONFLICT_ANSWER_S: Final = 90.0  # For a ruling, or for following it: two turns of a model; then it goes on upward.
CONFLICT_RAISED_MAX: Final = 2  # Times that a conflict goes on upward for want of an answer; then a person has it.
CONFLICTS_OPEN_MAX: Final = 48  # That stand at once: no more are read by whoever rules; the rest only waits.
CONFLICTS_KEPT_MAX: Final = 64  # Those that are over too, for looking back; the newest stays: no number comes twice.
CONFLICT_RECORDS_MAX: Final = 2_000  # Of the log, that are searched for what the parties have changed: about 20 ms.
CONFLICT_FILES_SHOWN: Final = 4  # Of each party, with differences; more are counted.
CONFLICT_DIFF_BYTES: Final = 1 << 10  # Of one file's difference: both sides and what they say fit into one message.
CONFLICT_WORDS_MAX: Final = 500  # Of an intent or a proposal; both are told to the other one and to who rules.
CONFLICT_PLAN_MAX: Final = 2_000  # Of what whoever rules says to the parties.
RULINGS_TOLD: Final = 8  # Of a task, that its agent reads in every prompt; older ones are history.
CONFLICT_PATHS_MAX: Final = 16  # That one `contest` names.

# Holding back.
CANCELS_HELD_OVER: Final = 3  # An edit that cancels more running tasks than this, or half of them, waits for approval.

# Grading: what an agent left, which is copied.
GRADED_ENTRIES_MAX: Final = 50_000  # Files, folders and links; a program with all that it depends on has 20,000.
GRADED_BYTES_MAX: Final = 2 << 30
GRADED_DEPTH_MAX: Final = 100  # Folders in folders: they are walked by functions that call themselves.

# Judging calls.
NEEDED_CALLS_MAX: Final = 64  # Of one check; the largest public key has a dozen.
ASSIGNING_STEPS_MAX: Final = (
    2_000  # To find an order of the calls that serves all; what people write takes a few dozen.
)

# Web checks.
WEB_STEPS_MAX: Final = 100  # Of one list; a game of chess takes eighty.
WEB_CONTEXTS_MAX: Final = 6  # People at once: each is a browser context of some 50 MB.
WEB_GRID_SIDE_MAX: Final = 40  # Rows or columns of a board.
WEB_COUNT_MAX: Final = 10_000  # Things counted on a page.
WEB_WAIT_S_MAX: Final = 120.0  # For one thing to be seen.
WEB_REUSED_DEEP_MAX: Final = 4  # Checks that reuse checks that reuse checks.
WEB_CANDIDATES_MAX: Final = 3  # Elements that one target may be.
WEB_CLEAR_TRIES_MAX: Final = 20  # At removing what a browser kept, a tenth of a second apart.
WEB_LOOKS_MAX: Final = 2  # At a page whose tab crashes: once may be a mishap.
WEB_WAYS_MAX: Final = 16  # Ways through a flow that are tried; two targets of three candidates are nine.
WEB_ANSWER_S_MAX: Final = 20.0  # For a page to load, or to answer when it is looked at.
WEB_START_S_MAX: Final = 60.0  # For the browser to start and end, on a machine that does much else.
WEB_NAME_CHARS_MAX: Final = 60  # Of a text that names a field or a button; what is longer is prose.
WEB_TYPED_CHARS_MAX: Final = 200  # Typed one by one; a longer text is pasted.
WEB_TREE_LINES_MAX: Final = 2_000  # Of an accessibility tree that is kept.

# Answers of the API.
OBJECTS_ANSWER_MAX: Final = 20_000  # Objects in one answer, about 40 MiB; who wants more asks for the next page.
LOG_ANSWER_BYTES_MAX: Final = 8 << 20  # Records in one answer: each may have a file in it.
TEXT_ANSWER_BYTES_MAX: Final = 4 << 20  # Of a blob or an output, in one answer.

# Reports that are looked at.
RUNS_FOLDED_MAX: Final = 64  # Kept in memory by who serves them; another is folded again from its events.
RUNS_TOLD_MAX: Final = 1_000  # In one list, the newest.
RUNS_COMPARED_MAX: Final = 16  # On one page: 120 pairs of models, if each run has one.
CASE_AGENTS_MAX: Final = 20  # Transcripts of one entry: its agent and those that helped.
CASE_ITEMS_MAX: Final = 1_000  # Of one transcript; the newest stay.
CASE_CALLS_MAX: Final = 1_000  # Of one entry.
SUITES_LOOKED_AT_MAX: Final = 500  # Entries of the folder in which suites are looked for.
LOG_PAGE_BYTES: Final = 64 << 10  # Of a container's output, in one answer.
RUN_EVENTS_TOLD_MAX: Final = 200  # Of a run that goes on, in one frame to who watches: the newest.
CHAT_ITEMS_SHOWN_MAX: Final = 200  # Of what was said before a person began to listen.
