"""Handle requests of the Edit page.

A draft is a text and the revision that it is based on. The server does not store it. An edit is applied only as the
user has last seen it: if the plan has changed so that the edit is a different one, the user sees that one first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

import anyio
import anyio.to_thread

from planloop.client import process
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.owner_client import OwnerClient, OwnerGone
from planloop.client.render import differences
from planloop.client.render.records import short_path
from planloop.compiler import read
from planloop.compiler.source import Format
from planloop.compiler.splice.write_back import NotSpliced
from planloop.reconciler.admission import field_ownership
from planloop.schemas import json_pointer
from planloop.schemas.canonical_json import Json, JsonObject, sha256_hex, sha256_of_value
from planloop.schemas.frozen import frozen
from planloop.schemas.json_patch import PatchOp
from planloop.schemas.limits import PLAN_FILE_BYTES_MAX
from planloop.schemas.log.patch import HUMAN_CLI, Patch, describe_author
from planloop.schemas.resource import Resource
from planloop.server import opened_plan
from planloop.server.edit import draft_check, plan_text
from planloop.server.edit.compile_pool import CompilePool
from planloop.server.edit.draft_check import CheckedDraft, PlanDraft
from planloop.server.edit.plan_text import LiveText
from planloop.server.gateway.owner_proxy import SEEN_S, OwnerProxy
from planloop.server.gateway.replica import PlanReplica
from planloop.server.payloads import preview_to_json, save_to_json

SHOWN_MAX: Final = 200  # Changes that are listed; the answer also has their number.
VALUE_CHARS_MAX: Final = 2_000


def change_json(op: PatchOp) -> JsonObject:
    """Return a change of a document: operation, path, and the new value as YAML; None for a removal."""
    value = None if op.op == "remove" else _shown(op.value)
    return {"op": op.op, "path": json_pointer.render_pointer(op.path), "at": short_path(op.path), "value": value}


def other_changes_json(ops: Sequence[PatchOp], stamps: JsonObject, live: JsonObject) -> JsonObject:
    """Return the live changes since a draft's base, with their authors. A removal has no known author."""
    shown = [
        change_json(op) | _who(op.path, stamps, is_gone=not json_pointer.has_value(live, op.path))
        for op in ops[:SHOWN_MAX]
    ]
    return {"count": len(ops), "changes": shown}


def conflicts_json(looked: CheckedDraft, stamps: JsonObject) -> list[JsonObject]:
    """Return the conflicts: their three sides, their places in the text, and the author of the live side."""
    return [
        {
            "id": one.id,
            "path": json_pointer.render_pointer(one.path),
            "at": short_path(one.path),
            "base": one.base,
            "mine": one.mine,
            "live": one.live,
            "taken": one.taken,
            "place": place,
        }
        | _who(one.path, stamps, is_gone=one.live is None)
        for one, place in zip(looked.clashes, looked.places, strict=True)
    ]


def effect_rows(found: Iterable[JsonObject], now: float) -> list[JsonObject]:
    """Return the effects of an edit on running work, in the words of `plan diff`, deletions first."""
    moved = [one for one in found if one["action"] != "none"]
    words = differences.difference_rows(moved, now=now)
    return [
        {"address": one["address"], "sign": sign, "name": name, "action": action, "words": text}
        for one, (sign, name, action, text) in zip(moved, words, strict=True)
    ]


def errors_json(found: Iterable[JsonObject]) -> list[JsonObject]:
    """Return the gate's reasons for a refusal, each with place, rule and fix."""
    return [
        {"at": short_path(tuple(one["path"])) if one["path"] else "", **{key: one[key] for key in WORDS}}
        for one in found
    ]


WORDS: Final = ("message", "rule", "hint")


def preview_json(answer: JsonObject, now: float) -> JsonObject:
    """Return what the gate would do with an edit."""
    found = answer["differences"]
    return {
        "rows": effect_rows(found, now),
        "unmoved": differences.unchanged_text(found),
        "summary": differences.differences_summary(found),
        "faults": errors_json([*answer["faults"], *answer["stops"]]),
        "hold": answer["hold"],
        "notes": answer["notes"],
    }


def _who(path: tuple[str, ...], stamps: JsonObject, *, is_gone: bool) -> JsonObject:
    stamp = None if is_gone else field_ownership.last_change(stamps, path)
    return {"by": "" if stamp is None else describe_author(str(stamp.author)), "rev": 0 if stamp is None else stamp.rev}


def _shown(value: Json) -> str:
    text = read.format_yaml(value).rstrip("\n")
    return text if len(text) <= VALUE_CHARS_MAX else f"{text[:VALUE_CHARS_MAX]}…"


KEPT_MAX: Final = 16  # Cached past documents on which drafts are based; others are read from the log again.
TRIES_MAX: Final = 10  # Attempts to apply an edit while others change the plan.


@frozen
class LivePlan:
    """The live plan, read once per request."""

    uid: str
    rev: int
    document: JsonObject
    status: JsonObject

    @property
    def blob(self) -> str:
        """The digest of the file content that was applied last; empty if no file was applied."""
        return str((self.status.get("file") or {}).get("blob") or "")


class EditService:
    """Answers requests of the Edit page. Reads use `replica`, changes go to the owner through `proxy`."""

    def __init__(self, replica: PlanReplica, proxy: OwnerProxy) -> None:
        self._replica = replica
        self._proxy = proxy
        self._pool = CompilePool()
        self._past: OrderedDict[tuple[str, int], JsonObject] = OrderedDict()
        self._text: tuple[tuple[str, int, str], LiveText] | None = None
        self.posts: Mapping[str, Callable[[JsonObject], Awaitable[JsonObject]]] = {
            "edit/look": self._look,
            "edit/apply": self._apply,
            "edit/merge": self._merge,
            "edit/pull": self._pull,
        }

    def close(self) -> None:
        """End the compile processes."""
        self._pool.close()

    async def text(self) -> JsonObject:
        """Return the live plan as a text to edit, and the base for a draft of it."""
        live = self._live()
        found = await self._live_text(live)
        path = self._replica.place.file
        return {
            "text": found.text,
            "format": found.spelling,
            "why": found.why,
            "file": path.name if path is not None else "",
            "base": _base(live),
            "blob": "" if found.why else live.blob,
        }

    async def post(self, path: str, body: JsonObject) -> JsonObject:
        """Return the answer to POST `path`, one of `posts`. Raises CommandError."""
        return await self.posts[path](body)

    async def _look(self, body: JsonObject) -> JsonObject:
        live = self._live()
        looked = await self._looked(body, live)
        answer = self._check_json(live, looked)
        if body.get("preview") and looked.document is not None and looked.ops:
            answer["preview"] = await self._preview(live, looked.ops)
        return answer

    async def _apply(self, body: JsonObject) -> JsonObject:
        """Apply the edit if it is the one that the user has seen (`shown`); otherwise return the new check."""
        for _ in range(TRIES_MAX):
            live = self._live()
            looked = await self._looked(body, live)
            check = self._check_json(live, looked)
            if looked.document is None or looked.is_open or check["edit"] != body.get("shown"):
                return {"verdict": "shown", "look": check}
            patch: JsonObject = {
                "ops": [op.to_json() for op in looked.ops],
                "reason": str(body.get("reason") or "edited"),
            }
            patch |= {"base_rev": live.rev, "document_rev": live.rev}
            verdict: JsonObject = await self._proxy.post("patch", patch)
            if verdict["verdict"] != "moved":
                return await self._decided(body, verdict)
        raise CommandError(
            ExitCode.CONFLICT, "the plan changes faster than the edit can be applied", "pause the tasks that change it"
        )

    async def _decided(self, body: JsonObject, verdict: JsonObject) -> JsonObject:
        rows = effect_rows(verdict["differences"], process.now())
        answer: JsonObject = {"verdict": verdict["verdict"], "rev": verdict["rev"], "rows": rows}
        if verdict["verdict"] == "refused":
            return answer | {"faults": errors_json(verdict["faults"])}
        if verdict["verdict"] == "held":
            return answer | {"why": verdict["why"], "approval": verdict["approval"]}
        return answer | {"notes": verdict["notes"], "changed": verdict["changed"], "draft": await self._after(body)}

    async def _after(self, body: JsonObject) -> JsonObject:
        """Return the text to continue editing: the applied text, with live values written into it if they differ."""
        live = self._live()
        path = plan_text.path_of(self._replica.place, _format(body))
        found = await self._pool.run(plan_text.written_into, path, _text(body), live.document)
        if isinstance(found, NotSpliced):
            return await self.text()
        return {"text": found, "base": _base(live), "blob": str(body.get("blob") or "")}

    async def _merge(self, body: JsonObject) -> JsonObject:
        """Write the changes of others into the text. The result is based on the current plan."""
        live = self._live()
        looked = await self._looked(body, live)
        if looked.document is None:
            raise CommandError(
                ExitCode.INVALID, "the text has errors, so nothing can be merged into it", "fix the errors first"
            )
        if looked.is_open:
            raise CommandError(
                ExitCode.CONFLICT, "the text has conflicts", "first choose your version or the live one for each"
            )
        path = plan_text.path_of(self._replica.place, _format(body))
        found = await self._pool.run(plan_text.written_into, path, _text(body), looked.document)
        if isinstance(found, NotSpliced):
            hint = "apply the text: that merges them into the live plan, not into the text"
            raise CommandError(ExitCode.CONFLICT, f"cannot write the changes into the text: {found.reason}", hint)
        return {"text": found, "base": _base(live), "blob": str(body.get("blob") or "")}

    async def _pull(self, body: JsonObject) -> JsonObject:
        live, place = self._live(), self._replica.place
        edited = plan_text.PlanFileText(_text(body), str(body.get("blob") or "")) if "text" in body else None
        written = await anyio.to_thread.run_sync(partial(plan_text.write_file, place, live.blob, edited))
        await self._proxy.post("file", save_to_json(written.save))
        blob = sha256_hex(written.save.content)
        # The owner may have read the file before this request. Then the revision in its answer is not that of the save.
        with anyio.move_on_after(SEEN_S):
            while self._live().blob != blob:
                await self._replica.moved()
        is_text = written.is_text
        return {
            "file": written.save.path,
            "changed": len(written.ops),
            "is_text": is_text,
            "blob": blob if is_text else "",
        }

    async def _preview(self, live: LivePlan, ops: tuple[PatchOp, ...]) -> JsonObject:
        """Preview a patch, with the owner or, if none is running, on the log. Writes nothing."""
        answer: JsonObject = await anyio.to_thread.run_sync(partial(self._patch_preview, live.rev, ops))
        return preview_json(answer, process.now())

    def _patch_preview(self, rev: int, ops: tuple[PatchOp, ...]) -> Json:
        patch: JsonObject = {"ops": [op.to_json() for op in ops], "base_rev": rev, "dry_run": True}
        place = self._replica.place
        try:
            return OwnerClient(place.folder).post("patch", patch)
        except OwnerGone:
            return preview_to_json(opened_plan.gate_without_owner(place).preview(Patch(HUMAN_CLI, ops, rev, "")))

    async def _looked(self, body: JsonObject, live: LivePlan) -> CheckedDraft:
        text = _text(body)
        path = plan_text.path_of(self._replica.place, _format(body))
        chosen = {str(name): str(taken) for name, taken in (body.get("chosen") or {}).items()}
        draft = PlanDraft(path, text, await self._base_of(body, live), live.document, chosen)
        return await self._pool.run(draft_check.check_draft, draft)

    def _check_json(self, live: LivePlan, looked: CheckedDraft) -> JsonObject:
        stamps = live.status.get("stamps") or {}
        answer: JsonObject = {"base": _base(live), "faults": list(looked.faults), "fault_count": looked.fault_count}
        answer["is_sound"] = looked.document is not None
        answer["others"] = other_changes_json(looked.others, stamps, live.document)
        answer["clashes"] = conflicts_json(looked, stamps)
        answer["changes"] = [change_json(op) for op in looked.ops[:SHOWN_MAX]]
        answer["change_count"] = len(looked.ops)
        return answer | {"edit": sha256_of_value([op.to_json() for op in looked.ops])[:16], "preview": None}

    async def _live_text(self, live: LivePlan) -> LiveText:
        key = (live.uid, live.rev, live.blob)
        if self._text is None or self._text[0] != key:
            place = self._replica.place
            content = self._replica.get_blob(live.blob) if live.blob else None
            spelling: Format = "yaml"
            path = place.file or plan_text.path_of(place, spelling)
            self._text = key, await self._pool.run(plan_text.live_text, path, content, live.document)
        return self._text[1]

    def _live(self) -> LivePlan:
        name = self._replica.place.name
        plan = self._replica.get(f"plan/{name}")
        if plan is None:
            raise CommandError(ExitCode.NOT_FOUND, f"plan {name} has never been applied", "plan apply FILE")
        live = LivePlan(str(plan.uid), int(plan.status.get("document_rev", 0)), plan.spec, plan.status)
        self._keep((live.uid, live.rev), live.document)
        return live

    def _keep(self, key: tuple[str, int], document: JsonObject) -> None:
        self._past[key] = document
        self._past.move_to_end(key)
        while len(self._past) > KEPT_MAX:
            self._past.popitem(last=False)

    async def _base_of(self, body: JsonObject, live: LivePlan) -> JsonObject:
        """Return the document that the draft is based on. Raises CommandError if the log does not have it."""
        named = body.get("base") or {}
        key = (str(named.get("uid", "")), int(named.get("rev", -1)))
        if key not in self._past:
            found = await anyio.to_thread.run_sync(partial(_at, self._replica, key[1]))
            is_it = found is not None and (str(found.uid), int(found.status.get("document_rev", 0))) == key
            if found is None or not is_it or key[0] != live.uid:
                hint = "copy what you need from your text, then start again with the live plan"
                raise CommandError(ExitCode.CONFLICT, "the log no longer has the plan that this text is based on", hint)
            self._keep(key, found.spec)
        return self._past[key]


def _at(replica: PlanReplica, rev: int) -> Resource | None:
    """Return the plan at the revision `rev`, from the log."""
    return replica.reader.view_at(rev).get(f"plan/{replica.place.name}") if rev > 0 else None


def _base(live: LivePlan) -> JsonObject:
    return {"uid": live.uid, "rev": live.rev}


def _format(body: JsonObject) -> Format:
    return "edn" if body.get("format") == "edn" else "yaml"


def _text(body: JsonObject) -> str:
    """Return the text of a draft. Raises CommandError if it is not valid Unicode or too long."""
    text = str(body["text"])
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        where = f"character {error.start + 1}"
        raise CommandError(
            ExitCode.INVALID, f"{where} of the text is a lone surrogate, which is invalid Unicode", "remove it"
        ) from None
    if size > PLAN_FILE_BYTES_MAX:
        raise CommandError(
            ExitCode.INVALID,
            f"the text is longer than {PLAN_FILE_BYTES_MAX:,} bytes",
            "apply the file with plan apply --max-size",
        )
    return text
