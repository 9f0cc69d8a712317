"""What is loaded when a plan's first container is looked at, by the event loop and before anything else."""

from __future__ import annotations

import subprocess
import sys

from tests.architecture.tree import ROOT


def test_the_controller_of_containers_takes_in_no_client_that_is_slow_to_load() -> None:
    code = (
        "import sys, planloop.controllers.container, planloop.containers.engine.docker_engine; "
        "print(*{'aiohttp', 'docker'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True, text=True)
    assert done.stdout.strip() == ""
