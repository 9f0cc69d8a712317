"""Child process that calls litellm: JSON lines in and out, many requests at the same time.

In: `{"id": n, "ask": {…}}` with litellm's arguments, `{"id": n, "cancel": true}`. Out: `{"ready": true}` once litellm
is loaded, or `{"unusable": why}`; for a request, `{"id": n, "chunk": {…}}` in the form of the OpenAI chat API, then one
of `{"id": n, "end": true}`, `{"id": n, "cancelled": true}` and `{"id": n, "failed": {…}}`. The process ends when its
input ends, so it never outlives its parent. It imports nothing from planloop.
"""

import asyncio
import json
import os
import queue
import sys
import threading
from typing import Any, TextIO


def take_over_stdout() -> TextIO:
    """The stream to the parent. From now on, everything that litellm prints goes to stderr."""
    to_parent = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return to_parent


def read_lines(lines: "queue.SimpleQueue[str]", wake: "list[Any]") -> None:
    """Put each line of stdin into `lines` and call `wake`. Ends the process when stdin ends, even during loading."""
    for line in sys.stdin:
        lines.put(line)
        for notify in wake:
            notify()
    os._exit(0)


class LitellmRequests:
    """Calls litellm for the requests on stdin."""

    def __init__(self, litellm: Any, to_parent: TextIO) -> None:
        self._litellm = litellm
        self._to_parent = to_parent
        self._running: dict[int, asyncio.Task[None]] = {}

    def send(self, line: dict[str, Any]) -> None:
        """Send one line to the parent."""
        self._to_parent.write(json.dumps(line, ensure_ascii=True, default=str) + "\n")
        self._to_parent.flush()

    def take(self, line: str) -> None:
        """Start or cancel a request."""
        asked = json.loads(line)
        number = asked["id"]
        if "ask" in asked:
            task = asyncio.ensure_future(self._stream(number, asked["ask"]))
            self._running[number] = task
            task.add_done_callback(lambda ended: self._ended(number, ended))
        elif number in self._running:
            self._running[number].cancel()

    async def _stream(self, number: int, ask: dict[str, Any]) -> None:
        answer = await self._litellm.acompletion(**ask)
        if not ask.get("stream"):
            self.send({"id": number, "chunk": as_json(answer)})
            return
        try:
            async for chunk in answer:
                self.send({"id": number, "chunk": as_json(chunk)})
        finally:
            await answer.aclose()  # Otherwise the provider continues to generate.

    def _ended(self, number: int, task: "asyncio.Task[None]") -> None:
        """Report how a request ended."""
        del self._running[number]
        error = None if task.cancelled() else task.exception()
        if task.cancelled():
            self.send({"id": number, "cancelled": True})
        elif error is not None:
            self.send({"id": number, "failed": describe_failure(error)})
        else:
            self.send({"id": number, "end": True})


def as_json(answer: Any) -> Any:
    """A reply or a chunk of one as JSON values."""
    return answer.model_dump(exclude_none=True, mode="json")


def describe_failure(error: BaseException) -> dict[str, Any]:
    """An exception of litellm as JSON, with the status and headers of the provider's response if there was one."""
    response = getattr(error, "response", None)
    headers = getattr(error, "litellm_response_headers", None) or getattr(response, "headers", None) or {}
    return {
        "kind": type(error).__name__,
        "status": getattr(error, "status_code", None),
        "message": str(getattr(error, "message", None) or error),
        "headers": {str(name).lower(): str(value) for name, value in dict(headers).items()},
    }


async def serve(litellm: Any, to_parent: TextIO, lines: "queue.SimpleQueue[str]", wake: "list[Any]") -> None:
    """Serve requests until stdin ends, which ends the process."""
    loop, has_lines = asyncio.get_running_loop(), asyncio.Event()
    wake.append(lambda: loop.call_soon_threadsafe(has_lines.set))
    requests = LitellmRequests(litellm, to_parent)
    requests.send({"ready": True})
    while True:
        while not lines.empty():
            requests.take(lines.get())
        await has_lines.wait()
        has_lines.clear()


def main() -> None:
    """Load litellm, which takes seconds, and serve requests."""
    to_parent = take_over_stdout()
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    wake: list[Any] = []
    threading.Thread(target=read_lines, args=(lines, wake), daemon=True).start()
    try:
        import litellm  # noqa: PLC0415 - after the thread that watches the parent
    except ImportError as error:
        to_parent.write(json.dumps({"unusable": str(error)}) + "\n")
        to_parent.flush()
        return
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    litellm.modify_params = True  # litellm adds what a provider requires: a declared tool, text for blank content.
    asyncio.run(serve(litellm, to_parent, lines, wake))


if __name__ == "__main__":
    main()
