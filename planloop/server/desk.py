"""The desk: what is done for whoever asks, over the socket or, with no owner alive, in the asking process itself.

Reads are `answering.py`'s. Every change of the plan goes through the gate; a verdict is an answer, not an error.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias

from planloop.core import Core
from planloop.exits import Exit, Halt
from planloop.server.answering import Host, answer, log_answer, page_of
from planloop.server.forms import file_preview, preview_to_json, save_from_json, verdict_to_json
from reconciler import layout
from schemas.encoding import Json, JsonObject
from schemas.patch import HUMAN_CLI, Patch
from schemas.patching import PatchFailed, op_from_json
from schemas.record import Record
from schemas.resource import Resource

Post: TypeAlias = Callable[[JsonObject], Awaitable[Json]]


class CoreArchive:
    """The open store as an `answering.Archive`."""

    def __init__(self, core: Core) -> None:
        self._core = core

    @property
    def rev(self) -> int:
        return self._core.store.durable_rev

    @property
    def epoch(self) -> int:
        return self._core.owner.epoch

    def get(self, address: str) -> Resource | None:
        return self._core.store.view.get(address)

    def list(self, kind: str) -> Sequence[Resource]:
        return self._core.store.view.list(kind)

    def get_blob(self, digest: str) -> bytes | None:
        return self._core.store.get_blob(digest)

    def read_output(self, op: str, after: int) -> bytes:
        try:
            with (layout.run_folder(self._core.place.folder) / f"{op}.out").open("rb") as file:
                file.seek(after)
                return file.read()
        except OSError:
            return b""


class PlanDesk:
    """Answers for one opened plan. `host` says who answers; `stop` ends the owner (None: there is none to end)."""

    def __init__(
        self, core: Core, host: Host | None = None, stop: Callable[[bool], Awaitable[None]] | None = None
    ) -> None:
        self._core = core
        self._host = host or Host(core.place.name)
        self._stop = stop
        self._archive = CoreArchive(core)
        self._posts: Mapping[str, Post] = {
            "patch": self._patch,
            "diff": self._diff,
            "file": self._file,
            "stop": self._stopped,
        }

    async def get(self, path: str, query: Mapping[str, str]) -> Json:
        """The answer to GET `path`. Raises Halt."""
        if path == "log":
            after, limit = page_of(query)
            return log_answer(await self._core.store.log(after, limit), self._archive.rev)
        return answer(self._archive, self._host, path, query)

    async def post(self, path: str, body: JsonObject) -> Json:
        """The answer to POST `path`. Raises Halt."""
        post = self._posts.get(path)
        if post is None:
            raise Halt(Exit.USAGE, f"the API has no `{path}` to post to", "plan version on both sides tells")
        return await post(body)

    def watch(self, after: int) -> AsyncIterator[Record]:
        """Every durable record over `after`."""
        return self._core.store.watch(after)

    async def _patch(self, body: JsonObject) -> JsonObject:
        try:
            ops = tuple(op_from_json(index, raw) for index, raw in enumerate(body["ops"]))
        except PatchFailed as error:
            raise Halt(Exit.USAGE, f"operation {error.index}: {error.reason}", "RFC 6902 describes them") from None
        present = self._core.gate.present
        patch = Patch(HUMAN_CLI, ops, body.get("base_rev") or present.rev, body.get("reason", ""))
        if body.get("dry_run"):
            return preview_to_json(self._core.gate.preview(patch))
        decided = await self._core.gate.decide(patch)
        return verdict_to_json(decided.verdict, decided.preview)

    async def _diff(self, body: JsonObject) -> JsonObject:
        return file_preview(self._core.gate, save_from_json(body))

    async def _file(self, body: JsonObject) -> JsonObject:
        save = save_from_json(body)
        expected, present = body.get("document_rev"), self._core.gate.present
        if expected is not None and expected != present.document_rev:
            raise Halt(
                Exit.CONFLICT,
                f"the preview was made from revision {expected}, and the plan is at {present.document_rev}",
                "look at the new one: plan diff FILE",
            )
        decided = await self._core.gate.decide_file(save)
        return verdict_to_json(decided.verdict, decided.preview)

    async def _stopped(self, body: JsonObject) -> JsonObject:
        if self._stop is None:
            raise Halt(Exit.NOT_FOUND, f"nobody runs {self._core.place.name}", "plan get shows how far it is")
        await self._stop(bool(body.get("leave")))
        return {"stopping": True}
