"""A mutant: one edit of one file that breaks one promise of the product. `mutants.yaml` lists them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

ROOT: Final = Path(__file__).parents[2]
LIST: Final = Path(__file__).with_name("mutants.yaml")


class Stale(Exception):
    """The list no longer fits the sources."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """`text`, which occurs once in `file`, becomes `to`. `near` names the tests most likely to find it."""

    id: str
    area: str
    file: str
    text: str
    to: str
    breaks: str
    near: tuple[str, ...]

    def source(self, root: Path) -> str:
        """Return the mutated source of the file below `root`.

        Raises:
            Stale: `text` does not occur exactly once.
        """
        source = (root / self.file).read_text()
        if source.count(self.text) != 1:
            raise Stale(f"{self.id}: its text occurs {source.count(self.text)} times in {self.file}, not once")
        return source.replace(self.text, self.to)


def mutants() -> list[Mutant]:
    """Return the mutants of the list, in its order."""
    return [
        Mutant(**{**entry, "area": area, "near": tuple(entry["near"])})
        for area, entries in yaml.safe_load(LIST.read_text()).items()
        for entry in entries
    ]
