"""How values are written and what they become."""

from __future__ import annotations

import pytest

from planloop.compiler.names import edit_distance, id_from_goal, is_valid_id, leaves_folder, nearest_name, plan_name
from planloop.compiler.plan_compiler import compile_source
from tests.compiler.compiling import SOURCES, codes, compiled, document_of
from tests.golden_text import said
from tests.product import Json


@pytest.mark.parametrize(
    ("field", "written", "kept"),
    [
        ("tokens", "2M", 2_000_000),
        ("tokens", "1.5k", 1500),
        ("tokens", "200", 200),
        ("usd", "20", "20"),
        ("usd", "4.50", "4.5"),
        ("usd", "'4.50'", "4.50"),
        ("usd", "$3", "3"),
        ("time", "2h", 7200),
        ("time", "1h30m", 5400),
        ("time", "500ms", 0.5),
        ("time", "90", 90),
        ("time", "1d", 86400),
    ],
)
def test_shorthands_become_numbers(field: str, written: str, kept: Json) -> None:
    found = document_of(f"run: x\nbudget: {{{field}: {written}}}")["budget"][field]
    assert found == kept
    assert type(found) is type(kept)


@pytest.mark.parametrize(
    ("written", "kept"), [("512MB", 512 * 10**6), ("2GiB", 2 << 30), ("64kB", 64000), ("64k", 64 << 10), ("1024", 1024)]
)
def test_sizes_become_bytes(written: str, kept: int) -> None:
    text = f"run: x\nagents: {{a: {{run: x, sandbox: {{memory: {written}}}}}}}"
    assert document_of(text)["agents"]["a"]["sandbox"]["memory"] == kept


@pytest.mark.parametrize("written", ["-1", "1.5", "many", "1 M M", "true", "[1]"])
def test_invalid_count_is_reported(written: str) -> None:
    assert codes(f"run: x\nbudget: {{tokens: {written}}}")[0] in ("P0202", "P0212")


def test_the_least_that_is_allowed_is_allowed() -> None:
    document = document_of("containers: {c: {image: i, health: {cmd: x, interval: 100ms}}}")
    assert document["containers"]["c"]["health"]["interval"] == 0.1


def test_single_value_is_read_as_a_list_of_one() -> None:
    text = "tasks: {a: {run: x}, b: {run: y, needs: a, locks: src/**, acceptance: make test}}"
    task = document_of(text)["tasks"]["b"]
    assert task["needs"] == ["a"]
    assert task["locks"] == ["src/**"]
    assert task["acceptance"] == [{"sh": "make test"}]


def test_a_plain_text_is_the_goal_of_a_task_and_the_image_of_a_container() -> None:
    document = document_of("tasks: {a: write it}\ncontainers: {db: 'redis:7'}")
    assert document["tasks"] == {"a": {"goal": "write it"}}
    assert document["containers"] == {"db": {"image": "redis:7"}}


def test_aliases_and_vectors_of_maps_become_maps_by_id() -> None:
    text = '{:children [{:task/id "a" :spec [(sh "x")] :run "y"} {:name b :run "z"}]}'
    assert document_of(text, "demo.edn")["tasks"] == {
        "a": {"acceptance": [{"sh": "x"}], "run": "y"},
        "b": {"run": "z"},
    }


def test_generated_id_comes_from_the_goal_and_is_stable() -> None:
    one = '(task "all" (task "Write the page" :run "x"))'
    two = '(task "all" (task "Draw a picture" :run "y") (task "Write the page" :run "x"))'
    assert list(document_of(one, "d.edn")["tasks"]) == ["write-page"]
    assert list(document_of(two, "d.edn")["tasks"]) == ["draw-picture", "write-page"]


def test_the_plan_has_the_name_it_states_or_the_file_has() -> None:
    assert document_of("run: x", "folder/web chat.plan.yaml")["plan"] == "web-chat"
    assert document_of("run: x\nplan: other", "webchat.plan.yaml")["plan"] == "other"
    assert document_of("run: x\nname: other")["plan"] == "other"
    assert plan_name("-") == "plan"


def test_document_keeps_names_as_they_are_written() -> None:
    text = """
    use: [lib:coding]
    agents: {mine: {extends: lib:child, prompt: lib:worker, tools: [lib:code], run: x}}
    tasks: {a: {goal: g, agent: mine}}
    """
    document = document_of(text)
    assert document["agents"]["mine"]["extends"] == "lib:child"
    assert document["tasks"]["a"]["agent"] == "mine"


@pytest.mark.parametrize("path", ["tasks/0/goal", "tasks/1/spec/0"])
def test_a_place_is_found_through_vectors_and_aliases(path: str) -> None:
    text = '{:children [{:id "a" :goal "x" :run "y"}\n {:id "b" :run "z" :spec ["t"]}]}'
    result = compile_source(text.encode(), file="d.edn", sources=SOURCES)
    pointer = {"tasks/0/goal": ("tasks", "a", "goal"), "tasks/1/spec/0": ("tasks", "b", "acceptance", "0", "sh")}[path]
    found = result.origin(pointer)
    assert found is not None
    place = result.tree.place(found)
    assert place is not None
    assert (
        result.tree.text[place.value.start : place.value.end] == {"tasks/0/goal": '"x"', "tasks/1/spec/0": '"t"'}[path]
    )


def test_derived_field_has_no_place() -> None:
    assert compiled("run: x").origin(("plan",)) is None


@pytest.mark.parametrize(
    ("goal", "id_"),
    [
        ("create a frontend for a websocket based chat app", "create-frontend-websocket-based-chat-app"),
        ("Make the tea!", "make-tea"),
        ("the of and", "the-of-and"),
        ("Überprüfe 3 Dateien", "überprüfe-3-dateien"),
        ("!!!", ""),
        ("x" * 100, "x" * 40),
    ],
)
def test_ids_are_made_from_goals(goal: str, id_: str) -> None:
    assert id_from_goal(goal) == id_


@pytest.mark.parametrize("text", ["ui", "a.b-c_d", "1", "é", "x" * 64])
def test_valid_id_is_accepted(text: str) -> None:
    assert is_valid_id(text)


@pytest.mark.parametrize("text", ["", ".", "..", "a/b", "-x", "a b", "x" * 65, "a\n", "#"])
def test_invalid_id_is_refused(text: str) -> None:
    assert not is_valid_id(text)


@pytest.mark.parametrize("path", ["..", "a/../..", "/etc", "~", "~/x", "C:/x", "a\\..\\..\\b", "../x"])
def test_escaping_path_is_refused(path: str) -> None:
    assert leaves_folder(path)


@pytest.mark.parametrize("path", [".", "a", "a/b", "a/../b", "./a", "a/./b/.."])
def test_paths_that_stay_inside(path: str) -> None:
    assert not leaves_folder(path)


@pytest.mark.parametrize("written", ["off", "OFF", "false", "no", "'off'"])
def test_word_that_yaml_reads_as_false_stays_a_word_in_an_enumeration(written: str) -> None:
    document = document_of(f"goal: g\nagent: {{run: ./a, lock: {written}}}")
    assert document["agent"]["lock"] == "off"


def test_no_useless_fix_is_suggested() -> None:
    (own,) = compiled("goal: g\nrun: ./a\ncwd: off").diagnostics
    said(own.hint)
    (given,) = compiled("goal: g\nagent: {run: ./a, settings: {retry: {quiet: off}}}").diagnostics
    said(given.hint)
    said(given.summary, "quiet", "off")
    (few,) = compiled("goal: g\nagent: {run: ./a, lock: true}").diagnostics
    said(few.hint, "turn", "task", "off")
    (on,) = compiled("goal: g\nagent: {run: ./a}\nhooks: {h: {on: '', rule: [{comment: x}]}}").diagnostics[:1]
    said(on.summary, "on")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("containers: {a: {image: x, environment: {A: b}}}", "env"),
        ("containers: {a: {image: x, depends_on: [b]}}", "needs"),
        ("containers: {a: {image: x, healthcheck: {test: x}}}", "health"),
        ("containers: {a: {image: x, health: {test: x}}}", "cmd"),
        ("containers: {a: {image: x, volumes: []}}", "mounts"),
        ("containers: {a: {image: x, ports: [{target: 80}]}}", "container"),
        ("containers: {a: {image: x, mounts: [{source: ., target: /w}]}}", "host container"),
        ("containers: {a: {image: x, mem_limit: 1GB, cpus: 1, pids_limit: 9}}", "limits limits limits"),
        ("containers: {a: {image: x, command: x, working_dir: /w, cap_add: [KILL]}}", "cmd workdir cap-add"),
        ("services: {a: {image: x}}", "containers"),
        ("tasks: {a: {command: x, depends_on: [b]}, b: {cmd: x, dependsOn: []}}", "run needs run needs"),
        ("tasks: {a: {run: x, environment: {A: b}, working_dir: w, checks: [x]}}", "env cwd acceptance"),
        ("tasks: {a: {run: x, description: x}}", "goal"),
        ("tasks: {a: {run: x, retry: 2, timeout-minutes: 5}}", "retries timeout"),
        ("tasks: {a: {subtasks: {b: {run: x, deps: [c]}}}}", "tasks"),
        ("steps: {a: {run: x}}", "tasks"),
    ],
)
def test_field_name_of_another_tool_gets_ours_as_a_hint(written: str, meant: str) -> None:
    hints = [fault.hint for fault in compiled(written).diagnostics if fault.code == "P0201"]
    assert hints == [f"did you mean `{ours}`?" for ours in meant.split()]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("limits: {paralel: 4}", "`limits` has no field `paralel`"),
        ("acceptance: [{contains: {path: a, text: b, txt: c}}]", "`contains` has no field `txt`"),
        ("budget: {tims: 1h}", "a budget has no field `tims`"),
    ],
)
def test_an_unknown_field_is_reported_without_an_article_before_a_plural(written: str, said: str) -> None:
    assert [fault.summary for fault in compiled(written).diagnostics if fault.code == "P0201"] == [said]


@pytest.mark.parametrize("name", ["db", "container/db"])
def test_need_that_names_a_container_gets_the_container_field_as_a_hint(name: str) -> None:
    written = f"containers: {{db: {{image: x}}}}\ntasks: {{a: {{run: x, needs: [{name}]}}, dc: {{run: x}}}}"
    [found] = [fault for fault in compiled(written).diagnostics if fault.code == "P0204"]
    assert "containers: [db]" in (found.hint or "")


def test_the_nearest_name_is_near() -> None:
    assert nearest_name("worekr", ["worker", "writer"]) == "worker"
    assert nearest_name("shell_exec", ["shell"]) is None
    assert nearest_name("a", ["b", "c"]) is None
    assert edit_distance("abcd", "acbd") == 1
    assert edit_distance("", "abc") == 3


@pytest.mark.parametrize(
    ("field", "summary", "hint"),
    [
        ("ports: ['8080:80']", "`ports/0` must be a map, not `8080:80`", "as in `{host: 8080, container: 80}`"),
        ("ports: ['127.0.0.1:8080:80']", "", "as in `{host: 8080, container: 80}`"),
        ("ports: [8080]", "`ports/0` must be a map, not 8080", "as in `{container: 8080}`"),
        ("ports: [many]", "", "as in `{host: 6379, container: 6379}`"),
        ("mounts: ['./src:/work:ro']", "", "as in `{host: ./src, container: /work, read-only: true}`"),
        ("mounts: ['data:/var/lib']", "", "as in `{volume: data, container: /var/lib}`"),
        ("privileged: true", "", "a container cannot be privileged; add single capabilities with `cap-add`"),
        ("container_name: x", "", "a container's name is its key in the plan"),
        ("logging: {}", "", "did you mean `logs`?"),
        ("limits: {memory: 1}", "`memory` cannot be 1", "use at least 6 MiB"),
        ("limits: {memory: 1MiB}", "`memory` cannot be `1MiB`", "use at least 6 MiB"),
        ("ttl: [1]", "`ttl` must be a time, not a list", "write it as 90s, 10m, 1h30m or a number of seconds"),
    ],
)
def test_docker_spelling_gets_the_plan_spelling_as_a_hint(field: str, summary: str, hint: str) -> None:
    fault, *_ = compiled(f"containers:\n  a:\n    image: x\n    {field}").diagnostics
    assert (fault.span and fault.span.line, fault.hint) == (4, hint)
    assert summary in fault.summary


def test_invalid_port_of_this_machine_is_marked_where_it_is_written() -> None:
    (fault,) = compiled("containers: {a: {image: x, ports: {70000: 80}}}").diagnostics
    said(fault.summary, "70000")
    assert fault.span and fault.span.end_column - fault.span.column == len("70000")


def test_an_item_of_a_list_is_called_by_the_name_of_the_list() -> None:
    (fault,) = compiled("containers: {a: {image: x, mounts: [{container: /w}]}}").diagnostics
    said(fault.summary, "mounts/0", "host", "volume", "tmpfs")
