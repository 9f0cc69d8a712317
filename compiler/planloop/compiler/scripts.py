"""A file of scripts: the steps of an agent's script, by the case that they are for. Pure."""

from __future__ import annotations

from typing import Final

from planloop.compiler.checking_parts import check_steps
from planloop.compiler.faults import Faults, Origins, placed
from planloop.compiler.normalising import Work, reader_of
from planloop.compiler.reading import read_source
from planloop.schemas.diagnostic import Diagnostic, in_order
from planloop.schemas.encoding import JsonObject
from planloop.schemas.fields import Keyed
from planloop.schemas.fields_agent import STEPS
from planloop.schemas.frozen import frozen

_SCRIPTS: Final = Keyed(STEPS, is_id=False)
_FORM: Final = "write `case: [steps]`, or `*: [steps]` for all cases"


@frozen
class ReadScripts:
    """The `scripts` by case, None when something is wrong with one; `text` is what the diagnostics point into."""

    scripts: JsonObject | None
    diagnostics: tuple[Diagnostic, ...]
    text: str


def read_scripts(content: bytes, *, file: str) -> ReadScripts:
    """The scripts in `content`, each a list of steps as an agent's `script` has them."""
    tree = read_source(content, file=file)
    work = Work(Faults(), {})
    scripts: JsonObject = {}
    if isinstance(tree.value, dict):
        scripts = reader_of(_SCRIPTS)(tree.value, (), (), work)
        for name, steps in scripts.items():
            check_steps(steps, (name,), work.faults)
    elif not tree.diagnostics:
        work.faults.add("P0202", f"{file} holds no scripts", _FORM, to=())
    told = tuple(in_order([*tree.diagnostics, *placed(work.faults.found, Origins(tree, work.moved))]))
    is_sound = not any(one.severity == "error" for one in told)
    return ReadScripts(scripts if is_sound else None, told, tree.text)
