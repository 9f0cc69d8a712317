"""A Compose file, read as data, as containers of a plan. What a plan cannot say is refused by its name, never left out.

Nothing is looked up: a `$name` in a value is refused rather than filled in from the owner's environment.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Mapping
from typing import Final

from planloop.compiler.reading import read_source
from planloop.controllers.agent.tools.faults import ToolFailed
from planloop.schemas import durations
from planloop.schemas.container import NO_NETWORK
from planloop.schemas.encoding import Json, JsonObject

_TOP: Final = frozenset({"services", "version", "name", "volumes", "networks"})
_CONDITIONS: Final = {
    "service_started": "started",
    "service_healthy": "healthy",
    "service_completed_successfully": "completed",
}
_VARIABLE: Final = re.compile(r"\$(?!\$)")
_RESTARTS: Final = {"no": "no", "always": "always", "on-failure": "on-failure", "unless-stopped": "always"}
_PLAIN: Final = {"image": "image", "working_dir": "workdir", "user": "user", "read_only": "read-only"}
_LISTS: Final = {"cap_drop": "cap-drop", "cap_add": "cap-add"}
_LIMITS: Final = {"cpus": "cpu", "mem_limit": "memory", "pids_limit": "pids"}
_HEALTH: Final = frozenset({"test", "interval", "timeout", "retries", "start_period"})


def containers_of(content: bytes, file: str, folder: str) -> dict[str, JsonObject]:
    """The services of the file `file`, which lies in `folder` of the plan's. Raises ToolFailed: BadCompose."""
    tree = read_source(content, file=file)
    faults = [one.summary for one in tree.diagnostics if one.severity == "error"]
    if faults:
        raise _bad(f"{file}: {'; '.join(faults)}")
    whole = _map(tree.value, file)
    _only(whole, _TOP, file)
    for field in ("volumes", "networks"):
        for name, settings in _map(whole.get(field), field).items():
            if settings:
                raise _bad(f"{field}: `{name}` has settings, which a plan has no words for")
    services = _map(whole.get("services"), "services")
    return {name: _container(name, _map(one, name), folder) for name, one in services.items()}


def _container(name: str, service: JsonObject, folder: str) -> JsonObject:
    if service.keys() >= {"networks", "network_mode"}:
        raise _bad(f"`{name}` has networks and a mode of the network: take one of them out")
    out: JsonObject = {}
    for field, value in service.items():
        at = f"{name}.{field}"
        if field in _PLAIN:
            out[_PLAIN[field]] = _filled(value, at)
        elif field in _LISTS:
            out[_LISTS[field]] = _list(value, at)
        elif field in _LIMITS:
            # Compose's `64mb` is its `64m`, which is what a letter alone is here.
            bound = value.rstrip("bB") if isinstance(value, str) else value
            out.setdefault("limits", {})[_LIMITS[field]] = bound
        elif field in _READERS:
            out |= _READERS[field](value, at)
        elif field == "volumes":
            out["mounts"] = [_mount(each, at, folder) for each in _list(value, at)]
        elif field != "init" or value is not True:
            raise _bad(f"`{at}`: a container of a plan has nothing like it")
    return out


def _command(field: str) -> Callable[[Json, str], JsonObject]:
    def read(value: Json, at: str) -> JsonObject:
        words = shlex.split(value) if isinstance(value, str) else _list(value, at)
        return {field: [str(_filled(word, at)) for word in words]}

    return read


def _environment(value: Json, at: str) -> JsonObject:
    if isinstance(value, dict):
        pairs = value
    else:
        parts = [str(each).partition("=") for each in _list(value, at)]
        if bare := [name for name, sign, _ in parts if not sign]:
            raise _bad(f"`{at}`: `{bare[0]}` is to be taken from outside; write its value")
        pairs = {name: text for name, _, text in parts}
    if empty := [name for name, each in pairs.items() if each is None]:
        raise _bad(f"`{at}`: `{empty[0]}` is to be taken from outside; write its value")
    return {"env": {name: _filled(each, at) for name, each in pairs.items()}}


def _ports(value: Json, at: str) -> JsonObject:
    return {"ports": [_port(each, at) for each in _list(value, at)]}


def _port(value: Json, at: str) -> JsonObject:
    if isinstance(value, dict):
        _only(value, frozenset({"target", "published"}), at)
        host, inside = value.get("published", ""), value.get("target")
    else:
        host, _, inside = str(value).removeprefix("127.0.0.1:").rpartition(":")
    if not str(inside).isdigit() or not (host in (None, "") or str(host).isdigit()):
        raise _bad(f"`{at}`: `{value}` is not `inside` or `here:inside`, one port each")
    return {"container": int(str(inside))} | ({"host": int(str(host))} if host else {})


def _mount(value: Json, at: str, folder: str) -> JsonObject:
    if isinstance(value, dict):
        _only(value, frozenset({"type", "source", "target", "read_only"}), at)
        source, target, is_read_only = value.get("source", ""), value.get("target"), value.get("read_only", False)
    else:
        source, target, is_read_only = _short_mount(str(value), at)
    out: JsonObject = {"container": _filled(target, at)} | ({"read-only": True} if is_read_only else {})
    if not source:
        return out | {"tmpfs": True}
    text = str(_filled(source, at))
    if not text.startswith((".", "/", "~")):
        return out | {"volume": text}
    return out | {"host": text if text[0] in "/~" else posixpath.normpath(posixpath.join(folder, text))}


def _short_mount(text: str, at: str) -> tuple[str, str, bool]:
    parts = text.split(":")
    mode = parts.pop() if len(parts) == 3 else "rw"
    if mode not in ("ro", "rw") or len(parts) > 2:
        raise _bad(f"`{at}`: `{text}` is not `source:target` or `source:target:ro`")
    return (parts[0], parts[1], mode == "ro") if len(parts) == 2 else ("", parts[0], False)


def _depends_on(value: Json, at: str) -> JsonObject:
    if not isinstance(value, dict):
        return {"needs": dict.fromkeys(map(str, _list(value, at)), "started")}
    needs: JsonObject = {}
    for name, how in value.items():
        condition = str(_map(how, at).get("condition", "service_started"))
        if condition not in _CONDITIONS:
            raise _bad(f"`{at}.{name}`: `{condition}` is none of {', '.join(_CONDITIONS)}")
        needs[name] = _CONDITIONS[condition]
    return {"needs": needs}


def _healthcheck(value: Json, at: str) -> JsonObject:
    written = _map(value, at)
    _only(written, _HEALTH, at)
    test = written.get("test")
    words = ["CMD-SHELL", test] if isinstance(test, str) else _list(test, at)
    match words:
        case ["CMD", *rest]:
            cmd: Json = [str(_filled(word, at)) for word in rest]
        case ["CMD-SHELL", line]:
            cmd = str(_filled(line, at))
        case _:
            raise _bad(f"`{at}.test` is neither a line nor a list that begins with CMD or CMD-SHELL")
    out: JsonObject = {"cmd": cmd} | ({"retries": written["retries"]} if "retries" in written else {})
    for field in ("interval", "timeout", "start_period"):
        if field in written:
            seconds = durations.seconds(str(written[field]))
            if seconds is None:
                raise _bad(f"`{at}.{field}`: `{written[field]}` is no time")
            out[field.replace("_", "-")] = seconds
    return {"health": out}


def _networks(value: Json, at: str) -> JsonObject:
    names = [name for name in (value if isinstance(value, dict) else _list(value, at)) if name != "default"]
    if NO_NETWORK in names:
        raise _bad(f"`{at}`: no network can be called `{NO_NETWORK}`; for no network at all write `network_mode: none`")
    if isinstance(value, dict) and (named := [name for name, one in value.items() if one]):
        raise _bad(f"`{at}`: `{named[0]}` has settings, which a plan has no words for")
    return {"networks": names} if names else {}


def _network_mode(value: Json, at: str) -> JsonObject:
    if value != NO_NETWORK:
        raise _bad(f"`{at}`: a container of a plan has nothing like it")
    return {"networks": [NO_NETWORK]}


def _restart(value: Json, at: str) -> JsonObject:
    word = "no" if value is False else str(value)  # What YAML makes of `no`.
    if word not in _RESTARTS:
        raise _bad(f"`{at}`: `{word}` is none of {', '.join(_RESTARTS)}")
    return {"restart": _RESTARTS[word]}


_READERS: Final[Mapping[str, Callable[[Json, str], JsonObject]]] = {
    "command": _command("cmd"),
    "entrypoint": _command("entrypoint"),
    "environment": _environment,
    "ports": _ports,
    "depends_on": _depends_on,
    "healthcheck": _healthcheck,
    "networks": _networks,
    "network_mode": _network_mode,
    "restart": _restart,
}


def _filled(value: Json, at: str) -> Json:
    """`value` as Compose would hand it on; a variable of its environment is nothing that we have."""
    if not isinstance(value, str):
        return value
    if _VARIABLE.search(value.replace("$$", "")):
        raise _bad(f"`{at}`: `{value}` takes a variable from outside; write its value, or `$$` for the sign")
    return value.replace("$$", "$")


def _map(value: Json, at: str) -> JsonObject:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _bad(f"`{at}` is not a map")
    return value


def _list(value: Json, at: str) -> list[Json]:
    if not isinstance(value, list):
        raise _bad(f"`{at}` is not a list")
    return value


def _only(value: Mapping[str, Json], known: frozenset[str], at: str) -> None:
    if unknown := sorted(value.keys() - known):
        raise _bad(f"`{at}`: a plan has nothing like `{unknown[0]}`")


def _bad(message: str) -> ToolFailed:
    return ToolFailed("BadCompose", message)
