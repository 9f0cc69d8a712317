"""Tasks and agents that spend: the pure cores of both controllers over one view, its ledgers checked at every fold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal

from planloop.controllers.agent import budget
from planloop.controllers.shared.ledger import BudgetShortage
from planloop.controllers.task.counters import TaskCounters
from planloop.schemas.objects.budget import UNITS, ZERO, Budget, Cost, amounts_from_json
from tests.controllers.ledger.balancing import check_balanced
from tests.controllers.task.harness import spec
from tests.controllers.task.world import World, by_agent
from tests.product import Change, Drop, GroupWork, Mark, Move, Put, Resource, SetStatus, TaskSpec, Uid

GROUP = GroupWork()


@dataclass
class Request:
    """One request under way. `worst` is what is reserved for it."""

    agent: str
    op: str
    worst: Cost


class Bank(World):
    """A world whose agents make requests. `true` is what was really used by task and unit, counted apart."""

    def __init__(self, **tasks: TaskSpec) -> None:
        self.requests: dict[str, Request] = {}
        self.true: dict[str, dict[str, Decimal]] = {}
        self.minted = 0
        super().__init__(**tasks)
        self.settle()

    def fold(self, *changes: Change) -> None:
        super().fold(*changes)
        check_balanced(self.view)

    def settle(self) -> None:
        """Reconciles tasks, with agents that start and stop as their tasks say."""
        for _ in range(20):
            before = self.view.rev
            super().settle()
            self._agents()
            if self.view.rev == before:
                return
        raise AssertionError("it never comes to rest")

    def agent_of(self, name: str) -> Resource:
        return self[f"agent/{name}"]

    def working(self) -> list[str]:
        """The agents that may take turns, by path."""
        return [
            task.address.removeprefix("task/")
            for task in self.view.list("task")
            if task.status.get("go") is not None and self.view.get(_agent(task)) is not None and not task.deleting
        ]

    def ask(self, name: str, worst: Cost, *, is_last: bool = False) -> Request | None:
        """An agent begins a request; None when there is not enough left."""
        self.minted += 1
        request = Request(name, f"op{self.minted}", worst)
        changes = budget.reserve_changes(self.view, self.agent_of(name), request.op, worst, is_last=is_last)
        if isinstance(changes, BudgetShortage):
            self.fold(*budget.wait_for_budget_changes(self.view, self.agent_of(name), changes))
            return None
        self.fold(*changes)
        self.requests[request.op] = request
        return request

    def answer(self, request: Request, cost: Cost) -> None:
        """The request ends and has cost this."""
        del self.requests[request.op]
        self.fold(*budget.settle_changes(self.view, self.agent_of(request.agent), request.op, cost))
        self.count(request.agent, cost)

    def repeat(self, request: Request) -> Request | None:
        """A new owner finds the request without an answer: given back and made again, in one record."""
        del self.requests[request.op]
        agent = self.agent_of(request.agent)
        self.minted += 1
        again = replace(request, op=f"op{self.minted}")
        changes = budget.reserve_changes(self.view, agent, again.op, again.worst, instead_of=request.op)
        if isinstance(changes, BudgetShortage):
            self.fold(*budget.release_changes(self.view, agent, request.op))
            return None
        self.fold(*changes)
        self.requests[again.op] = again
        return again

    def call_off(self, name: str) -> None:
        """All that the agent has under way is given up, and costs nothing."""
        self.requests = {op: one for op, one in self.requests.items() if one.agent != name}
        self.fold(*budget.release_changes(self.view, self.agent_of(name)))

    def take_over(self) -> None:
        """The owner died; another one counts the tasks again."""
        self.plane.jobs.clear()
        self.plane.slots.clear()
        self.tallies = TaskCounters()
        self.tallies.count(self.view)
        self.settle()

    def claim(self, name: str, kind: str = "done") -> None:
        """The agent says that it is done or has failed."""
        agent, go = self.agent_of(name), self[f"task/{name}"].status["go"]
        seq = int(agent.status.get("claims", 0)) + 1
        claim = {"seq": seq, "kind": kind, "result": ["so"], "incarnation": go}
        self.fold(SetStatus(agent.address, agent.uid, {"claims": seq, "claim": claim}))
        self.settle()

    def move(self, old: str, new: str) -> None:
        """A task without children moves to another path, with its agent; what it has under way stays under way."""
        for request in self.requests.values():
            request.agent = new if request.agent == old else request.agent
        task, agent = self[f"task/{old}"], self.agent_of(old)
        self.fold(
            Move(task.address, task.uid, f"task/{new}"),
            Move(agent.address, agent.uid, f"agent/{new}"),
            Put(f"agent/{new}", agent.uid, {**agent.spec, "task": f"task/{new}"}, (), f"task/{new}"),
        )
        wanted = self.specs.pop(f"task/{old}")
        self.edit({new: replace(wanted, work=by_agent(new))})
        self.settle()

    def budget(self, name: str, **units: object) -> None:
        """An edit of a task's budget; no units: it goes."""
        raw = {unit: Decimal(str(value)) if unit == "usd" else value for unit, value in units.items()}
        self.change(name, budget=Budget(**raw))  # type: ignore[arg-type]

    def left(self, name: str, unit: str) -> float:
        """What the agent of a task may still use."""
        task = self[f"task/{name}"]
        chain = [Resource(_agent(task), Uid(""), 1, {"task": task.address}, {})]
        left = budget.books_of(self.view, chain[0]).left(unit)
        assert left is not None, f"nothing bounds {unit} of {name}"
        return float(left)

    def account(self, name: str, unit: str) -> dict[str, object]:
        found: dict[str, object] = self[f"task/{name}"].status["ledger"][unit]
        return found

    def count(self, name: str, cost: Cost) -> None:
        mine = self.true.setdefault(name, dict.fromkeys(UNITS, ZERO))
        for unit, amount in amounts_from_json(cost.to_json()):
            mine[unit] += amount

    def truly_used(self, unit: str, names: Iterable[str] | None = None) -> Decimal:
        """What was really used, by the agents of `names` or by all that there ever were."""
        found = self.true if names is None else {name: self.true[name] for name in names if name in self.true}
        return sum((one[unit] for one in found.values()), ZERO)

    def _agents(self) -> None:
        for task in list(self.view.list("task")):
            if task.spec["work"]["kind"] == "agent":
                self._agent(task, task.address.removeprefix("task/"))
        gone = [one for one in self.view.list("agent") if self.view.get("task/" + one.address[6:]) is None]
        assert not gone, "an agent outlived its task"

    def _agent(self, task: Resource, name: str) -> None:
        agent = self.view.get(_agent(task))
        if agent is None:
            if not task.deleting:
                mind = {"kind": "model", "model": "some/model", "options": {}}
                put = Put(_agent(task), Uid(f"uid-{task.uid}"), {"mind": mind, "task": task.address}, (), task.address)
                self.fold(put)
            return
        go = task.status.get("go")
        if task.deleting:
            self.call_off(name)
            self.fold(Drop(agent.address, agent.uid))
        elif go is None and agent.status.get("state") not in (None, "ended"):
            self.call_off(name)
            self.fold(SetStatus(agent.address, agent.uid, {"state": "ended"}))
        elif go is not None and agent.status.get("state") != "running":
            self.fold(SetStatus(agent.address, agent.uid, {"state": "running", "claim": None}))


def thinks(name: str, **fields: object) -> TaskSpec:
    """A task that an agent with a model does."""
    return spec(by_agent(name), **fields)


def _agent(task: Resource) -> str:
    return task.address.replace("task/", "agent/", 1)


__all__ = ["GROUP", "Bank", "Mark", "Request", "thinks"]
