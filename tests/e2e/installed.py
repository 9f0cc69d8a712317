"""The product as a wheel in an empty venv: from a registry, or with the packages that this machine has already.

Without a registry the venv gets links to exactly the packages that the wheel declares, and to what those declare. So an
import of a package that only the tests need fails there too.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

from planloop.client import process

ROOT = Path(__file__).parents[2]
SETUP_S = 300  # Downloads where nothing is cached.


def run(*command: str | Path, cwd: Path, said: str | None = None) -> subprocess.CompletedProcess[str]:
    """Runs `command` as in a fresh shell: no venv of ours, nothing of ours on Python's path; `said` is its input."""
    ours = ("PYTHON", "VIRTUAL_ENV", "PLANLOOP")
    env = {name: value for name, value in process.environment().items() if not name.startswith(ours)}
    given = {"input": said} if said is not None else {"stdin": subprocess.DEVNULL}
    done = subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, check=False, text=True, timeout=SETUP_S, **given
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def offline(home: Path) -> Path:
    """The `plan` command of a venv in `home` whose packages are those of this Python."""
    venv = _venv(home, "--without-pip")
    _made(*_pip(venv), "install", "--no-index", "--no-deps", _wheel(home), cwd=home)
    (site,) = venv.glob("lib/python*/site-packages")
    (own,) = site.glob("planloop-*.dist-info")
    for found in _needed(Distribution.at(own), {}).values():
        for name in _tops(found):
            link = site / name
            if not link.exists():
                link.symlink_to(Path(str(found.locate_file(name))))
    return venv / "bin/plan"


def from_registry(home: Path) -> Path:
    """The `plan` command of a venv in `home` whose packages pip fetched."""
    venv = _venv(home)
    _made(venv / "bin/python", "-m", "pip", "install", "--quiet", _wheel(home), cwd=home)
    return venv / "bin/plan"


def _made(*command: str | Path, cwd: Path) -> None:
    done = run(*command, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr


def _wheel(home: Path) -> Path:
    _made(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", home, ROOT, cwd=home)
    (wheel,) = home.glob("*.whl")
    return wheel


def _venv(home: Path, *options: str) -> Path:
    _made(sys.executable, "-m", "venv", *options, home / "venv", cwd=home)
    return home / "venv"


def _pip(venv: Path) -> tuple[str | Path, ...]:
    return (sys.executable, "-m", "pip", "--python", venv / "bin/python", "--disable-pip-version-check", "--quiet")


def _needed(
    start: Distribution, found: dict[str, Distribution], extras: frozenset[str] = frozenset()
) -> dict[str, Distribution]:
    """The packages that `start` declares for this Python, and those that they declare, by name."""
    for line in start.requires or ():
        wanted = Requirement(line)
        is_for_here = wanted.marker is None or any(wanted.marker.evaluate({"extra": one}) for one in {"", *extras})
        if is_for_here and wanted.name not in found:
            found[wanted.name] = distribution(wanted.name)
            assert found[wanted.name].version in wanted.specifier, f"{line}: {found[wanted.name].version} is installed"
            _needed(found[wanted.name], found, frozenset(wanted.extras))
    return found


def _tops(found: Distribution) -> Iterator[str]:
    """The files and folders of a package in its site-packages."""
    for name in {Path(file).parts[0] for file in found.files or ()}:
        if name not in ("..", "__pycache__"):
            yield name
