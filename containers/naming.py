"""How what is ours is called and marked in an engine: the same names and labels after a crash, for whoever looks.

What carries the label of the plan is ours, whatever its name; nothing else is ever touched.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from schemas.encoding import digest
from schemas.frozen import frozen

PLAN: Final = "planloop.plan"
ADDRESS: Final = "planloop.address"
UID: Final = "planloop.uid"
INCARNATION: Final = "planloop.incarnation"
EPOCH: Final = "planloop.epoch"
SPEC: Final = "planloop.spec"

DEFAULT_NETWORK: Final = "default"
_SUFFIX_CHARS: Final = 8
_FOREIGN: Final = re.compile(r"[^a-zA-Z0-9_.-]")


@frozen
class Names:
    """`plan` is the plan's name, `label` what marks it on this machine: two folders may have plans of one name."""

    plan: str
    label: str

    @property
    def ours(self) -> dict[str, str]:
        """The labels that all of the plan's containers, networks and volumes have."""
        return {PLAN: self.label}

    def container(self, name: str) -> str:
        return self._named(name)

    def network(self, name: str) -> str:
        return self._named(f"net-{name}")

    def volume(self, name: str) -> str:
        return self._named(f"vol-{name}")

    def _named(self, name: str) -> str:
        # Engines take few letters; that two plans are told apart is the work of the suffix.
        plan = _FOREIGN.sub("", self.plan).lstrip("_.-") or "plan"
        return f"{plan}-{name}-{digest(self.label.encode())[:_SUFFIX_CHARS]}"


@frozen
class Tag:
    """Whose a container is: read from its labels. `of` is the digest of what runs in it."""

    address: str
    uid: str
    incarnation: int
    of: str

    def labels(self, names: Names, epoch: int) -> dict[str, str]:
        """The labels of a container that is made in `epoch`."""
        own = {ADDRESS: self.address, UID: self.uid, INCARNATION: str(self.incarnation), SPEC: self.of}
        return {**names.ours, **own, EPOCH: str(epoch)}


def tag_of(labels: Mapping[str, str]) -> Tag | None:
    """Inverse of `Tag.labels`; None when they are not ours, or not whole."""
    incarnation = labels.get(INCARNATION, "")
    if PLAN not in labels or not incarnation.isdigit():
        return None
    return Tag(labels.get(ADDRESS, ""), labels.get(UID, ""), int(incarnation), labels.get(SPEC, ""))
