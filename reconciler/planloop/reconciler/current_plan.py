"""The plan at one revision, read once, so that every rule on a patch sees the same state."""

from __future__ import annotations

from collections.abc import Mapping

from planloop.reconciler.store.store import Store, require_blob
from planloop.schemas import canonical_json
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.resource import Resource, Uid


@frozen
class CurrentPlan:
    """The plan at the revision `rev`; `plan` is None before the first apply.

    `filed` is the document of the last applied file, or empty.
    """

    address: str
    plan: Resource | None
    filed: JsonObject
    rev: int

    @property
    def document(self) -> JsonObject:
        return {} if self.plan is None else self.plan.spec

    @property
    def document_rev(self) -> int:
        """The revision of the last change of the document, 0 before the first."""
        return 0 if self.plan is None else int(self.plan.status.get("document_rev", 0))

    @property
    def stamps(self) -> JsonObject:
        """The tree of `planloop.reconciler.admission.field_ownership`."""
        return {} if self.plan is None else self.plan.status.get("stamps", {})

    @property
    def file(self) -> JsonObject:
        """The last applied file: path, blob, document, rev, held_back."""
        return {} if self.plan is None else self.plan.status.get("file") or {}

    @property
    def uid(self) -> Uid | None:
        return None if self.plan is None else self.plan.uid


class CurrentPlanReader:
    """Reads the plan at `address` from the view of `store`.

    Keeps the filed document decoded, because it is the same for every patch between two saves.
    """

    def __init__(self, store: Store, address: str) -> None:
        self._store = store
        self._address = address
        self._filed: tuple[str | None, JsonObject] = (None, {})

    def read(self) -> CurrentPlan:
        """The plan at the current revision."""
        view = self._store.view
        found = view.get(self._address)
        digest = None if found is None else (found.status.get("file") or {}).get("document")
        if digest != self._filed[0]:
            self._filed = (digest, {} if digest is None else canonical_json.decode(require_blob(self._store, digest)))
        return CurrentPlan(self._address, found, self._filed[1], view.rev)


def declared_moves(document: JsonObject) -> dict[str, str]:
    """The `moved:` of a document as addresses of tasks: `{old: new}`."""
    moved: Mapping[str, Json] = document.get("moved") or {}
    return {_task_address(old): _task_address(str(new)) for old, new in moved.items()}


def _task_address(text: str) -> str:
    return text if text.startswith("task/") else f"task/{text.strip('/')}"
