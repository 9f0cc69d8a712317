"""Translate an error of the engine to an `EngineFailed` with a reason and a hint. Pure.

Engines describe errors only as text; the HTTP status says little (a port in use is a 500). The patterns match messages
of Docker 20.10 to 29 and Podman 4 and 5.
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
        "free disk space: docker system df shows what uses it, docker system prune removes unused data",
    ),
    _Known(
        r"failed to update store for object type|database not open|shutting down|context canceled"
        r"|transport is closing|client connection is closing|transport: error while dialing|containerd.*refused",
        EngineErrorReason.ENGINE_DOWN,
        "the engine is stopping or starting",
        "planloop tries again. If that does not help, run sudo systemctl restart docker",
    ),
    _Known(
        r"port is already allocated|address already in use",
        EngineErrorReason.PORT_TAKEN,
        "a port that it publishes is in use",
        "free the port, or publish another one in `ports`; without `host` the engine picks a free one",
    ),
    _Known(
        r"bind: permission denied|cannot expose privileged port",
        EngineErrorReason.PORT_TAKEN,
        "the engine is not allowed to open a port that it publishes",
        "publish a port from 1024 up in `ports`; without `host` the engine picks a free one",
    ),
    _Known(
        r"docker-init.*not found|container-init.*not found|unable to find docker-init|catatonit",
        EngineErrorReason.REFUSED,
        "the engine has no init program for containers",
        "run apt-get install tini (for Podman: catatonit)",
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
        "the image is not on this machine, and its registry does not respond",
        "check the network and the name, or provide the image: docker load, docker build, or `build:` in the plan",
    ),
    _Known(
        r"unauthorized|authentication required|requested access to the resource is denied|no basic auth",
        EngineErrorReason.NO_IMAGE,
        "its registry denies access to the image",
        "run docker login REGISTRY, or correct `image`",
    ),
    _Known(
        r"no such image|image not known|pull access denied for|manifest .*unknown|manifest .*not found"
        r"|repository .*not found|invalid reference format|failed to resolve reference|unable to find image",
        EngineErrorReason.NO_IMAGE,
        "the image does not exist",
        "correct `image`, or provide it: docker build, docker load, or `build:` in the plan",
    ),
    _Known(
        r"name .*(is already in use|already in use by|already exists)|already exists|name is in use",
        EngineErrorReason.NAME_TAKEN,
        "its name is in use outside of this plan",
        "rename or remove the other object",
    ),
    _Known(
        r"unable to find (user|group)|no matching entries in passwd|no such user",
        EngineErrorReason.REFUSED,
        "the image does not have the user that it should run as",
        "set `user` to a user of the image, or to a number",
    ),
    _Known(r"error mounting", EngineErrorReason.REFUSED, "a mount failed", "correct `mounts`"),
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
        "update it: Docker 20.10 or later, Podman 5 or later",
    ),
    _Known(
        r"is not running|not running|can only .* running|is paused",
        EngineErrorReason.NOT_RUNNING,
        "it is not running",
        "",
    ),
    _Known(
        r"no such (container|volume|exec)|no such network(?! interface)|(container|network|volume) .*not found"
        r"|no container with name",
        EngineErrorReason.NOT_FOUND,
        "it does not exist any more",
        "",
    ),
    _Known(
        r"bind source path does not exist|no such file or directory",
        EngineErrorReason.REFUSED,
        "a folder or file to mount does not exist",
        "create it, or correct `mounts`",
    ),
    _Known(
        r"could not find an available.*address pool|all predefined address pools",
        EngineErrorReason.REFUSED,
        "the engine has no addresses left for another network",
        "remove unused networks: docker network prune",
    ),
)

_NOISE: Final = re.compile(
    r"^((OCI runtime \w+ failed|failed to create (shim task|task for container)|error starting userland proxy"
    r"|driver failed programming external connectivity on endpoint \S+ \(\w+\)): )+",
    re.I,
)
_INIT: Final = re.compile(r"\[?(FATAL|ERROR) +\(?(tini|catatonit)[^])]*[])]*:? *")
_PORT: Final = re.compile(r"(?:for|listen \w+|address) \S*:(\d+)[: ]")
_WORDS_MAX: Final = 600  # Of the engine's message, which can contain the whole output of a build.
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
    """Return the error for the engine's message `said` with HTTP `status`. Unknown messages are kept as text."""
    said = _NOISE.sub("", " ".join(said.split()))[:_WORDS_MAX]
    for known in _KNOWN:
        if re.search(known.words, said, re.I):
            return EngineFailed(known.reason, f"{_named(known, said)}: {said}", known.hint)
    if status == 404:
        return EngineFailed(EngineErrorReason.NOT_FOUND, f"it does not exist: {said}")
    return EngineFailed(EngineErrorReason.REFUSED, f"the engine refused: {said}")


def has_no_network(output: str) -> bool:
    """Whether the output of a build step shows that it could not reach a host. Programs report this in many words."""
    return _NO_NETWORK.search(output) is not None


def _named(known: _Known, said: str) -> str:
    """The message, with the port number."""
    port = _PORT.search(said) if known.reason is EngineErrorReason.PORT_TAKEN else None
    return known.message.replace("a port that it publishes", f"port {port[1]}") if port else known.message


def init_error(line: str, program: str) -> str:
    """Why the container's init process could not run `program`, from the `line` that it wrote; empty if it could."""
    init = _INIT.match(line.strip())
    said = line.strip()[init.end() :] if init else ""
    return f"{program}: {said}" if said and program not in said else said  # Podman's init does not name the program.


def no_command_error(said: str) -> EngineFailed:
    """The error of an init process that could not run its command; `said` is its message."""
    known = next(each for each in _KNOWN if each.reason is EngineErrorReason.NO_COMMAND)
    return EngineFailed(EngineErrorReason.NO_COMMAND, f"{known.message}: {said}", known.hint)


def unreachable_error(address: str, error: BaseException) -> EngineFailed:
    """The error if no engine responds at `address`. Its cause is anywhere in the chain of `error`."""
    text = " ".join(str(each) for each in _chain(error))
    if any(isinstance(each, PermissionError) for each in _chain(error)) or "Permission denied" in text:
        return EngineFailed(
            EngineErrorReason.NO_ACCESS,
            f"you have no permission to use the container engine at {address}",
            "join its group and log in again: sudo usermod -aG docker $USER; or run a rootless engine (Podman)",
        )
    if "paramiko" in text:
        hint = "run pip install 'docker[ssh]' to use an engine over ssh"
        return EngineFailed(EngineErrorReason.NO_ACCESS, f"the container engine at {address} cannot be reached", hint)
    if any(isinstance(each, SSLError) for each in _chain(error)):
        return configuration_error(address, error)
    return EngineFailed(
        EngineErrorReason.ENGINE_DOWN,
        f"no container engine responds at {address}",
        "run sudo systemctl start docker, or start Docker Desktop or Podman; "
        "set DOCKER_HOST to use an engine at another address",
    )


def configuration_error(address: str, error: BaseException) -> EngineFailed:
    """The error for invalid engine settings in the environment."""
    return EngineFailed(
        EngineErrorReason.REFUSED,
        f"the container engine at {address} cannot be used: {error}",
        "correct DOCKER_HOST (unix:///path, tcp://host:port, ssh://user@host), DOCKER_TLS_VERIFY and DOCKER_CERT_PATH",
    )


def timeout_error(address: str, seconds: float) -> EngineFailed:
    """The error for a call that was given up after `seconds`."""
    return EngineFailed(
        EngineErrorReason.TIMED_OUT,
        f"the container engine at {address} did not respond within {seconds:g} s",
        "check it with docker info and journalctl -u docker",
    )


def _chain(error: BaseException | None) -> list[BaseException]:
    """The error, its causes, and errors wrapped in arguments, as in urllib3."""
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
