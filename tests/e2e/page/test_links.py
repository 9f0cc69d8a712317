"""Links to objects of every kind, including kinds without their own page."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.controllers.fork.repository import Home
from tests.e2e.folder import Folder
from tests.e2e.page.conftest import Keep

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

PLAN = """\
plan: demo
tasks:
  lead:
    goal: asks around
    hooks:
      careful: {on: before-call, rule: [{when: {call: "shell(git push*)"}, ask: it is seen by others}]}
    agent:
      tools: [all]
      topology: {talk-to: [mate]}
      script:
        - call: {discuss: {speakers: [mate], prompt: what is missing?}}
        - done: x
  mate: {goal: thinks, agent: {script: [{when: {message: the end}, done: y}]}}
  apart: {fork: true, effect: idempotent, run: sleep 500}
"""


OBJECTS = {
    "call": ("agent/lead", "discuss"),
    "thread": ("agent/lead", "what is missing?"),
    "hook": ("agent/lead", "before calls"),
    "fork": ("task/apart", "task/apart"),
}
"""By kind: the owner of the object, and a part of its description."""


def test_the_link_to_an_object_shows_its_description(keep: Keep, page: Page) -> None:
    kept = keep("plan: demo\ntasks: {apart: {run: sleep 500}}\n", begin)
    page.goto(kept.links.at("/plan/task/lead"))
    for kind, (owner, said) in OBJECTS.items():
        address = ""
        while not address:  # The agent creates it while it works.
            found = kept.folder.json("get", f"{kind}s")
            address = next((one["address"] for one in found if owner in str(one)), "")
        page.goto(kept.links.at(f"/plan/{address}"))
        about = page.get_by_role("region", name=f"About {address}")
        expect(about.get_by_role("heading", name=address)).to_be_visible()
        expect(about.get_by_role("definition").filter(has_text=said).first).to_be_visible()


def begin(folder: Folder) -> None:
    """Make the folder a repository and apply the plan."""
    Home(folder.path).begin(all="text\n")
    folder.write("demo.plan.yaml", PLAN)
    applied = folder.run("apply", "--yes", "--detach", "demo.plan.yaml")
    assert applied.code == 0, applied.text
