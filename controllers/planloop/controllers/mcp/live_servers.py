"""Call the running tool servers of a plan by name, over their open links.

This is the `ToolServers` port of agents. Besides the links, it keeps the calls in which the server asks a person, while
the server holds them open. A question that can be asked again is in the call object.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import anyio

from planloop.controllers.mcp import results
from planloop.controllers.mcp.server_request import ToolServerRequest
from planloop.reconciler.engine.work_pools import WorkPlane
from planloop.reconciler.store.store import Store
from planloop.schemas import limits
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.objects.call import CallResult, CallState
from planloop.schemas.objects.mcp import SHARED, McpSpec, ServerFailed, ServerState, mcp_from_json


class LiveServers:
    """The open links, and the calls that wait for an answer of a person. Methods raise ServerFailed
    (`planloop.schemas.objects.mcp`).
    """

    def __init__(self, store: Store, work: WorkPlane) -> None:
        self._store = store
        self._work = work
        self._links: dict[
            tuple[str, str], Any
        ] = {}  # planloop.controllers.mcp.link.ToolServerLink, which is imported late.
        self._asked: dict[str, ToolServerRequest] = {}
        self._moved = anyio.Event()

    def add(self, server: str, run: str, link: Any) -> None:
        """Add the link of a run that is ready."""
        self._links[server, run] = link
        self.moved()

    def remove(self, server: str, run: str) -> None:
        """Remove the link of a run."""
        self._links.pop((server, run), None)
        self.moved()

    def refresh(self, server: str) -> None:
        """List the offer of `server` again."""
        for (name, _), link in self._links.items():
            if name == server:
                link.changed.set()

    def moved(self) -> None:
        """Wake the callers that wait for a link."""
        self._moved.set()
        self._moved = anyio.Event()

    async def call(
        self, server: str, tool: str, arguments: JsonObject, *, by: str, op: str, on_progress: Callable[[str], None]
    ) -> CallResult:
        """See `ToolServers.call`."""
        call: JsonObject = {"server": server, "tool": tool, "arguments": arguments, "by": by, "op": op, "rounds": 0}
        return await self._round(call, {}, on_progress)

    async def answer(
        self, asked: JsonObject, content: JsonObject | None, *, op: str, on_progress: Callable[[str], None]
    ) -> CallResult:
        """See `ToolServers.answer`."""
        call: JsonObject = {**asked["call"], "op": op}
        waiting = self._asked.pop(str(asked["call"]["op"]), None)
        if waiting is not None and not waiting.is_over:
            waiting.give(content)
            return self._outcome(call, waiting, await waiting.result())
        if "state" not in asked:
            raise ServerFailed("Disconnected", "the server that asked has ended, and its call with it", has_begun=True)
        if call["rounds"] >= limits.INPUT_ROUNDS_MAX:
            raise ServerFailed("TooManyRounds", f"it asked {limits.INPUT_ROUNDS_MAX} times and asks again")
        again = {"asked": asked, "content": content}
        return await self._round({**call, "rounds": call["rounds"] + 1}, again, on_progress)

    async def prompt(self, server: str, name: str, arguments: JsonObject, *, by: str) -> str:
        """See `ToolServers.prompt`."""
        _, answer = await self._heard(server, by, lambda link: partial(link.prompt, name, arguments))
        return results.prompt_text(answer, self._store.put_blob)

    async def resource(self, server: str, uri: str, *, by: str) -> str:
        """See `ToolServers.resource`."""
        _, answer = await self._heard(server, by, lambda link: partial(link.resource, uri))
        return results.resource_text(answer, self._store.put_blob)

    @property
    def is_asking(self) -> bool:
        """Whether any server waits for an answer."""
        return bool(self._asked)

    def forget(self, still: Callable[[str], bool]) -> None:
        """Give up the open questions whose operation no call waits for any more, as `still` says."""
        for op in [op for op in self._asked if not still(op)]:
            self._asked.pop(op).give_up()

    async def _round(self, call: JsonObject, again: JsonObject, on_progress: Callable[[str], None]) -> CallResult:
        async def progressed(done: float, total: float | None, message: str | None) -> None:
            far = f"{done:g}" if total is None else f"{done:g} of {total:g}"
            on_progress(f"{far} {message}" if message else far)

        server, by = str(call["server"]), str(call["by"])
        request, answer = await self._heard(
            server, by, lambda link: partial(link.call, call, progressed, again), asks=True
        )
        return self._outcome(call, request, answer)

    def _outcome(self, call: JsonObject, request: ToolServerRequest, answer: Any) -> CallResult:
        if answer is None:
            self._asked[call["op"]] = request
            return _asking(call, request.question or {})
        if not isinstance(answer, results.ToolServerAnswer):
            return _asking(call, answer)
        return results.call_result(answer, self._store.put_blob)

    async def _heard(
        self, server: str, by: str, work_on: Callable[[Any], Callable[[], Any]], *, asks: bool = False
    ) -> tuple[ToolServerRequest, Any]:
        """Make a request; return it and its result. If it did not reach the server, try the next link."""
        for last in reversed(range(limits.SERVER_FAILURES_MAX)):
            request = await self._sent(server, by, work_on, asks=asks)
            try:
                return request, await request.result()
            except ServerFailed as fault:
                if fault.reason != "Unreachable" or not last:
                    raise
        raise AssertionError("the last try returns or raises")

    async def _sent(
        self, server: str, by: str, work_on: Callable[[Any], Callable[[], Any]], *, asks: bool = False
    ) -> ToolServerRequest:
        """Return a request that its server has begun. If the server ends before that, try the next link."""
        for _ in range(limits.SERVER_FAILURES_MAX):
            link = await self._link(server, by)
            request = ToolServerRequest(work_on(link), self._time_s(server), takes_questions=asks)
            link.submit(request)
            if await request.until_taken():
                break
        return request

    async def _link(self, server: str, by: str) -> Any:
        """Return the link for the agent `by`; wait while the server starts. Raises ServerFailed."""
        with anyio.move_on_after(limits.SERVER_START_S):
            while True:
                moved = self._moved
                spec = self._spec(server)
                if spec.world:
                    raise ServerFailed("NoServer", f"`{server}` is simulated: it offers only tools")
                link = self._links.get((server, by if spec.share == "agent" else SHARED))
                if link is not None and not link.gone.is_set():
                    return link
                resource = self._store.view.get(f"mcp/{server}")
                if resource is None or resource.state == ServerState.FAILED:
                    break
                self._work.poke(f"mcp/{server}")
                await moved.wait()
        now = self._store.view.get(f"mcp/{server}")
        why = "" if now is None else str(now.status.get("why") or now.state)
        raise ServerFailed("NoServer", f"the server `{server}` is not running: {why}")

    def _spec(self, server: str) -> McpSpec:
        resource = self._store.view.get(f"mcp/{server}")
        if resource is None or resource.deleting:
            raise ServerFailed("NoServer", f"unknown server `{server}`")
        return mcp_from_json(resource.spec)

    def _time_s(self, server: str) -> float:
        return min(self._spec(server).timeout_s or limits.CALL_TIMEOUT_S, limits.CALL_TIMEOUT_S)


def _asking(call: JsonObject, questions: JsonObject) -> CallResult:
    words = " ".join(str(each["message"]) for each in questions["requests"].values())
    return CallResult(CallState.AWAITING_INPUT, words, value={"call": call, **questions})
