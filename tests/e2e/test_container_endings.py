"""Containers that are hard to take down: paused, deaf to TERM, or with commands inside that are."""

from __future__ import annotations

import pytest

from tests.e2e.container_harness import IMAGE, ContainerHarness
from tests.e2e.folder import Folder

pytestmark = [pytest.mark.engine, pytest.mark.timeout(240)]

HARD = f"""\
plan: p
containers:
  deaf:
    image: {IMAGE}
    cmd: [sh, -c, 'trap "" TERM; touch /tmp/well; while :; do sleep 1; done']
    health: {{cmd: [test, -e, /tmp/well], interval: 200ms}}
  frozen: &service
    image: {IMAGE}
    env: {{NAME: frozen}}
    health: {{tcp: 8080, interval: 200ms}}
  busy:
    <<: *service
    env: {{NAME: busy}}
"""
OVER = "plan: p\ntasks: {t: {run: 'true'}}\n"


@pytest.mark.parametrize("words", [("down",), ("apply", "--yes", "p.yaml")], ids=lambda words: words[0])
def test_paused_deaf_or_busy_container_is_taken_down(
    harness: ContainerHarness, folder: Folder, words: tuple[str, ...]
) -> None:
    folder.write("p.yaml", HARD)
    with folder.killed("--yes", "p.yaml") as owner:
        harness.until_owned(owner)
        harness.until_settled()
    harness.said_inside("busy", "sh", "-c", "trap '' TERM; sleep 300 >/dev/null 2>&1 & sleep 301 >/dev/null 2>&1 &")
    harness.api.pause(harness.ref("frozen"))  # No client would unpause it.
    folder.write("p.yaml", OVER)

    assert folder.run(*words).code == 0

    assert harness.left() == []
