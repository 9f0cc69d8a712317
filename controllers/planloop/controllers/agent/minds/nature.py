"""What the kinds of minds are like, in one table: whatever differs between them elsewhere is asked here by name."""

from __future__ import annotations

from typing import Final

from planloop.schemas.agent import Guest, Mind, Model, Outside, Program, PythonFunction, Script
from planloop.schemas.frozen import frozen


@frozen
class Nature:
    """How an agent with such a mind is treated.

    `is_model`: it is asked by requests that are reserved and billed, has a transcript, and has something to hand over
    when its budget ends. `is_instant`: it answers in place, without anything outside this process. `is_redirected`: an
    edit of its goal stops what it is asked. `outlives_owner`: its request may go on without us and is taken up again.
    `judges_doubt`: it is told of an unknown outcome; else a person has to say. `may_go_round`: it could do the same
    turn for ever. `is_guest`: it is somebody outside, whose every call brings about a turn, and nothing else does.
    """

    is_model: bool = False
    is_instant: bool = False
    is_redirected: bool = False
    outlives_owner: bool = False
    judges_doubt: bool = True
    may_go_round: bool = True
    is_guest: bool = False


KINDS: Final[dict[type[Mind], Nature]] = {
    Script: Nature(is_instant=True, judges_doubt=False, may_go_round=False),
    Program: Nature(),
    PythonFunction: Nature(),
    Model: Nature(is_model=True, is_redirected=True),
    Outside: Nature(is_redirected=True, outlives_owner=True),
    Guest: Nature(is_instant=True, may_go_round=False, is_guest=True),
}


def nature_of(mind: Mind) -> Nature:
    """The nature of `mind`."""
    return KINDS[type(mind)]
