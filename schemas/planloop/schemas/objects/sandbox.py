"""The sandbox that an agent's commands require, and whether it is available."""

from __future__ import annotations

from typing import Final

from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen

NOTHING, GROUP, BUBBLEWRAP, CONTAINER = range(4)
TIERS: Final = ("nothing", "a process group", "bubblewrap", "a container")
NO_SANDBOX: Final = "NoSandbox"
"""The reason of a task whose sandbox is unavailable."""

TRYING_SANDBOX: Final = "TryingSandbox"


@frozen
class SandboxRequest:
    """The least `tier`; the `container` of tier 3; bounds of each command, None for none.

    `is_alone`: of the plan's folder commands see only that of their task.
    """

    tier: int = GROUP
    container: str = ""
    memory_bytes: int | None = None
    processes: int | None = None
    is_alone: bool = False

    @property
    def words(self) -> str:
        """`tier 2 (bubblewrap)`; `tier 3 (container sut)`."""
        name = TIERS[self.tier] if self.tier < len(TIERS) else "unknown"
        return f"tier {self.tier} ({f'container {self.container}' if self.container else name})"


def sandbox_status_merge(written: Json, status: JsonObject) -> JsonObject:
    """The merge after which the `status` of a task or an agent has the sandbox that a lowered agent says.

    It has none where the plan says nothing of it.
    """
    if written is None:
        return {"sandbox": None} if status.get("sandbox") else {}
    wish = sandbox_request(written)
    return {"sandbox": {"tier": wish.tier, "container": wish.container or None}}


def sandbox_request(written: Json) -> SandboxRequest:
    """What `sandbox` of a lowered agent says; left out, a process group."""
    if not isinstance(written, dict):
        return SandboxRequest() if written is None else SandboxRequest(int(written))
    container = str(written.get("container", ""))
    is_alone = bool(written.get("alone"))
    least = CONTAINER if container else BUBBLEWRAP if is_alone else GROUP
    tier = max(least, written.get("tier", least))
    return SandboxRequest(tier, container, written.get("memory"), written.get("processes"), is_alone)


@frozen
class SandboxAvailability:
    """Whether a sandbox is available. If not: why, a hint, the number of consecutive tries (0: none), and the time of
    the next one (None: never).

    Times in seconds since 1970.
    """

    is_had: bool
    why: str = ""
    cure: str = ""
    tries: int = 0
    again_at: float | None = None

    def is_due(self, now: float) -> bool:
        """Whether what would help may have been done since."""
        return self.again_at is not None and self.again_at <= now

    def to_json(self) -> JsonObject:
        return {"is_had": self.is_had, "why": self.why, "cure": self.cure}


SANDBOX_AVAILABLE: Final = SandboxAvailability(True)
