"""A copy of the tree whose files may be mutated while the original stays as it is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import cache_from_source
from pathlib import Path

from tests.architecture.tree import PACKAGES
from tests.mutants.mutant import ROOT, Mutant, Stale


def copy(to: Path) -> None:
    """Copy what git tracks or would track into `to`, with an environment that imports the product from there.

    Programs that a test starts without any environment variable import the copy, too.

    Raises:
        Stale: the copy imports the product from somewhere else.
    """
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for name in listed.split("\0"):
        file = ROOT / name
        if name and file.is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, to / name, follow_symlinks=False)
    if (modules := ROOT / "web/node_modules").exists():
        (to / "web/node_modules").symlink_to(modules)
    _make_environment(to)
    _commit(to)
    where = [python(to), "-c", "import planloop; print(*planloop.__path__, sep='\\n')"]
    found = subprocess.run(where, cwd="/", env={}, capture_output=True, text=True, check=True).stdout.split()
    if found != [str(to / name / "planloop") for name in PACKAGES]:
        raise Stale(f"the copy in {to} imports planloop from {found or 'nowhere'}")


def python(tree: Path) -> str:
    """The interpreter of the copy."""
    return str(tree / ".venv/bin/python")


@contextmanager
def mutated(tree: Path, mutant: Mutant) -> Iterator[None]:
    """Apply the edit of `mutant` to the copy at `tree` inside the block."""
    file = tree / mutant.file
    original = file.read_text()
    _write(file, mutant.source(tree))
    try:
        yield
    finally:
        _write(file, original)


def _write(file: Path, text: str) -> None:
    file.write_text(text)
    if file.suffix == ".py":
        # Bytecode is matched by size and full seconds: two edits within one second could look the same.
        Path(cache_from_source(str(file))).unlink(missing_ok=True)


def _make_environment(tree: Path) -> None:
    """Make `.venv` there, with its own scripts and the packages of the running environment."""
    ours, theirs = Path(sys.prefix), tree / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--symlinks", str(theirs)], check=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = theirs / "lib" / version / "site-packages"
    # Paths named in a `.pth` file come in its order, and those found there are not searched for `.pth` files.
    paths = [*(tree / name for name in PACKAGES), tree, sysconfig.get_path("purelib")]
    (packages / "copy.pth").write_text("".join(f"{path}\n" for path in paths))
    for script in (ours / "bin").iterdir():
        mine = theirs / "bin" / script.name
        if not mine.exists() and script.is_file():
            content = script.read_bytes()
            mine.write_bytes(content.replace(os.fsencode(ours / "bin"), os.fsencode(theirs / "bin")))
            mine.chmod(0o755)
    if (ours / "servers").exists():
        (theirs / "servers").symlink_to(ours / "servers")


def _commit(tree: Path) -> None:
    """Commit all files, since some tests list them with git."""
    person = ("-c", "user.name=copy", "-c", "user.email=copy@localhost")
    for words in (("init", "--quiet"), ("add", "--all"), (*person, "commit", "--quiet", "--message", "copy")):
        subprocess.run(["git", *words], cwd=tree, check=True, capture_output=True)
