"""A ruling that is being made: who gives way and who stays, and what each of them is told. Pure."""

from __future__ import annotations

from typing import Final

from planloop.controllers.agent.conflicts.opening import paths_of
from planloop.controllers.agent.conflicts.standing import gives_way, stays
from planloop.reconciler.storing.store import View
from planloop.schemas.conflict import ConflictSpec, ConflictStatus, Ruling, name
from planloop.schemas.frozen import frozen
from planloop.schemas.patch import author_in_words
from planloop.schemas.resource import Resource

LETS_GO: Final = (
    "What you hold of it goes with the end of your turn, or now with `release`; read it again before you write"
)
"""What becomes of what the holder holds, whether it does something for it or not."""


@frozen
class Making:
    """The conflict as it stands, and what is to be ruled."""

    view: View
    conflict: Resource
    spec: ConflictSpec
    status: ConflictStatus
    ruling: Ruling

    @property
    def yields(self) -> str:
        """Who is to give way."""
        return gives_way(self.spec, self.ruling)

    @property
    def stays(self) -> str:
        """The other one."""
        return stays(self.spec, self.ruling)

    @property
    def paths(self) -> str:
        return paths_of(self.status)


def news(made: Making, agent: str) -> str:
    """What a party is told of the ruling; empty when that says itself."""
    match made.ruling.how:
        case "cancel":
            return "" if agent == made.yields else f"the task of {name(made.yields)} is cancelled: {made.ruling.plan}"
        case "fork":
            other = f"{name(made.yields)} works in a branch of its own from now on"
            return for_yields(made) if agent == made.yields else other
        case "merge" if agent == made.stays:
            return for_stays(made)
        case _ if agent == made.yields:
            return for_yields(made)
        case _:
            return ""


def for_yields(made: Making) -> str:
    """What the one that gives way is told to do."""
    text = f"{_gist(made)}. {LETS_GO}" if made.yields == made.spec.holds else _gist(made)
    return _with_plan(made, text)


def refusal(made: Making) -> str:
    """The result of the call that waits when its agent gives way: what was ruled in one line, then how it goes on."""
    by, plan = author_in_words(made.ruling.by), f": {made.ruling.plan}" if made.ruling.plan else ""
    ways = {
        "fork": "Do it again: it is done in your branch.",
        "merge": "Go on with what else you have to do.",
    }
    rest = " ".join((f"{by} ruled it{plan}.", "Nothing was done.", ways.get(made.ruling.how, "")))
    return f"{made.conflict.address}: {_gist(made)}\n{rest.rstrip()}"


def _gist(made: Making) -> str:
    """What the ruling means for the one that gives way."""
    other, paths = name(made.stays), made.paths
    match made.ruling.how:
        case "fork":
            return (
                "you work in a branch of your own from now on, and what you do there is merged when your task is done"
            )
        case "merge":
            return f"{other} does your part on {paths} too: leave it alone"
        case "sequence":
            return f"{other} goes first on {paths}, and you when its task has ended"
        case _ if made.yields == made.spec.holds:
            return f"{other} has {paths} next"
        case _:
            return f"{other} keeps {paths}: do something else, or take it later"


def _with_plan(made: Making, text: str) -> str:
    return f"{text}. {made.ruling.plan}" if made.ruling.plan else text


def for_stays(made: Making) -> str:
    """What the one that does both is told."""
    return _with_plan(made, f"on {made.paths} you do the part of {name(made.yields)} too")
