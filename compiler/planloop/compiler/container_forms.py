"""The texts of a container: what an engine would refuse, or take for something else, is told before it is asked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from planloop.compiler.faults import Faults, Pointer
from planloop.compiler.suggesting import did_you_mean
from planloop.schemas.container import INTERNAL, NO_NETWORK
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.secret import REFERENCES, SECRET, is_secret_name

CAPABILITIES: Final = (
    "ALL AUDIT_CONTROL AUDIT_READ AUDIT_WRITE BLOCK_SUSPEND BPF CHECKPOINT_RESTORE CHOWN DAC_OVERRIDE DAC_READ_SEARCH "
    "FOWNER FSETID IPC_LOCK IPC_OWNER KILL LEASE LINUX_IMMUTABLE MAC_ADMIN MAC_OVERRIDE MKNOD NET_ADMIN "
    "NET_BIND_SERVICE NET_BROADCAST NET_RAW PERFMON SETFCAP SETGID SETPCAP SETUID SYSLOG SYS_ADMIN SYS_BOOT "
    "SYS_CHROOT SYS_MODULE SYS_NICE SYS_PACCT SYS_PTRACE SYS_RAWIO SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG WAKE_ALARM"
).split()
OWN_LABELS: Final = "planloop."

_IMAGE_CHARS_MAX: Final = 4 * 64  # Of a name without tag and digest: no registry takes more.
_HOST: Final = r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?(?::\d+)?/)?"
_PART: Final = r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*"
_IMAGE: Final = re.compile(
    rf"(?P<name>{_HOST}{_PART}(?:/{_PART})*)(?::[\w][\w.-]{{0,127}})?(?:@[a-z0-9]+:[0-9a-f]{{32,}})?", re.ASCII
)
_IMAGE_ID: Final = re.compile(r"sha256:[0-9a-f]{64}")
_PORT_DIGITS: Final = 6
_ENGINE_NAME: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]*")
_USER: Final = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9_.-]*\$?(?::[a-zA-Z0-9_][a-zA-Z0-9_.-]*\$?)?")
_URL: Final = re.compile(r"https?://[^\s/?#]+(?:[/?#]\S*)?|:\d{1,5}(?:[/?]\S*)?")

_NO_NETWORKS: Final = {
    "host": "no container shares the network of this machine: `ports` says what is to be reached from here",
    "bridge": "leave `networks` out for one that all containers of the plan share",
}


def check_forms(name: str, container: JsonObject, to: Pointer, faults: Faults) -> None:
    """Tells of the texts of the container `name` that mean nothing to an engine."""
    if not _ENGINE_NAME.fullmatch(name):
        hint = "engines take letters from a to z, digits, `-`, `_` and `.`, a letter or digit first"
        faults.on_key("P0207", f"`{name}` cannot be the name of a container", hint, to=to)
    if "image" in container and not is_image(container["image"]):
        _tell_image(container["image"], (*to, "image"), faults)
    if container.get("rootfs") == "":
        faults.add("P0210", "`rootfs` names no file", "name a tar file", to=(*to, "rootfs"))
    if not _USER.fullmatch(container.get("user", "root")):
        hint = "a name or a number, and maybe a group: `node`, `1000`, `1000:1000`"
        faults.add("P0223", f"`{container['user']}` is no user", hint, to=(*to, "user"))
    _check_environment(container.get("env", {}), (*to, "env"), faults)
    _check_labels(container.get("labels", {}), (*to, "labels"), faults)
    for field in ("cap-drop", "cap-add"):
        _check_capabilities(container.get(field, ()), (*to, field), faults)
    _check_networks(container.get("networks", ()), (*to, "networks"), faults)
    _check_reach(name, container, (*to, "health"), faults)
    url = container.get("health", {}).get("http", ":80")
    if not _URL.fullmatch(url):
        hint = "as in `http://localhost:8080/health`, or `:8080/health`"
        faults.add("P0223", f"`{url}` is no address to ask", hint, to=(*to, "health", "http"))


def _check_reach(name: str, container: JsonObject, to: Pointer, faults: Faults) -> None:
    """Tells of a health check that asks from outside where nobody reaches the container."""
    if list(container.get("networks", ())) != [NO_NETWORK]:
        return
    for how in ("http", "tcp"):
        if how in container.get("health", {}):
            hint = "ask inside: `health: {cmd: [...]}`"
            faults.on_key("P0211", f"nobody reaches `{name}`, which has no network", hint, to=(*to, how))


def is_image(name: str) -> bool:
    """Whether `name` is that of an image, with or without host, tag and digest, or the id of one."""
    if name.startswith("sha256:"):
        return _IMAGE_ID.fullmatch(name) is not None
    found = _IMAGE.fullmatch(name) if len(name) <= 2 * _IMAGE_CHARS_MAX else None
    return found is not None and len(found["name"]) < _IMAGE_CHARS_MAX


def is_volume(name: str) -> bool:
    """Whether a volume can have this name."""
    return _ENGINE_NAME.fullmatch(name) is not None


def _tell_image(name: str, to: Pointer, faults: Faults) -> None:
    hint = "as in `redis:7`, `ghcr.io/team/app:1.2` or `app@sha256:…`"
    if is_image(name.lower()):
        hint = f"image names are in lower case: `{name.lower()}`"
    faults.add("P0223", f"`{name}` is no name of an image" if name else "an image without a name", hint, to=to)


def _check_environment(env: JsonObject, to: Pointer, faults: Faults) -> None:
    for name, value in env.items():
        if not name or "=" in name:
            faults.on_key("P0223", f"`{name}` is no name of a variable", "a name has no `=`", to=(*to, name))
        if value.startswith(SECRET) and not is_secret_name(value.removeprefix(SECRET)):
            hint = "as in `secret:TOKEN`: the variable TOKEN of `plan apply`, or the file .plan/secrets/TOKEN"
            faults.add("P0223", f"`{value}` names no secret", hint, to=(*to, name))
        elif value in REFERENCES:
            hint = "name the variable or the file: `env:NAME`, `file:path`"
            faults.add("P0223", f"`{value}` points at nothing", hint, to=(*to, name))


def _check_labels(labels: JsonObject, to: Pointer, faults: Faults) -> None:
    for name in labels:
        if not name or name.startswith(OWN_LABELS):
            hint = f"choose another name: by those in `{OWN_LABELS}…` planloop knows what is its own"
            faults.on_key("P0223", f"`{name}` cannot be a label of a plan", hint, to=(*to, name))


def _check_capabilities(names: Json, to: Pointer, faults: Faults) -> None:
    for index, name in enumerate(names):
        plain = name.upper().removeprefix("CAP_")
        if plain not in CAPABILITIES:
            hint = did_you_mean(plain, CAPABILITIES)
            faults.add("P0213", f"unknown capability `{name}`", hint, to=(*to, str(index)))


def _check_networks(names: Json, to: Pointer, faults: Faults) -> None:
    if NO_NETWORK in names and len(names) > 1:
        hint = "take it out, or the others"
        faults.add("P0211", f"`{NO_NETWORK}` is no network at all, and stands beside others", hint, to=to)
    for index, name in enumerate(names):
        place = (*to, str(index))
        word = name.partition(":")[0]
        if name != NO_NETWORK and name.lower() == NO_NETWORK:
            faults.add("P0213", f"unknown network `{name}`", f"did you mean `{NO_NETWORK}`?", to=place)
        elif word in _NO_NETWORKS or word == "container":
            faults.add("P0213", f"unknown network `{name}`", _NO_NETWORKS.get(word, _NO_NETWORKS["host"]), to=place)
        elif not _ENGINE_NAME.fullmatch(name):
            hint = f"letters, digits, `-`, `_` and `.`; `{INTERNAL}` has no way out"
            faults.add("P0223", f"`{name}` is no name of a network", hint, to=place)


def is_port(text: str) -> bool:
    """Whether `text` is a number as short as those of ports; which of them there are is another question."""
    return text.isascii() and text.isdecimal() and len(text) <= _PORT_DIGITS


def port_pairs(ports: Json, to: Pointer) -> Iterator[tuple[Json, Json, Pointer]]:
    """Port of this machine (0: any), port inside and place of each; of a map as it is written."""
    if isinstance(ports, dict):
        yield from ((int(host) if is_port(host) else host, inside, (*to, host)) for host, inside in ports.items())
        return
    for index, each in enumerate(ports):
        yield each.get("host", 0), each.get("container", 0), (*to, str(index))
