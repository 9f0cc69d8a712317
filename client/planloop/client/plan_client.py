"""Read and change one plan: through its owner, or through its log if no owner is running.

The same paths and answers either way. Without an owner a read needs no event loop (`planloop.server.offline_reader`)
and a change takes the owner's lock for as long as it lasts, so that two commands never write one log.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.owner_client import READ_TIMEOUT_S, OwnerClient, OwnerGone, OwnerHung
from planloop.client.plan_paths import PlanPaths
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.resource import Resource, resource_from_json

TRIES_MAX: Final = 50  # Of 0.1 s: an owner that starts or ends holds the lock for a moment without listening.
TRY_AGAIN_S: Final = 0.1
HUNG_S: Final = 10.0  # How long reads go directly to the log after the owner did not answer one.


class PlanClient:
    """Reads and changes of the plan at `place`."""

    def __init__(self, place: PlanPaths) -> None:
        self.place = place
        self._owner = OwnerClient(place.folder)
        self._reader = OwnerClient(place.folder, timeout_s=READ_TIMEOUT_S)
        self._hung_until = 0.0

    def get(self, path: str, **query: str | int) -> Json:
        """Return the answer to GET `path`, from the log if no owner answers. Raises CommandError."""
        if time.monotonic() >= self._hung_until:
            try:
                answer = self._reader.get(path, **query)
                self._hung_until = 0.0
                return answer
            except OwnerGone:
                pass
            except OwnerHung:
                self._note_hung()
        from planloop.server import offline_reader  # SQLite is loaded only when no owner answers.

        return offline_reader.offline_answer(self.place, path, {name: str(value) for name, value in query.items()})

    def ask(self, path: str, body: JsonObject) -> Json:
        """The answer to a POST that changes nothing. Raises CommandError; OwnerGone if the log is to answer instead."""
        try:
            return self._reader.ask(path, body)
        except OwnerHung:
            self._note_hung()
            raise OwnerGone("the owner did not answer") from None

    def _note_hung(self) -> None:
        from planloop.client.render import printer
        from planloop.server import offline_reader

        if not self._hung_until:
            rev = offline_reader.offline_answer(self.place, "status", {})["rev"]
            words = f"the owner did not answer within {READ_TIMEOUT_S:.0f} s: this is the state in the log at rev {rev}"
            printer.print_note(f"{words}. plan doctor inspects the owner; plan down --force kills it")
        self._hung_until = time.monotonic() + HUNG_S

    def post(self, path: str, body: JsonObject) -> Json:
        """The answer to POST `path`. Raises CommandError, REFUSED for a command that the plan itself runs."""
        self.refuse_insiders()
        for _ in range(TRIES_MAX):
            try:
                return self._owner.post(path, body)
            except OwnerGone:
                pass
            from planloop.reconciler.errors import NotOwner
            from planloop.server import offline_reader

            try:
                return offline_reader.post_without_owner(self.place, path, body)
            except NotOwner:
                time.sleep(TRY_AGAIN_S)
        hint = "plan doctor inspects it; plan down --force kills it"
        raise CommandError(ExitCode.TIMEOUT, f"a process owns {self.place.name} but does not answer", hint)

    def refuse_insiders(self) -> None:
        """Refuse a command that an agent of the plan runs: its shell must not give it the rights of a person.

        This stops accidents and simple attempts. Only a sandbox stops a command that hides its label.
        """
        from planloop.client import process

        label = process.environment().get("PLANLOOP_PLAN")
        if label is None:
            return
        from planloop.client.plan_paths import plan_label

        if label == plan_label(self.place):
            hint = "agents use their plan tools (edit_plan, request); run this command outside the plan"
            raise CommandError(
                ExitCode.REFUSED, f"a command of {self.place.name} may not change {self.place.name}", hint
            )

    def stream(self, path: str, *, until: float | None = None, **query: str | int) -> Iterator[Json]:
        """Yield values of the owner's stream. Raises OwnerGone if no owner runs, TimeoutError at `until`."""
        return self._owner.stream(path, until=until, **query)

    def is_owned(self) -> bool:
        """Whether there is an owner, even one that does not answer now."""
        if time.monotonic() < self._hung_until:
            return True
        try:
            self._reader.get("status")
        except OwnerGone:
            return False
        except OwnerHung:
            return True
        return True

    def objects(self, *kinds: str) -> list[Resource]:
        """The objects of `kinds`, all of them without any."""
        return self.snapshot(*kinds)[1]

    def snapshot(self, *kinds: str) -> tuple[int, list[Resource]]:
        """The objects of `kinds`, all of them without any, and the revision that all of them are of."""
        answer = self.get("objects", kind=",".join(kinds))
        found = [resource_from_json(raw) for raw in answer["objects"]]
        rev: int = answer["rev"]
        while answer["next"] is not None:
            answer = self.get("objects", **{"kind": ",".join(kinds), "at": rev, "from": answer["next"]})
            found += [resource_from_json(raw) for raw in answer["objects"]]
        return rev, found

    def text(self, digest: str) -> str:
        """The blob of that name as text, all of it. Raises CommandError."""
        pieces, after = list[str](), 0
        while after is not None:
            answer = self.get(f"blobs/{digest}", after=after)
            pieces.append(answer["text"])
            after = answer["next"]
        return "".join(pieces)

    def output(self, op: str, after: int = 0) -> tuple[str, int]:
        """Return the output of a running command from the byte `after`, and the position of its end."""
        pieces = list[str]()
        while True:
            answer = self.get(f"output/{op}", after=after)
            if answer["next"] == after:
                return "".join(pieces), after
            pieces.append(answer["text"])
            after = answer["next"]

    def find(self, address: str) -> Resource | None:
        """Return the object at `address`, or None."""
        return next((one for one in self.objects(address.partition("/")[0]) if one.address == address), None)

    def object(self, address: str) -> Resource:
        """The object at `address`. Raises CommandError."""
        return resource_from_json(self.get(f"objects/{address}"))
