"""The process that asks litellm: `litellm_child.py`, JSON lines in and out, many requests at once.

In: `{"id": n, "ask": {…}}` with litellm's own arguments, `{"id": n, "cancel": true}`. Out: `{"ready": true}` once
litellm is loaded or `{"unusable": why}`; for a request `{"id": n, "chunk": {…}}` in the form of the OpenAI chat API,
then its end: `{"id": n, "end": true}`, the same with `cancelled`, or with `failed` and what is known of it. The process
ends when its input does, so it never outlives whoever started it. Needs nothing of planloop.
"""

import asyncio
import json
import os
import queue
import sys
import threading
from typing import Any, TextIO


def take_over_stdout() -> TextIO:
    """The stream to the parent; whatever litellm prints goes to stderr from now on."""
    to_parent = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return to_parent


def read_lines(lines: "queue.SimpleQueue[str]", wake: "list[Any]") -> None:
    """Puts each line of stdin into `lines` and rings `wake`; ends the process with the input, even while it loads."""
    for line in sys.stdin:
        lines.put(line)
        for ring in wake:
            ring()
    os._exit(0)


class LitellmRequests:
    """Asks litellm for whoever asks on stdin."""

    def __init__(self, litellm: Any, to_parent: TextIO) -> None:
        self._litellm = litellm
        self._to_parent = to_parent
        self._running: dict[int, asyncio.Task[None]] = {}

    def say(self, line: dict[str, Any]) -> None:
        """One line to the parent."""
        self._to_parent.write(json.dumps(line, ensure_ascii=True, default=str) + "\n")
        self._to_parent.flush()

    def take(self, line: str) -> None:
        """Starts or cancels a request."""
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
            self.say({"id": number, "chunk": as_json(answer)})
            return
        try:
            async for chunk in answer:
                self.say({"id": number, "chunk": as_json(chunk)})
        finally:
            await answer.aclose()  # Left alone, the provider goes on writing.

    def _ended(self, number: int, task: "asyncio.Task[None]") -> None:
        """Tells how a request ended, whatever litellm raised."""
        del self._running[number]
        fault = None if task.cancelled() else task.exception()
        if task.cancelled():
            self.say({"id": number, "cancelled": True})
        elif fault is not None:
            self.say({"id": number, "failed": describe_failure(fault)})
        else:
            self.say({"id": number, "end": True})


def as_json(answer: Any) -> Any:
    """A reply or a piece of one as JSON values."""
    return answer.model_dump(exclude_none=True, mode="json")


def describe_failure(fault: BaseException) -> dict[str, Any]:
    """What went wrong, with the status and the headers of the provider's answer where there was one."""
    response = getattr(fault, "response", None)
    headers = getattr(fault, "litellm_response_headers", None) or getattr(response, "headers", None) or {}
    return {
        "kind": type(fault).__name__,
        "status": getattr(fault, "status_code", None),
        "message": str(getattr(fault, "message", None) or fault),
        "headers": {str(name).lower(): str(value) for name, value in dict(headers).items()},
    }


async def serve(litellm: Any, to_parent: TextIO, lines: "queue.SimpleQueue[str]", wake: "list[Any]") -> None:
    """Serves until the input ends, which ends the process."""
    loop, has_news = asyncio.get_running_loop(), asyncio.Event()
    wake.append(lambda: loop.call_soon_threadsafe(has_news.set))
    desk = LitellmRequests(litellm, to_parent)
    desk.say({"ready": True})
    while True:
        while not lines.empty():
            desk.take(lines.get())
        await has_news.wait()
        has_news.clear()


def main() -> None:
    """Loads litellm, which takes seconds, and serves."""
    to_parent = take_over_stdout()
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    wake: list[Any] = []
    threading.Thread(target=read_lines, args=(lines, wake), daemon=True).start()
    try:
        import litellm  # noqa: PLC0415 - after the thread that watches the parent
    except ImportError as fault:
        to_parent.write(json.dumps({"unusable": str(fault)}) + "\n")
        to_parent.flush()
        return
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    litellm.modify_params = True  # A history that a provider refuses is changed: a tool declared, a blank filled in.
    asyncio.run(serve(litellm, to_parent, lines, wake))


if __name__ == "__main__":
    main()
