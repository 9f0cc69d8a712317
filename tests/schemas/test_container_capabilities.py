"""Which capabilities a container has if the plan states none."""

from __future__ import annotations

from planloop.schemas.objects.container import ENTRYPOINT_CAPABILITIES, PASSES_MODES, Mount, default_capabilities


def test_mounts_of_a_container_decide_its_capabilities() -> None:
    read, write, named = Mount("/r", host="r", is_read_only=True), Mount("/w", host="w"), Mount("/v", volume="v")

    assert default_capabilities([]) == default_capabilities([named]) == ENTRYPOINT_CAPABILITIES
    assert set(default_capabilities([read, named])) == set(ENTRYPOINT_CAPABILITIES) - {PASSES_MODES}
    assert default_capabilities([read, write]) == ()
