"""The agents that a client may act as: pure functions."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from planloop.server.mcp.leases import external_roles
from tests.product import Resource, Uid


class Objects:
    """Tasks, each with its agent: `guests` has the prototype of the agent at each path, None for one without."""

    rev = 1

    def __init__(self, guests: dict[str, str | None]) -> None:
        self._found = {f"task/{path}": Resource(f"task/{path}", Uid(path), 1, {}, {}) for path in guests}
        for path, prototype in guests.items():
            spec = {"task": f"task/{path}", "prototype": prototype, "mind": {"kind": "guest", "lease_s": 60.0}}
            self._found[f"agent/{path}"] = Resource(f"agent/{path}", Uid(f"a {path}"), 1, spec, {})

    def get(self, address: str) -> Resource | None:
        return self._found.get(address)

    def list(self, kind: str) -> Sequence[Resource]:
        return [one for address, one in self._found.items() if address.startswith(f"{kind}/")]


@pytest.mark.parametrize(
    ("name", "played"),
    [
        ("helper", ["guide", "index"]),
        ("boss", ["helper"]),
        ("agent/helper", ["helper"]),
        ("alone", ["alone"]),
        ("agent/alone", ["alone"]),
        ("nobody", []),
    ],
)
def test_name_means_an_agent_of_the_plan_first_and_then_one_of_a_task(name: str, played: list[str]) -> None:
    objects = Objects({"helper": "boss", "guide": "helper", "index": "helper", "alone": None})

    assert [part.path for part in external_roles(objects, name)] == played
