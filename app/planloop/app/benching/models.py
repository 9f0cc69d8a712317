"""Whether the models that a run is to ask can be asked at all: told once before it, not once for every entry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from planloop.app.exits import Exit, Halt
from planloop.benchmarks.compiling.contestants import Contestant
from planloop.controllers.agent.models import routing
from planloop.controllers.agent.models.port import ModelFailed
from planloop.controllers.agent.models.routing import Surroundings
from planloop.schemas.model import ModelTable, model_name

ELSEWHERE: Final = "name@http://host/v1 asks any server that speaks the OpenAI chat API"


def check(contestants: Iterable[Contestant], table: ModelTable, env: Mapping[str, str], folder: Path) -> None:
    """Raises Halt for the first model that nobody here can ask: no key, no adapter, no such name."""
    for who in contestants:
        if who.kind == "model" and not (name := model_name(who.ref)).tape:
            try:
                found = routing.route(name.real, table, Surroundings(env, folder))
            except ModelFailed as fault:
                raise Halt(Exit.USAGE, f"--model {who.ref}: {fault}", ELSEWHERE) from None
            if "/" not in who.ref and (near := get_close_matches(who.ref, ("oracle", "nop"), n=1)):
                raise Halt(Exit.USAGE, f"no model `{who.ref}`", f"did you mean --model {near[0]}?")
            if found.is_litellm and find_spec("litellm") is None:
                what = f"--model {who.ref} is asked through litellm, which is not installed"
                raise Halt(Exit.USAGE, what, f"pip install 'planloop[litellm]' · {ELSEWHERE}")
