"""The page on each diagnostic code: printed by `plan explain P0203`, generated into `docs/errors/`.

Compiling imports none of this; only explaining and the docs do. A test compiles the examples: each wrong one gives its
code, each right one does not.
"""

from __future__ import annotations

from collections.abc import Mapping

from planloop.compiler.advice import Advice
from planloop.compiler.advice_plan import PLAN_ADVICE
from planloop.compiler.advice_reading import READING_ADVICE
from planloop.compiler.advice_rights import RIGHTS_ADVICE
from planloop.compiler.advice_suites import SUITE_ADVICE
from planloop.compiler.codes import CODES, STOPS_APPLY


def advice() -> Mapping[str, Advice]:
    """The advice on every code."""
    return {**READING_ADVICE, **PLAN_ADVICE, **RIGHTS_ADVICE, **SUITE_ADVICE}


def page(code: str) -> str | None:
    """The page on `code` as Markdown, None for an unknown code."""
    known = advice().get(code)
    if known is None:
        return None
    parts = [f"# {code}: {CODES[code]}", known.why, known.cure]
    if code in STOPS_APPLY:
        parts.append("`plan validate` and `plan diff` warn of it; `plan apply` refuses to start such a plan.")
    if known.wrong:
        parts += ["Wrong:", _block(known.wrong)]
    if known.right:
        parts += ["Right:", _block(known.right)]
    return "\n\n".join(parts) + "\n"


def spelling(text: str) -> str:
    """`edn` or `yaml`, by how an example begins."""
    return "edn" if text.lstrip().startswith(("{:", "(", ";")) else "yaml"


def _block(text: str) -> str:
    return f"```{spelling(text)}\n{text.strip()}\n```"
