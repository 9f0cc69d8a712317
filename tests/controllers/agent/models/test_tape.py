"""Recordings are found by the key of the request, refused if the prompt differs, and never ask a model."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from planloop.controllers.agent.models import record_replay
from planloop.controllers.agent.models.router import ModelRouter, RouteContext
from planloop.schemas.objects.model import ModelTable
from tests.fakes.scripted_models import ScriptedModels
from tests.product import ModelFailed, ModelReply, ModelRequest, RequestKey

pytestmark = pytest.mark.anyio

HELLO = b'{"role":"user","content":"hello"}'
KEY = RequestKey("agent/a", "u1", 1, 1, 1)
ASKED = ModelRequest(KEY, "record/tape.jsonl@openai/small", (HELLO,))


async def recorded(path: Path, *texts: str, request: ModelRequest = ASKED) -> None:
    """One line for each text, all for the same request."""
    models = ScriptedModels([{"reply": {"text": text}} for text in texts])
    for _ in texts:
        await record_replay.record_attempt(path, models.complete, request, None)


async def replayed(path: Path, request: ModelRequest = ASKED) -> ModelReply:
    routed = ModelRouter(ModelTable, RouteContext({}, path.parent), lambda: 0.0)
    real = request.model.partition("@")[2]
    return await routed.complete(replace(request, model=f"replay/{path.name}@{real}"))


async def refused(path: Path, request: ModelRequest = ASKED) -> ModelFailed:
    with pytest.raises(ModelFailed) as caught:
        await replayed(path, request)
    return caught.value


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tape.jsonl"


async def test_a_reply_is_found_under_another_uid(path: Path) -> None:
    await recorded(path, "hi")

    assert (await replayed(path, replace(ASKED, key=replace(KEY, uid="u2")))).text == "hi"


async def test_each_attempt_has_its_own_reply(path: Path) -> None:
    second = replace(ASKED, key=replace(KEY, attempt=2))
    await recorded(path, "one")
    await recorded(path, "two", request=second)

    assert [(await replayed(path)).text, (await replayed(path, second)).text] == ["one", "two"]


async def test_an_asking_that_was_not_made_is_not_answered(path: Path) -> None:
    await recorded(path, "hi")

    assert (await refused(path, replace(ASKED, key=replace(KEY, turn=9)))).reason == "NotRecorded"


async def test_missing_file_is_named(path: Path) -> None:
    failed = await refused(path)

    assert failed.reason == "NotRecorded"
    assert str(path) in str(failed)


async def test_changed_prompt_has_diverged_and_the_place_is_shown(path: Path) -> None:
    system = b'{"role":"system","content":"be short"}'
    await recorded(path, "hi", request=replace(ASKED, messages=(system, HELLO)))
    other = b'{"role":"user","content":"bye"}'

    failed = await refused(path, replace(ASKED, messages=(system, other)))

    assert (failed.reason, failed.is_transient) == ("Diverged", False)
    assert "message 2 of 2" in str(failed)
    assert "bye" in str(failed)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"messages": (HELLO, HELLO)}, "2 messages, 1 in the recording"),
        ({"tools": b"[]"}, "the declared tools differ"),
        ({"model": "record/tape.jsonl@openai/large"}, "the recording is of openai/small"),
    ],
)
async def test_every_divergence_has_its_message(path: Path, change: dict[str, object], said: str) -> None:
    await recorded(path, "hi")

    assert said in str(await refused(path, replace(ASKED, **change)))  # type: ignore[arg-type]


async def test_run_with_this_prompt_is_chosen_among_several_in_one_file(path: Path) -> None:
    await recorded(path, "of now")
    await recorded(path, "of another day", request=replace(ASKED, messages=(b'{"role":"user","content":"x"}',)))

    assert (await replayed(path)).text == "of now"


async def test_half_a_line_from_a_crash_spoils_neither_earlier_nor_later_lines(path: Path) -> None:
    await recorded(path, "one")
    with path.open("ab") as file:
        file.write(b'{"key":"agent/a@1.1.')
    await recorded(path, "two", request=replace(ASKED, key=replace(KEY, attempt=2)))

    assert (await replayed(path)).text == "one"
    assert (await replayed(path, replace(ASKED, key=replace(KEY, attempt=2)))).text == "two"


async def test_a_failure_is_recorded_and_fails_again(path: Path) -> None:
    models = ScriptedModels([{"status": 429, "headers": {"retry-after": "7"}}])
    with pytest.raises(ModelFailed):
        await record_replay.record_attempt(path, models.complete, ASKED, None)

    failed = await refused(path)

    assert (failed.reason, failed.is_transient, failed.retry_after_s) == ("RateLimited", True, 7.0)


async def test_a_cancelled_asking_has_no_reply(path: Path) -> None:
    models = ScriptedModels([{"hang": True}])
    async with anyio.create_task_group() as group:
        group.start_soon(record_replay.record_attempt, path, models.complete, ASKED, None)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()

    assert "was cancelled" in str(await refused(path))


async def test_prompts_are_not_stored(path: Path) -> None:
    await recorded(path, "hi", request=replace(ASKED, messages=(b'{"role":"user","content":"a secret"}',)))

    assert "a secret" not in path.read_text()
    assert [json.loads(line)["key"] for line in path.read_text().splitlines()] == [str(KEY)]


async def test_lines_of_parallel_requests_do_not_mix(path: Path) -> None:
    models = ScriptedModels([{"reply": {"text": "x" * 5_000}, "times": "always"}])
    keys = [replace(KEY, attempt=number) for number in range(1, 51)]
    async with anyio.create_task_group() as group:
        for key in keys:
            group.start_soon(record_replay.record_attempt, path, models.complete, replace(ASKED, key=key), None)

    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert sorted(line["key"] for line in lines) == sorted(map(str, keys))


async def test_a_file_of_another_kind_is_not_written_to(path: Path) -> None:
    path.write_text("# Notes\n")
    with pytest.raises(ModelFailed, match="not a recording"):
        await recorded(path, "hi")

    assert path.read_text() == "# Notes\n"


async def test_recording_without_a_model_reports_what_to_write(tmp_path: Path) -> None:
    routed = ModelRouter(ModelTable, RouteContext({}, tmp_path), lambda: 0.0)
    with pytest.raises(ModelFailed, match="provider/name"):
        await routed.complete(replace(ASKED, model="record/tape.jsonl"))


async def test_a_bare_replay_costs_what_the_recorded_model_does(path: Path) -> None:
    await recorded(path, "hi", request=replace(ASKED, model="record/tape.jsonl@openai/gpt-4o"))
    routed = ModelRouter(ModelTable, RouteContext({}, path.parent), lambda: 0.0)

    assert routed.price("replay/tape.jsonl") == routed.price("openai/gpt-4o")
    assert routed.window("replay/gone.jsonl") > 0


async def test_a_prompt_has_one_digest_recorded_and_replayed() -> None:
    digests = {replace(ASKED, model=model).prompt_digest for model in ("a/b", "record/f@a/b", "replay/f@a/b")}

    assert len(digests) == 1


async def test_lines_that_are_not_recordings_are_skipped_and_hide_none(path: Path) -> None:
    await recorded(path, "hi")
    path.write_bytes(b'\xff\xfe\n{"a":1}\n[' + b"9" * 100_000 + b"\n" + path.read_bytes() + b'{"key":\n{"key":[1]}\n')

    assert (await replayed(path)).text == "hi"
