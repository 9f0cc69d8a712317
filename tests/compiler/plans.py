"""Whole plans for property tests: canonical documents with a tree of tasks, agents, needs, checks, rights, budgets."""

from __future__ import annotations

from hypothesis import strategies as st

from planloop.compiler.names import leaves_folder
from planloop.schemas.limits import MCP_CLIENT_LEASE_MIN_S
from tests.product import Json, JsonObject

ids = st.from_regex(r"[a-z][a-z0-9_-]{0,5}", fullmatch=True)
words = st.one_of(
    st.sampled_from(["no", "010", "12:30", "a: b", "# x", "- y", "it's", "{z}", '"q"', "x" * 90, "two\nlines", "é"]),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=8),
)
commands = st.one_of(words.filter(str.strip), st.lists(words, min_size=1, max_size=3))
models = st.sampled_from(["ollama/qwen3:8b", "qwen@http://localhost:1/v1", "record/tape@ollama/a", "replay/tape"])
seconds = st.one_of(st.integers(0, 10**6), st.floats(0, 10**6, allow_nan=False).filter(lambda x: not x.is_integer()))
leases = seconds.filter(lambda lease: lease >= MCP_CLIENT_LEASE_MIN_S)
money = st.decimals(0, 10**6, places=2).map(lambda amount: format(amount, "f"))
budgets: st.SearchStrategy[Json] = st.fixed_dictionaries(
    {}, optional={"tokens": st.integers(0, 10**9), "usd": money, "time": seconds, "calls": st.integers(0, 10**6)}
)
checks: st.SearchStrategy[Json] = st.one_of(
    commands.map(lambda command: {"sh": command}),
    st.builds(lambda path, empty: {"require-file": path, "empty": empty}, words, st.booleans()),
    st.builds(lambda path, text: {"contains": {"path": path, "text": text}}, words, words),
    st.integers(1, 65535).map(lambda port: {"port": port}),
    st.builds(lambda command, seconds: {"sh": command, "timeout": seconds}, commands, seconds),
)
steps: st.SearchStrategy[Json] = st.one_of(
    words.map(lambda text: {"say": text}),
    words.map(lambda text: {"done": text}),
    st.builds(lambda path, text: {"call": {"write": {"path": path, "content": text}}}, words, words),
    st.builds(lambda text, seen: {"say": text, "when": {"message": seen}}, words, words),
)
agents: st.SearchStrategy[Json] = st.one_of(
    st.just("worker"),
    st.fixed_dictionaries(
        {"script": st.lists(steps, min_size=1, max_size=3)},
        optional={"prompt": words.filter(lambda text: ":" not in text), "tools": st.just(["read", "write"])},
    ),
    st.fixed_dictionaries({"run": commands}, optional={"wake": st.builds(lambda s: {"every": s}, seconds)}),
    st.fixed_dictionaries(
        {"model": models},
        optional={
            "compact": st.fixed_dictionaries({}, optional={"keep": st.integers(0, 10**6), "model": models}),
            "tools": st.lists(st.sampled_from(["shell(git *)", "write(a/**)", "lib:code", "*"]), max_size=2),
            "sandbox": st.fixed_dictionaries({}, optional={"memory": st.integers(0, 10**9), "alone": st.booleans()}),
        },
    ),
    st.fixed_dictionaries(
        {
            "outside": st.fixed_dictionaries(
                {"run": commands}, optional={"prompt": st.sampled_from(["stdin", "argument"]), "timeout": seconds}
            )
        }
    ),
    st.fixed_dictionaries({"outside": st.one_of(st.just(True), st.builds(lambda s: {"lease": s}, leases))}),
)
rights: st.SearchStrategy[Json] = st.fixed_dictionaries(
    {}, optional={"spawn": st.just(50), "deny": st.just(["shell(rm *)"])}
)
common: dict[str, st.SearchStrategy[Json]] = {
    "notes": words,
    "env": st.dictionaries(ids, words, max_size=2),
    "acceptance": st.lists(checks, max_size=3),
    "when": st.sampled_from(["before", "after"]),
    "heal": st.booleans(),
    "retries": st.integers(0, 5),
    "on-change": st.sampled_from(["message", "restart"]),
    "pause": st.booleans(),
    "priority": st.integers(-5, 5),
    "protect": st.booleans(),
    "locks": st.lists(words.filter(lambda path: not leaves_folder(path)), max_size=2),
    "rights": rights,
}
leaves: st.SearchStrategy[JsonObject] = st.one_of(
    st.fixed_dictionaries(
        {"run": commands}, optional={**common, "effect": st.sampled_from(["once", "read"]), "timeout": seconds}
    ),
    st.fixed_dictionaries({"goal": words, "agent": agents}, optional={**common, "budget": budgets}),
)


def _with_needs(tasks: JsonObject, chosen: list[bool]) -> JsonObject:
    """The tasks, some of them needing the sibling that stands before them: no rings."""
    names = list(tasks)
    out: JsonObject = {}
    for index, name in enumerate(names):
        is_chosen = index > 0 and index < len(chosen) and chosen[index]
        out[name] = {**tasks[name], **({"needs": [names[index - 1]]} if is_chosen else {})}
    return out


def _with_children(inner: st.SearchStrategy[JsonObject]) -> st.SearchStrategy[JsonObject]:
    children = st.builds(
        _with_needs, st.dictionaries(ids, inner, min_size=1, max_size=3), st.lists(st.booleans(), max_size=3)
    )
    return st.fixed_dictionaries({"tasks": children}, optional=common)


ports = st.integers(1, 65535)
loose = st.dictionaries(ids, words, max_size=2)
mounts: st.SearchStrategy[Json] = st.one_of(
    st.dictionaries(st.sampled_from([".", "src", "a b"]), ids.map(lambda name: f"/{name}"), max_size=1),
    st.lists(ids.map(lambda name: {"volume": name, "container": f"/{name}"}), min_size=1, max_size=1),
    st.just([{"tmpfs": True, "container": "/tmp"}, {"host": ".", "container": "/work", "read-only": True}]),
)
moments = st.integers(1, 10**6)
healths: st.SearchStrategy[Json] = st.builds(
    lambda how, rest: {**how, **rest},
    st.one_of(
        commands.map(lambda command: {"cmd": command}), ports.map(lambda port: {"tcp": port}), st.just({"http": ":1/a"})
    ),
    st.fixed_dictionaries({}, optional={"interval": moments, "retries": moments, "start-period": seconds}),
)
containers_fields: dict[str, st.SearchStrategy[Json]] = {
    "cmd": commands,
    "entrypoint": commands,
    "env": loose,
    "labels": loose,
    "workdir": st.just("/work"),
    "user": st.sampled_from(["root", "1000:1000"]),
    "mounts": mounts,
    "ports": st.lists(st.builds(lambda port: {"container": port}, ports), min_size=1, max_size=2),
    "networks": st.just(["internal", "front"]),
    "health": healths,
    "limits": st.fixed_dictionaries({}, optional={"cpu": st.just(0.5), "memory": st.just(10**7), "pids": moments}),
    "read-only": st.booleans(),
    "cap-add": st.just(["SETUID"]),
    "restart": st.sampled_from(["no", "always", "on-failure"]),
    "logs": st.just({"max": 4096}),
    "keep": st.sampled_from(["on-failure", "always", "never"]),
    "ttl": moments,
}
sources = st.sampled_from([{"image": "redis:7"}, {"build": {"folder": "docker"}}, {"rootfs": "root.tar"}])


def _chained(containers: JsonObject, how: list[str]) -> JsonObject:
    """The containers, some of them needing the one that stands before them: no rings."""
    names = list(containers)
    out: JsonObject = {}
    for index, name in enumerate(names):
        word = how[index] if 0 < index < len(how) else ""
        before = names[index - 1]
        word = "" if word == "healthy" and "health" not in containers[before] else word
        word = "" if word == "completed" and containers[before].get("restart") == "always" else word
        out[name] = {**containers[name], **({"needs": {before: word}} if word else {})}
    return out


containers: st.SearchStrategy[JsonObject] = st.builds(
    _chained,
    st.dictionaries(
        ids,
        st.builds(lambda a, b: {**a, **b}, sources, st.fixed_dictionaries({}, optional=containers_fields)),
        max_size=3,
    ),
    st.lists(st.sampled_from(["", "started", "healthy", "completed"]), max_size=3),
)
trees = st.recursive(leaves, _with_children, max_leaves=5)
plans: st.SearchStrategy[JsonObject] = st.builds(
    lambda name, root, parts: {
        "plan": name,
        "agents": {"worker": {"run": ["python3", "worker.py"]}},
        **root,
        **({"containers": parts} if parts else {}),
    },
    ids,
    _with_children(trees),
    containers,
)
