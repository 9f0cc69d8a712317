"""Every diagnostic code has a title, a page, examples that show it, and a golden case."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from planloop.client.plan_sources import FolderSources
from planloop.compiler.error_codes import CODES, STOPS_APPLY, SUITE_CODES
from planloop.compiler.explain import all_advice, error_page, example_format
from planloop.compiler.plan_compiler import compile_source
from tests import rows
from tests.compiler.compiling import GOLDEN, codes, told

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "reference" / "errors"
BUILT = {
    # Errors that a text file cannot show: too large, not text, endless.
    "P0101": b"# " + b"x" * (1 << 20),
    "P0102": b"plan: caf\xe9\n",
    "P0103": b"# nothing but a comment\n",
    "P0104": b"plan: demo\x07\n",
    "P0111": b"plan: demo\nnotes: " + b"[" * 100 + b"]" * 100,
    "P0112": b"plan: demo\nnotes: [" + b"1," * 100_001 + b"1]",
    "P0113": b"plan: demo\nx: &a 1\nnotes: [" + b"*a," * 101 + b"1]",
    "P0224": b"plan: demo\n"
    + b"".join(b"  " * n + b"tasks:\n" + b"  " * n + b" t:\n" for n in range(18))
    + b"  " * 18
    + b"run: x\n",
}


def _golden_codes() -> set[str]:
    texts = (path.read_text() for path in (GOLDEN / "invalid").iterdir())
    return {code for text in texts for code in re.findall(r"P\d{4}", text)}


def test_every_code_has_advice_and_none_is_made_up() -> None:
    assert list(all_advice()) == list(CODES)


def test_every_code_has_a_golden_case_and_none_is_made_up() -> None:
    # Those of suites are shown by tests/benchmarks/validating: it takes a run to find them.
    assert _golden_codes() | BUILT.keys() == CODES.keys() - SUITE_CODES.keys()


def test_every_code_that_the_compiler_speaks_of_is_declared() -> None:
    spoken = {
        code
        for folder in ("compiler/planloop/compiler", "benchmarks/planloop/benchmarks/validation")
        for path in (ROOT / folder).glob("*.py")
        if not path.name.startswith(("advice", "codes"))
        for code in re.findall(r'"(P\d{4})"', path.read_text())
    }
    assert spoken == CODES.keys()


@rows.each("code", CODES)
def test_the_page_in_the_docs_is_the_one_that_explain_prints(code: str, is_updating: bool) -> None:
    file = PAGES / f"{code}.md"
    if is_updating:
        file.write_text(error_page(code) or "")
    assert file.read_text() == error_page(code), "run `make docs` and look at the difference"


def test_every_page_has_an_error() -> None:
    assert {path.stem for path in PAGES.glob("P*.md")} == CODES.keys()


@rows.each("code", [code for code, known in all_advice().items() if known.wrong])
def test_the_wrong_example_gives_the_code_and_the_right_one_does_not(code: str) -> None:
    known = all_advice()[code]
    assert code in codes(known.wrong, f"demo.{example_format(known.wrong)}")
    assert code not in codes(known.right, f"demo.{example_format(known.right)}")


@rows.each("code", [code for code, known in all_advice().items() if known.right])
def test_the_right_example_has_no_error_at_all(code: str) -> None:
    known = all_advice()[code]
    result = compile_source(
        known.right.encode(), file=f"demo.{example_format(known.right)}", sources=FolderSources(GOLDEN)
    )
    assert result.graph is not None, told(result.diagnostics)


@pytest.mark.parametrize("code", BUILT)
def test_unprintable_bytes_are_shown_by_their_code(code: str) -> None:
    result = compile_source(BUILT[code], file="demo.yaml", sources=FolderSources(GOLDEN))
    assert code in [one.code for one in result.diagnostics], told(result.diagnostics)


def test_error_that_stops_an_apply_is_a_warning_until_then() -> None:
    known = all_advice()
    for code in STOPS_APPLY:
        found = compile_source(known[code].wrong.encode(), file="demo.yaml", sources=FolderSources(GOLDEN))
        assert [one.severity for one in found.diagnostics if one.code == code] == ["warning"]
