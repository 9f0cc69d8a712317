"""Child process that calls a Python function as decider: `python_child.py FILE NAME`, one turn in, its actions out.

It imports only the standard library, because it runs in the interpreter that the plan's own code needs. What the
function prints is also output; a line break separates it from the actions.
"""

import importlib.util
import json
import sys
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from typing import Any


class FreshSourceLoader(SourceFileLoader):
    """Always compiles the source: a cached `.pyc` could miss an edit within the same second."""

    def get_code(self, fullname: str) -> Any:
        """The code of the current source."""
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def load(path: str, name: str) -> Callable[[dict[str, Any]], Any]:
    """The function `name` of the file at `path`. The file can import modules from its own folder."""
    sys.path.insert(0, path.rpartition("/")[0] or ".")
    sys.dont_write_bytecode = True  # No `.pyc` files in the user's folder; imported modules are compiled each time.
    spec = importlib.util.spec_from_file_location(
        "planloop_mind", path, loader=FreshSourceLoader("planloop_mind", path)
    )
    if spec is None or spec.loader is None or not path.endswith(".py"):
        raise SystemExit(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    found: Callable[[dict[str, Any]], Any] = getattr(module, name)
    return found


def action_lines(answer: Any) -> list[Any]:
    """The actions that the function returned."""
    if answer is None:
        return []
    return list(answer) if isinstance(answer, list | tuple) else [answer]


def main() -> None:
    """One turn."""
    path, name = sys.argv[1:3]
    turn = json.loads(sys.stdin.readline())
    answer = load(path, name)(turn)
    for line in action_lines(answer):
        action = {"say": line} if isinstance(line, str) else line
        sys.stdout.write("\n" + json.dumps(action) + "\n")


if __name__ == "__main__":
    main()
