"""Models of the Edit page: drafts, differences, conflicts."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from planloop.schemas import limits
from planloop.server.api.base_model import Address, ApiModel, Reason, Rev
from planloop.server.api.operations import TEXT_CHARS_MAX

_CHOICES_MAX = 10_000


class DraftBase(ApiModel):
    """What a text was begun on: the plan's uid, and the revision of its document."""

    uid: Annotated[str, Field(max_length=TEXT_CHARS_MAX)]
    rev: Rev


class EditText(ApiModel):
    """The live plan as a text that compiles to exactly what is live.

    It is that of the plan `file` with what is live written into it, or, saying `why`, in canonical form. `blob` is the
    digest of the file content that it came from, empty when it came from none.
    """

    text: str
    format: Literal["yaml", "edn"]
    why: str
    file: str
    base: DraftBase
    blob: str


class NewDraft(ApiModel):
    """A text to go on with, and what it is begun on."""

    text: str
    base: DraftBase
    blob: str


class ApiDraft(ApiModel):
    """A text, what it was begun on, and what was chosen (`mine` or `live`) in conflicts, by their ids."""

    text: Annotated[str, Field(max_length=limits.PLAN_FILE_BYTES_MAX)]
    base: DraftBase
    format: Literal["yaml", "edn"] = "yaml"
    blob: Annotated[str, Field(max_length=TEXT_CHARS_MAX)] = ""
    chosen: Annotated[dict[str, Literal["mine", "live"]], Field(max_length=_CHOICES_MAX)] = {}


class LookWish(ApiDraft):
    """A draft to look at; with `preview` also what it would do to what runs."""

    preview: bool = False


class ApplyWish(ApiDraft):
    """A draft to apply. `shown` is the `edit` of the look that the person decided on; an edit that is not it is not
    applied.
    """

    shown: Annotated[str, Field(max_length=TEXT_CHARS_MAX)]
    reason: Reason = ""


class Point(ApiModel):
    """A place in a text: line and column from 1, `offset` in characters from 0."""

    line: int
    column: int
    offset: int


class ApiSpan(ApiModel):
    """A stretch of a text; `is_here` is false where that is another file than the one that is edited."""

    file: str
    start: Point
    end: Point
    is_here: bool = True


class RelatedSpan(ApiModel):
    """Another place that has to do with a fault."""

    message: str
    pointer: str | None
    span: ApiSpan | None


class TextFault(ApiModel):
    """What the compiler says of a text, with the cure. Null: the place is not known."""

    code: str
    severity: Literal["error", "warning"]
    summary: str
    hint: str
    pointer: str | None
    span: ApiSpan | None
    related: list[RelatedSpan]


class TextChange(ApiModel):
    """One change of the document: where, also in words, and the new value as YAML, null for what goes."""

    op: Literal["add", "remove", "replace"]
    path: str
    at: str
    value: str | None


class OthersChange(TextChange):
    """The same, with who made it live; empty and 0 where that is not known."""

    by: str
    rev: int


class OthersChanges(ApiModel):
    """What was changed live since the text was begun; `count` is how many there are in all."""

    count: int
    changes: list[OthersChange]


class ApiClash(ApiModel):
    """Both sides changed what stands at `path`. The sides are YAML, null where nothing stands.

    `taken` is null until it is chosen. The id names both sides: when one moves on, it is another conflict.
    """

    id: str
    path: str
    at: str
    base: str | None
    mine: str | None
    live: str | None
    taken: Literal["mine", "live"] | None
    place: ApiSpan | None
    by: str
    rev: int


class EffectRow(ApiModel):
    """What an edit does to one object, as `plan diff` says it."""

    address: Address
    sign: str
    name: str
    action: str
    words: str


class EditFault(ApiModel):
    """Why the gate says no, where, by which rule, and the cure."""

    at: str
    message: str
    rule: str
    hint: str


class EffectsPreview(ApiModel):
    """What applying would do. `hold` says why it would wait for a yes, empty when it would not."""

    rows: list[EffectRow]
    unmoved: str
    summary: str
    faults: list[EditFault]
    hold: str
    notes: list[str]


class ApiLook(ApiModel):
    """What there is to say of a draft on the plan as it is at `base`.

    `faults` are the compiler's, `fault_count` how many there are in all; with an error among them it is not sound.
    `changes` are what the draft changes of the live plan, `edit` names just these.
    """

    base: DraftBase
    faults: list[TextFault]
    fault_count: int
    is_sound: bool
    others: OthersChanges
    clashes: list[ApiClash]
    changes: list[TextChange]
    change_count: int
    edit: str
    preview: EffectsPreview | None


class EditVerdict(ApiModel):
    """What came of an edit.

    `shown`: nothing, for it is not the edit that was shown; `look` says what it is. Else as of a patch: `accepted` with
    the `draft` to go on with, `held` with the `approval` that it waits for, `refused` with the `faults`.
    """

    verdict: Literal["shown", "accepted", "held", "refused"]
    look: ApiLook | None = None
    rev: Rev = 0
    rows: list[EffectRow] = []
    notes: list[str] = []
    changed: bool = False
    draft: NewDraft | None = None
    why: str = ""
    approval: str = ""
    faults: list[EditFault] = []


class Pulled(ApiModel):
    """The plan file as it was written. `is_text` says that it holds the very text that was sent; `blob` is its digest
    then.
    """

    file: str
    changed: int
    is_text: bool
    blob: str
