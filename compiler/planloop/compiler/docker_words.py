"""Field names of Compose, Make, Ansible and CI systems, and the field of a plan that does the same.

They are used in hints only: a plan with one of these names is still refused.
"""

from __future__ import annotations

import re
from typing import Final

from planloop.compiler.syntax import SourceValue

_OF_TASK: Final = {
    "after": "needs",
    "checks": "acceptance",
    "cmd": "run",
    "command": "run",
    "depends-on": "needs",
    "depends_on": "needs",
    "dependsOn": "needs",
    "desc": "goal",
    "description": "goal",
    "environment": "env",
    "exec": "run",
    "requires": "needs",
    "shell": "run",
    "tests": "acceptance",
    "title": "goal",
    "working-directory": "cwd",
    "working_dir": "cwd",
    "workdir": "cwd",
}
"""What other tools call the fields that a task and the plan share."""
_FIELDS: Final[dict[str, dict[str, str]]] = {
    "plan": {
        **_OF_TASK,
        "jobs": "tasks",
        "name": "plan",
        "services": "containers",
        "stages": "tasks",
        "steps": "tasks",
    },
    "task": {**_OF_TASK, "name": "goal", "steps": "tasks"},
    "container": {
        "cap_add": "cap-add",
        "command": "cmd",
        "cpus": "limits",
        "depends_on": "needs",
        "environment": "env",
        "healthcheck": "health",
        "logging": "logs",
        "mem_limit": "limits",
        "pids_limit": "limits",
        "volumes": "mounts",
        "working_dir": "workdir",
    },
    "health": {"test": "cmd"},
    "mount": {"source": "host", "target": "container"},
    "port-map": {"published": "host", "target": "container"},
}
_OTHERWISE: Final = {
    "container_name": "a container is called by its name in the plan",
    "deploy": "bounds are `limits: {cpu: 0.5, memory: 512MiB}`",
    "env_file": "name each variable: `env: {NAME: file:path}`, or `secret:NAME`",
    "expose": "containers of a plan reach every port of each other, by name",
    "init": "every container has one",
    "network_mode": "`networks: [none]` is no network, `[internal]` one without a way out; none shares this machine's",
    "pid": "no container sees the processes of this machine",
    "privileged": "no container has the powers of this machine; `cap-add` gives single ones",
    "security_opt": "none can gain powers; `cap-add` gives single ones",
    "tmpfs": "as in `mounts: [{tmpfs: true, container: /tmp}]`",
}
_PORT: Final = re.compile(r"(?:[\d.]+:)?(\d+):(\d+)(?:/tcp)?", re.ASCII)
_MOUNT: Final = re.compile(r"([^:]+):(/[^:]*)(?::(ro|rw|z|Z))?")


def field(table: str, name: str) -> str:
    """The field of `table` that does what other tools call `name`; empty for an unknown name."""
    return _FIELDS.get(table, {}).get(name, "")


def otherwise(table: str, name: str) -> str:
    """How a plan does what a field of Compose does that has no like; empty for others."""
    return _OTHERWISE.get(name, "") if table == "container" else ""


def as_map(table: str, value: SourceValue) -> str:
    """A port or mount that is written as for `docker run`, as a map; empty for what is neither."""
    if table == "port-map" and isinstance(value, int):
        return f"{{container: {value}}}"
    if table == "port-map" and isinstance(value, str) and (port := _PORT.fullmatch(value)):
        return f"{{host: {port[1]}, container: {port[2]}}}"
    if table == "mount" and isinstance(value, str) and (mount := _MOUNT.fullmatch(value)):
        kind = "host" if mount[1].startswith(("/", ".", "~")) else "volume"
        return f"{{{kind}: {mount[1]}, container: {mount[2]}{', read-only: true' if mount[3] == 'ro' else ''}}}"
    return ""
