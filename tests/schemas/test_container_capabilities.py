"""Which capabilities a container has if the plan states none."""

from __future__ import annotations

from planloop.schemas.container import ENTRYPOINT_CAPABILITIES, PASSES_MODES, Mount, capabilities_of


def test_what_a_container_mounts_decides_which_capabilities_it_has() -> None:
    read, write, named = Mount("/r", host="r", is_read_only=True), Mount("/w", host="w"), Mount("/v", volume="v")

    assert capabilities_of([]) == capabilities_of([named]) == ENTRYPOINT_CAPABILITIES
    assert set(capabilities_of([read, named])) == set(ENTRYPOINT_CAPABILITIES) - {PASSES_MODES}
    assert capabilities_of([read, write]) == ()
