"""Names and labels of a plan's containers, networks and volumes: the same after a crash, for every reader.

`is_plan_container`, `ContainerNames.networks` and `ContainerNames.volumes` decide what belongs to the plan; nothing
else is ever touched.
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
"""Of a volume, with a depth behind it: its maker's path so far down the tree of agents. People's have none."""

DEFAULT_NETWORK: Final = "default"
HOST_CUT_OFF: Final = "localhost"
"""Host name of a container without a network: the only name that resolves in it, and the same for all."""
_SUFFIX_CHARS: Final = 8
_GAP: Final = "/"  # In no name.
_FOREIGN: Final = re.compile(r"[^a-zA-Z0-9_.-]")
_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_CONTAINER: Final = "container/"


def container_networks(spec: ContainerSpec) -> tuple[str, ...]:
    """The networks that a container is on, as the plan names them; none where it says `none`."""
    return () if spec.is_cut_off else spec.networks or (DEFAULT_NETWORK,)


@frozen
class ContainerNames:
    """`plan` is the plan's name, `label` what marks it on this machine: two folders may have plans of one name."""

    plan: str
    label: str

    @property
    def ours(self) -> dict[str, str]:
        """The labels that all of the plan's containers, networks and volumes have."""
        return {PLAN: self.label}

    def of_volume(self, maker: str | None) -> dict[str, str]:
        """The labels of a volume that the agent at the path `maker` creates, `.` for the root's; None for users.

        An agent's volume has the labels that all its ancestors select by, and not those that others select by.
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
        """Those among networks with the plan's label that have such a name: others may have copied the label."""
        return self._of_form(self.network(_GAP), found)

    def volumes(self, found: Iterable[str]) -> tuple[str, ...]:
        """The same of volumes."""
        return self._of_form(self.volume(_GAP), found)

    def _of_form(self, form: str, found: Iterable[str]) -> tuple[str, ...]:
        head, _, tail = form.partition(_GAP)
        return tuple(name for name in found if name.startswith(head) and name.endswith(tail) and len(name) >= len(form))

    def _named(self, name: str) -> str:
        # Engines allow few characters; the suffix tells two plans apart.
        plan = _FOREIGN.sub("", self.plan).lstrip("_.-") or "plan"
        return f"{plan}-{name}-{sha256_hex(self.label.encode())[:_SUFFIX_CHARS]}"


@frozen
class ContainerTag:
    """Which plan object a container belongs to, read from its labels. `of` is the digest of what runs in it."""

    address: str
    uid: str
    incarnation: int
    of: str

    def labels(self, names: ContainerNames, epoch: int) -> dict[str, str]:
        """The labels of a container that is made in `epoch`."""
        own = {ADDRESS: self.address, UID: self.uid, INCARNATION: str(self.incarnation), SPEC: self.of}
        return {**names.ours, **own, EPOCH: str(epoch)}


def tag_from_labels(labels: Mapping[str, str]) -> ContainerTag | None:
    """Inverse of `ContainerTag.labels`; None when they are not ours, or not whole."""
    address, uid, of = (labels.get(name, "") for name in (ADDRESS, UID, SPEC))
    incarnation = labels.get(INCARNATION, "")
    is_whole = PLAN in labels and uid and of and _NUMBER.fullmatch(incarnation)
    return ContainerTag(address, uid, int(incarnation), of) if is_whole and address.startswith(_CONTAINER) else None


def is_plan_container(found: FoundContainer, names: ContainerNames, known: Collection[str] = ()) -> bool:
    """Whether planloop created the container for the plan of `names`; `known` are the ids of known containers.

    Its labels are complete, and its name is the one of its address. Labels alone prove nothing: `docker commit` copies
    them to an image and to every container of it, and other tools copy them. No two containers share a name or an id,
    so a known id is enough if a user renamed the container.
    """
    tag = tag_from_labels(found.labels)
    if tag is None or found.labels[PLAN] != names.label:
        return False
    return found.id in known or found.name == names.container(tag.address.removeprefix(_CONTAINER))
