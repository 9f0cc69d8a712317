"""Containers in words: state, image, ports, health, and how to fix what failed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Final

from planloop.schemas import quantities
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.log.record import Record, RecordDraft, SetStatus
from planloop.schemas.objects.container import (
    CONTAINER_KIND,
    UP,
    ContainerSpec,
    ContainerState,
    Health,
    Mount,
    container_from_json,
)
from planloop.schemas.resource import Resource, conditions_of_status

CONTAINER_HEAD: Final = ("container", "state", "image", "ports", "for", "restarts", "what")
ID_CHARS: Final = 12  # As docker shows them.
LAST_LINES: Final = 5
HOST: Final = "127.0.0.1"  # Ports are published there and nowhere else.
WAITS: Final = frozenset({"AwaitingNeeds", "AwaitingTask", "AwaitingEngine", "Waiting", "New"})
"""Reasons for which a container waits when nothing is wrong."""
_TRIED: Final = re.compile(r"; tried (?:once|\d+ times)$")
_DIGEST: Final = re.compile(r"(sha256:[0-9a-f]{12})[0-9a-f]{52}")


def container_row(item: Resource, now: float) -> tuple[str, ...]:
    """State, image, published ports, age, restarts and words of one container, for a table."""
    count = restarts(item.status)
    return (
        item.address.partition("/")[2],
        container_state(item),
        source(item.spec),
        ", ".join(ports(item.status)),
        age(item, now),
        str(count) if count else "",
        container_summary(item),
    )


def container_state(item: Resource) -> str:
    """Return the state in one word; `waiting` before the first observation."""
    return "deleting" if item.deleting else item.state or "waiting"


def source(spec: JsonObject) -> str:
    """Return the image, build folder or root file system, with a shortened digest."""
    if spec.get("build"):
        return f"build {spec['build'].get('folder', '.')}"
    if spec.get("rootfs"):
        return f"rootfs {spec['rootfs']}"
    return _DIGEST.sub(r"\1", str(spec.get("image", "")))


def ports(status: JsonObject) -> list[str]:
    """`6379->6379`: the port of this machine and that inside, of those that are published now."""
    found = status.get("seen") or {}
    return [f"{host}->{inside}" for inside, host in found.get("ports") or ()] if _is_up(found) else []


def restarts(status: JsonObject) -> int:
    """How often it was started again."""
    return max(0, int(status.get("starts") or 0) - 1)


def age(item: Resource, now: float) -> str:
    """Return how long it has run; empty if it never ran."""
    found = item.status.get("seen") or {}
    if not found.get("started_at"):
        return ""
    end = now if _is_up(found) else float(found.get("ended_at") or now)
    return quantities.format_duration(end - float(found["started_at"]))


def _is_up(found: JsonObject) -> bool:
    return found.get("run") in ("running", "paused")


def container_summary(item: Resource) -> str:
    """Why it is not further; of one that is well, what runs in it."""
    ready = conditions_of_status(item.status).get("Ready")
    if ready is not None and ready.message and not is_well(item):
        said = _one_line(ready.message)
        # Without an engine nothing can run, so the fix is shown here, where people look first.
        return f"{said} · {ready.unblocks[0]}" if item.status.get("engine") and ready.unblocks else said
    return _one_line(container_command(container_from_json(item.spec)))


def is_well(item: Resource) -> bool:
    """Return whether it is up, and its health check, if any, passes."""
    return item.state in UP


def container_command(spec: ContainerSpec) -> str:
    """What runs in it as a person would type it; empty for what the image says."""
    return shlex.join((*(spec.entrypoint or ()), *(spec.cmd or ())))


def containers_headline(found: Sequence[Resource]) -> str:
    """`2 of 3 containers up, 1 completed`; empty without any."""
    up = sum(1 for one in found if is_well(one))
    completed = sum(1 for one in found if one.state == ContainerState.COMPLETED)
    rest = f", {completed} completed" if completed else ""
    return f"{up} of {quantities.pluralize(len(found), 'container')} up{rest}" if found else ""


def container_facts(item: Resource, now: float) -> list[tuple[str, str]]:
    """Return labelled lines of a container: spec, addresses, state and exit."""
    spec, status = container_from_json(item.spec), item.status
    found: JsonObject = status.get("seen") or {}
    out = [("image", _image_words(item.spec, found))]
    out += [("command", _one_line(said))] if (said := container_command(spec)) else []
    out += _settings(spec)
    out += [("health", _health_words(spec.health, status, found))] if spec.health else []
    out += _networks(spec, found)
    if found:
        out.append(("runs as" if _is_up(found) else "ran as", _run_words(found, status, now)))
    out += _ended(item, status)
    return out


def _image_words(spec: JsonObject, found: JsonObject) -> str:
    identity = str(found.get("image", "")).removeprefix("sha256:")[:ID_CHARS]
    return source(spec) + (f"   {identity}" if identity else "")


def _settings(spec: ContainerSpec) -> list[tuple[str, str]]:
    out = [("workdir", spec.workdir)] if spec.workdir else []
    out += [("user", spec.user)] if spec.user else []
    # A secret is shown by name: its value is read when the container is created, and never stored.
    out += [("env", _one_line(f"{name}={value}")) for name, value in spec.env.items()]
    out += [("mount", _mount_words(one)) for one in spec.mounts]
    out += [("limits", said)] if (said := limits_words(spec.cpu, spec.memory_bytes, spec.pids)) else []
    out += [("root", "read-only")] if spec.is_read_only else []
    dropped = "" if spec.cap_drop == ("ALL",) else f"drops {', '.join(spec.cap_drop) or 'none'}"
    added = f"has {', '.join(spec.cap_add)}" if spec.cap_add else ""
    out += [("caps", "; ".join(filter(None, (dropped, added))))] if dropped or added else []
    lives = [f"restart {spec.restart}"] if spec.restart != "no" else []
    lives += [f"keep {spec.keep}"] if spec.keep != "never" else []
    lives += [f"at most {quantities.format_duration(spec.ttl_s)}"] if spec.ttl_s is not None else []
    lives += [f"while task/{spec.task} runs"] if spec.task else []
    return out + ([("life", ", ".join(lives))] if lives else [])


def limits_words(cpu: float | None, memory_bytes: int | None, pids: int | None) -> str:
    """`0.5 cpu, 64 MiB memory, 100 processes`; empty without any."""
    parts = [f"{cpu:g} cpu"] if cpu is not None else []
    parts += [f"{quantities.format_exact_size(memory_bytes)} memory"] if memory_bytes is not None else []
    parts += [quantities.pluralize(pids, "process", "processes")] if pids is not None else []
    return ", ".join(parts)


def _mount_words(mount: Mount) -> str:
    what = mount.host or (f"volume {mount.volume}" if mount.volume else "memory")
    return f"{what} -> {mount.target}" + (" (read-only)" if mount.is_read_only else "")


def _health_words(health: Health, status: JsonObject, found: JsonObject) -> str:
    asked = shlex.join(health.cmd) if health.cmd else f"http {health.http}" if health.http else f"tcp {health.tcp}"
    often = f"every {health.interval_s:g} s, {quantities.pluralize(health.retries, 'try', 'tries')}"
    probed: JsonObject = status.get("probed") or {}
    is_of_now = _is_up(found) and probed.get("started_at") == found.get("started_at")
    if not is_of_now or probed.get("is_well") is None:
        says = "not known yet" if _is_up(found) else "not checked: not running"
    else:
        says = "passes" if probed["is_well"] else f"fails: {probed.get('said', '')}"
    return f"{_one_line(asked)}, {often}: {says}"


def _networks(spec: ContainerSpec, found: JsonObject) -> list[tuple[str, str]]:
    addresses = ", ".join(f"{address} in {name}" for name, address in found.get("addresses") or () if address)
    published: dict[int, int] = {inside: host for inside, host in found.get("ports") or ()} if _is_up(found) else {}
    out = [("networks", ", ".join(spec.networks))] if spec.networks else []
    out += [("address", addresses)] if addresses and _is_up(found) else []
    for port in spec.ports:
        host = published.get(port.inside)
        wanted = f"{HOST}:{port.host}" if port.host else f"a free port of {HOST}"
        out.append(("port", f"{HOST}:{host} -> {port.inside}" if host else f"{wanted} -> {port.inside}, not open"))
    return out


def _run_words(found: JsonObject, status: JsonObject, now: float) -> str:
    started, again = float(found.get("started_at") or 0), restarts(status)
    parts = [str(found.get("id", ""))[:ID_CHARS], str(found.get("run", ""))]
    if started and _is_up(found):
        parts.append(f"since {quantities.format_duration(now - started)}")
    elif started:
        parts.append(f"for {quantities.format_duration(max(0.0, float(found.get('ended_at') or started) - started))}")
    parts += [f"restarted {quantities.pluralize(again, 'time')}"] if again else []
    return ", ".join(filter(None, parts))


def _ended(item: Resource, status: JsonObject) -> list[tuple[str, str]]:
    found: JsonObject = status.get("seen") or {}
    out = []
    if found.get("run") in ("exited", "dead"):
        memory = ", out of memory" if found.get("is_out_of_memory") else ""
        meaning = "" if memory else quantities.signal_meaning(found.get("exit_code", 0))
        out.append(("exit code", f"{found.get('exit_code', 0)}{memory}{f', {meaning}' if meaning else ''}"))
    last = str(status.get("last") or "").rstrip().splitlines()
    if last and not _is_up(found):
        labels = ["last", *("" for _ in last)]
        out += [(label, line) for label, line in zip(labels, last[-LAST_LINES:], strict=False)]
        out.append(("output", f"plan logs {item.address}"))
    return out


def container_relation(one: Resource, item: Resource) -> list[tuple[str, str]]:
    """What the object `one` is to the container `item`, or the container `one` to whatever `item` is."""
    name, other = item.address.partition("/")[2], one.address.partition("/")[2]
    out = []
    if one.kind == CONTAINER_KIND and item.kind == CONTAINER_KIND:
        if other in item.spec["needs"]:
            out.append(("needs", f"{one.address} {item.spec['needs'][other]} (now {container_state(one)})"))
        if name in one.spec["needs"]:
            out.append(("needed by", f"{one.address} (now {container_state(one)})"))
    elif one.kind == CONTAINER_KIND:
        out.append(("needs", f"{one.address} (now {container_state(one)})"))
    else:
        out.append(("needed by", f"{one.address} (now {one.state or 'waiting'})"))
    return out


def related_containers(known: Sequence[Resource], item: Resource) -> list[Resource]:
    """Those that `item` needs, then what needs it; for tasks the containers they wait for."""
    if item.kind == "task":
        return [one for one in known if one.kind == CONTAINER_KIND and one.address in item.spec.get("containers", ())]
    if item.kind != CONTAINER_KIND:
        return []
    name = item.address.partition("/")[2]
    needed = [
        one for one in known if one.kind == CONTAINER_KIND and one.address.partition("/")[2] in item.spec["needs"]
    ]
    by = [one for one in known if one.kind == CONTAINER_KIND and name in one.spec["needs"]]
    return needed + by + [one for one in known if one.kind == "task" and item.address in one.spec["containers"]]


def standing_words(item: Resource) -> str:
    """Another one for each thing that `notice` has to tell."""
    ready = conditions_of_status(item.status).get("Ready")
    if ready is None or item.state == ContainerState.REMOVED:  # The container does not exist.
        return item.state
    return f"{item.state} {ready.message}"


def container_notice(item: Resource, at: float) -> str | None:
    """Return the notice for the state that the container entered at `at`; None for a transient state."""
    ready = conditions_of_status(item.status).get("Ready")
    why = "" if ready is None else _one_line(ready.message)
    on = " · ".join(filter(None, (f"{why}{_next_try(item.status, at)}", container_fix(item))))
    match item.state:
        case ContainerState.RUNNING | ContainerState.HEALTHY:
            started = float((item.status.get("seen") or {}).get("started_at") or at)
            where = "".join(f", {HOST}:{one}" for one in ports(item.status))
            return f"after {quantities.format_duration(at - started)}{where}"
        case ContainerState.PREPARING:
            return why or None
        case ContainerState.WAITING:
            return None if ready is None or ready.reason in WAITS else on
        case ContainerState.KEPT:
            return None if item.spec["keep"] == "never" else f"{why} · plan delete {item.address}"
        case ContainerState.STARTING | ContainerState.STOPPING | "":
            return None
        case ContainerState.FAILED | ContainerState.RESTARTING | ContainerState.UNHEALTHY:
            return on
        case _:
            return why


def container_fix(item: Resource) -> str:
    """The first of what would get it further; empty when nothing is known to, or it is well."""
    ready = conditions_of_status(item.status).get("Ready")
    return "" if ready is None or is_well(item) else next(iter(ready.unblocks), "")


def _next_try(status: JsonObject, at: float) -> str:
    """`, next in 8 s`, of one that is tried again."""
    retry_at = status.get("retry_at")
    if retry_at is None or status.get("state") not in (ContainerState.WAITING, ContainerState.RESTARTING):
        return ""
    return f", next in {quantities.format_duration(max(0.0, float(retry_at) - at))}"


def container_words(draft: RecordDraft) -> str:
    """What a record of a container says: how far it is, or else what was seen of it or done."""
    if draft.data.get("state"):
        return ": ".join(str(draft.data[key]) for key in ("state", "why") if draft.data.get(key))
    merge: JsonObject = {}
    for change in draft.changes:
        if isinstance(change, SetStatus) and change.address == draft.subject:
            merge = change.merge
    return ", ".join(_steps(merge)) or "inspected"


def is_step(draft: RecordDraft) -> bool:
    """Return whether a record is only an intermediate step, which the next state repeats."""
    return draft.type == "container.observed" and not draft.data.get("state")


def without_retries(found: Sequence[Record]) -> list[Record]:
    """`found` without what led up to the same end once more: of a container that is tried again the last try says all.

    A state on the way goes when another state of that container follows, and so does one that says the same later.
    """
    out: list[Record] = []
    said: dict[str, str] = {}
    for one in reversed(found):
        draft = one.draft
        if draft.type != "container.observed":
            out.append(one)
            continue
        now = _TRIED.sub("", container_words(draft))
        is_on_its_way = draft.data.get("state") in (ContainerState.STARTING, ContainerState.PREPARING)
        if not (draft.subject in said and (is_on_its_way or said[draft.subject] == now)):
            out.append(one)
            said[draft.subject] = now
    return out[::-1]


def _steps(merge: JsonObject) -> list[str]:
    out = []
    if merge.get("doing"):
        image = _one_line(str(merge.get("why") or "looking for the image"))
        out.append({"image": image, "start": "creating and starting it"}.get(merge["doing"], str(merge["doing"])))
    elif merge.get("failures") or merge.get("retry_at"):
        out.append(_one_line(str(merge.get("why") or merge.get("reason") or "")) or "failed")
    elif merge.get("why"):
        out.append(_one_line(str(merge["why"])))
    if "seen" in merge:
        out.append(_seen_words(merge["seen"]))
    if merge.get("probed"):
        probed = merge["probed"]
        out.append(
            "its health check passes" if probed.get("is_well") else f"its health check fails: {probed.get('said', '')}"
        )
    if merge.get("logged"):
        out.append("output saved" if merge.get("log") else "no output")
    if merge.get("done_of"):
        out.append("completed")
    return out


def _seen_words(found: JsonObject | None) -> str:
    if found is None:
        return "the engine does not have it"
    run, identity = found.get("run", ""), str(found.get("id", ""))[:ID_CHARS]
    code = f" with exit code {found.get('exit_code', 0)}" if run in ("exited", "dead") else ""
    return f"the engine has it: {' '.join(filter(None, (identity, run)))}{code}"


def _one_line(text: str) -> str:
    first, _, rest = text.strip().partition("\n")
    return first + (" …" if rest.strip() else "")
