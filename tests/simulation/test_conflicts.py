"""Two agents want one file: every ruling played to its end, escalation, deadlocks, and all of it through crashes.

Each owner may crash at any write of the log. Resolutions take effect once, no agent waits forever, and no lock is left.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

import pytest

from planloop.schemas import limits
from tests.golden_text import said_in
from tests.product import JsonObject, SetStatus, encode_text
from tests.simulation.harness import Crash, Edit, Point, Story, simulate

PATH = "src/api.py"


def steps(text: str) -> str:
    return textwrap.indent(textwrap.dedent(text).strip(), "        ")


def plan(ruling: str, front: str, back: str, root: str = "") -> str:
    """`front` takes the file at once, `back` after a second; the root's agent makes `ruling` when it is asked."""
    judge = f"""
        - when: {{message: "resolve("}}
          call: {{resolve: {{conflict: conflict/1, {ruling}}}}}
        - expect: ok
    """
    return f"""
agent:
  script:
{steps(root or judge)}
        - when: {{children: ended}}
          done: over
tasks:
  front:
    goal: the page
    agent:
      script:
        - call: {{lock: {{paths: [{PATH}], reason: it moves}}}}
{steps(front)}
  back:
    goal: the server
    agent:
      script:
        - sleep: 1
{steps(back)}
"""


def played(text: str, *crashes: Crash, edits: tuple[Edit, ...] = ()) -> Story:
    return simulate(text, crashes=crashes, edits=edits)


def records(story: Story, kind: str) -> list[JsonObject]:
    """The data of all records of a type, in order."""
    entries = (entry for record in story.log for entry in record.draft.entries)
    return [entry.data for entry in entries if entry.type == kind]


def at(story: Story, kind: str) -> list[float]:
    """When records of a type were written, in seconds since the beginning."""
    first = story.log[0].at
    return [round(one.at - first) for one in story.log if any(entry.type == kind for entry in one.draft.entries)]


def check(story: Story) -> None:
    """What holds whatever happened: conflicts are over, no lock and no waiting call is left, each is ruled once."""
    assert {one.state for one in story.objects.values() if one.kind == "conflict"} <= {"over"}
    assert [one.address for one in story.objects.values() if one.kind in ("call", "lock", "approval")] == []
    ruled = [data["for_agent"] for data in records(story, "conflict.ruled")]
    patches = [one for one in story.log if one.draft.type == "plan.patched" and one.draft.actor.startswith("agent:")]
    tasks = [one for one in story.objects.values() if one.kind == "task"]
    assert [one.address for one in tasks if one.spec["needs"]] == [], "an order is in the plan while it holds"
    assert len(patches) == len(ruled), "a ruling is a patch, and in its record"
    known = [one for one in story.objects.values() if one.kind == "conflict"]
    assert len(records(story, "conflict.closed")) == len(known)


@dataclass(frozen=True, slots=True)
class Case:
    """A plan, the states it ends in, and what is in the file then."""

    text: str
    states: dict[str, str]
    content: str


WRITES = f"""
    - call: {{write: {{path: {PATH}, content: by back}}}}
    - expect: ok
    - done: x
"""
LEAVES = f"""
    - call: {{write: {{path: {PATH}, content: by back}}}}
    - expect: {{error: Ruled, contains: keep the old names}}
    - done: left
"""
LETS_GO = """
    - when: {message: "release`"}
      call: {release: {}}
    - expect: ok
    - done: x
"""
DONE = {"task/.": "done", "task/front": "done", "task/back": "done"}
CASES = {
    "release": Case(plan("how: release", LETS_GO, WRITES), DONE, "by back"),
    "release for the holder": Case(
        plan("how: release, for_agent: front, plan: keep the old names", "- sleep: 20\n- done: x", LEAVES), DONE, ""
    ),
    "sequence": Case(
        plan(
            "how: sequence",
            f"- sleep: 20\n- call: {{release: {{}}}}\n- sleep: 20\n- call: {{read: {{path: {PATH}}}}}\n"
            "- expect: {error: NotFound}\n- done: x",
            WRITES,
        ),
        DONE,
        "by back",
    ),
    "sequence for the one that waits": Case(plan("how: sequence, for_agent: back", LETS_GO, WRITES), DONE, "by back"),
    "merge": Case(
        plan(
            "how: merge, plan: keep the old names",
            f"""
            - when: {{message: "you also do the part of `back`. keep the old names"}}
              call: {{write: {{path: {PATH}, content: both}}}}
            - expect: ok
            - done: x
            """,
            LEAVES,
        ),
        DONE,
        "both",
    ),
    "merge for the one that waits": Case(plan("how: merge, for_agent: back", LETS_GO, WRITES), DONE, "by back"),
    "cancel": Case(
        plan("how: cancel", "- sleep: 20\n- done: x", WRITES),
        {"task/front": "done", "task/back": "cancelled"},
        "",
    ),
    "cancel the holder": Case(
        plan("how: cancel, for_agent: front", "- sleep: 20\n- done: x", WRITES),
        {"task/front": "cancelled", "task/back": "done"},
        "by back",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_each_ruling_is_a_patch_that_has_its_effect_to_the_end(name: str) -> None:
    case = CASES[name]
    story = played(case.text)
    assert case.states.items() <= story.states("task").items(), story.states("task", "agent", "conflict")
    assert story.files.get(PATH, "") == case.content
    assert len(records(story, "conflict.ruled")) == 1
    assert at(story, "conflict.opened") == [1 + limits.CONFLICT_AFTER_S]
    check(story)


def test_waiting_task_names_its_conflict_and_how_an_operator_ends_it() -> None:
    story = played(CASES["release"].text)
    puts = (
        change.merge.get("conditions", {}).get("Ready") or {}
        for record in story.log
        for change in record.draft.changes
        if isinstance(change, SetStatus) and change.address == "task/back"
    )
    waited = [one for one in puts if "lock src/api.py is held" in one.get("message", "")]
    assert [one["message"].endswith("conflict/1 is open") for one in waited] == [False, True]
    said_in(waited[-1]["unblocks"], "conflict/1")


@pytest.mark.sweep(keep=2)
@pytest.mark.parametrize("point", ["before-commit", "after-commit"])
@pytest.mark.parametrize("name", CASES)
def test_law_5_a_crash_at_any_write_changes_nothing_of_what_a_ruling_brings_about(name: str, point: Point) -> None:
    case = CASES[name]
    clean = played(case.text)
    for commit in range(1, clean.commits + 1):
        story = played(case.text, Crash(commit, point))
        where = f"{point} {commit} of {clean.commits}"
        assert story.owners == 2 or commit == clean.commits, where
        assert case.states.items() <= story.states("task").items(), where
        assert story.files.get(PATH, "") == case.content, where
        assert len(records(story, "conflict.ruled")) == 1, where
        check(story)


def test_unanswered_conflict_goes_to_the_next_ancestor_then_to_an_operator() -> None:
    text = deep(holder="- sleep: 400\n- done: x")
    story = played(text)
    raised = [data["before"] for data in records(story, "conflict.raised")]
    assert [data["before"] for data in records(story, "conflict.opened")] == ["agent/group"]
    assert raised == ["agent/.", "person"]
    opened_s = 1 + limits.CONFLICT_AFTER_S
    assert at(story, "conflict.raised") == [
        opened_s + limits.CONFLICT_ANSWER_S,
        opened_s + 2 * limits.CONFLICT_ANSWER_S,
    ]
    assert story.files[PATH] == "by back", "the holder ended, so it closed by itself"
    assert records(story, "conflict.closed")[0]["ruling"] is None
    check(story)


@pytest.mark.parametrize("how", ["release", "sequence, for_agent: group/back", "merge, for_agent: group/back"])
def test_a_ruling_has_its_effect_on_a_holder_that_does_nothing_for_it(how: str) -> None:
    story = played(deep(holder="- sleep: 400\n- done: x", group=rules(how)))
    assert records(story, "conflict.raised") == []
    assert at(story, "conflict.ruled") == [1 + limits.CONFLICT_AFTER_S]
    assert (story.files[PATH], settled(story, "write")) == ("by back", [1 + limits.CONFLICT_AFTER_S])
    check(story)


@pytest.mark.sweep
@pytest.mark.parametrize("point", ["before-commit", "after-commit"])
@pytest.mark.parametrize("how", ["release", "sequence, for_agent: group/back", "merge, for_agent: group/back"])
def test_law_5_what_a_ruling_takes_is_taken_once_through_a_crash_at_any_write(how: str, point: Point) -> None:
    text = deep(holder=f"- sleep: 400\n{WRITES_TOO}\n- done: x", group=rules(how), kept="lock: task")
    clean = played(text)
    for commit in range(clean.commits + 1):
        story = played(text, *([Crash(commit, point)] if commit else []))
        assert story.states("task")["task/group/back"] == "done", (commit, story.states("task", "agent", "conflict"))
        # What the holder wants to write later it has to have read.
        assert story.files[PATH] == "by back", commit
        assert len(records(story, "conflict.ruled")) == 1, commit
        assert records(story, "conflict.raised") == [], commit
        check(story)


WRITES_TOO = f"- call: {{write: {{path: {PATH}, content: by front}}}}\n- expect: {{}}"


def rules(how: str) -> str:
    """The steps of an agent that makes this ruling."""
    return f"""
        - when: {{message: "resolve("}}
          call: {{resolve: {{conflict: conflict/1, how: {how}}}}}
        - expect: ok
    """


def settled(story: Story, tool: str) -> list[int]:
    """When the calls of a tool had an end, in seconds since the beginning."""
    ended = {
        entry.subject: round(record.at - story.log[0].at)
        for record in story.log
        for entry in record.draft.entries
        if entry.type == "call.settled" and entry.data.get("tool") == tool
    }
    return sorted(ended.values())


@pytest.mark.sweep
def test_timers_of_a_conflict_outlive_every_owner() -> None:
    text = deep(holder="- sleep: 400\n- done: x")
    clean = played(text)
    for commit in range(1, clean.commits + 1):
        story = played(text, Crash(commit, "after-commit"))
        assert [data["before"] for data in records(story, "conflict.raised")] == ["agent/.", "person"], commit
        assert at(story, "conflict.raised") == at(clean, "conflict.raised"), commit
        check(story)


def deep(holder: str, group: str = "", kept: str = "") -> str:
    """The two below a group with an agent of its own, below the root's."""
    return f"""
agent:
  script:
        - when: {{children: ended}}
          done: over
tasks:
  group:
    goal: both
    agent:
      script:
{steps(group)}
        - when: {{children: ended}}
          done: over
    tasks:
      front:
        goal: the page
        agent:
          {kept}
          script:
            - call: {{lock: {{paths: [{PATH}]}}}}
{textwrap.indent(holder, "            ")}
      back:
        goal: the server
        agent:
          script:
            - sleep: 1
            - call: {{write: {{path: {PATH}, content: by back}}}}
            - expect: ok
            - done: x
"""


def test_deadlock_is_detected_immediately_and_becomes_a_conflict() -> None:
    front = """
        - sleep: 2
        - call: {lock: {paths: [other.py]}}
        - sleep: 20
        - done: x
    """
    back = """
        - call: {lock: {paths: [other.py]}}
        - sleep: 2
        - call: {lock: {paths: [src/api.py]}}
        - expect: {error: Deadlock, contains: One of you has to yield}
        - call: {release: {}}
        - when: {message: "`front` keeps `src/api.py`"}
          done: x
    """
    text = plan("how: release, for_agent: front", front, back)
    story = played(text)
    assert story.states("task") == DONE, story.states("task", "agent", "conflict")
    assert len(records(story, "conflict.opened")) == 1
    assert story.objects["conflict/1"].spec["because"] == "deadlock"
    check(story)


def family(front: str, back: str, judges: tuple[str, ...]) -> str:
    """Two cousins at these paths; those at `judges` have agents, every other place above them is a group."""
    tree: JsonObject = {}
    takes = [{"call": {"lock": {"paths": [PATH]}}}, {"when": {"message": "release`"}, "call": {"release": {}}}]
    leaves = {
        front: [*takes, {"expect": "ok"}, {"done": "x"}],
        back: [{"sleep": 1}, {"call": {"write": {"path": PATH, "content": "by back"}}}, {"done": "x"}],
    }
    rules = [
        {"when": {"message": "resolve("}, "call": {"resolve": {"conflict": "conflict/1", "how": "release"}}},
        {"expect": "ok"},
    ]
    ends = {"when": {"children": "ended"}, "done": "over"}
    for path, script in leaves.items():
        node, parts = tree, path.split("/")
        for depth in range(len(parts)):
            where = "/".join(parts[:depth]) or "."
            if where in judges:
                # Only one of them is asked; the others end when their children have.
                node["agent"] = {"script": [*(rules if where == judges[-1] else ()), ends]}
            node = node.setdefault("tasks", {}).setdefault(parts[depth], {"goal": parts[depth]})
        node["agent"] = {"script": script}
    return "\n".join(f"{name}: {encode_text(value)}" for name, value in tree.items()) + "\n"


@pytest.mark.parametrize(
    ("front", "back", "judges"),
    [
        ("a/front", "b/back", (".",)),
        ("a/front", "b/c/d/back", (".",)),
        ("a/b/front", "a/c/d/back", (".", "a")),
        ("a/b/front", "a/c/back", (".",)),
        ("a/b/c/front", "a/b/back", (".", "a", "a/b")),
        ("a/b/c/front", "a/b/d/e/back", (".", "a")),
        ("front", "a/b/c/back", (".",)),
    ],
)
def test_conflict_between_cousins_goes_to_their_lowest_common_ancestor(
    front: str, back: str, judges: tuple[str, ...]
) -> None:
    story = played(family(front, back, judges))
    assert [data["before"] for data in records(story, "conflict.opened")] == [f"agent/{judges[-1]}"]
    assert story.files.get(PATH) == "by back"
    assert set(story.states("task").values()) == {"done"}, story.states("task", "agent", "conflict")
    check(story)


def test_conflict_without_an_agent_above_asks_an_operator_and_the_wait_ends() -> None:
    text = plan("how: release", "- sleep: 400\n- done: x", WRITES)
    story = played(text[text.index("tasks:") :])
    assert [data["before"] for data in records(story, "conflict.opened")] == ["person"]
    assert records(story, "conflict.raised") == []
    assert story.files[PATH] == "by back"
    check(story)


def test_first_of_many_waiters_for_one_holder_speaks_for_all() -> None:
    wait = [{"sleep": 1}, {"call": {"write": {"path": PATH, "content": "x"}}}, {"expect": {}}, {"done": "x"}]
    front = [{"call": {"lock": {"paths": [PATH]}}}, {"sleep": 60}, {"done": "x"}]
    tree: JsonObject = {"front": {"goal": "f", "agent": {"script": front}}}
    tree |= {f"w{number}": {"goal": "w", "agent": {"script": wait}} for number in range(12)}
    story = played(f"tasks: {encode_text(tree)}\n")
    assert len(records(story, "conflict.opened")) == 1
    assert set(story.states("task").values()) == {"done"}
    check(story)


@pytest.mark.parametrize(
    ("edit", "back"),
    [("cancelled", "done"), ("restarted", "done"), ("the waiting agent starts again", "done")],
)
@pytest.mark.sweep
def test_held_call_continues_whatever_happens_to_the_first_despite_crashes(edit: str, back: str) -> None:
    text = plan("how: sequence", "- sleep: 60\n- done: x", WRITES)
    match edit:
        case "cancelled":
            later = text.replace("    goal: the page", "    cancel: true\n    goal: the page")
        case "restarted":
            later = text.replace("    goal: the page", "    again: 1\n    goal: the page")
        case _:
            later = text.replace("    goal: the server", "    again: 1\n    goal: the server")
    edits = (Edit(20.0, later),)
    clean = played(text, edits=edits)
    for commit in (0, *range(30, clean.commits + 1, 3)):
        story = played(text, *([Crash(commit, "after-commit")] if commit else []), edits=edits)
        assert story.states("task")["task/back"] == back, (commit, story.states("task", "agent", "conflict"))
        assert story.files[PATH] == "by back", commit
        assert [one.address for one in story.objects.values() if one.kind in ("call", "lock", "approval")] == []
        assert {one.state for one in story.objects.values() if one.kind == "conflict"} <= {"over"}


def test_order_binds_the_holder_too_and_is_removed_when_the_first_has_ended() -> None:
    front = f"""
        - when: {{message: "release`"}}
          call: {{release: {{}}}}
        - expect: ok
        - call: {{write: {{path: {PATH}, content: by front at last}}}}
        - expect: {{error: NotRead}}
        - done: x
    """
    back = f"""
        - call: {{write: {{path: {PATH}, content: by back}}}}
        - expect: ok
        - sleep: 200
        - done: x
    """
    story = played(plan("how: sequence, for_agent: back", front, back))
    assert settled(story, "write") == [6, 206], "the holder's next write waits for the other's task, without a lock"
    needs = [one for one in story.log if one.draft.type == "plan.patched" and one.draft.actor == "controller:conflict"]
    assert len(needs) == 1
    assert story.states("task") == DONE
    check(story)


def test_bounded_wait_is_not_extended_for_an_agent_that_goes_first() -> None:
    takes = [f"{{lock: {{paths: [{PATH}], wait_s: {wait_s}}}}}" for wait_s in (9, 0, 20)]
    refused = "- expect: {error: Locked, contains: task/front writes these files first}"
    back = "\n".join(f"- call: {take}\n{refused}" for take in takes)
    story = played(plan("how: sequence", "- sleep: 200\n- done: x", f"{back}\n- done: x"))
    assert settled(story, "lock") == [0, 10, 10, 30]
    assert story.states("task") == DONE, story.states("task", "agent", "conflict")
    check(story)


def test_held_call_continues_when_its_task_is_renamed() -> None:
    text = plan("how: sequence", "- sleep: 60\n- done: x", WRITES)
    renamed = "moved: {back: last}\n" + text.replace("  back:\n", "  last:\n")
    story = played(text, edits=(Edit(20.0, renamed),))
    assert (story.states("task")["task/last"], story.files[PATH]) == ("done", "by back")
    check(story)
