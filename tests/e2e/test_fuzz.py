"""The API of a running plan, asked whatever its own description allows and much that it does not.

No response is an internal error (5xx), all match the description, valid requests are accepted, invalid ones are
rejected, and every request needs a token. The examples are the same on every run; in the set change every eighth
operation is asked, with fewer examples.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests import sets
from tests.e2e.folder import Folder
from tests.e2e.page import browsing

PLAN = """\
plan: fuzzed
goal: something that goes on
budget: {usd: 5}
tasks:
  hold:
    goal: hold
    run: sleep 600
  count:
    run: seq 5
    acceptance: [{sh: "true"}]
  talk:
    goal: talk
    agent:
      tools: [all]
      script:
        - call: {write: {path: a.txt, content: hello}}
        - call: {request: {kind: budget, what: {turns: 10}, why: more}}
        - sleep: 600s
"""
CONFIG = """\
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "404", "403", "409", "422"]

[[operations]]
include-operation-id = "steer"
checks.positive_data_acceptance.enabled = false
"""
"""What fits the description may still be no plan, no dump, nothing that is there, or an address of no task."""
EVERY = 8
NEVER = ("stop", "tail")
"""Operations that end the plan, and those without a single response."""


@dataclass(frozen=True, slots=True)
class Site:
    """A gateway to a running plan."""

    url: str
    token: str

    def get(self, path: str) -> Any:
        request = Request(self.url + path, headers={"Authorization": f"Bearer {self.token}"})
        with urlopen(request) as answer:
            return json.load(answer)

    def people(self) -> set[str]:
        """Return the authors of all changes: the server still answers, and no client signs for another one."""
        plan, actors, after = self.get("/v1/session")["plan"], set[str](), 0
        while after is not None:
            page = self.get(f"/v1/plans/{plan}/log?after={after}")
            actors |= {one["actor"] for one in page["records"] if one["actor"].startswith("human:")}
            after = page["next"]
        return actors


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    folder = Folder(tmp_path / "plan")
    folder.path.mkdir()
    with browsing.owned(folder, PLAN), browsing.serving(folder, None) as served:
        yield Site(served.url.partition("/#")[0], served.token)


def _asked(site: Site, description: Any, here: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """What schemathesis says after it has asked for all that `description` has."""
    file = here / "openapi.json"
    file.write_text(json.dumps(description))
    operations = [one["operationId"] for each in description["paths"].values() for one in each.values()]
    asked = sets.points([name for name in operations if name not in NEVER], len(operations) // EVERY, "fuzz")
    chosen = [word for name in asked for word in ("--include-operation-id", name)]
    config = here / "schemathesis.toml"
    config.write_text(CONFIG)
    command = [
        *(str(Path(sys.executable).with_name("st")), "--config-file", str(config), "run", str(file)),
        *("--url", site.url, "--seed", "1", "--no-color"),
        *("-H", f"Authorization: Bearer {site.token}", "--generation-database", "none", *chosen, *words),
    ]
    return subprocess.run(command, cwd=here, capture_output=True, text=True, check=False)


def _told(description: Any, site: Site) -> Any:
    """The description with what the plan has in it: addresses, agents, blobs and outputs that are there."""
    plan = site.get("/v1/session")["plan"]
    objects = site.get(f"/v1/plans/{plan}/objects")["objects"]
    records = site.get(f"/v1/plans/{plan}/log")["records"]
    addresses = [one["address"] for one in objects]
    known = {
        "address": addresses,
        "agent": [one.partition("/")[2] for one in addresses if one.startswith("agent/")],
        "op": [one["spec"]["op"] for one in objects if one["kind"] == "call"],
        "digest": [digest for record in records for digest in record.get("blobs", ())],
        "rev": list(range(1, len(records) + 1)),
    }
    for operations in description["paths"].values():
        for operation in operations.values():
            for one in operation.get("parameters", ()):
                if one["in"] == "path" and known.get(one["name"]):
                    one["schema"]["enum"] = known[one["name"]]
    for model in description["components"]["schemas"].values():
        for name in ("address", "to", "under", "agent"):
            field = model.get("properties", {}).get(name, {})
            if "pattern" in field:
                field["enum"] = addresses
    return description


@pytest.mark.sweep
@pytest.mark.timeout(600)
def test_any_request_has_a_documented_answer(site: Site, tmp_path: Path) -> None:
    said = _asked(site, site.get("/v1/openapi.json"), tmp_path, "-n", str(sets.examples(10, 5)))

    assert said.returncode == 0, said.stdout[-20_000:]
    assert site.people() <= {"human:file", "human:web"}


@pytest.mark.sweep
@pytest.mark.timeout(600)
def test_any_request_for_an_existing_object_has_a_documented_answer(site: Site, tmp_path: Path) -> None:
    description = _told(site.get("/v1/openapi.json"), site)

    said = _asked(
        site,
        description,
        tmp_path,
        "-n",
        str(sets.examples(20, 10)),
        "--mode",
        "positive",
        "--phases",
        "examples,fuzzing",
    )

    assert said.returncode == 0, said.stdout[-20_000:]
    assert site.people() <= {"human:file", "human:web"}
