"""Send a message to an agent and wait for its answer: `plan send` and `plan chat`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planloop.client import chat_events
from planloop.client.chat_events import AgentAnswered, AgentRemoved, ChatEvent
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.owner_client import OwnerGone
from planloop.client.plan_client import PlanClient
from planloop.client.plan_follower import ModelText, PlanFollower
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.log.record import Record


def no_owner_error(access: PlanClient) -> CommandError:
    """The ending when something is asked and nobody runs the plan."""
    file = access.place.file
    name = file.name if file is not None else "FILE"
    summary = f"nobody runs {access.place.name}, so no agent can answer"
    return CommandError(ExitCode.NOT_FOUND, summary, f"plan apply {name} --detach keeps it running; then say it again")


class AgentQuestion:
    """One text asked of several agents. Follow `events` until `is_answered`; `answers` are by receiver, in order."""

    def __init__(self, access: PlanClient, body: JsonObject) -> None:
        """Sends it. Raises CommandError as the owner says, and when nobody runs the plan."""
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
                        continue  # Said to somebody else: to another agent, or as a hook.
                    self._note(event)
                    yield event
                if self.is_answered:
                    return
        except OwnerGone:
            pass
        if not self.is_answered:
            waits = ", ".join(self._open.values())
            raise CommandError(
                ExitCode.FAILED, f"the plan's process ended before {waits} answered", "plan logs shows how far it got"
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
