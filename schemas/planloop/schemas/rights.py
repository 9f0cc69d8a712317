"""Rights: what an agent may use, and what it may grant on. How two rights meet is `planloop.compiler.rights`."""

from __future__ import annotations

from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import frozen


@frozen
class Rights:
    """The effective rights of one agent: already the meet along its path to the root.

    `models`, `tools` and the `grant_` pair are patterns (`*` matches any run of characters); None means all. `deny`
    are tool-call patterns such as `shell(rm -rf *)`, united over the path. `read` and `write` are path globs below
    the plan's folder, None meaning the task's own workspace. `network` is none or all; `hosts` are patterns of
    `host:port` on this machine and in private networks that may be asked too. `spawn` is how many children it
    may have, `depth` how many levels below it; None means no bound but `planloop.schemas.limits`. `guarded` are denials
    of writing what answers for the hooks above it; unlike those of `deny` the agent is not told of them.
    `containers` is how many it and those below it may have made, None for `limits.CONTAINERS_OF_AGENTS`; `ports` are
    those of this machine that they may take.
    """

    models: tuple[str, ...] | None = None
    tools: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    read: tuple[str, ...] | None = None
    write: tuple[str, ...] | None = None
    network: bool = False
    hosts: tuple[str, ...] = ()
    spawn: int | None = None
    depth: int | None = None
    grant_models: tuple[str, ...] | None = None
    grant_tools: tuple[str, ...] | None = None
    guarded: tuple[str, ...] = ()
    containers: int | None = None
    ports: tuple[int, ...] = ()

    def to_json(self) -> JsonObject:
        rare: JsonObject = {"guarded": list(self.guarded), "containers": self.containers, "ports": list(self.ports)}
        return {name: value for name, value in rare.items() if value not in (None, [])} | {
            "models": _listed(self.models),
            "tools": _listed(self.tools),
            "deny": list(self.deny),
            "read": _listed(self.read),
            "write": _listed(self.write),
            "network": self.network,
            "hosts": list(self.hosts),
            "spawn": self.spawn,
            "depth": self.depth,
            "grant_models": _listed(self.grant_models),
            "grant_tools": _listed(self.grant_tools),
        }


def rights_from_json(raw: JsonObject) -> Rights:
    """Inverse of `Rights.to_json`."""
    return Rights(
        models=_tupled(raw["models"]),
        tools=_tupled(raw["tools"]),
        deny=tuple(raw["deny"]),
        read=_tupled(raw["read"]),
        write=_tupled(raw["write"]),
        network=raw["network"],
        hosts=tuple(raw.get("hosts", ())),
        spawn=raw["spawn"],
        depth=raw["depth"],
        grant_models=_tupled(raw["grant_models"]),
        grant_tools=_tupled(raw["grant_tools"]),
        guarded=tuple(raw.get("guarded", ())),
        containers=raw.get("containers"),
        ports=tuple(raw.get("ports", ())),
    )


def _listed(patterns: tuple[str, ...] | None) -> list[str] | None:
    return None if patterns is None else list(patterns)


def _tupled(patterns: list[str] | None) -> tuple[str, ...] | None:
    return None if patterns is None else tuple(patterns)
