"""Who may write to whom: up always, down and elsewhere where the plan says, across an open bridge, in a conflict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from planloop.reconciler.storing.store import View
from planloop.schemas import address as addresses
from planloop.schemas import conflict
from planloop.schemas.address import Address, BadAddress
from planloop.schemas.hook import is_hook_agent
from planloop.schemas.resource import Resource
from planloop.schemas.thread import thread_from_json

PARENT: Final = "parent"
CHILDREN: Final = "children"
SIBLINGS: Final = "siblings"
EVERYBODY: Final = frozenset({"all", "*"})


class NotReachable(Exception):
    """`reason` is NoSuchAgent or NotAllowed; the message is for whoever wanted to write."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def receivers(view: View, sender: Resource, to: str) -> Sequence[str]:
    """The agents that `sender` means by `to`: `parent`, `children`, `siblings`, an id, or an agent's path.

    An id is looked for below the sender, then beside it, then from the root. Raises NotReachable.
    """
    mine = addresses.parse(sender.address)
    named = _named(view, mine, to)
    for each in named:
        if not may_talk(view, sender, addresses.parse(each)):
            talks = ", ".join(str(name) for name in sender.spec["talk_to"])
            raise NotReachable("NotAllowed", f"{sender.address} may talk to {talks}, not to {each}")
    return named


def named(view: View, sender: Resource, to: str) -> Sequence[str]:
    """The agents that `sender` means by `to`, whether or not it may write to them. Raises NotReachable."""
    return _named(view, addresses.parse(sender.address), to)


def below(view: View, agent: str, name: str) -> Resource:
    """The agent below the one at `agent` of that id or path. Raises NotReachable; what watches it nobody can name."""
    mine = addresses.parse(agent)
    path = [part for part in name.removeprefix("agent/").split("/") if part]
    for candidate in (addresses.agent(*mine.path, *path), addresses.agent(*path)):
        found = view.get(str(candidate))
        is_below = found is not None and found.address != agent and candidate.is_within(mine)
        if found is not None and is_below and not is_hook_agent(found.address):
            return found
    raise NotReachable("NoSuchAgent", f"there is no agent `{name}` below you")


def may_talk(view: View, sender: Resource, receiver: Address) -> bool:
    """Whether the plan, a bridge or a conflict lets `sender` write to `receiver`."""
    mine = addresses.parse(sender.address)
    allowed = tuple(str(name) for name in sender.spec["talk_to"])
    if receiver == mine or is_hook_agent(str(receiver)):
        return False  # Hooks are asked, by those they watch and without their doing; people may write to them.
    if CHILDREN in allowed and nearest_above(view, receiver) == str(mine):
        return True
    one, other = str(mine), str(receiver)
    return (
        is_open(mine, receiver, allowed)
        or bridge_between(view, one, other) is not None
        or any(conflicts_between(view, one, other))
    )


def is_open(sender: Address, receiver: Address, allowed: Sequence[str]) -> bool:
    """Whether topology alone lets `sender` write to `receiver`."""
    if receiver == sender:
        return False
    if receiver.path == sender.path[: len(receiver.path)]:
        return True
    path = "/".join(receiver.path) or addresses.ROOT
    return (
        (CHILDREN in allowed and receiver.parent == sender)
        or (SIBLINGS in allowed and _is_sibling(sender, receiver))
        or not EVERYBODY.union({path, str(receiver)}).isdisjoint(allowed)
    )


def bridge_between(view: View, one: str, other: str) -> str | None:
    """The address of an open bridge that has both in it; only one of a common ancestor counts."""
    for each in view.list("thread"):
        if each.spec["kind"] != "bridge":
            continue
        spec = thread_from_json(each.spec)
        owner = addresses.parse(spec.owner)
        is_above = all(addresses.parse(member).is_within(owner) for member in (one, other))
        if is_above and one in spec.speakers and other in spec.speakers and view.get(spec.owner) is not None:
            return each.address
    return None


def conflicts_between(view: View, one: str, other: str) -> Iterator[str]:
    """The conflicts that stand between two agents: as long as one does, they may write to each other."""
    for each in view.list(conflict.KIND):
        is_theirs = {one, other} == set(conflict.conflict_from_json(each.spec).parties)
        if is_theirs and conflict.status_from_json(each.status).is_open:
            yield each.address


def nearest_above(view: View, mine: Address) -> str | None:
    """The agent of the nearest task above that has one; groups have none."""
    above = mine.parent
    while above is not None:
        if view.get(str(above)) is not None:
            return str(above)
        above = above.parent
    return None


def _named(view: View, mine: Address, to: str) -> Sequence[str]:
    if to == PARENT:
        above = nearest_above(view, mine)
        if above is None:
            raise NotReachable("NoSuchAgent", "nobody is above the root but the person who applied it")
        return [above]
    everybody = [each.address for each in view.list("agent") if not is_hook_agent(each.address)]
    if to == CHILDREN:
        return [each for each in everybody if nearest_above(view, addresses.parse(each)) == str(mine)]
    if to == SIBLINGS:
        return [each for each in everybody if _is_sibling(mine, addresses.parse(each))]
    path = to.removeprefix("agent/").removeprefix("task/")
    places = (mine.path, mine.path[:-1], ()) if mine.path else ((),)
    try:
        candidates = [str(addresses.parse(f"agent/{'/'.join((*place, path))}")) for place in places]
    except BadAddress as error:
        raise NotReachable("NoSuchAgent", str(error)) from None
    known = (one for one in candidates if view.get(one) is not None and not is_hook_agent(one))
    found = next(known, None)
    if found is None:
        raise NotReachable("NoSuchAgent", f"there is no agent `{to}`")
    return [found]


def _is_sibling(mine: Address, other: Address) -> bool:
    # The root's path is as long as no child's: it is nobody's sibling.
    return len(other.path) == len(mine.path) and other.path[:-1] == mine.path[:-1] and other != mine
