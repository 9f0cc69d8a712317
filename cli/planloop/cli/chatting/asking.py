"""Messages to agents and the wait for their answers, over the API: what `plan send` and `plan chat` share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planloop.app.access import Access
from planloop.app.client import OwnerGone
from planloop.app.exits import Exit, Halt
from planloop.app.following import Following, Heard
from planloop.cli.chatting import listening
from planloop.cli.chatting.listening import Answered, Event, Gone
from planloop.schemas.encoding import JsonObject
from planloop.schemas.record import Record


def not_run(access: Access) -> Halt:
    """The ending when something is asked and nobody runs the plan."""
    file = access.place.file
    name = file.name if file is not None else "FILE"
    summary = f"nobody runs {access.place.name}, so no agent can answer"
    return Halt(Exit.NOT_FOUND, summary, f"plan apply {name} --detach keeps it running; then say it again")


class Question:
    """One text asked of several agents. Follow `events` until `is_answered`; `answers` are by receiver, in order."""

    def __init__(self, access: Access, body: JsonObject) -> None:
        """Sends it. Raises Halt as the owner says, and when nobody runs the plan."""
        if not access.is_owned():
            raise not_run(access)
        self._following = Following(access)
        answer = access.post("send", {**body, "asks": True})
        self.sent: Sequence[JsonObject] = answer["sent"]
        self.rev = int(answer["rev"])
        self.answers: dict[str, Answered] = {}
        self._open = {str(one["id"]): str(one["to"]) for one in self.sent if one["is_new"]}

    @property
    def is_answered(self) -> bool:
        return not self._open

    def events(self, *, until: float | None = None) -> Iterator[Event | Heard]:
        """All that the receivers do until the last has answered.

        Raises TimeoutError at the monotonic time `until`, Halt when the owner ends first.
        """
        receivers = [str(one["to"]) for one in self.sent]
        asked = [str(one["id"]) for one in self.sent]
        try:
            for step in self._following.steps_and_words(until=until):
                if isinstance(step, Heard):
                    if step.agent in receivers:
                        yield step
                    continue
                for event in _about(step.record, receivers):
                    if isinstance(event, Answered) and event.question not in asked:
                        continue  # Said to somebody else: to another agent, or as a hook.
                    self._note(event)
                    yield event
                if self.is_answered:
                    return
        except OwnerGone:
            pass
        if not self.is_answered:
            waits = ", ".join(self._open.values())
            raise Halt(
                Exit.FAILED, f"the plan's process ended before {waits} answered", "plan logs shows how far it got"
            )

    def _note(self, event: Event) -> None:
        match event:
            case Answered(question=question) if question in self._open:
                self.answers[self._open.pop(question)] = event
            case Gone(agent=agent):
                for question in [one for one, receiver in self._open.items() if receiver == agent]:
                    self.answers[self._open.pop(question)] = Answered(question, agent, "it was removed", "Gone")
            case _:
                pass


def _about(record: Record, receivers: Sequence[str]) -> Iterator[Event]:
    seen: list[Event] = []
    for receiver in receivers:
        for event in listening.events(record, receiver):
            if event not in seen:
                seen.append(event)
                yield event
