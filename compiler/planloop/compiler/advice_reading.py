"""Advice on P01xx: texts that cannot be read."""

from __future__ import annotations

from typing import Final

from planloop.compiler.advice import Advice

READING_ADVICE: Final[dict[str, Advice]] = {
    "P0101": Advice(
        "The file is larger than a plan may be (1 MiB). A plan of 5,000 tasks takes a third of that.",
        "Look whether it is the right file; if it is, raise the limit with `--max-size`.",
    ),
    "P0102": Advice(
        "A byte in the file is not part of any UTF-8 character. Often the file was saved in another encoding.",
        "Save it as UTF-8: in most editors under Save with Encoding.",
    ),
    "P0103": Advice(
        "There is nothing in the file but blanks and comments. An empty file never means that everything is to "
        "be removed.",
        "Undo what emptied it, or write a plan: `plan init` writes one to start from.",
    ),
    "P0104": Advice(
        "The text has a control character, which no editor shows and every reader takes differently.",
        "Delete it. In a quoted string it can be written as an escape.",
    ),
    "P0105": Advice(
        "The text is not YAML from this place on. What YAML needs here is in the message.",
        "Texts with `: ` or ` #` in them want quotes.",
        "plan: demo\ngoal: two colons: here",
        'plan: demo\nrun: make\ngoal: "two colons: here"',
    ),
    "P0106": Advice(
        "YAML indents with spaces. A tab has no width that two readers agree on.",
        "Replace the tab by spaces; editors do it on saving if told to.",
        "plan: demo\ntasks:\n\tui: {run: make}",
        "plan: demo\ntasks:\n  ui: {run: make}",
    ),
    "P0107": Advice(
        "A bracket or quote is opened and the file ends before it is closed. Everything after it would be misread.",
        "Close it; the message stands where it was opened.",
        '{:plan "demo" :run "make"',
        '{:plan "demo" :run "make"}',
    ),
    "P0108": Advice(
        "A bracket is closed that was not opened, or another kind was.",
        "Take it away, or open it where it should begin.",
        '{:plan "demo" :run "make"})',
        '{:plan "demo" :run "make"}',
    ),
    "P0109": Advice(
        "A key stands twice in one map. Readers keep one of the two and drop the other without a word.",
        "Keep one of them.",
        "plan: demo\nrun: make\nrun: make test",
        "plan: demo\nrun: make test",
    ),
    "P0110": Advice(
        "A key is a list, a map or something else that is no text.",
        "Write the key as plain text.",
        "plan: demo\n? [a, b]\n: x",
        "plan: demo\nrun: make",
    ),
    "P0111": Advice(
        "The text is nested deeper than 64 levels. No plan for people is; most often it is an attack or a mistake.",
        "Make the tree flatter.",
    ),
    "P0112": Advice(
        "The text holds more values than a plan may have (100,000), aliases counted as often as they are used.",
        "Cut the plan into several, or take the aliases out that multiply it.",
    ),
    "P0113": Advice(
        "The text uses more YAML aliases than a plan may (100). Aliases of aliases grow to gigabytes from a few lines.",
        "Use prototypes (`agents:` with `extends`) for what repeats.",
    ),
    "P0114": Advice(
        "An alias `*name` has no anchor `&name` before it.",
        "Add the anchor, or write the value. A text that begins with `*` wants quotes.",
        "plan: demo\ngoal: *nowhere",
        'plan: demo\nrun: make\ngoal: "*nowhere"',
    ),
    "P0115": Advice(
        "A YAML tag such as `!secret` names a type that plans do not have.",
        "Take the tag away.",
        "plan: demo\nrun: !shell make",
        "plan: demo\nrun: make",
    ),
    "P0116": Advice(
        "The file holds several YAML documents, separated by `---`. A plan is one.",
        "Put the others into files of their own.",
        "plan: demo\nrun: make\n---\nplan: other\nrun: make",
        "plan: demo\nrun: make",
    ),
    "P0117": Advice(
        "A number is too large or too strange to be kept exactly in every place that a plan goes to.",
        "Use whole numbers of at most 64 bits and finite fractions; quote it when text is meant.",
        "plan: demo\nrun: make\npriority: 99999999999999999999999",
        "plan: demo\nrun: make\npriority: 9",
    ),
    "P0118": Advice(
        "A merge key `<<` takes a map, or a list of maps, whose members are added.",
        "Give it a map, usually an alias.",
        "plan: demo\ntasks:\n  ui:\n    <<: text\n    run: make",
        "plan: demo\ntasks:\n  ui: &made {run: make}\n  docs:\n    <<: *made",
    ),
    "P0119": Advice(
        "The text is not EDN at this place: a reader macro, an unfinished token or the like.",
        "A plan is data: write the value itself.",
        '{:plan "demo" :goal #"x"}',
        '{:plan "demo" :run "make"}',
    ),
    "P0120": Advice(
        "A map has a key without a value: its forms do not come in pairs.",
        "Add the value, or take the key away.",
        '{:plan "demo" :run}',
        '{:plan "demo" :run "make"}',
    ),
}
