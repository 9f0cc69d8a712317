"""Budgets and costs, and the ledger of a task: one account a unit, kept in the task's status."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from decimal import ROUND_CEILING, ROUND_DOWN, Decimal
from typing import Final, TypeAlias

from planloop.schemas import codec, limits
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen, remade

UNITS: Final = ("tokens", "usd", "time_s", "calls", "turns", "retries")


@frozen
class Budget:
    """How much a task and its descendants may use; None: what the parent has left.

    `time_s` is active time: waiting does not count. `usd` is exact decimal money.
    """

    tokens: int | None = None
    usd: Decimal | None = None
    time_s: float | None = None
    calls: int | None = None
    turns: int | None = None
    retries: int | None = None

    def to_json(self) -> JsonObject:
        """Only the members that are set; money as text, because JSON numbers are binary."""
        if self == _NO_BUDGET:  # Most tasks state no budget, and every task is printed.
            return {}
        return codec.to_json(self, *UNITS)


_NO_BUDGET: Final = Budget()


@frozen
class Cost:
    """Actual or largest possible use. `usd` is None if the price is unknown; `time_s` is active time."""

    tokens: int = 0
    usd: Decimal | None = Decimal(0)
    time_s: float = 0.0
    calls: int = 0
    turns: int = 0
    retries: int = 0

    def __add__(self, other: Cost) -> Cost:
        """The sum; an unknown price makes it unknown."""
        usd = None if self.usd is None or other.usd is None else self.usd + other.usd
        return Cost(
            self.tokens + other.tokens,
            usd,
            self.time_s + other.time_s,
            self.calls + other.calls,
            self.turns + other.turns,
            self.retries + other.retries,
        )

    def to_json(self) -> JsonObject:
        """Only what is not zero; money as text, null when unknown."""
        out: JsonObject = {}
        for name in ("tokens", "calls", "turns", "retries"):
            if value := getattr(self, name):
                out[name] = value
        if self.time_s:
            out["time_s"] = round(self.time_s, 6)
        if self.usd is None or self.usd:
            out["usd"] = None if self.usd is None else str(self.usd)
        return out


def budget_from_json(raw: JsonObject) -> Budget:
    """Inverse of `Budget.to_json`."""
    return codec.from_json(Budget, raw)


Unit: TypeAlias = str

ZERO: Final = Decimal(0)
_MICRO: Final = Decimal("0.000001")


@frozen
class Account:
    """One unit of a ledger. Maps are by uid, because addresses move: of child tasks, and of agents with their requests.

    Always `bound = left + spent + granted + reserved + handover`. `spent` is the use of the task, of its descendants
    without an account, and of children whose grant came back; `granted` is what live children hold; `reserved` is for
    requests under way. Only `left` can be negative: a call may cost more than was reserved for it.

    `keeps` is the target size of the hand-over reserve and `handover` its content. `giver` is the uid of the task
    that granted the bound, empty if no ancestor has an account: then it counts for the life of the plan. `wants` is
    what waits for more, `grown` counts the times that one of them could have it.
    """

    bound: Decimal
    spent: Decimal = ZERO
    handover: Decimal = ZERO
    keeps: Decimal = ZERO
    granted: Mapping[str, Decimal] = field(default_factory=dict)
    reserved: Mapping[str, Mapping[str, Decimal]] = field(default_factory=dict)
    giver: str = ""
    wants: Mapping[str, Decimal] = field(default_factory=dict)
    unknown: int = 0
    is_open: bool = True

    @property
    def committed(self) -> Decimal:
        """Used, handed on, or under way."""
        out = self.spent
        for amount in self.granted.values():
            out += amount
        for requests in self.reserved.values():
            for amount in requests.values():
                out += amount
        return out

    @property
    def left(self) -> Decimal:
        """What ordinary work and new grants may still take."""
        return self.bound - self.committed - self.handover

    @property
    def held(self) -> Decimal:
        """What the giver has to account for: the bound, or what was used over it."""
        return max(self.bound, self.committed)

    def keeping(self, unit: Unit, amount: Decimal) -> Account:
        """The same with a hand-over reserve for a request that costs `amount`; one that keeps none stays without."""
        if not self.keeps or unit not in ("tokens", "usd"):
            return self
        return remade(self, keeps=max(self.keeps, _rounded(unit, min(amount, self.bound * limits.HANDOVER_SHARE_MAX))))

    def kept(self, unit: Unit, bound: Decimal, keeps: Decimal) -> Decimal:
        """How much is to be kept of another bound, `keeps` at least: what a request cost once is not forgotten."""
        if not keeps or not self.keeps:
            return keeps
        return max(keeps, _rounded(unit, min(self.keeps, bound * limits.HANDOVER_SHARE_MAX)))

    def filled(self) -> Account:
        """The same after something came back: the hand-over reserve is filled before anything else."""
        lacking = self.keeps - self.handover
        if lacking <= 0 or self.left <= 0:
            return self
        return remade(self, handover=self.handover + min(lacking, self.left))

    def with_reserved(self, agent: str, op: str, amount: Decimal, *, is_last: bool = False) -> Account:
        """`amount` set aside for one request. A last turn may go into the hand-over reserve."""
        requests = {**self.reserved.get(agent, {}), op: amount}
        out = remade(self, reserved={**self.reserved, agent: requests})
        if is_last and out.left < 0:
            return remade(out, handover=max(ZERO, out.handover + out.left))
        return out

    def without_reserved(self, agent: str, op: str | None = None) -> Account:
        """The same without what was set aside for `op`, or for anything of the agent."""
        requests = {} if op is None else {key: one for key, one in self.reserved.get(agent, {}).items() if key != op}
        others = {key: one for key, one in self.reserved.items() if key != agent}
        return remade(self, reserved={**others, agent: requests} if requests else others)


def accounts_of(status: JsonObject) -> dict[Unit, Account]:
    """The accounts in a task's status, those that are closed too; empty when it has none."""
    raw = status.get("ledger")
    return {unit: account_from_json(one) for unit, one in raw.items()} if raw else {}


def account_from_json(raw: JsonObject) -> Account:
    """Inverse of `account_to_json`."""
    return codec.from_json(Account, {**raw, "is_open": not raw.get("closed", False)})


def account_to_json(unit: Unit, account: Account) -> JsonObject:
    """Numbers as JSON has them, money as text. `left` is written out, so that looking at it costs one look-up."""
    out: JsonObject = {
        "bound": amount_to_json(unit, account.bound),
        "left": amount_to_json(unit, account.left),
        "spent": amount_to_json(unit, account.spent),
    }
    if account.keeps:
        out |= {"handover": amount_to_json(unit, account.handover), "keeps": amount_to_json(unit, account.keeps)}
    if account.granted:
        out["granted"] = {key: amount_to_json(unit, value) for key, value in account.granted.items()}
    if account.reserved:
        out["reserved"] = {
            agent: {op: amount_to_json(unit, value) for op, value in requests.items()}
            for agent, requests in account.reserved.items()
        }
    if account.giver:
        out["giver"] = account.giver
    if account.wants:
        out["wants"] = {key: amount_to_json(unit, value) for key, value in account.wants.items()}
    if account.unknown:
        out["unknown"] = account.unknown
    if not account.is_open:
        out["closed"] = True
    return out


def amount_to_json(unit: Unit, amount: Decimal) -> Json:
    """An amount as JSON: money as exact text, time to the microsecond, the rest as whole numbers."""
    if unit == "usd":
        return format(amount.normalize(), "f")
    return float(amount) if unit == "time_s" else int(amount)


def exact_amount(unit: Unit, value: object) -> Decimal:
    """A number of a budget or a cost as an exact amount; time to the microsecond, which is what the log keeps."""
    amount = _amount(value)
    return amount.quantize(_MICRO) if unit == "time_s" else amount


def _amount(value: object) -> Decimal:
    return Decimal(value) if type(value) is int else Decimal(str(value))


def amounts_from_json(raw: JsonObject) -> Iterator[tuple[Unit, Decimal]]:
    """The units that the JSON of a budget or a cost names, with what it says; an unknown price is left out."""
    for unit in UNITS:
        value = raw.get(unit)
        if value is not None:
            yield unit, exact_amount(unit, value)


def handover_reserve(unit: Unit, bound: Decimal) -> Decimal:
    """How much of `bound` a thinking agent keeps for handing over: a share, at least a floor, at most half of it."""
    floor = exact_amount(unit, limits.HANDOVER_FLOORS.get(unit, 0))
    if not floor:
        return ZERO
    wanted = min(max(floor, bound * limits.HANDOVER_SHARE), bound * limits.HANDOVER_SHARE_MAX)
    return _rounded(unit, wanted)


def _rounded(unit: Unit, amount: Decimal) -> Decimal:
    """The amount as the log keeps it, rounded down."""
    if unit == "usd":
        return amount
    return amount.quantize(_MICRO, ROUND_DOWN) if unit == "time_s" else Decimal(int(amount))


def format_amount(unit: Unit, amount: Decimal) -> str:
    """An amount in a sentence: `$13.66`, `90 s`, `1,200 tokens`."""
    if unit == "usd":
        return f"${amount:.2f}"
    return f"{amount.normalize():,f} s" if unit == "time_s" else f"{amount:,f} {unit}"


def round_up(unit: Unit, amount: Decimal) -> str:
    """The next number that a person would write: a half or a whole of its largest digit's place below."""
    step = Decimal(5).scaleb(amount.adjusted() - 1) if amount else Decimal(1)
    step = step if unit in ("usd", "time_s") else max(Decimal(1), step)
    rounded = (amount / step).to_integral_value(ROUND_CEILING) * step
    return f"{rounded.normalize():f}" + ("s" if unit == "time_s" else "")


def unit_to_name(unit: Unit) -> str:
    """The unit as a plan spells it."""
    return "time" if unit == "time_s" else unit


def unit_from_name(word: str) -> Unit:
    """Inverse of `unit_to_name`."""
    return "time_s" if word == "time" else word
