"""What every `Engine` must do, real or simulated. Subclasses give a `ground`, the backend it runs on, and `outside`.

Commands use only words that simulations know (`tests.simulation.simulated_shell`), so that all are asked the
same.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import Protocol

import anyio
import pytest

from planloop.containers.engine.engine import ContainerNetwork
from tests.containers.engines import Ground
from tests.product import (
    LISTENING,
    ContainerCreation,
    ContainerLimits,
    ContainerMount,
    EngineErrorReason,
    EngineFailed,
    ExecCommand,
    ExecEnd,
    ExitCause,
    FoundContainer,
    PublishedPort,
)

FOREVER = ("sleep", "600")


class Outside(Protocol):
    """What others do to containers behind our backs."""

    async def pause(self, ref: str) -> None: ...

    async def kill(self, ref: str) -> None: ...


def shell(text: str) -> tuple[str, ...]:
    return ("sh", "-c", text)


async def made(ground: Ground, cmd: tuple[str, ...] = FOREVER, **more: object) -> str:
    creation = ContainerCreation(ground.name(), ground.image, ground.labels, cmd=cmd, **more)  # type: ignore[arg-type]
    return await ground.engine.create(creation)


async def running(ground: Ground, cmd: tuple[str, ...] = FOREVER, **more: object) -> str:
    ref = await made(ground, cmd, **more)
    await ground.engine.start(ref)
    return ref


async def seen(ground: Ground, ref: str) -> FoundContainer:
    found = await ground.engine.container(ref)
    assert found is not None
    return found


async def ended(ground: Ground, ref: str) -> FoundContainer:
    """The container once it has ended."""
    async for _ in ground.engine.logs(ref):
        pass
    await until(lambda: has_ended(ground, ref))
    return await seen(ground, ref)


async def has_ended(ground: Ground, ref: str) -> bool:
    return await is_in(ground, ref, "exited")


async def is_in(ground: Ground, ref: str, state: str) -> bool:
    return (await seen(ground, ref)).state == state


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(1000):
        if await is_so():
            return
        await anyio.sleep(0.01)
    raise AssertionError("it never came to be so")


class EngineContract:
    pytestmark = pytest.mark.anyio

    async def test_image_is_found_by_its_id_and_a_missing_one_is_none(self, ground: Ground) -> None:
        image = await ground.engine.image(ground.image)

        assert image is not None
        assert image.id == ground.image
        assert await ground.engine.image("planloop-test/none:1") is None

    async def test_a_network_is_made_once_and_removed_once(self, ground: Ground) -> None:
        engine, name = ground.engine, ground.name()

        for _ in range(2):
            await engine.make_network(name, ground.labels, is_internal=True)
        assert await engine.networks(ground.labels) == (name,)
        for _ in range(2):
            await engine.remove_network(name)
        assert await engine.networks(ground.labels) == ()

    async def test_network_created_concurrently_is_one(self, ground: Ground) -> None:
        name = ground.name()
        async with anyio.create_task_group() as group:
            for _ in range(6):
                group.start_soon(partial(ground.engine.make_network, name, ground.labels, is_internal=True))

        assert await ground.engine.networks(ground.labels) == (name,)
        await running(ground, network=ContainerNetwork((name,)))

    async def test_a_network_in_use_is_not_removed(self, ground: Ground) -> None:
        name = ground.name()
        await ground.engine.make_network(name, ground.labels, is_internal=False)
        ref = await running(ground, network=ContainerNetwork((name,)))

        assert await refusal(ground.engine.remove_network(name)) is EngineErrorReason.REFUSED
        await ground.engine.remove(ref)
        await ground.engine.remove_network(name)

    async def test_a_volume_is_made_once_and_removed_once(self, ground: Ground) -> None:
        engine, name = ground.engine, ground.name()

        for _ in range(2):
            await engine.make_volume(name, ground.labels)
        assert await engine.volumes(ground.labels) == (name,)
        ref = await made(ground, mounts=(ContainerMount("/data", volume=name),))
        assert await refusal(engine.remove_volume(name)) is EngineErrorReason.REFUSED
        await engine.remove(ref)
        for _ in range(2):
            await engine.remove_volume(name)
        assert await engine.volumes(ground.labels) == ()

    async def test_container_with_the_name_and_other_labels_is_left_alone(self, ground: Ground) -> None:
        engine, other = ground.engine, {**ground.labels, "of": "others"}
        network, volume, container = (ground.name() for _ in range(3))
        await engine.make_network(network, ground.labels, is_internal=False)
        await engine.make_volume(volume, ground.labels)
        ref = await engine.create(ContainerCreation(container, ground.image, ground.labels))

        assert await refusal(engine.make_network(network, other, is_internal=False)) is EngineErrorReason.NAME_TAKEN
        assert await refusal(engine.make_volume(volume, other)) is EngineErrorReason.NAME_TAKEN
        assert (
            await refusal(engine.create(ContainerCreation(container, ground.image, other)))
            is EngineErrorReason.NAME_TAKEN
        )
        assert [one.id for one in await engine.containers(ground.labels)] == [ref]

    async def test_labels_select_only_what_has_all_of_them_and_none_select_nothing(self, ground: Ground) -> None:
        engine, more = ground.engine, {**ground.labels, "part": "one"}
        ref = await engine.create(ContainerCreation(ground.name(), ground.image, more))

        assert [one.id for one in await engine.containers(more)] == [ref]
        assert await engine.containers({**more, "part": "two"}) == ()
        assert (await engine.containers({}), await engine.networks({}), await engine.volumes({})) == ((), (), ())

    async def test_a_container_that_was_made_is_found_and_not_made_again(self, ground: Ground) -> None:
        creation = ContainerCreation(ground.name(), ground.image, ground.labels, cmd=FOREVER)

        ref = await ground.engine.create(creation)
        again = await ground.engine.create(creation)

        assert again == ref
        (found,) = await ground.engine.containers(ground.labels)
        assert (found.id, found.name, found.image, found.state) == (ref, creation.name, ground.image, "created")
        assert ground.labels.items() <= found.labels.items()
        assert found.created_at > 0 == found.last_run.started_at == found.last_run.ended_at
        assert await ground.engine.container(creation.name) == found

    async def test_start_folder_of_commands_is_known(self, ground: Ground) -> None:
        for workdir, begins in (("", "/"), ("/tmp", "/tmp")):
            ref = await ground.engine.create(
                ContainerCreation(ground.name(), ground.image, ground.labels, cmd=FOREVER, workdir=workdir)
            )
            assert (await seen(ground, ref)).defaults.workdir == begins

    async def test_container_of_a_missing_image_is_not_created(self, ground: Ground) -> None:
        creation = ContainerCreation(ground.name(), "planloop-test/none:1", ground.labels)

        assert await refusal(ground.engine.create(creation)) is EngineErrorReason.NO_IMAGE
        assert await ground.engine.containers(ground.labels) == ()

    async def test_a_container_runs_from_its_start_to_its_end(self, ground: Ground) -> None:
        ref = await running(ground)
        await ground.engine.start(ref)

        first = await seen(ground, ref)
        assert (first.state, first.last_run.ended_at) == ("running", 0.0)
        assert first.last_run.started_at >= first.created_at > 0
        await ground.engine.stop(ref, 0)
        last = await seen(ground, ref)
        assert last.state == "exited"
        assert last.last_run.exit_code in (137, 143)  # TERM or KILL: without a grace period, the order is undefined.
        assert last.last_run.ended_at >= last.last_run.started_at == first.last_run.started_at

    async def test_the_exit_code_is_that_of_the_command(self, ground: Ground) -> None:
        found = await ended(ground, await running(ground, shell("exit 3")))

        assert (found.state, found.last_run.exit_code, found.last_run.is_out_of_memory) == ("exited", 3, False)

    async def test_ended_container_can_be_started_again(self, ground: Ground) -> None:
        ref = await running(ground, shell("echo once; exit 3"))
        first = await ended(ground, ref)

        await ground.engine.start(ref)

        assert (await ended(ground, ref)).last_run.started_at > first.last_run.ended_at

    async def test_missing_program_cannot_be_started(self, ground: Ground) -> None:
        ref = await made(ground, ("no-such-program",))

        try:
            await ground.engine.start(ref)
        except EngineFailed as failed:
            assert failed.reason is EngineErrorReason.NO_COMMAND
            said = str(failed)
        else:  # It was told too early.
            said = (await ended(ground, ref)).last_run.error
        assert "no-such-program" in said
        assert "FATAL" not in said, "what went wrong, and not which program of the engine reports it"
        assert (await seen(ground, ref)).state in ("created", "exited")

    async def test_process_that_ignores_term_is_killed_after_the_grace(self, ground: Ground) -> None:
        ref = await running(ground, shell('trap "" TERM; echo ready; sleep 600'))
        await until_it_says(ground, ref, b"ready")

        await ground.engine.stop(ref, 1)

        assert (await seen(ground, ref)).last_run.exit_code == 137

    async def test_paused_container_continues_when_started_and_ends_when_stopped(
        self, ground: Ground, outside: Outside
    ) -> None:
        ref = await running(ground)
        for state in ("running", "exited"):
            await outside.pause(ref)
            await until(lambda: is_in(ground, ref, "paused"))
            await (ground.engine.start(ref) if state == "running" else ground.engine.stop(ref, 0))
            await until(partial(is_in, ground, ref, state))

    async def test_paused_container_continues_when_started_concurrently(self, ground: Ground, outside: Outside) -> None:
        ref = await running(ground)
        await outside.pause(ref)
        await until(lambda: is_in(ground, ref, "paused"))

        async with anyio.create_task_group() as group:
            for _ in range(6):
                group.start_soon(ground.engine.start, ref)

        await until(lambda: is_in(ground, ref, "running"))

    async def test_a_paused_one_is_removed(self, ground: Ground, outside: Outside) -> None:
        ref = await running(ground)
        await outside.pause(ref)

        await ground.engine.remove(ref)

        assert await ground.engine.container(ref) is None

    async def test_removed_container_is_stopped_and_removed_without_an_error(self, ground: Ground) -> None:
        ref = await running(ground)

        for _ in range(2):
            await ground.engine.remove(ref)
            await ground.engine.stop(ref, 0)

        assert await ground.engine.container(ref) is None
        assert await refusal(ground.engine.start(ref)) is EngineErrorReason.NOT_FOUND

    async def test_concurrent_removals_of_a_container_all_succeed(self, ground: Ground) -> None:
        ref = await running(ground)

        async def remove() -> None:
            await ground.engine.remove(ref)
            assert await ground.engine.container(ref) is None

        async with anyio.create_task_group() as group:
            for _ in range(6):
                group.start_soon(remove)

    async def test_limits_are_moved_and_lifted_while_it_runs(self, ground: Ground) -> None:
        first, second = ContainerLimits(0.5, 64 << 20, 50), ContainerLimits(1.0, 128 << 20, 60)
        ref = await running(ground, bound=first)

        assert (await seen(ground, ref)).bound == first
        for bound in (second, first, ContainerLimits(), second):
            await ground.engine.update(ref, bound)
            assert (await seen(ground, ref)).bound == bound

    async def test_port_is_published_on_the_loopback_and_taken_until_its_container_is_removed(
        self, ground: Ground
    ) -> None:
        name = ground.name()
        await ground.engine.make_network(name, ground.labels, is_internal=False)
        first = await running(ground, network=ContainerNetwork((name,), ports=(PublishedPort(80),)))
        port = (await seen(ground, first)).ports[80]
        second = await made(ground, network=ContainerNetwork((name,), ports=(PublishedPort(80, port),)))

        assert await refusal(ground.engine.start(second)) is EngineErrorReason.PORT_TAKEN
        await ground.engine.remove(first)
        await ground.engine.start(second)
        assert (await seen(ground, second)).ports == {80: port}

    async def test_a_container_has_an_address_in_each_of_its_networks(self, ground: Ground) -> None:
        names = tuple(ground.name() for _ in range(2))
        for name in names:
            await ground.engine.make_network(name, ground.labels, is_internal=name == names[1])
        ref = await running(ground, network=ContainerNetwork(names, ("one",)))

        addresses = (await seen(ground, ref)).addresses
        assert set(addresses) == set(names)
        assert all(addresses.values())

    async def test_partially_created_container_is_completed(self, ground: Ground) -> None:
        names = tuple(ground.name() for _ in range(2))
        for name in names:
            await ground.engine.make_network(name, ground.labels, is_internal=False)
        container = ground.name()

        def creation(*networks: str) -> ContainerCreation:
            return ContainerCreation(
                container, ground.image, ground.labels, cmd=FOREVER, network=ContainerNetwork(networks)
            )

        ref = await ground.engine.create(creation(names[0]))
        assert await ground.engine.create(creation(*names)) == ref
        await ground.engine.start(ref)

        assert set((await seen(ground, ref)).addresses) == set(names)

    async def test_logs_come_as_they_are_written_and_end_with_the_container(self, ground: Ground) -> None:
        ref = await running(ground, shell("echo two >&2; echo one; sleep 600"))
        for words in (b"one\n", b"two\n"):
            await until_it_says(ground, ref, words)

        async with anyio.create_task_group() as group:
            taken: list[bytes] = []

            async def follow() -> None:
                taken.extend([piece async for piece in ground.engine.logs(ref)])

            group.start_soon(follow)
            await ground.engine.stop(ref, 0)

        assert sorted(b"".join(taken).split()) == [b"one", b"two"]  # Two pipes: their order is the engine's.

    async def test_logs_that_are_not_followed_end_immediately(self, ground: Ground) -> None:
        ref = await running(ground, shell("echo one; sleep 600"))
        await until_it_says(ground, ref, b"one")

        assert b"".join([piece async for piece in ground.engine.logs(ref, is_following=False)]) == b"one\n"

    async def test_logs_after_a_time_leave_out_what_was_before(self, ground: Ground) -> None:
        ref = await running(ground, shell("echo one; sleep 600"))
        await until_it_says(ground, ref, b"one\n")
        await ground.engine.stop(ref, 0)
        first = await seen(ground, ref)
        await ground.engine.start(ref)
        await until_it_says(ground, ref, b"one\none\n")

        pieces = ground.engine.logs(ref, after=first.last_run.ended_at, is_following=False)
        assert b"".join([piece async for piece in pieces]) == b"one\n"

    async def test_events_report_containers_with_the_labels(self, ground: Ground, outside: Outside) -> None:
        others = await running(ground)
        labels = {**ground.labels, "watched": "yes"}
        async with aclosing(ground.engine.events(labels)) as events:
            assert await anext(events) == LISTENING
            ref = await ground.engine.create(ContainerCreation(ground.name(), ground.image, labels, cmd=FOREVER))
            await ground.engine.start(ref)
            await outside.kill(others)
            await outside.kill(ref)
            told = []
            with anyio.fail_after(30):
                async for event in events:
                    told.append(event)
                    if event.action == "die":
                        break

        actions = [event.action for event in told]
        assert [each for each in actions if each in ("create", "start", "die")] == ["create", "start", "die"]
        assert {event.id for event in told} == {ref}
        assert all(labels.items() <= event.labels.items() for event in told)


class RunningContract:
    """Commands inside, and how they come to an end."""

    pytestmark = pytest.mark.anyio

    @pytest.fixture
    async def ref(self, ground: Ground) -> str:
        return await running(ground)

    async def run(self, ground: Ground, ref: str, *argv: str, **more: object) -> ExecEnd:
        return await ground.engine.run(ref, ExecCommand(argv, "m", **more))  # type: ignore[arg-type]

    async def test_exit_code_and_both_outputs_are_returned(self, ground: Ground, ref: str) -> None:
        result = await self.run(ground, ref, *shell("echo out; echo err >&2; exit 3"))

        assert (result.ending, result.code) == (ExitCause.EXITED, 3)
        assert sorted(result.output.split()) == [b"err", b"out"]

    async def test_a_program_is_run_without_a_shell_between(self, ground: Ground, ref: str) -> None:
        assert (await self.run(ground, ref, "echo", "a  b", "$HOME")).output == b"a  b $HOME\n"

    async def test_a_signal_is_a_code_above_128(self, ground: Ground, ref: str) -> None:
        result = await self.run(ground, ref, *shell("kill -KILL $$"))

        assert (result.ending, result.code) == (ExitCause.EXITED, 137)

    async def test_input_is_passed_whole_and_then_closed(self, ground: Ground, ref: str) -> None:
        assert (await self.run(ground, ref, "cat", stdin=b"one\ntwo")).output == b"one\ntwo"

    async def test_unread_input_does_not_block_others(self, ground: Ground, ref: str) -> None:
        assert (await self.run(ground, ref, "true", stdin=bytes(4 << 20))).code == 0

    async def test_missing_program_is_not_started(self, ground: Ground, ref: str) -> None:
        result = await self.run(ground, ref, "no-such-program")

        assert (result.ending, result.code) == (ExitCause.NOT_STARTED, None)
        assert b"no-such-program" in result.output

    async def test_a_program_that_ends_as_shells_say_not_found_was_started(self, ground: Ground, ref: str) -> None:
        assert await self.run(ground, ref, *shell("exit 127")) == ExecEnd(ExitCause.EXITED, 127, b"")

    async def test_timeout_kills_the_command_and_keeps_its_output(self, ground: Ground, ref: str) -> None:
        for timeout_s in (0.5, 2.0, 8.0):  # How long it takes to begin is the machine's.
            result = await self.run(ground, ref, *shell("echo so far; sleep 60"), timeout_s=timeout_s)
            assert result in (ExecEnd(ExitCause.TIMED_OUT, None, said) for said in (b"", b"so far\n"))
            if result.output:
                return
        raise AssertionError("it never said anything")

    async def test_command_that_ignores_term_is_killed_too(self, ground: Ground, ref: str) -> None:
        result = await self.run(ground, ref, *shell('trap "" TERM; sleep 60'), timeout_s=0.2)

        assert (result.ending, result.code) == (ExitCause.TIMED_OUT, None)

    async def test_law_11_too_much_output_kills_it_and_keeps_the_beginning(self, ground: Ground, ref: str) -> None:
        result = await self.run(ground, ref, "yes", output_bytes_max=1000)

        assert result == ExecEnd(ExitCause.TOO_MUCH_OUTPUT, None, b"y\n" * 500)

    async def test_commands_run_in_parallel(self, ground: Ground, ref: str) -> None:
        taken: list[bytes] = []

        async def one(word: str) -> None:
            taken.append((await self.run(ground, ref, "echo", word)).output)

        async with anyio.create_task_group() as group:
            for number in range(5):
                group.start_soon(one, str(number))

        assert sorted(taken) == [b"0\n", b"1\n", b"2\n", b"3\n", b"4\n"]

    async def test_a_container_that_does_not_run_runs_no_command(self, ground: Ground, ref: str) -> None:
        await ground.engine.stop(ref, 0)
        assert await refusal(self.run(ground, ref, "true")) is EngineErrorReason.NOT_RUNNING

        await ground.engine.remove(ref)
        assert await refusal(self.run(ground, ref, "true")) is EngineErrorReason.NOT_FOUND

    async def test_a_command_whose_container_goes_is_lost(self, ground: Ground, ref: str, outside: Outside) -> None:
        async def it_runs() -> bool:
            return await self.commands(ground, ref) == 1

        async def kill_when_it_runs() -> None:
            await until(it_runs)
            await outside.kill(ref)

        async with anyio.create_task_group() as group:
            group.start_soon(kill_when_it_runs)
            result = await self.run(ground, ref, "sleep", "60")

        assert (result.ending, result.code) == (ExitCause.LOST, None)

    async def test_container_removed_as_a_command_enters_it_is_not_a_missing_program(
        self, ground: Ground, outside: Outside
    ) -> None:
        """Where in its beginning it is hit is the machine's to say: so it is tried at several moments of it."""
        seen: dict[ExitCause | EngineErrorReason, bytes] = {}
        for number in range(8):
            ref = await running(ground)

            async def kill(ref: str = ref, number: int = number) -> None:
                await anyio.sleep(0.01 * number)
                await outside.kill(ref)

            async with anyio.create_task_group() as group:
                group.start_soon(kill)
                try:
                    ended = await self.run(ground, ref, "sleep", "60")
                    seen[ended.ending] = ended.output
                except EngineFailed as failed:
                    seen[failed.reason] = str(failed).encode()

        assert seen.keys() <= {ExitCause.LOST, EngineErrorReason.NOT_RUNNING, EngineErrorReason.NOT_FOUND}, seen

    async def test_ending_a_mark_ends_its_command_only(self, ground: Ground, ref: str) -> None:
        results: dict[str, ExecEnd] = {}

        async def all_run() -> bool:
            return await self.commands(ground, ref) == 3

        async def one_ended() -> bool:
            return bool(results)

        async def one(mark: str) -> None:
            results[mark] = await ground.engine.run(ref, ExecCommand(("sleep", "60"), mark))

        async with anyio.create_task_group() as group:
            for mark in ("a", "ab", "b"):
                group.start_soon(one, mark)
            await until(all_run)
            await ground.engine.end(ref, "a")
            await until(one_ended)
            assert set(results) == {"a"}
            await ground.engine.end(ref, "")

        assert {mark: result.code for mark, result in results.items()} == {"a": 137, "ab": 137, "b": 137}

    async def commands(self, ground: Ground, ref: str) -> int:
        """How many `sleep 60` run inside."""
        raise NotImplementedError

    async def test_stopping_a_missing_container_is_not_an_error(self, ground: Ground, ref: str) -> None:
        await ground.engine.end(ref, "never")
        await ground.engine.stop(ref, 0)
        await ground.engine.end(ref, "never")
        await ground.engine.remove(ref)
        await ground.engine.end(ref, "")

        assert await ground.engine.container(ref) is None


async def refusal(call: object) -> EngineErrorReason:
    """Why the call fails."""
    with pytest.raises(EngineFailed) as caught:
        await call  # type: ignore[misc]
    assert str(caught.value)
    return caught.value.reason


async def until_it_says(ground: Ground, ref: str, words: bytes) -> None:
    said = b""
    with anyio.move_on_after(10):
        async with aclosing(ground.engine.logs(ref)) as pieces:
            async for piece in pieces:
                said += piece
                if words in said:
                    return
    raise AssertionError(f"it said only {said!r}")
