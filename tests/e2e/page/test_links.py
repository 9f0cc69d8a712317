"""The link to an object leads to it whichever kind it is of, also to those that have no page of their own."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.controllers.fork.repository import Home
from tests.e2e.folder import Folder
from tests.e2e.page.conftest import Running, Serve

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


@pytest.mark.parametrize(
    ("kind", "owner", "said"),
    [
        ("call", "agent/lead", "discuss"),
        ("thread", "agent/lead", "what is missing?"),
        ("hook", "agent/lead", "before calls"),
        ("fork", "task/apart", "task/apart"),
    ],
)
def test_the_link_to_an_object_leads_to_what_describe_says_of_it(
    running: Running, served: Serve, page: Page, kind: str, owner: str, said: str
) -> None:
    folder = began(running)
    links = served(folder)
    page.goto(links.at("/plan/task/lead"))
    address = ""
    while not address:  # It comes as the agent works.
        address = next((one["address"] for one in folder.json("get", f"{kind}s") if owner in str(one)), "")
    page.goto(links.at(f"/plan/{address}"))
    about = page.get_by_role("region", name=f"About {address}")
    expect(about.get_by_role("heading", name=address)).to_be_visible()
    expect(about.get_by_role("definition").filter(has_text=said).first).to_be_visible()


def began(running: Running) -> Folder:
    folder = running("plan: demo\ntasks: {apart: {run: sleep 500}}\n")
    Home(folder.path).begin(all="text\n")
    folder.write("demo.plan.yaml", PLAN)
    applied = folder.run("apply", "--yes", "--detach", "demo.plan.yaml")
    assert applied.code == 0, applied.text
    return folder
