"""An apt repository on this machine, so that stock images can be built without a network.

It has one package, `busybox-static`, made of this machine's busybox. apt takes its configuration from the file that
APT_CONFIG names.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

from tests.containers import engines

APT_CONFIG = "APT_CONFIG"
PACKAGE = "busybox-static"
VERSION = "1:1.0-1"


def repository(folder: Path) -> Path:
    """Writes the repository to `folder`, which is empty. Returns apt's configuration."""
    architecture = _said("dpkg", "--print-architecture").strip()
    pool, lists = folder / "pool", folder / f"dists/here/main/binary-{architecture}"
    pool.mkdir(parents=True)
    lists.mkdir(parents=True)
    package = _packed(folder / "tree", pool / f"{PACKAGE}_{architecture}.deb", architecture)
    control = _said("dpkg-deb", "--field", package)
    content = package.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    where = f"Filename: pool/{package.name}\nSize: {len(content)}\nSHA256: {digest}\n"
    (lists / "Packages").write_text(f"{control}{where}")
    sources = folder / "sources.list"
    sources.write_text(f"deb [trusted=yes allow-insecure=yes] copy:{folder} here main\n")
    (folder / "lists/partial").mkdir(parents=True)
    settings = {"Etc::sourcelist": sources, "Etc::sourceparts": "/dev/null", "State::lists": folder / "lists"}
    config = folder / "apt.conf"
    config.write_text("".join(f'Dir::{name} "{value}";\n' for name, value in settings.items()))
    return config


def _packed(tree: Path, package: Path, architecture: str) -> Path:
    """The package: the same bytes of the same busybox."""
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "usr/bin").mkdir(parents=True)
    fields = {"Package": PACKAGE, "Version": VERSION, "Architecture": architecture}
    more = {"Maintainer": "tests <tests@localhost>", "Description": "busybox of this machine"}
    (tree / "DEBIAN/control").write_text("".join(f"{name}: {value}\n" for name, value in (fields | more).items()))
    program = engines.tree()["bin/busybox"]
    assert program.content is not None
    with program.content() as opened:
        (tree / "usr/bin/busybox").write_bytes(opened.read())
    (tree / "usr/bin/busybox").chmod(0o755)
    _said("dpkg-deb", "--root-owner-group", "-Zgzip", "--build", tree, package)
    return package


def _said(*argv: str | Path) -> str:
    env = {"PATH": os.defpath, "SOURCE_DATE_EPOCH": "0", "LC_ALL": "C"}
    return subprocess.run(argv, check=True, capture_output=True, text=True, env=env).stdout
