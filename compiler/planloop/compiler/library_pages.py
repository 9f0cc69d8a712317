"""Pages of `plan explain` on the library that ships with the product: what a `lib:name` is, as it is written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from planloop.compiler.graph import Sources
from planloop.compiler.shelves import FOLDERS
from planloop.compiler.suggesting import did_you_mean

LIBRARY: Final = "lib:"


def page(topic: str, sources: Sources) -> str | None:
    """The texts that `lib:name` may mean, one for each shelf that has it; of `lib:` every name. None if unknown."""
    if topic == LIBRARY:
        shelves = ((folder, (LIBRARY + name for name in sources.names(folder))) for folder in FOLDERS.values())
        return "\n".join(f"{folder}: {', '.join(names)}" for folder, names in shelves)
    if not topic.startswith(LIBRARY):
        return None
    return "\n\n".join(_texts(topic.removeprefix(LIBRARY), sources)) or None


def suggestion(topic: str, sources: Sources) -> str:
    """A hint for a topic that there is not but in the library, or nearly; empty when it has nothing like it."""
    names = dict.fromkeys(f"{LIBRARY}{name}" for folder in FOLDERS.values() for name in sources.names(folder))
    if f"{LIBRARY}{topic}" in names:
        return f"plan explain {LIBRARY}{topic}"
    return did_you_mean(topic, names) if topic.startswith(LIBRARY) else ""


def _texts(name: str, sources: Sources) -> Iterator[str]:
    for shelf, folder in FOLDERS.items():
        if name in sources.names(folder):
            path = f"{LIBRARY}{folder}/{name}{'.md' if shelf == 'prompts' else '.yaml'}"
            yield f"{LIBRARY}{name}, a {folder[:-1]} of the library:\n\n{sources.read(path).decode().rstrip()}"
