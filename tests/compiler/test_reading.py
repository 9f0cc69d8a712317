"""Reading whatever is given: which spelling it is, what is not text, and bounds that hold for hostile input."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planloop.compiler.read import read_source, source_format
from planloop.compiler.source import SizeLimits
from planloop.schemas.diagnostic import Diagnostic
from tests import sets

MIB = 1 << 20


def fault_of(content: bytes, file: str = "plan.yaml", limits: SizeLimits = SizeLimits()) -> Diagnostic:  # noqa: B008
    tree = read_source(content, file=file, limits=limits)
    assert tree.value is None
    assert len(tree.diagnostics) == 1
    assert tree.diagnostics[0].span is not None
    assert tree.diagnostics[0].hint
    return tree.diagnostics[0]


@pytest.mark.parametrize(
    ("file", "text", "spelling"),
    [
        ("a.yaml", "{:a 1}", "yaml"),
        ("a.yml", "", "yaml"),
        ("a.edn", "a: 1", "edn"),
        ("A.EDN", "a: 1", "edn"),
        ("a.json", '{"a": 1}', "yaml"),
        ("plan", "a: 1", "yaml"),
        ("plan", "# comment\na: 1", "yaml"),
        ("plan", "{a: 1}", "yaml"),
        ("plan", '{"a": 1}', "yaml"),
        ("plan", "- a", "yaml"),
        ("plan", "{:a 1}", "edn"),
        ("plan", "{ :a 1}", "edn"),
        ("plan", "; c\n{:a 1}", "edn"),
        ("plan", "(task)", "edn"),
        ("plan", "[(task)]", "edn"),
        ("plan", "#:ns{:a 1}", "edn"),
        ("plan", "#_ x {}", "edn"),
        ("-", "", "yaml"),
    ],
)
def test_suffix_decides_the_format_and_otherwise_the_first_character(file: str, text: str, spelling: str) -> None:
    assert source_format(file, text) == spelling


@pytest.mark.parametrize("file", ["plan.yaml", "plan.edn"])
def test_bytes_that_are_not_text_are_reported_with_their_place(file: str) -> None:
    fault = fault_of("a: é\nb: ".encode() + b"\xff\xfe", file)
    assert (fault.code, fault.span and (fault.span.line, fault.span.column)) == ("P0102", (2, 4))
    assert "0xff" in fault.summary
    assert "UTF-16" in fault_of("a: 1".encode("utf-16"), file).hint


@pytest.mark.parametrize("file", ["plan.yaml", "plan.edn"])
def test_control_characters_are_reported_one_by_one(file: str) -> None:
    tree = read_source("a\x00b\x1b[31m\nc\x7f é\x85".encode(), file=file)
    assert [fault.code for fault in tree.diagnostics] == ["P0104"] * 3
    assert [fault.span and fault.span.line for fault in tree.diagnostics] == [1, 1, 2]


def test_a_file_over_the_size_limit_is_not_even_decoded() -> None:
    content = bytes(100 * MIB)
    tracemalloc.start()
    fault = fault_of(content)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert fault.code == "P0101"
    assert "104,857,600" in fault.summary
    assert peak < MIB


def bomb(levels: int) -> bytes:
    lines = ["l0: &l0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, levels)]
    return "\n".join(lines).encode()


HOSTILE = {
    "aliases": (b"a: &x 1\n" + b"".join(b"k%d: *x\n" % n for n in range(101)), "plan.yaml", "P0113"),
    "alias bomb": (bomb(9), "plan.yaml", "P0112"),
    "alias chain": (
        b"a0: &a0 x\n" + b"".join(b"a%d: &a%d {b: *a%d}\n" % (n, n, n - 1) for n in range(1, 90)), "plan.yaml", "P0111",
    ),
    "depth, brackets": (b"[" * 10_000, "plan.yaml", "P0111"),
    "depth, maps": (b"{a: " * 10_000, "plan.yaml", "P0111"),
    "depth, dashes": (b"- " * 10_000, "plan.yaml", "P0111"),
    "depth, block": ("\n".join(" " * n + "a:" for n in range(1000)).encode(), "plan.yaml", "P0111"),
    "depth, EDN": (b"[" * 10_000, "plan.edn", "P0111"),
    "depth, EDN tags": (b"#a " * 10_000, "plan.edn", "P0111"),
    "depth, EDN discards": (b"#_ " * 10_000, "plan.edn", "P0111"),
    "values, YAML": (b"a: [" + b"1," * 200_000 + b"]", "plan.yaml", "P0112"),
    "values, YAML keys": (b"".join(b"k%d: 1\n" % n for n in range(100_001))[:MIB], "plan.yaml", "P0112"),
    "values, EDN": (b"[" + b"1 " * 300_000 + b"]", "plan.edn", "P0112"),
    "quotes": (b'"' * 999_999, "plan.yaml", "P0107"),
    "backslashes": (b'"' + b"\\" * 900_001, "plan.edn", "P0107"),
    "long string": (b'"' + b"a" * 900_000, "plan.edn", "P0107"),
}  # fmt: skip


# Tracing the memory of those that hold too many values takes more than a second each.
LARGE = ("values, YAML", "values, YAML keys", "values, EDN")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.sweep) if name in LARGE else name for name in HOSTILE]
)
def test_hostile_texts_are_refused_in_bounded_memory(name: str) -> None:
    content, file, code = HOSTILE[name]
    tracemalloc.start()
    tree = read_source(content, file=file)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert tree.value is None
    assert code in [fault.code for fault in tree.diagnostics] or tree.diagnostics[0].code == "P0105"
    assert all(fault.span and fault.hint for fault in tree.diagnostics)
    assert peak < 150 * MIB


def test_document_just_within_the_limits_is_read() -> None:
    assert read_source(b"[" * 64 + b"]" * 64, file="plan.yaml").diagnostics == ()
    assert read_source(b"[" * 64 + b"]" * 64, file="plan.edn").diagnostics == ()
    assert read_source(b"a: &x 1\n" + b"".join(b"k%d: *x\n" % n for n in range(100)), file="p.yaml").diagnostics == ()
    exact = SizeLimits(nodes=4)
    assert read_source(b"{a: 1, b: [2]}", file="p.yaml", limits=exact).diagnostics == ()
    assert fault_of(b"{a: 1, b: [2, 3]}", limits=exact).code == "P0112"


def test_limits_may_be_raised() -> None:
    wide = SizeLimits(size_bytes=4 * MIB, nodes=500_000)
    content = b"a: [" + b"1," * 300_000 + b"]"
    assert len(read_source(content, file="plan.yaml", limits=wide).value["a"]) == 300_000


@given(content=st.binary(max_size=60), file=st.sampled_from(["a.yaml", "a.edn", "a"]))
@settings(max_examples=sets.examples(300, 75))
def test_no_bytes_crash_the_reader(content: bytes, file: str) -> None:
    tree = read_source(content, file=file)
    assert tree.text is not None
    assert all(fault.span is not None for fault in tree.diagnostics)


@given(text=st.text(alphabet="ab:-?&*!|>'\"%@`{}[],#\\ \n\t0", max_size=40))
@settings(max_examples=sets.examples(500, 125))
def test_no_yaml_text_crashes_the_reader(text: str) -> None:
    tree = read_source(text.encode(), file="plan.yaml")
    for fault in tree.diagnostics:
        assert fault.span is not None
        assert 0 <= fault.span.start <= fault.span.end <= len(text)
        assert fault.hint
    if tree.value is not None:
        assert tree.place(()) is not None
