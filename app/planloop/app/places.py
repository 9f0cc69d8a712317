"""Where a plan's state is: `.plan/<name>/` beside the plan file, and how a command finds the plan it is about.

With no file and no `--plan` a command takes the only plan in `./.plan`; with several it asks which, it never guesses.
"""

from __future__ import annotations

from pathlib import Path

from planloop.app.exits import Exit, Halt
from planloop.reconciler.storing import folders, layout
from planloop.schemas.encoding import encode
from planloop.schemas.frozen import frozen


@frozen
class Place:
    """The state of the plan `name`: `folder` is `<root>/.plan/<name>`, `root` the folder of the plan file."""

    name: str
    folder: Path

    @property
    def root(self) -> Path:
        return self.folder.parent.parent

    @property
    def exists(self) -> bool:
        return self.folder.is_dir()

    @property
    def file(self) -> Path | None:
        """The plan file that was last applied here, None when it is not known."""
        noted = layout.noted_file(self.folder)
        return self.root / noted if noted else None

    def note_file(self, file: Path) -> None:
        """Remembers `file`, for commands that are given the file or nothing at all."""
        wanted = encode({"file": file.name})
        note = self.folder / layout.NOTE
        if not note.exists() or note.read_bytes() != wanted:
            folders.write(note, wanted)


def of_file(file: Path, name: str) -> Place:
    """The place of the plan called `name` that `file` describes."""
    return Place(name, layout.state_folder(file.absolute(), name))


def all_in(root: Path) -> list[Place]:
    """The plans whose state is in `root`, by name."""
    try:
        folders = sorted(
            entry for entry in (root / layout.STATE).iterdir() if entry.is_dir() and layout.log_file(entry).exists()
        )
    except OSError:
        return []
    return [Place(folder.name, folder) for folder in folders]


def find(plan: str | None, cwd: Path) -> Place:
    """The plan meant by `--plan` (a name or a plan file) or by being the only one in `cwd`. Raises Halt."""
    if plan is None:
        return _only(all_in(cwd), cwd)
    as_file = cwd / plan
    root = as_file.parent if as_file.is_file() else cwd
    places = all_in(root)
    for place in places:
        if place.name == plan or (as_file.is_file() and place.file == as_file):
            return place
    known = ", ".join(place.name for place in places)
    hint = f"known here: {known}" if known else f"start it with: plan apply {plan if as_file.is_file() else 'FILE'}"
    raise Halt(Exit.NOT_FOUND, f"no plan `{plan}` has state in {root / layout.STATE}", hint)


def _only(places: list[Place], cwd: Path) -> Place:
    match places:
        case [place]:
            return place
        case []:
            hint = "go to the folder of the plan file, or start one: plan apply FILE"
            raise Halt(Exit.NOT_FOUND, f"no plan has state in {cwd / layout.STATE}", hint)
        case _:
            names = ", ".join(place.name for place in places)
            raise Halt(Exit.USAGE, f"several plans live in {cwd / layout.STATE}", f"say which with --plan: {names}")
