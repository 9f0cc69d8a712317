"""Handle requests of the Edit page.

A draft is a text and the revision that it is based on; the server keeps nothing of it. An edit is applied only as it
was last shown: when the plan has changed so that the edit would do something else, it is shown again instead.
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

SHOWN_MAX: Final = 200  # Changes that are told one by one; their number is told besides.
VALUE_CHARS_MAX: Final = 2_000


def change_json(op: PatchOp) -> JsonObject:
    """One change of a document: what is done where, and the new value as YAML, None for what goes."""
    value = None if op.op == "remove" else _shown(op.value)
    return {"op": op.op, "path": json_pointer.render_pointer(op.path), "at": short_path(op.path), "value": value}


def other_changes_json(ops: Sequence[PatchOp], stamps: JsonObject, live: JsonObject) -> JsonObject:
    """What was changed live since a text was begun, by whom. What is gone has no stamp, so nobody is named."""
    shown = [
        change_json(op) | _who(op.path, stamps, is_gone=not json_pointer.has_value(live, op.path))
        for op in ops[:SHOWN_MAX]
    ]
    return {"count": len(ops), "changes": shown}


def conflicts_json(looked: CheckedDraft, stamps: JsonObject) -> list[JsonObject]:
    """The conflicts with their three sides, where they stand in the text, and who made the live side."""
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
    """What an edit does to what runs, as `plan diff` says it: deletions first."""
    moved = [one for one in found if one["action"] != "none"]
    words = differences.difference_rows(moved, now=now)
    return [
        {"address": one["address"], "sign": sign, "name": name, "action": action, "words": said}
        for one, (sign, name, action, said) in zip(moved, words, strict=True)
    ]


def errors_json(found: Iterable[JsonObject]) -> list[JsonObject]:
    """Why the gate refuses, each with its place, its rule and its cure."""
    return [
        {"at": short_path(tuple(one["path"])) if one["path"] else "", **{key: one[key] for key in WORDS}}
        for one in found
    ]


WORDS: Final = ("message", "rule", "hint")


def preview_json(answer: JsonObject, now: float) -> JsonObject:
    """What the gate would do with an edit."""
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


KEPT_MAX: Final = 16  # Documents of the past that texts were begun on; others are read from the log again.
TRIES_MAX: Final = 10  # Of an edit on a plan that others change all the time.


@frozen
class LivePlan:
    """The plan as it is, read once."""

    uid: str
    rev: int
    document: JsonObject
    status: JsonObject

    @property
    def blob(self) -> str:
        """The digest of the file content that was applied last, empty without one."""
        return str((self.status.get("file") or {}).get("blob") or "")


class EditService:
    """Answers for the plan of `replica`; what changes it goes through `forwarding`."""

    def __init__(self, replica: PlanReplica, forwarding: OwnerProxy) -> None:
        self._replica = replica
        self._forwarding = forwarding
        self._bench = CompilePool()
        self._past: OrderedDict[tuple[str, int], JsonObject] = OrderedDict()
        self._text: tuple[tuple[str, int, str], LiveText] | None = None
        self.posts: Mapping[str, Callable[[JsonObject], Awaitable[JsonObject]]] = {
            "edit/look": self._look,
            "edit/apply": self._apply,
            "edit/merge": self._merge,
            "edit/pull": self._pull,
        }

    def close(self) -> None:
        """Ends the processes that texts were compiled in."""
        self._bench.close()

    async def text(self) -> JsonObject:
        """The live plan as a text to edit, and the base that a draft of it names."""
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
        """The answer to POST `path`, one of `posts`. Raises CommandError."""
        return await self.posts[path](body)

    async def _look(self, body: JsonObject) -> JsonObject:
        live = self._live()
        looked = await self._looked(body, live)
        told = self._told(live, looked)
        if body.get("preview") and looked.document is not None and looked.ops:
            told["preview"] = await self._preview(live, looked.ops)
        return told

    async def _apply(self, body: JsonObject) -> JsonObject:
        """Applies the edit if it is the one that was `shown`; with the verdict `shown` it is another by now."""
        for _ in range(TRIES_MAX):
            live = self._live()
            looked = await self._looked(body, live)
            told = self._told(live, looked)
            if looked.document is None or looked.is_open or told["edit"] != body.get("shown"):
                return {"verdict": "shown", "look": told}
            wish: JsonObject = {
                "ops": [op.to_json() for op in looked.ops],
                "reason": str(body.get("reason") or "edited"),
            }
            wish |= {"base_rev": live.rev, "document_rev": live.rev}
            verdict: JsonObject = await self._forwarding.post("patch", wish)
            if verdict["verdict"] != "moved":
                return await self._decided(body, verdict)
        raise CommandError(
            ExitCode.CONFLICT, "the plan changes faster than this edit can be applied", "pause who changes it"
        )

    async def _decided(self, body: JsonObject, verdict: JsonObject) -> JsonObject:
        rows = effect_rows(verdict["differences"], process.now())
        told: JsonObject = {"verdict": verdict["verdict"], "rev": verdict["rev"], "rows": rows}
        if verdict["verdict"] == "refused":
            return told | {"faults": errors_json(verdict["faults"])}
        if verdict["verdict"] == "held":
            return told | {"why": verdict["why"], "approval": verdict["approval"]}
        return told | {"notes": verdict["notes"], "changed": verdict["changed"], "draft": await self._after(body)}

    async def _after(self, body: JsonObject) -> JsonObject:
        """What to go on editing: the same text where it says what is live now, with the live values in it otherwise."""
        live = self._live()
        path = plan_text.path_of(self._replica.place, _format(body))
        found = await self._bench.run(plan_text.written_into, path, _text(body), live.document)
        if isinstance(found, NotSpliced):
            return await self.text()
        return {"text": found, "base": _base(live), "blob": str(body.get("blob") or "")}

    async def _merge(self, body: JsonObject) -> JsonObject:
        """The text with what others changed written into it, begun on the plan as it is now."""
        live = self._live()
        looked = await self._looked(body, live)
        if looked.document is None:
            raise CommandError(
                ExitCode.INVALID, "the text has faults, so nothing can be merged into it", "mend them first"
            )
        if looked.is_open:
            raise CommandError(
                ExitCode.CONFLICT, "there are conflicts to choose in first", "choose yours or the live one for each"
            )
        path = plan_text.path_of(self._replica.place, _format(body))
        found = await self._bench.run(plan_text.written_into, path, _text(body), looked.document)
        if isinstance(found, NotSpliced):
            hint = "apply merges it all the same"
            raise CommandError(ExitCode.CONFLICT, f"it cannot be written into the text: {found.reason}", hint)
        return {"text": found, "base": _base(live), "blob": str(body.get("blob") or "")}

    async def _pull(self, body: JsonObject) -> JsonObject:
        live, place = self._live(), self._replica.place
        edited = plan_text.PlanFileText(_text(body), str(body.get("blob") or "")) if "text" in body else None
        written = await anyio.to_thread.run_sync(partial(plan_text.write_file, place, live.blob, edited))
        await self._forwarding.post("file", save_to_json(written.save))
        blob = sha256_hex(written.save.content)
        # Who runs the plan may have seen the file first: then the revision in the answer says nothing of that save.
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
        """What the gate would say and do, by the owner, or over the log when nobody runs the plan. Writes nothing."""
        answer: JsonObject = await anyio.to_thread.run_sync(partial(self._asked, live.rev, ops))
        return preview_json(answer, process.now())

    def _asked(self, rev: int, ops: tuple[PatchOp, ...]) -> Json:
        wish: JsonObject = {"ops": [op.to_json() for op in ops], "base_rev": rev, "dry_run": True}
        place = self._replica.place
        try:
            return OwnerClient(place.folder).post("patch", wish)
        except OwnerGone:
            return preview_to_json(opened_plan.gate_without_owner(place).preview(Patch(HUMAN_CLI, ops, rev, "")))

    async def _looked(self, body: JsonObject, live: LivePlan) -> CheckedDraft:
        text = _text(body)
        path = plan_text.path_of(self._replica.place, _format(body))
        chosen = {str(name): str(taken) for name, taken in (body.get("chosen") or {}).items()}
        draft = PlanDraft(path, text, await self._base_of(body, live), live.document, chosen)
        return await self._bench.run(draft_check.check_draft, draft)

    def _told(self, live: LivePlan, looked: CheckedDraft) -> JsonObject:
        stamps = live.status.get("stamps") or {}
        told: JsonObject = {"base": _base(live), "faults": list(looked.faults), "fault_count": looked.fault_count}
        told["is_sound"] = looked.document is not None
        told["others"] = other_changes_json(looked.others, stamps, live.document)
        told["clashes"] = conflicts_json(looked, stamps)
        told["changes"] = [change_json(op) for op in looked.ops[:SHOWN_MAX]]
        told["change_count"] = len(looked.ops)
        return told | {"edit": sha256_of_value([op.to_json() for op in looked.ops])[:16], "preview": None}

    async def _live_text(self, live: LivePlan) -> LiveText:
        key = (live.uid, live.rev, live.blob)
        if self._text is None or self._text[0] != key:
            place = self._replica.place
            content = self._replica.get_blob(live.blob) if live.blob else None
            spelling: Format = "yaml"
            path = place.file or plan_text.path_of(place, spelling)
            self._text = key, await self._bench.run(plan_text.live_text, path, content, live.document)
        return self._text[1]

    def _live(self) -> LivePlan:
        name = self._replica.place.name
        plan = self._replica.get(f"plan/{name}")
        if plan is None:
            raise CommandError(ExitCode.NOT_FOUND, f"{name} was never applied", "plan apply FILE")
        live = LivePlan(str(plan.uid), int(plan.status.get("document_rev", 0)), plan.spec, plan.status)
        self._keep((live.uid, live.rev), live.document)
        return live

    def _keep(self, key: tuple[str, int], document: JsonObject) -> None:
        self._past[key] = document
        self._past.move_to_end(key)
        while len(self._past) > KEPT_MAX:
            self._past.popitem(last=False)

    async def _base_of(self, body: JsonObject, live: LivePlan) -> JsonObject:
        """The document that the text was begun on. Raises CommandError when the log has none such."""
        named = body.get("base") or {}
        key = (str(named.get("uid", "")), int(named.get("rev", -1)))
        if key not in self._past:
            found = await anyio.to_thread.run_sync(partial(_at, self._replica, key[1]))
            is_it = found is not None and (str(found.uid), int(found.status.get("document_rev", 0))) == key
            if found is None or not is_it or key[0] != live.uid:
                hint = "keep what you need of your text, then begin again with the live plan"
                raise CommandError(
                    ExitCode.CONFLICT, "the plan that this text was begun on is not in the log any more", hint
                )
            self._keep(key, found.spec)
        return self._past[key]


def _at(replica: PlanReplica, rev: int) -> Resource | None:
    """The plan as of the revision `rev`, from the log."""
    return replica.reader.view_at(rev).get(f"plan/{replica.place.name}") if rev > 0 else None


def _base(live: LivePlan) -> JsonObject:
    return {"uid": live.uid, "rev": live.rev}


def _format(body: JsonObject) -> Format:
    return "edn" if body.get("format") == "edn" else "yaml"


def _text(body: JsonObject) -> str:
    """The text of a draft. Raises CommandError for one that no file could hold."""
    text = str(body["text"])
    try:
        size = len(text.encode())
    except UnicodeEncodeError as fault:
        where = f"character {fault.start + 1}"
        raise CommandError(
            ExitCode.INVALID, f"{where} of the text is half of one (a lone surrogate)", "take it out"
        ) from None
    if size > PLAN_FILE_BYTES_MAX:
        raise CommandError(
            ExitCode.INVALID, f"the text is longer than {PLAN_FILE_BYTES_MAX:,} bytes", "plan apply --max-size"
        )
    return text
