"""What lies over a mount, tried from inside a real container: ways to what steers the plan, each by its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from planloop.containers.engine.names import ContainerNames
from planloop.controllers.container.start_jobs import SteeringFiles, container_mounts
from planloop.controllers.shared.container_exec import MountRoots
from planloop.schemas.objects.container import ContainerSpec, Mount
from tests.containers.engines import Ground as Place
from tests.product import ContainerCreation, ExecCommand

pytestmark = [pytest.mark.anyio, pytest.mark.engine, pytest.mark.timeout(120)]

FILES = ("p.plan.yaml", "hooks", "hooks/deep/guard.sh", "tools/server.py", "parts/more.yaml")
WAYS = [
    "echo x > p.plan.yaml",
    "rm -f p.plan.yaml",
    "echo x > new && mv -f new p.plan.yaml",
    "ln -sf /etc/passwd p.plan.yaml",
    "echo x > .git/config",
    "echo x > .git/hooks/pre-commit",
    "rm -rf .git",
    "mv .git elsewhere && mkdir .git",
    "echo x > .hg/hgrc",
    "echo x > .gitmodules",
    "echo x > lib/.git",
    "rm -f lib/.git",
    "mv lib away && mkdir -p lib/.git",
    "echo x > hooks/new",
    "echo x > hooks/deep/guard.sh",
    "mv hooks away && mkdir hooks",
    "echo x > tools/server.py",
    "mv tools away && mkdir tools && echo x > tools/server.py",
    "echo x > parts/more.yaml",
    "mv data away && ln -s / data",
    "echo x > .plan/log.db",
    "rm -rf .plan/log.db && ls .plan/log.db",
    "cat .plan/log.db",
    "mount -o remount,rw .git && echo x > .git/config",
    "chmod 777 .git p.plan.yaml && echo x > p.plan.yaml",
]


def plan_in(folder: Path) -> Path:
    for name in (".plan", ".git/hooks", ".hg", "hooks/deep", "tools", "parts", "lib", "data"):
        (folder / name).mkdir(parents=True)
    for name in (*FILES, ".plan/log.db", ".git/config", ".hg/hgrc", "lib/.git"):
        if not (folder / name).is_dir():
            (folder / name).write_text("as it was\n")
    (folder / ".gitmodules").write_text('[submodule "lib"]\n\tpath = lib\n')
    return folder


def state_of(folder: Path) -> dict[str, str]:
    """All files with what is in them, and links with where they lead."""
    return {
        str(path.relative_to(folder)): str(path.readlink()) if path.is_symlink() else path.read_text()
        for path in folder.rglob("*")
        if path.is_symlink() or path.is_file()
    }


async def test_files_that_define_the_plan_stay_unchanged_by_any_container(ground: Place, tmp_path: Path) -> None:
    folder = plan_in(tmp_path / "plan")
    before = state_of(folder)
    spec = ContainerSpec(image="i", mounts=(Mount("/w", host="."),))
    mounts = container_mounts(
        spec, ContainerNames("p", "l"), MountRoots(folder, folder), SteeringFiles(FILES, ("data",))
    )
    cmd = ("sleep", "1000")
    ref = await ground.engine.create(
        ContainerCreation(ground.name(), ground.image, ground.labels, cmd=cmd, mounts=mounts)
    )
    await ground.engine.start(ref)

    let_through = []
    for way in WAYS:
        ended = await ground.engine.run(ref, ExecCommand(("sh", "-c", way), "w", workdir="/w"))
        if ended.code == 0:
            let_through.append((way, ended.output))
    own = await ground.engine.run(
        ref, ExecCommand(("sh", "-c", "echo mine > data/own && echo mine > lib/own"), "w", workdir="/w")
    )

    assert let_through == []
    after = state_of(folder)
    assert own.code == 0 and {after.pop("data/own"), after.pop("lib/own")} == {"mine\n"}
    after.pop("new", None)
    assert after == before
