"""Names and labels of a plan's containers, networks and volumes. They are the same after a crash.

`is_plan_container`, `ContainerNames.networks` and `ContainerNames.volumes` decide what belongs to the plan. planloop
changes no other object.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from planloop.containers.engine.engine import FoundContainer
from planloop.schemas.canonical_json import sha256_hex
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.container import ContainerSpec

PLAN: Final = "planloop.plan"
ADDRESS: Final = "planloop.address"
UID: Final = "planloop.uid"
INCARNATION: Final = "planloop.incarnation"
EPOCH: Final = "planloop.epoch"
SPEC: Final = "planloop.spec"
MADE_BY: Final = "planloop.by."
"""Label of a volume, followed by a depth: the creating agent's path to that depth. Users' volumes have none."""

DEFAULT_NETWORK: Final = "default"
HOST_CUT_OFF: Final = "localhost"
"""Host name of containers without a network: the only name that resolves in them."""
_SUFFIX_CHARS: Final = 8
_GAP: Final = "/"  # Occurs in no name.
_FOREIGN: Final = re.compile(r"[^a-zA-Z0-9_.-]")
_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_CONTAINER: Final = "container/"


def container_networks(spec: ContainerSpec) -> tuple[str, ...]:
    """The networks of a container by their names in the plan; empty for `none`."""
    return () if spec.is_cut_off else spec.networks or (DEFAULT_NETWORK,)


@frozen
class ContainerNames:
    """Names of a plan's objects. `plan` is its name; `label` identifies it on this machine, where names may repeat."""

    plan: str
    label: str

    @property
    def ours(self) -> dict[str, str]:
        """The labels of all containers, networks and volumes of the plan."""
        return {PLAN: self.label}

    def of_volume(self, maker: str | None) -> dict[str, str]:
        """The labels of a volume that the agent at the path `maker` creates, `.` for the root agent; None for users.

        The agent and all its ancestors can select the volume by these labels; other agents cannot.
        """
        steps = [] if maker in (None, ".") else str(maker).split("/")
        depths = range(0 if maker is None else len(steps) + 1)
        return {**self.ours, **{f"{MADE_BY}{depth}": "/".join(steps[:depth]) or "." for depth in depths}}

    def container(self, name: str) -> str:
        return self._named(name)

    def network(self, name: str) -> str:
        return self._named(f"net-{name}")

    def volume(self, name: str) -> str:
        return self._named(f"vol-{name}")

    def networks(self, found: Iterable[str]) -> tuple[str, ...]:
        """Filter networks with the plan's label by name: other tools may have copied the label."""
        return self._of_form(self.network(_GAP), found)

    def volumes(self, found: Iterable[str]) -> tuple[str, ...]:
        """Filter volumes with the plan's label by name."""
        return self._of_form(self.volume(_GAP), found)

    def _of_form(self, form: str, found: Iterable[str]) -> tuple[str, ...]:
        head, _, tail = form.partition(_GAP)
        return tuple(name for name in found if name.startswith(head) and name.endswith(tail) and len(name) >= len(form))

    def _named(self, name: str) -> str:
        # Engines allow few characters. The suffix distinguishes plans.
        plan = _FOREIGN.sub("", self.plan).lstrip("_.-") or "plan"
        return f"{plan}-{name}-{sha256_hex(self.label.encode())[:_SUFFIX_CHARS]}"


@frozen
class ContainerTag:
    """Which plan object a container belongs to, from its labels. `of` is the digest of its specification."""

    address: str
    uid: str
    incarnation: int
    of: str

    def labels(self, names: ContainerNames, epoch: int) -> dict[str, str]:
        """The labels of a container that is created in `epoch`."""
        own = {ADDRESS: self.address, UID: self.uid, INCARNATION: str(self.incarnation), SPEC: self.of}
        return {**names.ours, **own, EPOCH: str(epoch)}


def tag_from_labels(labels: Mapping[str, str]) -> ContainerTag | None:
    """Inverse of `ContainerTag.labels`; None if the labels are missing or incomplete."""
    address, uid, of = (labels.get(name, "") for name in (ADDRESS, UID, SPEC))
    incarnation = labels.get(INCARNATION, "")
    is_whole = PLAN in labels and uid and of and _NUMBER.fullmatch(incarnation)
    return ContainerTag(address, uid, int(incarnation), of) if is_whole and address.startswith(_CONTAINER) else None


def is_plan_container(found: FoundContainer, names: ContainerNames, known: Collection[str] = ()) -> bool:
    """Whether planloop created the container for the plan of `names`; `known` are the ids of known containers.

    Its labels must be complete, and its name must match its address. Labels alone prove nothing: `docker commit` copies
    them to an image and to all containers of it, and other tools copy them. Names and ids are unique, so a known id is
    enough if a user renamed the container.
    """
    tag = tag_from_labels(found.labels)
    if tag is None or found.labels[PLAN] != names.label:
        return False
    return found.id in known or found.name == names.container(tag.address.removeprefix(_CONTAINER))
