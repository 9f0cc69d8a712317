"""Model replies of the `team` example: a root agent that decomposes, and two workers, one of which fixes its work.

Steps for the scripted server, each taken once but for the waiting. The parts are those of the `webchat` example.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

PARTS = Path(__file__).parents[2] / "plans/examples/webchat/parts"
TOP, WORKER = "qwen3:32b", "qwen3:14b"
GOAL = "create and integrate a full stack web chat"
PAGE_GOAL, SERVER_GOAL = "the page of the web chat", "the server of the web chat"
SPLIT = "I split this into the page and the server."
PROTOCOL = "one text frame a message, at /chat"
PASSED_ON = f"The server speaks {PROTOCOL}."
DELIVERED = "the page and the server work together"

Step = dict[str, Any]


def steps(top: str = TOP, worker: str = WORKER) -> list[Step]:
    """Every reply; `top` and `worker` are the models as the server sees them."""
    of_top = [step | {"model": top, "when": {"system": GOAL} | step.get("when", {})} for step in _top()]
    return [*of_top, *(step | {"model": worker} for step in (*_page(), *_server()))]


def _top() -> list[Step]:
    ended = ["task/frontend is done", "task/backend is done"]
    return [
        # A text beside a call: not final.
        {"when": {"not": SPLIT}, "reply": {"text": SPLIT, "calls": [call("task", tasks=children())], "split": 7}},
        {"when": {"after": "task"}, "reply": {"text": "Both are at work; I wait."}},
        {
            "when": {"any": PROTOCOL, "not": PASSED_ON},
            "reply": {"calls": [call("send", to="frontend", text=PASSED_ON)]},
        },
        {"when": {"any": ended, "not": "integration.py is written"}, "reply": _integrated()},
        {"when": {"after": "write"}, "reply": {"calls": [call("shell", command="python3 integration.py")]}},
        {"when": {"after": "shell"}, "reply": {"calls": [call("done", result=DELIVERED)]}},
        {"reply": {"text": "I wait."}, "times": "always"},
    ]


def _integrated() -> Step:
    made = written("integration.py")
    return {"text": "integration.py is written", "calls": [made]}


def _page() -> list[Step]:
    """The page, at first without its label: the check fails, and the worker fixes it."""
    wrong = (PARTS / "index.html").read_text().replace("textContent", "innerHTML")
    mine = {"system": PAGE_GOAL}
    # Several calls in one reply.
    first = [written("index.html", wrong), written("test_page.py")]
    return [
        {"when": mine | {"not": "Here is the page"}, "reply": {"text": "Here is the page.", "calls": first}},
        {"when": mine | {"after": "write", "not": "innerHTML is gone"}, "reply": {"text": "The page is written."}},
        {
            "when": mine | {"last": "test_page", "not": "innerHTML is gone"},
            "reply": {"text": "innerHTML is gone", "calls": [written("index.html")]},
        },
        # The message of the top may come between the write and this reply: then "I know." ends the work.
        {
            "when": mine | {"after": "write"},
            "reply": {"calls": [call("done", result="the page is fixed")]},
            "times": "always",
        },
        {"when": mine | {"last": PASSED_ON}, "reply": {"text": "I know."}, "times": "always"},
    ]


def _server() -> list[Step]:
    mine = {"system": SERVER_GOAL}
    parts = [written("chat.py"), written("client.py"), written("test_chat.py")]
    told = call("send", to="parent", text=f"The protocol: {PROTOCOL}.")
    return [
        {"when": mine | {"not": "The protocol"}, "reply": {"calls": [*parts, told]}},
        {
            "when": mine | {"after": "send"},
            "reply": {"calls": [call("shell", command="python3 -m unittest test_chat")]},
        },
        {"when": mine | {"after": "shell"}, "reply": {"text": "The server is written; its tests pass."}},
    ]


def children() -> list[Step]:
    page = [{"require-file": "index.html"}, {"sh": "python3 -m unittest test_page"}]
    server = [{"sh": "python3 -m unittest test_chat"}]
    return [
        {"id": "frontend", "goal": PAGE_GOAL, "cwd": "frontend", "agent": "worker", "acceptance": page},
        {"id": "backend", "goal": SERVER_GOAL, "cwd": "backend", "agent": "worker", "acceptance": server},
    ]


def written(name: str, content: str | None = None) -> Step:
    return call("write", path=name, content=(PARTS / name).read_text() if content is None else content)


def call(name: str, **arguments: Any) -> Step:
    return {"name": name, "arguments": arguments}
