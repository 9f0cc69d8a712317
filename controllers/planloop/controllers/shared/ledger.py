"""Ledgers of tasks: grant, reserve, spend and refund budgets, and the command that raises a budget. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Final

from planloop.reconciler.store.store import View
from planloop.schemas import address as addresses
from planloop.schemas import json_pointer
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen, remade
from planloop.schemas.log.record import SetStatus
from planloop.schemas.objects.budget import (
    ZERO,
    Account,
    Cost,
    Unit,
    account_to_json,
    accounts_of,
    amount_to_json,
    amounts_from_json,
    exact_amount,
    round_up,
    unit_to_name,
)
from planloop.schemas.resource import Resource

# An entry for a unit goes to the nearest open account. If a call costs more than was reserved, what a child used over
# its grant is charged to the giver immediately, so that no account shows money that is spent.

_LEAST: Final = {"usd": Decimal("0.000001"), "time_s": Decimal("0.000001")}
"""The smallest amount of a unit; 1 for the other units, which are counted."""


@frozen
class BudgetShortage:
    """Units of which too little is left: the amounts left and the amounts requested."""

    left: Mapping[Unit, Decimal]
    asked: Mapping[Unit, Decimal]


def ledger_chain(view: View, address: str | None) -> list[Resource]:
    """Return the task at `address` and its ancestors that have a ledger, nearest first."""
    found: list[Resource] = []
    while address is not None:
        task = view.get(address)
        if task is None:
            break
        if "ledger" in task.status:
            found.append(task)
        address = task.spec["parent"]
    return found


def add_usage(one: JsonObject, other: JsonObject) -> JsonObject:
    """Return the sum of two usages (tokens and money), in the form that a status keeps."""
    money = Decimal(str(one.get("usd", 0))) + Decimal(str(other.get("usd", 0)))
    return {"tokens": one.get("tokens", 0) + other.get("tokens", 0), "usd": amount_to_json("usd", money)}


class LedgerEntries:
    """Ledger entries of one record. `chain` are a task and its ancestors, nearest first; `others` are other tasks."""

    def __init__(self, chain: Iterable[Resource], others: Iterable[Resource] = ()) -> None:
        tasks = tuple(chain)
        self._chain: list[str] = [task.uid for task in tasks]
        self._tasks: dict[str, Resource] = {task.uid: task for task in (*tasks, *others)}
        self._after = {uid: accounts_of(task.status) for uid, task in self._tasks.items()}
        self._touched: dict[str, set[Unit]] = {uid: set() for uid in self._tasks}
        self._grown: set[str] = set()

    def account(self, uid: str, unit: Unit) -> Account | None:
        """Return the account after the entries so far."""
        return self._after.get(uid, {}).get(unit)

    def holder(self, unit: Unit, *, above: str = "") -> str:
        """Return the uid of the nearest task with an open account of `unit`; empty if none has one.

        With `above`, only ancestors of the task with that uid count.
        """
        chain = self._chain[self._chain.index(above) + 1 :] if above in self._chain else self._chain
        for uid in chain:
            account = self.account(uid, unit)
            if account is not None and account.is_open:
                return uid
        return ""

    def left(self, unit: Unit, *, above: str = "") -> Decimal | None:
        """Return the amount left for ordinary work; None if unlimited.

        If the budget of an ancestor was lowered below its use, the excess is subtracted.
        """
        found: Decimal | None = None
        at = self.holder(unit, above=above)
        while at:
            left = self._after[at][unit].left
            found = left if found is None else found + min(ZERO, left)
            at = self.holder(unit, above=at)
        return found

    def reserve(self, agent: str, op: str, worst: Cost, *, last_of: str = "") -> BudgetShortage | None:
        """Reserve the worst-case cost of a request of the agent with that uid; return what is missing, without an
        entry.

        `last_of` is the uid of the agent's own task in its last turn, which may use the hand-over reserve. If the
        reserve is smaller than the worst case, all of it is reserved: only an empty reserve refuses a last turn.
        """
        asked = dict(amounts_from_json(worst.to_json()))
        missing: dict[Unit, Decimal] = {}
        for unit, amount in asked.items():
            left = self.left(unit)
            if left is None or left >= amount:
                continue
            kept = self._after[last_of][unit].handover if last_of and self.holder(unit) == last_of else ZERO
            if left + kept > 0 and kept:
                asked[unit] = min(amount, left + kept)
            else:
                missing[unit] = left
        if missing:
            return BudgetShortage(missing, {unit: asked[unit] for unit in missing})
        for unit, amount in asked.items():
            if at := self.holder(unit):
                account = self._after[at][unit].with_reserved(agent, op, amount, is_last=at == last_of)
                self.put(at, unit, _without_want(account, agent))
        return None

    def settle(self, agent: str, op: str, cost: Cost, *, own: str = "") -> None:
        """Replace the reservation for `op` by its `cost`, in the account of the reservation.

        `own` is the uid of an LLM agent's task: its hand-over reserve grows to the cost of a request, because the last
        request will cost as much.
        """
        amounts = dict(amounts_from_json(cost.to_json()))
        for uid, accounts in self._after.items():
            for unit, account in list(accounts.items()):
                if op not in account.reserved.get(agent, {}):
                    continue
                amount, freed = amounts.pop(unit, ZERO), account.without_reserved(agent, op)
                settled = remade(freed, spent=freed.spent + amount)
                self.put(uid, unit, settled.keeping(unit, amount) if uid == own else settled)
        self._bill(amounts)
        if cost.usd is None and (at := self.holder("usd")):
            account = self._after[at]["usd"]
            self.put(at, "usd", remade(account, unknown=account.unknown + 1))

    def bill(self, cost: Cost) -> None:
        """Charge a cost that was not reserved."""
        self._bill(dict(amounts_from_json(cost.to_json())))

    def _bill(self, amounts: Mapping[Unit, Decimal]) -> None:
        for unit, amount in amounts.items():
            if amount and (at := self.holder(unit)):
                account = self._after[at][unit]
                self.put(at, unit, remade(account, spent=account.spent + amount))

    def release(self, agent: str, op: str | None = None) -> None:
        """Release the reservation for `op`, or those of all requests of the agent, and remove what it waited for."""
        for uid, accounts in self._after.items():
            for unit, account in list(accounts.items()):
                if agent in account.reserved or (op is None and agent in account.wants):
                    self.put(uid, unit, _without_want(account.without_reserved(agent, op), agent))

    def holding(self, agent: str) -> tuple[Resource, ...]:
        """Return the tasks with reservations for requests of the agent with that uid."""
        found = (uid for uid, each in self._after.items() if any(agent in one.reserved for one in each.values()))
        return tuple(self._tasks[uid] for uid in found)

    def grant(self, child: str, unit: Unit, bound: Decimal, *, keeps: Decimal = ZERO) -> Decimal | None:
        """Grant `bound` to the task with uid `child` from the nearest account above it, or change its grant.

        Returns the amount left to give if that is too little, and makes no entry then. Without an account above, the
        account is the task's own and keeps its counts.
        """
        old = self.account(child, unit)
        is_live = old is not None and old.is_open
        at = old.giver if old is not None and is_live else self.holder(unit, above=child)
        if old is None or not (is_live or (not at and not old.giver)):
            old = Account(bound, keeps=keeps, giver=at)
        keeps = old.kept(unit, bound, keeps)
        new = remade(old, bound=bound, keeps=keeps, handover=min(old.handover, keeps), giver=at, is_open=True)
        if at:
            left = self.left(unit, above=child)
            needed = new.held - (old.held if is_live else ZERO)
            if left is not None and needed > max(left, ZERO):
                return left
            giver = self._after[at][unit]
            self.put(at, unit, _without_want(remade(giver, granted={**giver.granted, child: new.held}), child))
        self.put(child, unit, new)
        if not is_live or new.left > old.left:
            self._grown.add(child)  # Rare enough to wake all objects that refer to the task.
        return None

    def refund(self, child: str) -> bool:
        """Refund what is left of the grants of an ended task; return whether it had one.

        What it spent is charged to its giver. Accounts without a giver stay open.
        """
        found = False
        for unit, account in list(self._after.get(child, {}).items()):
            giver = self.account(account.giver, unit)
            if not account.is_open or giver is None:
                continue
            found = True
            spent = account.committed - sum(sum(one.values(), ZERO) for one in account.reserved.values())
            self.put(child, unit, remade(account, reserved={}, wants={}, handover=ZERO, keeps=ZERO, is_open=False))
            granted = {uid: amount for uid, amount in giver.granted.items() if uid != child}
            self.put(account.giver, unit, remade(giver, granted=granted, spent=giver.spent + spent))
        self.unwant(child)
        return found

    def withdraw(self, child: str, unit: Unit) -> None:
        """Close an account whose budget was removed from the plan, and move its entries to its giver."""
        account = self._after[child].pop(unit)
        self._touched[child].add(unit)
        grantees = [uid for uid in account.granted if (own := self.account(uid, unit)) is not None and own.is_open]
        giver = self.account(account.giver, unit)
        for uid in grantees:
            self._touched[uid].add(unit)
            self._after[uid][unit] = remade(self._after[uid][unit], giver=account.giver if giver is not None else "")
        if giver is not None:
            granted = {uid: amount for uid, amount in giver.granted.items() if uid != child}
            granted |= account.granted
            reserved = dict(giver.reserved)
            for agent, requests in account.reserved.items():
                reserved[agent] = {**reserved.get(agent, {}), **requests}
            new = remade(giver, granted=granted, reserved=reserved, spent=giver.spent + account.spent)
            self.put(account.giver, unit, new)
        self._grown.add(child)

    def move(self, child: str, unit: Unit) -> None:
        """Move an active grant to the account that is now above the task, which was moved."""
        account = self._after[child][unit]
        old = self.account(account.giver, unit)
        if old is not None:
            granted = {uid: amount for uid, amount in old.granted.items() if uid != child}
            self.put(account.giver, unit, remade(old, granted=granted))
        at = self.holder(unit, above=child)
        if at:
            giver = self._after[at][unit]
            self.put(at, unit, remade(giver, granted={**giver.granted, child: account.held}))
        self.put(child, unit, remade(account, giver=at))

    def unwant(self, who: str) -> None:
        """Remove what `who` waits for."""
        for uid in self._chain:
            for unit, account in list(self._after[uid].items()):
                if who in account.wants:
                    self.put(uid, unit, _without_want(account, who))

    def want(self, who: str, unit: Unit, amount: Decimal = ZERO, *, above: str = "") -> None:
        """Note that `who` waits for `amount` of `unit`, so that it is woken when that much is available."""
        if at := self.holder(unit, above=above):
            account = self._after[at][unit]
            wanted = max(amount, _LEAST.get(unit, Decimal(1)))
            self.put(at, unit, remade(account, wants={**account.wants, who: wanted}))

    def put(self, uid: str, unit: Unit, account: Account) -> None:
        """Set an account, and update its giver if it holds more or less than before."""
        accounts = self._after[uid]
        old = accounts.get(unit)
        self._touched[uid].add(unit)
        account = account.filled()
        accounts[unit] = account
        if any((old is None or old.left < wanted) and wanted <= account.left for wanted in account.wants.values()):
            self._grown.add(uid)
        giver = self.account(account.giver, unit) if account.is_open else None
        if giver is not None and giver.granted.get(uid) != account.held:
            self.put(account.giver, unit, remade(giver, granted={**giver.granted, uid: account.held}))

    def changes(self) -> tuple[SetStatus, ...]:
        """Return the status changes of all entries; empty if nothing differs."""
        return tuple(
            SetStatus(task.address, task.uid, merge)
            for uid, task in self._tasks.items()
            if (merge := self.merge_of(uid))
        )

    def merge_of(self, uid: str) -> JsonObject:
        """Return the merge for the status of one task; empty if nothing differs."""
        old: JsonObject = self._tasks[uid].status.get("ledger", {})
        merge: JsonObject = {}
        for unit in sorted(self._touched[uid]):
            account = self._after[uid].get(unit)
            new = None if account is None else account_to_json(unit, account)
            before = old.get(unit)
            if new is None or before is None:
                if new is not before:
                    merge[unit] = new
            elif inner := _difference(before, new):
                merge[unit] = inner
        out: JsonObject = {"ledger": merge} if merge else {}
        if uid in self._grown:
            signal = self._tasks[uid].status.get("signal") or {}
            out["signal"] = {"budget": signal.get("budget", 0) + 1}
        return out


def _without_want(account: Account, who: str) -> Account:
    if who not in account.wants:
        return account
    return remade(account, wants={key: one for key, one in account.wants.items() if key != who})


def _difference(old: JsonObject, new: JsonObject) -> JsonObject:
    """Return the merge patch (RFC 7386) from `old` to `new`; neither has a null value."""
    out: JsonObject = {key: None for key in old if key not in new}
    for key, value in new.items():
        before: Json = old.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            if inner := _difference(before, value):
                out[key] = inner
        elif value != before or key not in old:
            out[key] = value
    return out


# The budget lines of a plan, and the command that raises them. One command raises a budget together with the budgets
# above it that have too little left.


def account_holders(purse: Sequence[Resource], unit: Unit) -> list[tuple[Resource, Account]]:
    """Return the tasks that have an open account of `unit`, nearest first."""
    found = ((task, accounts_of(task.status).get(unit)) for task in purse)
    return [(task, account) for task, account in found if account is not None and account.is_open]


def budget_left(purse: Sequence[Resource], unit: Unit) -> Decimal | None:
    """Return the amount that the accounts leave for ordinary work; None if unlimited."""
    left: Decimal | None = None
    for _, account in account_holders(purse, unit):
        left = account.left if left is None else left + min(ZERO, account.left)
    return left


def raise_settings(purse: Sequence[Resource], unit: Unit, more: Decimal) -> list[str]:
    """Return the settings that raise the nearest account by `more`, and accounts above it that have too little left."""
    found_in = account_holders(purse, unit)
    if not found_in:
        return []
    task, account = found_in[0]
    wanted = round_up(unit, account.bound + more)
    found = [f"{path}={wanted}" for path, said in budget_lines(task, unit) if said < _number(unit, wanted)]
    if not account.giver or len(found_in) == 1:
        return found
    needed = max(_number(unit, wanted), account.committed) - account.held
    above = purse[_at(purse, found_in[1][0]) :]
    missing = needed - (budget_left(above, unit) or ZERO)
    return [*raise_settings(above, unit, missing), *found] if missing > 0 else found


def _number(unit: Unit, written: str) -> Decimal:
    return exact_amount(unit, written.rstrip("s") if unit == "time_s" else written)


def _at(purse: Sequence[Resource], task: Resource) -> int:
    return next(index for index, one in enumerate(purse) if one.uid == task.uid)


def budget_lines(task: Resource, unit: Unit) -> list[tuple[str, Decimal]]:
    """Return the plan's lines that limit `unit` for a task, each as an argument of `plan patch .`, with its value."""
    limits: JsonObject = (task.spec.get("agent_bounds") or {}).get(unit, {})
    own = ".".join(
        (*json_pointer.task_pointer(addresses.parse_address(task.address).path), "budget", unit_to_name(unit))
    )
    found = {path: exact_amount(unit, value) for path, value in limits.get("lines", {}).items()}
    stated = limits.get("task") if limits else (task.spec.get("budget") or {}).get(unit)
    if stated is not None:
        found[own] = exact_amount(unit, stated)
    return list(found.items())


def raise_command(settings: Sequence[str]) -> str:
    """Return one command that makes all `settings`. A single line of one task is written in its short form."""
    if len(settings) == 1:
        path, _, value = settings[0].partition("=")
        tokens = tuple(path.split("."))
        head, unit = tokens[:-2], tokens[-1]
        names = head[1::2]
        if tokens[-2:-1] == ("budget",) and head == json_pointer.task_pointer(names):
            return f"plan patch {'task/' + '/'.join(names) if names else '.'} budget.{unit}={value}"
    return f"plan patch . {' '.join(settings)}"
