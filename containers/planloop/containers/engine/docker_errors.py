"""Translate an error of the engine into an `EngineFailed` with a reason and a hint. Pure.

Engines say what went wrong in prose only; the status tells little (a taken port is a 500). Words are those of Docker
20.10 to 29 and of Podman 4 and 5.
"""

from __future__ import annotations

import re
from ssl import SSLError
from typing import Final

from planloop.containers.engine.engine import EngineErrorReason, EngineFailed
from planloop.schemas.frozen import frozen


@frozen
class _Known:
    words: str
    reason: EngineErrorReason
    message: str
    hint: str


_KNOWN: Final = (
    _Known(
        r"no space left on device|disk quota exceeded|not enough space",
        EngineErrorReason.DISK_FULL,
        "the engine's disk is full",
        "make room: docker system df shows what takes it, docker system prune removes what nothing uses",
    ),
    _Known(
        r"failed to update store for object type|database not open|shutting down|context canceled"
        r"|transport is closing|client connection is closing|transport: error while dialing|containerd.*refused",
        EngineErrorReason.ENGINE_DOWN,
        "the engine is going down or coming up",
        "it is tried again; if that does not help: sudo systemctl restart docker",
    ),
    _Known(
        r"port is already allocated|address already in use",
        EngineErrorReason.PORT_TAKEN,
        "a port that it publishes is taken",
        "free the port, or publish another one in `ports`; without `host` any free one is taken",
    ),
    _Known(
        r"bind: permission denied|cannot expose privileged port",
        EngineErrorReason.PORT_TAKEN,
        "the engine may not open a port that it publishes",
        "publish one from 1024 up in `ports`; without `host` any free one is taken",
    ),
    _Known(
        r"docker-init.*not found|container-init.*not found|unable to find docker-init|catatonit",
        EngineErrorReason.REFUSED,
        "the engine has no init program for containers",
        "install it: apt-get install tini (for Podman: catatonit)",
    ),
    _Known(
        r"executable file .*not found|no such file or directory: unknown|not a directory: unknown"
        r"|permission denied: unknown|is a directory: unknown|exec format error|no command specified"
        r"|no command or entrypoint",
        EngineErrorReason.NO_COMMAND,
        "its command cannot be run",
        "correct `cmd` or `entrypoint`, or take an image that has the program",
    ),
    _Known(
        r"dial tcp|no such host|i/o timeout|tls handshake timeout|toomanyrequests|too many requests|rate limit"
        r"|service unavailable|server misbehaving|network is unreachable",
        EngineErrorReason.NO_REGISTRY,
        "the image is not here, and its registry does not answer",
        "look at the network and at the name; or bring the image: docker load, docker build, `build:` in the plan",
    ),
    _Known(
        r"unauthorized|authentication required|requested access to the resource is denied|no basic auth",
        EngineErrorReason.NO_IMAGE,
        "its registry does not give the image to you",
        "log in to it: docker login REGISTRY; or correct `image`",
    ),
    _Known(
        r"no such image|image not known|pull access denied for|manifest .*unknown|manifest .*not found"
        r"|repository .*not found|invalid reference format|failed to resolve reference|unable to find image",
        EngineErrorReason.NO_IMAGE,
        "there is no such image",
        "correct `image`, or make it: docker build, docker load, or `build:` in the plan",
    ),
    _Known(
        r"name .*(is already in use|already in use by|already exists)|already exists|name is in use",
        EngineErrorReason.NAME_TAKEN,
        "its name is taken by something that is not this plan's",
        "rename or remove that one",
    ),
    _Known(
        r"unable to find (user|group)|no matching entries in passwd|no such user",
        EngineErrorReason.REFUSED,
        "the image does not know the user that it is to run as",
        "correct `user`: a name that the image has, or a number",
    ),
    _Known(r"error mounting", EngineErrorReason.REFUSED, "something cannot be mounted in it", "correct `mounts`"),
    _Known(
        r"invoke a command that was not found",
        EngineErrorReason.NO_COMMAND,
        "its command cannot be run",
        "correct `cmd` or `entrypoint`, or take an image that has the program",
    ),
    _Known(
        r"^(404 )?(page )?not found$",
        EngineErrorReason.REFUSED,
        "the engine is too old for this",
        "bring it up to date: Docker 20.10 or later, Podman 5 or later",
    ),
    _Known(
        r"is not running|not running|can only .* running|is paused",
        EngineErrorReason.NOT_RUNNING,
        "it does not run",
        "",
    ),
    _Known(
        r"no such (container|volume|exec)|no such network(?! interface)|(container|network|volume) .*not found"
        r"|no container with name",
        EngineErrorReason.NOT_FOUND,
        "it is not there any more",
        "",
    ),
    _Known(
        r"bind source path does not exist|no such file or directory",
        EngineErrorReason.REFUSED,
        "a folder or file to mount is not there",
        "make it, or correct `mounts`",
    ),
    _Known(
        r"could not find an available.*address pool|all predefined address pools",
        EngineErrorReason.REFUSED,
        "the engine has no addresses left for another network",
        "remove networks that nothing uses: docker network prune",
    ),
)

_NOISE: Final = re.compile(
    r"^((OCI runtime \w+ failed|failed to create (shim task|task for container)|error starting userland proxy"
    r"|driver failed programming external connectivity on endpoint \S+ \(\w+\)): )+",
    re.I,
)
_INIT: Final = re.compile(r"\[?(FATAL|ERROR) +\(?(tini|catatonit)[^])]*[])]*:? *")
_PORT: Final = re.compile(r"(?:for|listen \w+|address) \S*:(\d+)[: ]")
_WORDS_MAX: Final = 600  # Of the engine's own; a build's whole output can be in it.
_NO_NETWORK: Final = re.compile(
    r"temporary failure (resolving|in name resolution)|(could not|cannot|couldn't) resolve host"
    r"|name or service not known|bad address '|unable to resolve host|getaddrinfo|EAI_AGAIN|ENOTFOUND"
    r"|server misbehaving|no such host|network is unreachable|no route to host|connection timed out|i/o timeout"
    r"|tls handshake timeout|client\.timeout exceeded|failed to establish a new connection|dial tcp",
    re.I,
)
BUILD_NETWORK_HINT: Final = (
    "the engine has no network for this build: check its DNS, proxy and firewall; or build the image elsewhere, load "
    "it with docker load, and name it as `image`"
)
"""The hint for a build step that could not reach the network."""


def engine_error(said: str, *, status: int = 0) -> EngineFailed:
    """What the engine's message `said` with HTTP `status` means; unknown messages stay in the engine's words."""
    said = _NOISE.sub("", " ".join(said.split()))[:_WORDS_MAX]
    for known in _KNOWN:
        if re.search(known.words, said, re.I):
            return EngineFailed(known.reason, f"{_named(known, said)}: {said}", known.hint)
    if status == 404:
        return EngineFailed(EngineErrorReason.NOT_FOUND, f"it is not there: {said}")
    return EngineFailed(EngineErrorReason.REFUSED, f"the engine refused: {said}")


def has_no_network(output: str) -> bool:
    """Whether the output of a build step shows that it could not reach a host. Programs report this in many words."""
    return _NO_NETWORK.search(output) is not None


def _named(known: _Known, said: str) -> str:
    """The meaning, with the port number."""
    port = _PORT.search(said) if known.reason is EngineErrorReason.PORT_TAKEN else None
    return known.message.replace("a port that it publishes", f"port {port[1]}") if port else known.message


def init_error(line: str, program: str) -> str:
    """Why the container's init process could not run `program`, from the `line` it wrote; empty if it ran."""
    init = _INIT.match(line.strip())
    said = line.strip()[init.end() :] if init else ""
    return f"{program}: {said}" if said and program not in said else said  # Podman's does not name it.


def no_command_error(said: str) -> EngineFailed:
    """The container's init process could not run its command, and `said` why."""
    known = next(each for each in _KNOWN if each.reason is EngineErrorReason.NO_COMMAND)
    return EngineFailed(EngineErrorReason.NO_COMMAND, f"{known.message}: {said}", known.hint)


def unreachable_error(address: str, error: BaseException) -> EngineFailed:
    """Why no engine answers at `address`: the cause is anywhere in the chain of `error`."""
    text = " ".join(str(each) for each in _chain(error))
    if any(isinstance(each, PermissionError) for each in _chain(error)) or "Permission denied" in text:
        return EngineFailed(
            EngineErrorReason.NO_ACCESS,
            f"the container engine at {address} may not be used by you",
            "join its group, then log in anew: sudo usermod -aG docker $USER; or run a rootless engine (Podman)",
        )
    if "paramiko" in text:
        hint = "an engine over ssh needs one more package: pip install 'docker[ssh]'"
        return EngineFailed(EngineErrorReason.NO_ACCESS, f"the container engine at {address} cannot be reached", hint)
    if any(isinstance(each, SSLError) for each in _chain(error)):
        return configuration_error(address, error)
    return EngineFailed(
        EngineErrorReason.ENGINE_DOWN,
        f"no container engine answers at {address}",
        "start it: sudo systemctl start docker (Docker Desktop and Podman: start them); "
        "one elsewhere is named by DOCKER_HOST",
    )


def configuration_error(address: str, error: BaseException) -> EngineFailed:
    """The engine settings in the environment are invalid."""
    return EngineFailed(
        EngineErrorReason.REFUSED,
        f"the container engine at {address} cannot be used: {error}",
        "correct DOCKER_HOST (unix:///path, tcp://host:port, ssh://user@host), DOCKER_TLS_VERIFY and DOCKER_CERT_PATH",
    )


def timeout_error(address: str, seconds: float) -> EngineFailed:
    """It was given up after `seconds`."""
    return EngineFailed(
        EngineErrorReason.TIMED_OUT,
        f"the container engine at {address} did not answer within {seconds:g} s",
        "see what it does: docker info, journalctl -u docker",
    )


def _chain(error: BaseException | None) -> list[BaseException]:
    """The error, its causes, and errors wrapped in arguments, as urllib3 does."""
    out: list[BaseException] = []
    todo = [error]
    while todo:
        one = todo.pop()
        if one is None or one in out:
            continue
        out.append(one)
        todo += [one.__cause__, one.__context__, *(each for each in one.args if isinstance(each, BaseException))]
        todo.append(getattr(one, "reason", None) if isinstance(getattr(one, "reason", None), BaseException) else None)
    return out
