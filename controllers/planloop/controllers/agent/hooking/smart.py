"""Hooks whose mind is an agent: how a question is put to it, and how its answer becomes a verdict.

A question is a message in the inbox of the hook's agent and a thread that the watched agent owns; the answer writes
itself into the thread (`answering.py`), which wakes that agent. Everything is found again from these two after a crash:
asking twice changes nothing, a second answer finds no question, and a late one no thread. Pure.
"""

from __future__ import annotations

from typing import Final

from planloop.controllers.agent.hooking import circles, showing, spoken
from planloop.controllers.agent.mail import inbox
from planloop.controllers.agent.mail.inbox import Refusal
from planloop.controllers.agent.observing import Observed
from planloop.reconciler.storing.store import View
from planloop.schemas import thread
from planloop.schemas.encoding import JsonObject
from planloop.schemas.hook import HookAgent, HookSpec, Point, Verdict, hook_from_json, is_hook_agent
from planloop.schemas.message import Message
from planloop.schemas.record import Change, Drop, Put, SetStatus
from planloop.schemas.resource import Resource
from planloop.schemas.task import ENDED
from planloop.schemas.thread import ThreadSpec

KIND: Final = "hook"


def question(
    view: View, seen: Observed, hook: Resource, asked: JsonObject, due_at: float
) -> tuple[Change, ...] | Verdict:
    """The changes that put `asked` (`facts.question`; its `id` is unique in the plan) to the agent of `hook`.

    None are left when it was put before. A verdict, with its `fault`, when it cannot be asked. `due_at`, in seconds
    since 1970, is when nobody waits any more.
    """
    spec, question_id = hook_from_json(hook.spec), str(asked["id"])
    address = f"thread/{question_id}"
    if view.get(address) is not None:
        return ()
    agent = view.get(agent_of(spec))
    why = _hindrance(view, spec, agent)
    if agent is None or why:
        return Verdict(fault=why)
    message = Message(
        question_id,
        KIND,
        seen.resource.address,
        agent.address,
        showing.shown(
            spec, asked, is_text=agent.spec["mind"]["kind"] in showing.READERS, is_made=is_hook_agent(agent.address)
        ),
        seen.now,
        thread=address,
        cause=seen.plan_rev,
        asks=True,
        expires_at=due_at,
    )
    delivered = inbox.delivery(view, message, is_counted=False)
    if isinstance(delivered, Refusal):
        return Verdict(fault=f"{delivered.reason}: {delivered.message}")
    # What the thread is about is the point: the answer is read by it.
    wanted = ThreadSpec("hook", seen.resource.address, str(asked["hook_event_name"]), (agent.address,))
    made = Put(address, thread.uid_of(address), wanted.to_json(), owner=seen.resource.address)
    status: JsonObject = {"state": "open", "asked_at": seen.now, "due_at": due_at}
    return (made, SetStatus(address, made.uid, status), *delivered)


def answer(view: View, seen: Observed, hook: Resource, question_id: str) -> Verdict | None:
    """What the agent of `hook` answered to the question of that id; None while it has not.

    An agent that cannot answer as things stand (out of budget, gone, ended, waiting itself for whoever asks) is a
    verdict with a `fault`, and so is one that is late.
    """
    found, spec = view.get(f"thread/{question_id}"), hook_from_json(hook.spec)
    if found is None:
        return Verdict(fault="the question was withdrawn")
    said = thread.status_from_json(found.status).answers.get(question_id)
    if said is not None:
        point: Point = found.spec["prompt"]
        return spoken.verdict_of(said, point)
    if seen.now >= float(found.status["due_at"]):
        return Verdict(fault=f"{agent_of(spec)} did not answer in time")
    why = _hindrance(view, spec, view.get(agent_of(spec)))
    return Verdict(fault=why) if why else None


def withdrawn(view: View, hook: Resource, question_id: str) -> tuple[Change, ...]:
    """The changes that take the question away when it was answered, or is waited for no more."""
    found, agent = view.get(f"thread/{question_id}"), view.get(agent_of(hook_from_json(hook.spec)))
    gone: tuple[Change, ...] = () if found is None else (Drop(found.address, found.uid),)
    if agent is None:
        return gone
    places = (place for place in ("inbox", "asked") if question_id in agent.status.get(place, {}))
    merge: JsonObject = {place: {question_id: None} for place in places}
    return (*gone, SetStatus(agent.address, agent.uid, merge)) if merge else gone


def agent_of(hook: HookSpec) -> str:
    """The agent that is asked for `hook`."""
    assert isinstance(hook.mind, HookAgent), "only agents are asked by a message"
    return hook.mind.address


def _hindrance(view: View, hook: HookSpec, agent: Resource | None) -> str:
    """Why no answer is to be expected as things stand; empty when there may be one."""
    name = agent_of(hook)
    if agent is None or agent.deleting:
        return f"{name} is gone"
    if name == hook.watches:
        return f"{name} would be asked about itself"
    task = view.get(str(agent.spec["task"]))
    if task is not None and task.spec["pause"] and task.state not in ENDED:
        return f"{name} is paused"
    if circles.waits_for(view, name, hook.watches):
        return f"{name} itself waits for {hook.watches}"
    return ""
