"""The plugin in a suite of its own: what each set runs, what a first failure means, and what a test may cost."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import sets
from tests.suite import plugin
from tests.suite.changes import ROOT
from tests.suite.first_failures import MOST, Failure, judged, lines

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

CONFTEST = """
from tests.suite import plugin

def pytest_addoption(parser):
    plugin.add_options(parser)

def pytest_configure(config):
    for mark in ("process", "browser", "engine", "network", "sweep", "smoke"):
        config.addinivalue_line("markers", mark)
    plugin.configure(config)
"""

PASSES_SECOND = """
from pathlib import Path

def test_{name}():
    seen = Path("seen-{name}")
    assert seen.exists() or seen.write_text("") is None and False, "the first time"
"""


BURNS = """
from tests.suite import processor

processor.BUDGET_CPU_S = {**processor.BUDGET_CPU_S, "": 0.1}

def test_one():
    work = [processor.probe_s() for _ in range(20)]
"""


@dataclass(frozen=True, slots=True)
class Run:
    code: int
    out: str
    log: list[dict[str, Any]]


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # A second run starts a process that imports this plugin.
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider\n")
    (tmp_path / "conftest.py").write_text(CONFTEST)
    return tmp_path


def run(suite: Path, *words: str, rotation: int = 0, touched: str = "") -> Run:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PLANLOOP_", "PYTEST_"))}  # noqa: TID251
    environment |= {"PYTHONPATH": str(ROOT), sets.ROTATION: str(rotation), plugin.TOUCHED: touched}
    command = [sys.executable, "-m", "pytest", *words]
    done = subprocess.run(command, cwd=suite, env=environment, capture_output=True, text=True, check=False)
    log = suite / "reports" / "flaky.jsonl"
    lines = log.read_text().splitlines() if log.exists() else []
    return Run(done.returncode, done.stdout + done.stderr, [json.loads(line) for line in lines])


def test_test_that_passes_alone_does_not_make_the_run_red_and_is_logged(suite: Path) -> None:
    (suite / "test_a.py").write_text(PASSES_SECOND.format(name="one") + "def test_two(): pass\n")
    found = run(suite, "--set", "change", "-n", "2")
    assert found.code == 0, found.out
    assert "1 flaky" in found.out
    assert "1 failed" not in found.out
    assert [line["test"] for line in found.log] == ["test_a.py::test_one"]
    assert "the first time" in found.log[0]["message"]
    assert {"load", "rotation", "commit", "set", "at"} <= found.log[0].keys()


def test_test_that_fails_twice_is_red_and_both_outcomes_are_printed(suite: Path) -> None:
    (suite / "test_a.py").write_text("def test_one(): assert 1 == 2, 'never right'\n")
    found = run(suite, "--set", "change")
    assert found.code == 1
    assert "first:" in found.out
    assert "second: failed alone" in found.out
    assert found.log == []


def test_more_than_three_first_failures_are_red_without_a_second_run(suite: Path) -> None:
    (suite / "test_a.py").write_text("".join(PASSES_SECOND.format(name=f"n{each}") for each in range(4)))
    found = run(suite, "--set", "change")
    assert found.code == 1
    assert "first failures: 4, of which red: 4" in found.out


def test_budgets_do_not_count_among_the_many_first_failures(suite: Path) -> None:
    tests = "".join(f"def test_{each}(): pass\n" for each in range(MOST + 1))
    (suite / "test_a.py").write_text(tests)
    dear = [Failure(f"test_a.py::test_{each}", "dear", False, is_over_budget=True) for each in range(MOST + 1)]
    assert not any(outcome.is_red for outcome in judged(dear, (), suite))


def test_too_many_tests_over_their_budget_are_red_without_a_second_run(suite: Path) -> None:
    dear = [Failure(f"test_a.py::test_{each}", "dear", False, is_over_budget=True) for each in range(21)]
    outcomes = judged(dear, (), suite)
    assert all(outcome.is_red for outcome in outcomes)
    assert "  second: not run, because more than 20 tests are over their budget" in lines(outcomes)


def test_a_failed_law_is_red_even_if_it_would_pass_alone(suite: Path) -> None:
    text = "import pytest\ndef test_law_2():\n    with pytest.raises(OSError): pass\n"
    (suite / "test_a.py").write_text(PASSES_SECOND.format(name="law_1") + text)
    found = run(suite, "--set", "change")
    assert found.code == 1
    assert found.out.count("not run, because a law failed") == 2


def test_a_law_that_only_took_too_long_is_run_again(suite: Path) -> None:
    text = (
        "import pytest, pytest_timeout as hung\nfrom pathlib import Path\ndef test_law_1():\n    seen = Path('seen')\n"
    )
    text += "    if not seen.exists():\n        seen.mkdir()\n        pytest.fail(hung.PYTEST_FAILURE_MESSAGE % 60)\n"
    (suite / "test_a.py").write_text(text)
    found = run(suite, "--set", "change")
    assert found.code == 0, found.out
    assert [line["test"] for line in found.log] == ["test_a.py::test_law_1"]


def test_test_that_fails_in_its_second_run_has_no_third_try(suite: Path) -> None:
    text = "from pathlib import Path\ndef test_one():\n    tries = Path('tries')\n"
    text += "    with tries.open('a') as file:\n        file.write('x')\n    assert len(tries.read_text()) > 2\n"
    (suite / "test_a.py").write_text(text)
    found = run(suite, "--set", "change")
    assert found.code == 1
    assert (suite / "tries").read_text() == "xx"


def test_a_second_run_that_is_skipped_does_not_count_as_passed(suite: Path) -> None:
    text = "import pytest\nfrom pathlib import Path\ndef test_one():\n    seen = Path('seen')\n"
    text += "    if seen.exists():\n        pytest.skip('no engine')\n    seen.mkdir()\n    assert False\n"
    (suite / "test_a.py").write_text(text)
    found = run(suite, "--set", "change")
    assert found.code == 1
    assert "no engine" in found.out


def test_unimportable_file_is_red_beside_a_flaky_test(suite: Path) -> None:
    (suite / "test_a.py").write_text(PASSES_SECOND.format(name="one"))
    (suite / "test_b.py").write_text("import nothing_there")
    found = run(suite, "--set", "change", "-n", "1")
    assert found.code == 1
    assert "1 error, 1 flaky" in found.out


def test_only_smoke_tests_of_an_untouched_group_run(suite: Path) -> None:
    folder = suite / "tests" / "e2e" / "page"
    folder.mkdir(parents=True)
    text = "import pytest\n@pytest.mark.browser\ndef test_a(): pass\n@pytest.mark.browser\n@pytest.mark.smoke\n"
    (folder / "test_a.py").write_text(text + "def test_b(): pass\ndef test_quick(): pass\n")
    untouched, touched = run(suite, "--set", "change", "-v"), run(suite, "--set", "change", "-v", touched="page")
    assert re.findall(r"::(test_\w+) PASSED", untouched.out) == ["test_b", "test_quick"]
    assert re.findall(r"::(test_\w+) PASSED", touched.out) == ["test_a", "test_b", "test_quick"]


def test_a_fixture_error_is_judged_like_a_failure(suite: Path) -> None:
    broken = "import pytest\n@pytest.fixture\ndef gone(): raise OSError('no place')\ndef test_one(gone): pass\n"
    (suite / "test_a.py").write_text(broken)
    found = run(suite, "--set", "change")
    assert found.code == 1
    assert "no place" in found.out


def test_a_crashed_worker_is_a_first_failure(suite: Path) -> None:
    crash = "from pathlib import Path\nimport os\ndef test_one():\n    seen = Path('seen')\n"
    crash += "    if not seen.exists():\n        seen.write_text('')\n        os._exit(3)\n"
    (suite / "test_a.py").write_text(crash)
    found = run(suite, "--set", "change", "-n", "1")
    assert found.code == 0, found.out
    assert [line["test"] for line in found.log] == ["test_a.py::test_one"]


def test_without_a_set_a_failure_is_a_failure(suite: Path) -> None:
    (suite / "test_a.py").write_text(PASSES_SECOND.format(name="one"))
    assert run(suite).code == 1


def test_a_test_over_its_budget_is_red(suite: Path) -> None:
    (suite / "test_a.py").write_text(BURNS)
    found = run(suite, "--set", "change")
    assert found.code == 1
    assert "its budget is 0.1" in found.out
    assert run(suite).code == 0, "outside a set the cost is only measured"


def test_the_first_use_of_an_import_is_not_over_the_budget(suite: Path) -> None:
    (suite / "costly.py").write_text(
        "import time\nend = time.process_time() + 1\nwhile time.process_time() < end: pass\n"
    )
    (suite / "test_a.py").write_text("def test_one():\n    import costly\n")
    assert run(suite, "--set", "change").code == 0


def test_the_sets_differ_in_what_they_run(suite: Path) -> None:
    marks = "import pytest\nten = pytest.mark.parametrize('n', range(10))\n"
    tests = "@ten\ndef test_quick(n): pass\n@ten\n@pytest.mark.sweep(keep=2)\ndef test_sweep(n): pass\n"
    tests += "@ten\n@pytest.mark.process\ndef test_process(n): pass\n@pytest.mark.network\ndef test_network(): pass\n"
    (suite / "test_a.py").write_text(marks + tests)
    assert "10 passed" in run(suite, "--set", "quick").out
    assert "13 passed" in run(suite, "--set", "change").out
    assert "31 passed" in run(suite, "--set", "nightly").out
    assert "31 passed" in run(suite).out


def test_the_rotation_chooses_the_parameter(suite: Path) -> None:
    text = (
        "import pytest\n@pytest.mark.parametrize('n', range(5))\n@pytest.mark.sweep\ndef test_a(n): print(f'<{n}>')\n"
    )
    (suite / "test_a.py").write_text(text)
    seen = [run(suite, "--set", "change", "-s", rotation=each).out for each in (0, 1, 2, 2)]
    chosen = [[n for n in range(5) if f"<{n}>" in out] for out in seen]
    assert [len(one) for one in chosen] == [1, 1, 1, 1]
    assert chosen[2] == chosen[3] and len({one[0] for one in chosen}) > 1


def test_too_many_items_of_one_function_are_red(suite: Path) -> None:
    text = "import pytest\n@pytest.mark.parametrize('n', range(21))\ndef test_a(n): pass\n"
    (suite / "test_a.py").write_text(text)
    for workers in ("0", "2"):
        found = run(suite, "--set", "change", "-n", workers)
        assert found.code == pytest.ExitCode.TESTS_FAILED
        assert "test_a: 21 items, at most 20" in found.out
