"""Try the mutants, and report which of them a set of tests finds."""

from __future__ import annotations

import argparse
import queue
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests import sets
from tests.mutants import tree
from tests.mutants.mutant import LIST, Mutant, mutants
from tests.mutants.trial import Result, interrupt, processor_s, trial


def main(words: Sequence[str]) -> int:
    """Print a line per mutant and a summary. The exit code is 1 if a mutant survived, 2 if `words` are wrong."""
    options = _options(words)
    listed = mutants()
    known = {name for one in listed for name in (one.id, one.area)}
    if unknown := {*(options.only or ())} - known:
        print(f"unknown mutants or areas: {', '.join(sorted(unknown))}. {LIST.name} lists them", file=sys.stderr)
        return 2
    chosen = [one for one in listed if _is_chosen(one, options)]
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, ThreadPoolExecutor(options.jobs) as pool:
        copies: queue.SimpleQueue[Path] = queue.SimpleQueue()
        for number in range(min(options.jobs, len(chosen))):
            made = Path(folder).resolve() / str(number)
            tree.copy(made)
            copies.put(made)

        def tried(mutant: Mutant) -> Result:
            copy = copies.get()
            try:
                result = trial(mutant, copy, options.set, is_whole=not options.near)
            finally:
                copies.put(copy)
            print(result, flush=True)
            return result

        try:
            results = [*pool.map(tried, chosen)]
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            interrupt()
            raise
    _summarise(results, options.set)
    return 0 if all(one.is_killed for one in results) else 1


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--set", choices=sets.NAMES, default="quick", help="the tests to try (default: quick)")
    parser.add_argument("--only", nargs="+", metavar="ID", help="mutants or areas (default: all)")
    parser.add_argument("--near", action="store_true", help="try near tests only, not the whole set after them")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time, each in a copy of the tree")
    return parser.parse_args(words)


def _is_chosen(mutant: Mutant, options: argparse.Namespace) -> bool:
    return options.only is None or mutant.id in options.only or mutant.area in options.only


def _summarise(results: Sequence[Result], suite: str) -> None:
    tried = Counter(one.mutant.area for one in results)
    killed = Counter(one.mutant.area for one in results if one.is_killed)
    for area, count in tried.items():
        print(f"{area}: {killed[area]} of {count}")
    print(f"{killed.total()} of {tried.total()} mutants killed by {suite}, {processor_s():.0f} processor seconds")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
