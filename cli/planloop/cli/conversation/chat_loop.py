"""A conversation with agents of a plan: one question with its answer, or a loop over lines and events."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from queue import SimpleQueue
from typing import Final, Protocol, TypeVar

from planloop.cli.conversation import slash_commands
from planloop.cli.conversation.slash_commands import ChatLeft
from planloop.client import chat_events
from planloop.client.chat_events import (
    AgentActive,
    AgentAnswered,
    AgentIdle,
    AgentRemoved,
    AgentSpoke,
    ApprovalRequested,
    ChatEvent,
    ContainerEnded,
    PlanEnded,
    SessionMoved,
)
from planloop.client.chat_target import (
    ChatTarget,
    agent_for_container,
    agent_name,
    agent_or_hook_agent,
    choose_agent,
    session_agent,
)
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.owner_client import OwnerGone
from planloop.client.plan_client import PlanClient
from planloop.client.plan_follower import ModelText, PlanFollower
from planloop.client.render import approval_requests
from planloop.schemas import limits
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.log.record import Record, record_from_json
from planloop.schemas.objects.container import CONTAINER_KIND
from planloop.schemas.objects.container import OVER as ENDS

# What comes up while a person sits at the prompt: heard in a thread of its own, since reading a line blocks.


def print_notices(room: ChatTarget, tell: Callable[[ApprovalRequested | SessionMoved | ContainerEnded], None]) -> None:
    """Has `tell` called, in another thread, with what from now on waits for a person, moves the session or ends it.

    It ends with the owner, or with this process.
    """
    access, agent, container = room.access, room.agent, room.container
    after = int(access.get("status")["rev"])

    def follow() -> None:
        try:
            for raw in access.stream("watch", after=after):
                for event in chat_events.chat_events(record_from_json(raw), agent, container):
                    if isinstance(event, ApprovalRequested | SessionMoved | ContainerEnded):
                        tell(event)
        except (OwnerGone, CommandError):
            return  # The next action of the person reports the error.

    threading.Thread(target=follow, name="noticing", daemon=True).start()


# What an agent does and what a person writes meanwhile, as one stream in the order in which both come.
#
# Only one of the two blocks at a time: what an agent does is awaited in a thread of its own, which rings on a
# descriptor that a terminal can wait for beside its keys. Whatever is done about either is done by the thread that
# asks.

StreamItem = TypeVar("StreamItem")
RING: Final = b"\0"


class PersonInput(Protocol):
    """Where a person writes: what can be waited for beside something else."""

    def hears(self, other: int, *, only: bool) -> bool:
        """Waits for a line or for the descriptor `other`, or `only` for that; whether there is a line."""
        ...

    def line(self) -> str | None:
        """The line that was heard; None at the end of input."""
        ...


@frozen
class PersonWrote:
    """A line of the person; None at the end of what they write."""

    text: str | None


@frozen
class _Broken:
    error: Exception


class _Done:
    """End of the stream."""


def merged_stream(
    events: Iterator[StreamItem], ears: PersonInput, is_open: Callable[[], bool]
) -> Generator[StreamItem | PersonWrote]:
    """All `events`, and what is written until the last of them while `is_open()`. Raises CommandError as `events` do.

    Close it to stop early: the thread then ends with the next event, at the latest with this process.
    """
    arrived: SimpleQueue[StreamItem | _Broken | _Done] = SimpleQueue()  # Bounded by the rings that the pipe holds.
    rung, bell = os.pipe()
    threading.Thread(target=_fetch, args=(events, arrived, bell), name="asking", daemon=True).start()
    try:
        while True:
            if ears.hears(rung, only=not is_open()):
                yield PersonWrote(ears.line())
                continue
            os.read(rung, len(RING))
            match arrived.get():
                case _Broken(error):
                    raise error
                case _Done():
                    return
                case one:
                    yield one
    finally:
        os.close(rung)


def _fetch(events: Iterator[StreamItem], arrived: SimpleQueue[StreamItem | _Broken | _Done], bell: int) -> None:
    last: _Broken | _Done = _Broken(
        RuntimeError("the followed stream was interrupted")
    )  # In every case the reader must not hang.
    try:
        for one in events:
            arrived.put(one)
            os.write(bell, RING)
        last = _Done()
    except CommandError as error:  # It is raised in the thread that waits for it.
        last = _Broken(error)
    except BrokenPipeError:
        pass  # No thread waits any more.
    finally:
        arrived.put(last)
        with suppress(BrokenPipeError):
            os.write(bell, RING)
        os.close(bell)


# A conversation with agents of a plan: one question with its answer, or a loop over lines and events.
#
# The loop is one thread over the blocking API. Its `ChatTerminal` is a screen with line editing, a pipe, or a test.


def no_owner_error(access: PlanClient) -> CommandError:
    """Return the error for a question while the plan is not running."""
    file = access.place.file
    name = file.name if file is not None else "FILE"
    summary = f"{access.place.name} is not running, so no agent can answer"
    return CommandError(
        ExitCode.NOT_FOUND, summary, f"start it with plan apply {name} --detach, then send the message again"
    )


class AgentQuestion:
    """One text asked of several agents. Follow `events` until `is_answered`; `answers` are by receiver, in order."""

    def __init__(self, access: PlanClient, body: JsonObject) -> None:
        """Send it. Raises CommandError if the owner refuses it, or if the plan is not running."""
        if not access.is_owned():
            raise no_owner_error(access)
        self._following = PlanFollower(access)
        answer = access.post("send", {**body, "asks": True})
        self.sent: Sequence[JsonObject] = answer["sent"]
        self.rev = int(answer["rev"])
        self.answers: dict[str, AgentAnswered] = {}
        self._open = {str(one["id"]): str(one["to"]) for one in self.sent if one["is_new"]}

    @property
    def is_answered(self) -> bool:
        return not self._open

    def events(self, *, until: float | None = None) -> Iterator[ChatEvent | ModelText]:
        """All that the receivers do until the last has answered.

        Raises TimeoutError at the monotonic time `until`, CommandError when the owner ends first.
        """
        receivers = [str(one["to"]) for one in self.sent]
        asked = [str(one["id"]) for one in self.sent]
        try:
            for step in self._following.steps_and_words(until=until):
                if isinstance(step, ModelText):
                    if step.agent in receivers:
                        yield step
                    continue
                for event in _about(step.record, receivers):
                    if isinstance(event, AgentAnswered) and event.question not in asked:
                        continue  # Addressed to another agent, or said as a hook.
                    self._note(event)
                    yield event
                if self.is_answered:
                    return
        except OwnerGone:
            pass
        if not self.is_answered:
            waits = ", ".join(self._open.values())
            raise CommandError(
                ExitCode.FAILED, f"the owner exited before {waits} answered", "plan logs shows how far it got"
            )

    def _note(self, event: ChatEvent) -> None:
        match event:
            case AgentAnswered(question=question) if question in self._open:
                self.answers[self._open.pop(question)] = event
            case AgentRemoved(agent=agent):
                for question in [one for one, receiver in self._open.items() if receiver == agent]:
                    self.answers[self._open.pop(question)] = AgentAnswered(question, agent, "it was removed", "Gone")
            case _:
                pass


def _about(record: Record, receivers: Sequence[str]) -> Iterator[ChatEvent]:
    seen: list[ChatEvent] = []
    for receiver in receivers:
        for event in chat_events.chat_events(record, receiver):
            if event not in seen:
                seen.append(event)
                yield event


class ChatTerminal(PersonInput, Protocol):
    """Where a person reads and writes. `is_live`: a person is present and can be asked."""

    is_live: bool

    def read(self, prompt: str) -> str | None:
        """A line; None at the end of input."""
        ...

    def say(self, text: str) -> None:
        """A line for the person."""
        ...

    def flow(self, text: str) -> None:
        """Print text that continues the last text."""
        ...

    def note(self, text: str) -> None:
        """A line beside the conversation: what an agent does, what a command could not do."""
        ...

    def interject(self, text: str) -> None:
        """Print a note from another thread above the input line, which does not change."""
        ...


class ChatLoop:
    """One person, one plan. `failed` turns true when an agent could not answer."""

    def __init__(self, room: ChatTarget, terminal: ChatTerminal) -> None:
        self.room = room
        self.failed = False
        self._terminal = terminal
        self._told: set[str] = set()  # Approvals that were shown.
        self._telling = threading.Lock()
        self._later: deque[str] = deque()  # Lines written while an answer was waited for, to be said after it.
        self._is_over = False  # The end of the container was told.
        self._is_asking = False  # An answer is waited for: what comes up is in what is followed meanwhile.
        self._flowing = ""  # What has been written so far of a reply that is still being written.
        self._shown = ""  # The last reply that was streamed completely: its records follow.

    def run(self) -> None:
        """Run until the input ends, the person leaves, or the container of the conversation ends.

        Raises CommandError when the plan's process ends meanwhile.
        """
        terminal = self._terminal
        if terminal.is_live:
            print_notices(self.room, self._interject)
        with suppress(ChatLeft):
            while not self._has_ended():
                self._follow()
                self._show_waiting()
                text = self._later.popleft() if self._later else terminal.read(self.room.prompt)
                if text is None:
                    return
                if not self._has_ended():  # It may have while the line was written.
                    self._take(text)

    def _has_ended(self) -> bool:
        """Return whether the container of the conversation has ended, and print that once."""
        container = self.room.container
        found = (
            [one for one in self.room.access.objects(CONTAINER_KIND) if one.address == container] if container else []
        )
        if not container or (found and found[0].state not in ENDS):
            return False
        if self._is_end_news():
            ended = (
                chat_events.ended_event(container, found[0].status) if found else ContainerEnded(container, "gone", "")
            )
            self._terminal.note(_parting(ended))
        return True

    def _is_end_news(self) -> bool:
        """Return whether the end was not reported yet. The first caller reports it."""
        with self._telling:
            is_news, self._is_over = not self._is_over, True
            return is_news

    def _follow(self) -> None:
        """Switch to the present primary agent of the session."""
        if now := self.room.moved():
            self._terminal.note(f"  now talking to {now}")

    def _take(self, text: str) -> None:
        self._follow()  # It may have moved while the line was written.
        self._do(self._parsed(text))

    def _parsed(self, text: str) -> slash_commands.InputLine:
        known = slash_commands.command_names(self.room.access) if text.lstrip().startswith(slash_commands.SLASH) else ()
        return slash_commands.parse_line(text, known)

    def _do(self, line: slash_commands.InputLine) -> None:
        match line:
            case slash_commands.MessageLine(said):
                self._say(said)
            case slash_commands.SlashCommand() as command:
                self._perform(command)
            case slash_commands.InvalidLine(name, near):
                hint = f"did you mean /{near}?" if near else "/help lists the commands"
                self._terminal.note(f"unknown command /{name}; {hint}")
            case slash_commands.EmptyLine():
                pass

    def _perform(self, command: slash_commands.SlashCommand) -> None:
        try:
            text = slash_commands.fill_prompt(self.room, command)
            if text is not None:
                self._say(text)
                return
            for line in slash_commands.run_command(self.room, command):
                self._terminal.say(line)
        except CommandError as fault:
            self._terminal.note(fault.text())

    def _say(self, text: str) -> None:
        """Asks, and tells what happens until there is an answer. Ctrl-C stops the waiting, not the agent."""
        agent = self.room.agent
        body = {"to": agent, "text": text, "delivery": "steer", "by": "chat"}
        try:
            question = AgentQuestion(self.room.access, body)
        except CommandError as fault:
            if fault.exit == ExitCode.NOT_FOUND and not self.room.access.is_owned():
                raise
            self._terminal.note(fault.text())
            return
        self._flowing = self._shown = ""
        self._is_asking = True
        try:
            with closing(merged_stream(question.events(), self._terminal, self._is_open)) as both:
                for one in both:
                    if isinstance(one, PersonWrote):
                        self._take_meanwhile(one.text)
                    else:
                        self._tell(one)
        except ChatLeft:
            self.failed = True  # It was not waited for.
            raise
        except KeyboardInterrupt:
            if question.is_answered:
                raise  # Nothing is waited for any more: it is meant for the conversation.
            self._terminal.note(f"\n{agent} continues; its answer will be in /logs")
        finally:
            self._is_asking = False

    def _is_open(self) -> bool:
        """Whether lines are read while an answer is waited for.

        Lines of a pipe have their order, and each waits for the answer before it; but one of them may be the yes
        without which there will be none.
        """
        if len(self._later) >= limits.CHAT_LINES_AHEAD:
            return False
        if self._terminal.is_live:
            return True
        return any(
            one.approval in self._told for one in chat_events.pending_approvals(self.room.access.objects("approval"))
        )

    def _take_meanwhile(self, text: str | None) -> None:
        """Run a command immediately; queue a message until the present answer has arrived."""
        if text is None:
            raise ChatLeft
        line = self._parsed(text)
        if isinstance(line, slash_commands.MessageLine | slash_commands.SlashCommand) and not slash_commands.is_action(
            line
        ):
            self._later.append(text)
            self._terminal.note("  queued: it is sent after this answer")
        else:
            self._do(line)

    def _tell(self, event: ChatEvent | ModelText) -> None:
        terminal = self._terminal
        if isinstance(event, ModelText):
            if terminal.is_live:
                self._flowing += event.text
                terminal.flow(event.text)
            return
        self._end_flow()
        match event:
            case AgentAnswered():
                self._tell_answer(event)
            case AgentSpoke(text=text) if text.strip() != self._shown:
                (terminal.say if terminal.is_live else terminal.note)(text)
            case AgentActive(agent=agent, what=what):
                terminal.note(f"  {agent_name(agent) or 'it'}: {what}")
            case AgentIdle(state=state, why=why) if state != "asleep":
                terminal.note(f"  {state}: {why}")
            case ApprovalRequested():
                self._ask(event)
            case SessionMoved(to=to) if self.room.is_following and to != self.room.agent:
                terminal.note(f"  the session moved to {to}: your next message goes there")
            case PlanEnded(state=state):
                terminal.note(f"  the plan is {state}")
            case _:
                pass

    def _tell_answer(self, answer: AgentAnswered) -> None:
        self.failed = self.failed or bool(answer.error)
        if answer.error:
            self._terminal.note(f"({answer.error}) {answer.text}")
        elif answer.text.strip() != self._shown:
            self._terminal.say(answer.text)
        self._shown = ""

    def _end_flow(self) -> None:
        if self._flowing:
            self._terminal.say("")
            self._shown, self._flowing = self._flowing.strip(), ""

    def _show_waiting(self) -> None:
        """Show pending approvals that were not shown yet."""
        for one in chat_events.pending_approvals(self.room.access.objects("approval")):
            self._ask(one)

    def _is_news(self, asked: ApprovalRequested) -> bool:
        """Return whether it was not shown yet. The first caller shows it."""
        with self._telling:
            is_news = asked.approval not in self._told
            self._told.add(asked.approval)
            return is_news

    def _interject(self, asked: ApprovalRequested | SessionMoved | ContainerEnded) -> None:
        """Show events while a person writes, without a question, which would disturb the line."""
        if isinstance(asked, ContainerEnded):
            if self._is_end_news():
                self._terminal.interject(_parting(asked))
            return
        if isinstance(asked, SessionMoved):
            if self.room.is_following and not self._is_asking and asked.to != self.room.agent:
                self._terminal.interject(f"  the session moved to {asked.to}: your next message goes there")
            return
        if not self._is_asking and self._is_news(asked):
            name = asked.approval.partition("/")[2]
            self._terminal.interject(
                f"  {asked.by} asks for approval: {asked.words} · /approve {name} · /reject {name}"
            )

    def _ask(self, asked: ApprovalRequested) -> None:
        """Ask a person immediately, or print for a pipe how to answer; only once for each approval."""
        if not self._is_news(asked):
            return
        name = asked.approval.partition("/")[2]
        self._terminal.note(f"  {asked.by} asks for approval: {asked.words}")
        if not self._terminal.is_live:
            self._terminal.note(
                f"  /approve {name} · /reject {name} · from a shell: {approval_requests.approval_commands(name)}"
            )
            return
        answer = (self._terminal.read("  yes, no or later? ") or "").strip().lower()
        if answer in ("y", "yes"):
            self._perform(slash_commands.SlashCommand("approve", (name,), name))
        elif answer in ("n", "no"):
            self._perform(slash_commands.SlashCommand("reject", (name,), name))
        else:
            self._terminal.note(f"  still pending: /approve {name} · /reject {name}")


def _parting(ended: ContainerEnded) -> str:
    why = f": {ended.why}" if ended.why else ""
    return f"  {ended.container} is {ended.state}{why}; the conversation ends"


def start_chat(access: PlanClient, wanted: str | None, terminal: ChatTerminal) -> ChatLoop:
    """Start a conversation. Raises CommandError if the plan is not running or the agent does not exist."""
    agents = access.objects("agent")
    container = wanted if wanted is not None and wanted.startswith(f"{CONTAINER_KIND}/") else ""
    if container:
        agent = agent_for_container(access.object(container), access.objects("task"), agents)
    elif wanted is not None:
        agent = agent_or_hook_agent(agents, access.objects("hook"), wanted)
    else:
        agent = choose_agent(agents, None, session_agent(access))
    if not access.is_owned():
        raise no_owner_error(access)
    return ChatLoop(ChatTarget(access, agent, wanted is None, container), terminal)
