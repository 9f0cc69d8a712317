"""The adapter for each model name, and where keys come from and are sent to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from planloop.controllers.agent.models import router
from planloop.controllers.agent.models.catalog import PROVIDERS
from planloop.controllers.agent.models.router import LOOPBACK_ONLY, ModelRoute, RouteContext
from planloop.schemas.objects import model
from planloop.schemas.objects.model import ModelTable
from tests.product import ModelFailed

HERE = Path("/nowhere")


def found(name: str, env: dict[str, str] | None = None, folder: Path = HERE, **rows: dict[str, Any]) -> ModelRoute:
    return router.find_route(name, ModelTable(tuple(rows.items())), RouteContext(env or {}, folder))


def refused(name: str, env: dict[str, str] | None = None, folder: Path = HERE, **rows: dict[str, Any]) -> ModelFailed:
    with pytest.raises(ModelFailed) as caught:
        found(name, env, folder, **rows)
    return caught.value


def test_a_known_provider_is_asked_at_its_own_url_with_the_key_of_the_environment() -> None:
    route = found("groq/openai/gpt-oss-20b", {"GROQ_API_KEY": "secret"})

    assert not route.is_litellm
    assert (route.endpoint.url, route.endpoint.model) == ("https://api.groq.com/openai/v1", "openai/gpt-oss-20b")
    assert route.endpoint.key == "secret"
    assert "GROQ_API_KEY" in route.endpoint.key_hint


def test_a_server_of_ones_own_needs_no_key() -> None:
    endpoint = found("ollama/qwen3:8b").endpoint

    assert (endpoint.url, endpoint.model, endpoint.key) == ("http://127.0.0.1:11434/v1", "qwen3:8b", "")


def test_url_in_the_name_is_asked_for_the_model_before_it() -> None:
    endpoint = found("team/small@http://10.0.0.7:9/v1/").endpoint

    assert (endpoint.url, endpoint.model, endpoint.key) == ("http://10.0.0.7:9/v1", "team/small", "")


def test_a_url_in_the_plan_is_asked_and_gets_no_key_but_the_one_stated_for_it() -> None:
    env = {"OPENAI_API_KEY": "for openai only", "MINE": "for mine"}
    url = "http://mine/v1"

    assert found("openai/gpt-5", env, openai={"url": url}).endpoint.key == ""
    assert found("openai/gpt-5", env, openai={"url": url, "key": "env:MINE"}).endpoint.key == "for mine"
    assert found("gpt-5@http://mine/v1", env).endpoint.key == ""


def test_unknown_providers_and_bare_names_go_to_litellm_unchanged() -> None:
    for name in ("anthropic/claude-sonnet-5", "gemini/gemini-2.5-pro", "gpt-5"):
        route = found(name)
        assert (route.is_litellm, route.endpoint.model, route.endpoint.url) == (True, name, "")


def test_a_plan_may_send_any_provider_through_litellm() -> None:
    route = found("mistral/small", mistral={"api": "litellm", "url": "http://mine/v1"})

    assert (route.is_litellm, route.endpoint.model, route.endpoint.url) == (True, "mistral/small", "http://mine/v1")


def test_an_unknown_provider_with_a_url_is_openai_compatible() -> None:
    route = found("house/big", house={"url": "http://house/v1"})

    assert (route.is_litellm, route.endpoint.model) == (False, "big")
    assert refused("house/big", house={"api": "openai"}).reason == "BadRequest"


def test_missing_key_is_named_with_its_fix() -> None:
    assert refused("openai/gpt-5").reason == "NoKey"
    assert "OPENAI_API_KEY" in str(refused("openai/gpt-5"))
    assert "MINE" in str(refused("openai/gpt-5", openai={"key": "env:MINE"}))


def test_key_may_be_in_a_file_beside_the_plan(tmp_path: Path) -> None:
    (tmp_path / "key.txt").write_text("secret\n")

    assert found("groq/x", folder=tmp_path, groq={"key": "file:key.txt"}).endpoint.key == "secret"
    assert refused("groq/x", folder=tmp_path, groq={"key": "file:gone.txt"}).reason == "NoKey"


def test_a_key_may_be_in_ones_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "key.txt").write_text("secret")

    assert found("groq/x", groq={"key": "file:~/key.txt"}).endpoint.key == "secret"


def test_key_written_in_the_plan_is_not_used_and_not_shown() -> None:
    failed = refused("groq/x", groq={"key": "sk-oh-dear"})

    assert failed.reason == "NoKey"
    assert "sk-oh-dear" not in str(failed)


def test_headers_may_hold_references_too() -> None:
    row: dict[str, Any] = {"url": "http://mine/v1", "headers": {"api-key": "env:AZURE", "X-Title": "plan"}}

    sent = found("azure/x", {"AZURE": "secret"}, azure=row).endpoint.headers
    assert sent == (("api-key", "secret"), ("X-Title", "plan"))


def test_secrets_are_not_shown() -> None:
    assert "secret" not in repr(found("groq/x", {"GROQ_API_KEY": "secret"}))


@pytest.mark.parametrize(
    ("name", "is_allowed"),
    [
        ("ollama/x", True),
        ("x@http://localhost:1/v1", True),
        ("x@http://127.0.0.2:1/v1", True),
        ("x@http://[::1]:1/v1", True),
        ("groq/x", False),
        ("anthropic/x", False),
        ("x@http://127.0.0.1.evil.example/v1", False),
        ("x@http://localhost@evil.example/v1", False),
        ("x@https://example.com/v1", False),
    ],
)
def test_the_switch_for_tests_allows_this_machine_only(name: str, is_allowed: bool) -> None:
    env = {LOOPBACK_ONLY: "1", "GROQ_API_KEY": "k"}
    if is_allowed:
        found(name, env)
    else:
        assert refused(name, env).reason == "Unreachable"


def test_every_provider_that_is_asked_is_a_name_that_plans_may_use() -> None:
    assert set(PROVIDERS) <= set(model.PROVIDERS)
