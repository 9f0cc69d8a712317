"""What a model of a run is, by its name: one who is tested, or one who is there to measure the suite with."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """ORACLE knows the answer, NOP does nothing, CHEAT and MUTANT must fail; TESTED is everybody else."""

    ORACLE = "oracle"
    NOP = "nop"
    CHEAT = "cheat"
    MUTANT = "mutant"
    TESTED = "tested"


_PREFIXES: Final = {kind.value: kind for kind in Kind if kind is not Kind.TESTED}


def kind_of(model: str) -> Kind:
    """By what stands before the colon: `oracle`, `oracle:form`, `nop`, `cheat:printed-pass`, `mutant:wrong-time`."""
    return _PREFIXES.get(model.partition(":")[0], Kind.TESTED)
