"""The scripted server is trusted by many tests: what it refuses, who gets which step, and what it says at its end."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests import rows
from tests.fakes.model_server import chunking, script
from tests.fakes.model_server.running import StartedServer, started
from tests.fakes.model_server.script import BadScript, Question
from tests.fakes.model_server.validating import Invalid, check


def user(text: str = "hello") -> dict[str, Any]:
    return {"role": "user", "content": text}


def made(*ids: str, **more: Any) -> dict[str, Any]:
    calls = [{"id": id_, "type": "function", "function": {"name": "read", "arguments": "{}"}} for id_ in ids]
    return {"role": "assistant", "content": "", "tool_calls": calls} | more


def result(id_: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id_, "content": "x"}


def tool(name: str = "read", **parameters: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {}} | parameters
    return {"type": "function", "function": {"name": name, "parameters": schema}}


def body(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": list(messages or (user(),))} | more


VALID = [
    body(),
    body({"role": "system", "content": "s"}, user(), made("a", "b"), result("b"), result("a"), user()),
    body(user(), made("a", content=None), result("a"), made("a"), result("a")),
    body({"role": "user", "content": [{"type": "text", "text": "x"}]}),
    body(tools=[tool("files__read-1", properties={"p": {"type": "array", "items": {}}}, required=["p"])]),
    body(stream=True, stream_options={"include_usage": True}, max_completion_tokens=5),
]

INVALID = [
    (body(model=""), "model parameter"),
    (body({"role": "wizard", "content": "x"}), "supported values"),
    (body({"role": "user", "content": None}), "got null"),
    (body({"role": "user", "content": "x", "rev": 7}), "Additional properties"),
    (body({"role": "user", "content": "x", "name": "a b"}), "does not match pattern"),
    (body(result("a")), "must be a response to a preceding message"),
    (body(user(), made("a"), user()), "must be followed by tool messages"),
    (body(user(), made("a", "b"), result("a")), "['b']"),
    (body(user(), made("a"), result("a"), result("a")), "a second time"),
    (body(user(), made("a"), result("a"), user(), result("a")), "must be a response"),
    (body(user(), made("a", "a"), result("a")), "Duplicate ids"),
    (body(user(), made("")), "Missing required parameter"),
    (body(user(), made("x" * 41)), "string too long"),
    (body(user(), made()), "empty array"),
    (body(user(), made("a") | {"tool_calls": [{"id": "a", "type": "function", "function": {"name": "a.b"}}]}), "name"),
    (body(tools=[]), "array of 1 to"),
    (body(tools=[tool("files.read")]), "does not match"),
    (body(tools=[tool("x" * 65)]), "does not match"),
    (body(tools=[tool(), tool()]), "must be unique"),
    (body(tools=[tool(type="array")]), "must be of 'type: \"object\"'"),
    (body(tools=[tool(anyOf=[])]), "not permitted at the top level"),
    (body(tools=[tool(properties={"p": {"type": "array"}})]), "array schema missing items"),
    (body(tools=[tool(required=["p"])]), "are no properties"),
    (body(tool_choice="auto"), "only allowed when 'tools'"),
    (body(stream_options={"include_usage": True}), "only allowed when 'stream'"),
    (body(max_tokens=0), "at least 1"),
    (body(max_tokens=1, max_completion_tokens=1), "at the same time"),
    (body(temperature=3), "temperature"),
    (body(watchdog=5), "Unrecognized request argument"),
    ({"model": "m", "messages": []}, "at least one message"),
]


@pytest.mark.parametrize("asked", VALID)
def test_request_that_a_vendor_accepts_is_accepted(asked: dict[str, Any]) -> None:
    check(asked)


@rows.each(("asked", "reason"), INVALID)
def test_request_that_a_vendor_refuses_is_refused_with_the_reason(asked: dict[str, Any], reason: str) -> None:
    with pytest.raises(Invalid) as caught:
        check(asked)
    assert reason in str(caught.value)


def question(*messages: dict[str, Any], model: str = "small", tools: tuple[str, ...] = ()) -> Question:
    return Question(model, list(messages or (user(),)), list(tools))


def test_steps_are_taken_in_order_and_once() -> None:
    player = script.play([{"name": "one"}, {"name": "two", "times": 2}, {"name": "last", "times": "always"}])

    taken = [player.take(question()) for _ in range(5)]

    assert [step.name for step in taken if step] == ["one", "two", "two", "last", "last"]
    assert player.left == ["last"]


def test_unlimited_step_is_not_reported_as_unused_at_the_end() -> None:
    player = script.play([{"name": "one"}, {"times": "always"}])

    assert player.unused == ["one"]


@pytest.mark.parametrize(
    ("when", "asked", "fits"),
    [
        ({"last": "hello"}, question(), True),
        ({"last": "hello"}, question(user(), user("bye")), False),
        ({"any": "hello"}, question(user(), user("bye")), True),
        ({"user": "hello"}, question(user(), made("a"), result("a")), True),
        ({"system": "strict"}, question({"role": "system", "content": "be strict"}, user()), True),
        ({"system": "hello"}, question(), False),
        ({"after": "read"}, question(user(), made("a"), result("a")), True),
        ({"after": "read"}, question(user(), made("a"), result("a"), user()), False),
        ({"tool": "files__*"}, question(tools=("files__read",)), True),
        ({"tool": "shell"}, question(tools=("files__read",)), False),
        ({"not": "bye"}, question(), True),
        ({"not": ["bye", "hello"]}, question(), False),
        ({"any": "hello", "last": "bye"}, question(user(), user("bye")), True),
    ],
)
def test_a_step_waits_for_what_it_says(when: dict[str, Any], asked: Question, fits: bool) -> None:
    assert (script.play([{"when": when}]).take(asked) is not None) is fits


def test_a_model_is_matched_by_either_of_its_names() -> None:
    player = script.play([{"model": "ollama/*"}, {"model": "small"}])

    assert player.take(Question("small", [user()], [], alias="ollama/small")) is player.steps[0]
    assert player.take(question()) is player.steps[1]
    assert script.play([{"model": "large"}]).take(question()) is None


@pytest.mark.parametrize("wrong", ["7", [{"wen": {}}], [{"when": {"first": "x"}}], [{"reply": {"test": "x"}}]])
def test_error_in_a_script_is_reported(wrong: Any) -> None:
    with pytest.raises(BadScript):
        script.play(wrong)


def test_ids_of_calls_depend_on_the_conversation_and_not_on_the_order_of_clients() -> None:
    step = script.play([{"reply": {"calls": [{"name": "a"}, {"name": "b"}]}, "times": "always"}]).steps[0]

    once, again = (chunking.calls_of(step, question()) for _ in range(2))

    assert once == again
    assert once[0]["id"] != once[1]["id"]
    assert once[0]["id"] != chunking.calls_of(step, question(user(), user()))[0]["id"]


def post(server: StartedServer, asked: dict[str, Any]) -> tuple[int, Any]:
    request = urllib.request.Request(f"{server.url}/chat/completions", json.dumps(asked).encode())
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, json.load(refused)


def test_all_steps_taken_and_all_requests_valid_is_exit_code_0(tmp_path: Path) -> None:
    with started([{"reply": {"text": "hi"}}, {"times": "always"}], tmp_path) as server:
        status, answer = post(server, body())
        assert server.stop() == 0

    assert (status, answer["choices"][0]["message"]["content"]) == (200, "hi")
    assert [(entry["event"], entry.get("how")) for entry in server.log] == [("asked", None), ("ended", "answered")]
    assert server.asked == [body()]


def test_unused_step_is_named_with_exit_code_1(tmp_path: Path) -> None:
    with started([{"name": "never taken"}], tmp_path) as server:
        assert server.stop() == 1
    assert server.left == ["never taken"]


def test_an_invalid_request_is_answered_with_the_reason_and_is_exit_code_1(tmp_path: Path) -> None:
    with started([{"times": "always"}], tmp_path) as server:
        status, answer = post(server, body(user(), made("a"), user()))
        unread, _ = post(server, {"model": "m"})
        assert server.stop() == 1

    assert (status, unread) == (400, 400)
    assert "tool_call_id" in answer["error"]["message"]


def test_request_without_a_matching_step_is_reported(tmp_path: Path) -> None:
    with started([{"model": "other"}], tmp_path) as server:
        status, answer = post(server, body(user("what now?")))

    assert status == 400
    assert "what now?" in answer["error"]["message"]


def test_models_of_the_server_are_those_of_the_script(tmp_path: Path) -> None:
    with (
        started([{"model": "small"}, {"model": "small"}], tmp_path) as server,
        urllib.request.urlopen(f"{server.url}/models") as answer,
    ):
        assert [one["id"] for one in json.load(answer)["data"]] == ["small"]
