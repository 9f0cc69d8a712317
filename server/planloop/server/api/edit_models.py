"""Models of the Edit page: drafts, differences, conflicts."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from planloop.schemas import limits
from planloop.server.api.base_model import Address, ApiModel, Reason, Rev
from planloop.server.api.operations import TEXT_CHARS_MAX

_CHOICES_MAX = 10_000


class DraftBase(ApiModel):
    """The state that a draft is based on: the plan's uid, and the revision of its document."""

    uid: Annotated[str, Field(max_length=TEXT_CHARS_MAX)]
    rev: Rev


class EditText(ApiModel):
    """The live plan as a text that compiles to exactly the live document.

    It is the text of the plan `file` with the live changes written into it. If that is not possible, it is in canonical
    form, and `why` says why. `blob` is the digest of the file's content, empty if no file was used.
    """

    text: str
    format: Literal["yaml", "edn"]
    why: str
    file: str
    base: DraftBase
    blob: str


class NewDraft(ApiModel):
    """The text to continue editing, and the state that it is based on."""

    text: str
    base: DraftBase
    blob: str


class ApiDraft(ApiModel):
    """A text, the state that it is based on, and by conflict id the side that was chosen (`mine` or `live`)."""

    text: Annotated[str, Field(max_length=limits.PLAN_FILE_BYTES_MAX)]
    base: DraftBase
    format: Literal["yaml", "edn"] = "yaml"
    blob: Annotated[str, Field(max_length=TEXT_CHARS_MAX)] = ""
    chosen: Annotated[dict[str, Literal["mine", "live"]], Field(max_length=_CHOICES_MAX)] = {}


class LookWish(ApiDraft):
    """A draft to check. With `preview`, its effects on running work are computed, too."""

    preview: bool = False


class ApplyWish(ApiDraft):
    """A draft to apply. `shown` is the `edit` of the check that the user confirmed; any other edit is not applied."""

    shown: Annotated[str, Field(max_length=TEXT_CHARS_MAX)]
    reason: Reason = ""


class Point(ApiModel):
    """A position in a text: line and column from 1, `offset` in characters from 0."""

    line: int
    column: int
    offset: int


class ApiSpan(ApiModel):
    """A range of a text. `is_here` is false if it is in a file other than the edited one."""

    file: str
    start: Point
    end: Point
    is_here: bool = True


class RelatedSpan(ApiModel):
    """A second place that is related to an error."""

    message: str
    pointer: str | None
    span: ApiSpan | None


class TextFault(ApiModel):
    """An error or warning of the compiler, with a fix. `pointer` and `span` are null if the place is not known."""

    code: str
    severity: Literal["error", "warning"]
    summary: str
    hint: str
    pointer: str | None
    span: ApiSpan | None
    related: list[RelatedSpan]


class TextChange(ApiModel):
    """A change of the document at `path` (for display: `at`). `value` is the new value as YAML, null if removed."""

    op: Literal["add", "remove", "replace"]
    path: str
    at: str
    value: str | None


class OthersChange(TextChange):
    """A change that another author made, with author and revision; empty and 0 if they are not known."""

    by: str
    rev: int


class OthersChanges(ApiModel):
    """Live changes since the draft's base. `count` is the number of all changes; `changes` may have fewer."""

    count: int
    changes: list[OthersChange]


class ApiClash(ApiModel):
    """A conflict: the draft and the live plan both changed `path`. The sides are YAML, null for a missing value.

    `taken` is the chosen side, null before the choice. The id depends on both sides, so a further change of either side
    makes another conflict.
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
    """The effect of an edit on one object, in the words of `plan diff`."""

    address: Address
    sign: str
    name: str
    action: str
    words: str


class EditFault(ApiModel):
    """Why the gate refuses an edit: the place, the rule, and a fix."""

    at: str
    message: str
    rule: str
    hint: str


class EffectsPreview(ApiModel):
    """The effects of applying an edit. `hold` says why it would wait for approval; empty if it would not."""

    rows: list[EffectRow]
    unmoved: str
    summary: str
    faults: list[EditFault]
    hold: str
    notes: list[str]


class ApiLook(ApiModel):
    """The check of a draft against the plan at `base`.

    `faults` are errors and warnings of the compiler, `fault_count` the number of all of them. `is_sound` is false if
    there are errors. `changes` are the draft's changes of the live plan; `edit` identifies exactly these changes.
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
    """The result of applying an edit.

    `shown`: nothing was applied, because the edit is not the confirmed one; `look` has the new check. `accepted`: the
    edit is live; `draft` is the text to continue with. `held`: it waits for `approval`. `refused`: `faults` say why.
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
    """The plan file after writing. `is_text`: its content is exactly the text that was sent, with the digest `blob`."""

    file: str
    changed: int
    is_text: bool
    blob: str
