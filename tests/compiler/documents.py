"""Documents for property tests: any JSON that a plan may hold, with the words that trip readers well represented."""

from __future__ import annotations

from hypothesis import strategies as st

TRICKY = (
    "", " ", "no", "Yes", "on", "~", "null", "true", "010", "0o17", "0x1F", "1_000", "12:30:45", "1e3", ".inf", "-.5",
    "+1", "2024-01-01", "2024-01-01T10:00:00Z", "- a", "-", "--- a", "---", "...", "? x", ": x", "a: b", "a:", "a #b",
    "#b", "a# b", "*x", "&x", "!x", "!!str x", "%x", "@x", "`x`", "[a]", "{a: 1}", "a, b", "'q'", "\"q\"", "it's",
    "say \"hi\"", "back\\slash", "\\n", "<<", "=", "|", ">", "a|b", "line\n", "line\nline", "line\n\nline\n\n",
    "\nlead", " lead\nx", "\tlead\nx", "a\n b\n", "a\n\tb", "trail \nx", "tab\tin", "\r\n", "a\rb", "\u0000", "\x7f",
    "\u0085", "\u2028", "\ufeff", "\ufffe", "é", "日本語", "😀", "nil", ":kw", "sym/bol", "\\a", "(form)", ";c", "#_x",
    "#inst", "@", "^", "~x", "qwen3:32b", "http://x/y?z=1#f", "src/**/*.py", "npm test && echo 'ok'",
    "shell(rm -rf *)", "x" * 200,
)  # fmt: skip

texts = st.one_of(st.sampled_from(TRICKY), st.text(st.characters(codec="utf-8"), max_size=20))
keys = st.one_of(
    st.sampled_from(TRICKY[1:-1]).filter(lambda text: "\n" not in text or len(text) < 20),
    st.from_regex(r"[a-z][a-z0-9-]{0,8}", fullmatch=True),
)
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63) + 1, 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    texts,
)
values = st.recursive(
    leaves,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(keys, inner, max_size=4)),
    max_leaves=20,
)
documents = st.dictionaries(keys, values, min_size=1, max_size=5)
