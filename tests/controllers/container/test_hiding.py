"""Secrets of a container are masked in the output of commands inside."""

from __future__ import annotations

from pathlib import Path

import pytest

from planloop.containers.engine.secret_env import SECRETS, env_from_engine, secrets_label
from planloop.controllers.shared.container_exec import PlanContainers, container_masks
from planloop.reconciler.effects.secret_masks import MASK
from tests.fakes.virtual_time import VirtualClock
from tests.product import ContainerCreation, EngineErrorReason, EngineFailed, ExecCommand, ExitCause, ImageFacts
from tests.reconciler.stage import stage
from tests.simulation.simulated_engine import SimulatedDaemon, SimulatedEngine

pytestmark = pytest.mark.anyio

WRITTEN = {"TOKEN": "secret:TOKEN", "KEY": "file:key", "USER": "env:USER", "PLAIN": "mute, this is plain"}
GIVEN = {"TOKEN": "mute-it-is-one", "KEY": "x", "USER": "somebody", "PLAIN": "mute, this is plain"}


def test_the_label_names_variables_and_no_values() -> None:
    assert secrets_label(WRITTEN) == "KEY,TOKEN,USER"
    assert secrets_label({"PLAIN": "1"}) == ""
    assert env_from_engine(["A=1=2", "B=", "C"]) == {"A": "1=2", "B": "", "C": ""}


@pytest.mark.parametrize(
    ("said", "most", "heard"),
    [
        ("of mute-it-is-one, somebody", None, f"of {MASK}, {MASK}\n"),
        ("mute, this is plain", None, "mute, this is plain\n"),
        ("it ends with mute-it-is", None, "it ends with mute-it-is\n"),
        ("of mute-it-is-one", 12, "of "),
    ],
)
async def test_command_inside_prints_no_secret_nor_half_of_a_cut_one(
    tmp_path: Path, said: str, most: int | None, heard: str
) -> None:
    daemon = SimulatedDaemon(VirtualClock(), tmp_path, images={"i": ImageFacts("i", 1)})
    engine = SimulatedEngine(daemon)
    labels = {"a": "b", SECRETS: secrets_label(WRITTEN)}
    await engine.start(await engine.create(ContainerCreation("c", "i", labels, cmd=("sleep", "100"), env=GIVEN)))
    async with stage(tmp_path / "state", runs=False) as own:
        inside = ExecCommand(("sh", "-c", f"echo '{said}'"), "m", output_bytes_max=most)
        ended = await PlanContainers(own.store, lambda: engine).run("c", inside)

    assert ended.ending is (ExitCause.EXITED if most is None else ExitCause.TOO_MUCH_OUTPUT)
    assert ended.output.decode() == heard


async def test_output_of_a_removed_container_is_withheld_as_its_secrets_are_unknown(tmp_path: Path) -> None:
    with pytest.raises(EngineFailed) as failed:
        await container_masks(SimulatedEngine(SimulatedDaemon(VirtualClock(), tmp_path)), "gone")

    assert failed.value.reason is EngineErrorReason.NOT_FOUND
