"""An approval: an action that waits for a person or a parent agent, at `approval/<id>`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Final, Literal, TypeAlias

from planloop.schemas import codec
from planloop.schemas.canonical_json import JsonObject, encode_text
from planloop.schemas.frozen import frozen
from planloop.schemas.json_patch import op_from_json
from planloop.schemas.log.patch import Patch, author_from_text

ApprovalKind: TypeAlias = Literal["patch", "call", "request", "tool", "input", "conflict"]

WAITING: Final = "waiting"
APPROVED: Final = "approved"
REJECTED: Final = "rejected"

YES: Final = frozenset({"yes", "approved", "true"})
"""What an agent may say for a yes, in small letters."""


@frozen
class ApprovalSpec:
    """`by` asks (an author's text), `why` says for what in a sentence, `what` is the thing itself by `kind`.

    patch: the form of `patch_to_json` · call: `call`, the address of the call object · request: what is asked for ·
    tool: a tool whose description changed, `before` and `after` · input: what a server wants to know, `requests`; the
    answer is in the status as `content` · conflict: `conflict`, the address of a conflict thread, and `text`, both
    sides in words; it is answered by a ruling.
    `differences` are the first of a patch when it was held; where there were more, `difference_counts` says how many
    of each action there were in all. The status holds `state` (waiting, approved, rejected), `by`
    and `reason`. A person's own patch leaves no approval behind once settled; what an agent asked for is dropped by
    its controller when it has read the answer.
    """

    kind: ApprovalKind
    by: str
    why: str
    what: JsonObject
    differences: Sequence[JsonObject] = ()
    difference_counts: JsonObject = field(default_factory=dict)

    def to_json(self) -> JsonObject:
        return codec.to_json(self, "difference_counts")


def describe_request(spec: JsonObject) -> str:
    """What a request asks for, whole: `budget: {"turns":10}`, `plan: first this, then that`."""
    what = spec["what"].get("what", "")
    return f"{spec['what'].get('kind', 'a request')}: {what if isinstance(what, str) else encode_text(what)}"


def needs_person(spec: JsonObject) -> bool:
    """Return whether a person has to answer. A parent agent answers requests to a parent."""
    return (spec.get("what") or {}).get("of") in (None, "person")


def patch_to_json(patch: Patch) -> JsonObject:
    """A patch for an approval, a record or a saved preview. Whether it is approved is not part of it."""
    return {
        "author": str(patch.author),
        "ops": [op.to_json() for op in patch.ops],
        "base_rev": patch.base_rev,
        "reason": patch.reason,
        "source": patch.source,
    }


def patch_from_json(raw: JsonObject) -> Patch:
    """Inverse of `patch_to_json`. Raises PatchFailed for an invalid operation."""
    ops = tuple(op_from_json(index, op) for index, op in enumerate(raw["ops"]))
    return Patch(author_from_text(raw["author"]), ops, raw["base_rev"], raw["reason"], raw["source"])
