"""The steps of `http` checks against real servers: those that do right in their own way, and those that seem to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from socket import create_server
from typing import Any

import anyio
import pytest
from aiohttp import web

from planloop.controllers.task.checks.run import CheckEnvironment, CheckFinding, run_check
from planloop.reconciler.effects.local_processes import LocalProcesses
from tests.controllers.task.harness import ENV
from tests.controllers.task.served import answering, serving
from tests.golden_text import said
from tests.product import CheckSpec, Json, JsonObject, RandomIds

pytestmark = pytest.mark.anyio
Serves = Callable[[], AbstractAsyncContextManager[str]]

ECHO: list[JsonObject] = [
    {
        "send": {"method": "POST", "path": ["/echo", "/", "/api/echo"], "body": "{{nonce.msg}}"},
        "expect": {"status": "2xx", "body": {"contains": "{{nonce.msg}}"}, "within": 2},
    },
    {
        "send": {"path": ["same"], "json": {"a": 1, "msg": "{{nonce.msg}}"}},
        "expect": {"json": {"subset": {"msg": "{{nonce.msg}}"}}},
    },
]
OFTEN: JsonObject = {"times": 20, "parallel": 5, "distinct": ["nonce"]}


@pytest.fixture
def bench(tmp_path: Path) -> CheckEnvironment:
    return CheckEnvironment(LocalProcesses(tmp_path / "run", str(tmp_path), 1), RandomIds(), str(tmp_path), None, ENV)


async def find(bench: CheckEnvironment, timeout_s: float = 10.0, **arguments: Any) -> CheckFinding:
    return await run_check(CheckSpec("0", "http", arguments, timeout_s), bench)


async def step(bench: CheckEnvironment, url: str, send: Json, **expect: Json) -> CheckFinding:
    send = {"path": ["/"]} | (send if isinstance(send, dict) else {"path": [send]})
    return await find(bench, url=url, steps=[{"send": send, "expect": expect}])


async def echo(request: web.Request) -> web.Response:
    return web.Response(body=await request.read(), content_type=request.content_type)


async def echo_wrapped(request: web.Request) -> web.Response:
    sent = await request.text()
    if request.content_type == "application/json":
        return web.json_response({"ok": True, **await request.json()}, status=201)
    return web.Response(text=f"<p>You said: {sent}</p>\n", content_type="text/html")


async def echo_in_pieces(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(status=200, headers={"content-type": "text/plain"})
    response.enable_compression()
    await response.prepare(request)
    for byte in await request.read():
        await response.write(bytes([byte]))
    await response.write_eof()
    return response


async def moved(request: web.Request) -> web.Response:
    raise web.HTTPPermanentRedirect("/really")


RIGHT: dict[str, Serves] = {
    "as it came": lambda: serving(("POST", "/echo", echo)),
    "at the top, wrapped": lambda: serving(("POST", "/", echo_wrapped)),
    "elsewhere, in compressed pieces": lambda: serving(("POST", "/api/echo", echo_in_pieces)),
    "where it moved to": lambda: serving(("POST", "/echo", moved), ("POST", "/really", echo)),
}


def constant() -> AbstractAsyncContextManager[str]:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"msg": "hello"})

    return serving(("POST", "/echo", answer))


def of_the_last_who_asked() -> AbstractAsyncContextManager[str]:
    last: list[bytes] = []
    everybody = anyio.Event()

    async def answer(request: web.Request) -> web.Response:
        last.append(await request.read())
        if request.content_type == "text/plain":
            if len(last) == OFTEN["parallel"]:
                everybody.set()
            await everybody.wait()
        return web.Response(body=last[-1])

    return serving(("POST", "/echo", answer))


def text_only() -> AbstractAsyncContextManager[str]:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(text="not json " + (await request.text())[:40])

    return serving(("POST", "/echo", answer))


def first_time_only() -> AbstractAsyncContextManager[str]:
    seen: list[bytes] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(await request.read())
        return web.Response(body=seen[-1] if len(seen) < 4 else seen[0])

    return serving(("POST", "/echo", answer))


WRONG: dict[str, tuple[Serves, str]] = {
    "an echo of a constant": (constant, "the body does not contain"),
    "what another sent": (of_the_last_who_asked, "; the answer contains the nonce of another request"),
    "no JSON": (text_only, "step 2: POST"),
    "a good first impression": (first_time_only, " of 20: step "),
    "nowhere": (lambda: serving(("GET", "/echo", echo)), "the status is 404, not 2xx"),
    "not HTTP": (lambda: answering(b"SSH-2.0-OpenSSH_9.2\r\n"), "does not answer with HTTP: Bad status line"),
    "not a word": (lambda: answering(b""), "closes the connection without an answer"),
    "half an answer": (
        lambda: answering(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhalf"),
        "closes the connection in the middle of its answer",
    ),
}


@pytest.mark.parametrize("serves", RIGHT.values(), ids=RIGHT)
async def test_every_correct_echo_passes_for_any_path_and_shape(bench: CheckEnvironment, serves: Serves) -> None:
    async with serves() as url:
        found = await find(bench, url=url, steps=ECHO, repeat=OFTEN)

    assert found.result == "pass"
    said(found.message)
    assert found.probes >= 40
    assert found.evidence["exchanges.txt"].startswith(b"> POST /echo ")


@pytest.mark.parametrize(("serves", "words"), WRONG.values(), ids=WRONG)
async def test_almost_correct_echo_fails_and_names_the_step(
    bench: CheckEnvironment, serves: Serves, words: str
) -> None:
    async with serves() as url:
        found = await find(bench, url=url, steps=ECHO, repeat=OFTEN)

    assert found.result == "fail"
    assert words in found.message
    assert found.probes > 0


async def test_nonces_are_the_given_ones_and_a_repeat_has_its_own(bench: CheckEnvironment) -> None:
    heard: list[str] = []

    async def listen(request: web.Request) -> web.Response:
        heard.append(await request.text())
        return web.Response()

    async with serving(("POST", "/", listen)) as url:
        steps = [{"send": {"path": ["/"], "body": "a 0123456789ab"}}]
        repeat = {"times": 3, "distinct": ["nonce"]}
        one = await find(bench, url=url, steps=steps, repeat=repeat, nonces={"x": "0123456789ab"})
        same = await find(bench, url=url, steps=steps, repeat=repeat, nonces={"x": "0123456789ab"})
        nothing = await find(bench, url=url, steps=steps, repeat=repeat)

    assert heard[0] == "a 0123456789ab"
    assert (heard[:3], one) == (heard[3:], same)
    assert len(set(heard)) == 3
    assert (nothing.result, nothing.probes) == ("error", 0)


async def test_values_of_a_response_are_kept_for_later_steps_with_type_and_cookies(
    bench: CheckEnvironment,
) -> None:
    async def make(request: web.Request) -> web.Response:
        response = web.json_response({"item": {"id": 7}})
        response.set_cookie("who", "ada")
        return response

    async def show(request: web.Request) -> web.Response:
        assert request.cookies["who"] == "ada"
        return web.json_response({"id": 7, "sent": await request.json() if request.can_read_body else None})

    async with serving(("POST", "/items", make), ("*", "/items/7", show)) as url:
        made = {"send": {"method": "POST", "path": ["/items"]}, "keep": {"id": "/item/id"}}
        shown = {"send": {"path": ["/items/{{kept.id}}"]}, "expect": {"json": {"id": "{{kept.id}}"}}}
        sent = {"send": {"path": ["same"], "json": {"id": "{{kept.id}}"}}, "expect": {"json": {"sent": {"id": 7}}}}
        good = await find(bench, url=url, steps=[made, shown, sent])
        lacks = await find(bench, url=url, steps=[made | {"keep": {"id": "/id"}}])

    assert (good.result, good.message) == ("pass", "3 steps pass")
    assert lacks.result == "fail"
    said(lacks.message, "/id")


@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        ("/.*/", {"json": {"id": "{{kept.id}}"}}),
        ({"any": True}, {"json": {"id": "{{kept.id}}"}}),
        ("any", {"json": {"id": {"{{kept.id}}": True}}}),
        (["/.*/"], {"json": {"id": "{{kept.id}}"}}),
        (".*", {"body": "/id.*{{kept.id}}!/"}),
        (".*/", {"body": "/{{kept.id}}"}),
        ("/.*/", {"body": {"contains": "{{kept.id}}"}}),
        ("/.*/", {"headers": {"Content-Type": "{{kept.id}}"}}),
        ({}, {"json": {"id": {"type": "{{kept.id}}"}}}),
        ("a b", {"status": "{{kept.id}}"}),
        (404, {"status": "{{kept.id}}"}),
        ("(", {"json": {"id": "/{{kept.id}}/"}}),
        ({"x": 1}, {"headers": {"{{kept.id}}": "x"}}),
    ],
)
async def test_text_of_a_response_is_not_a_pattern_and_causes_no_error(
    bench: CheckEnvironment, kept: object, expected: dict[str, object]
) -> None:
    async def make(_: web.Request) -> web.Response:
        return web.json_response({"id": kept})

    async def show(_: web.Request) -> web.Response:
        return web.json_response({"id": "other"})

    async with serving(("GET", "/made", make), ("GET", "/shown", show)) as url:
        made = {"send": {"path": ["/made"]}, "keep": {"id": "/id"}}
        found = await find(bench, url=url, steps=[made, {"send": {"path": ["/shown"]}, "expect": expected}])

    assert found.result == "fail", found.message


async def test_an_address_that_cannot_be_asked_is_an_error_where_no_answer_made_it(bench: CheckEnvironment) -> None:
    async def make(_: web.Request) -> web.Response:
        return web.json_response({"at": "nowhere"})

    async with serving(("GET", "/made", make)) as url:
        made = {"send": {"path": ["/made"]}, "keep": {"at": "/at"}}
        found = await find(bench, url=url, steps=[made, {"send": {"url": "nowhere at all"}}])

    assert found.result == "error", found.message


async def test_an_address_that_an_answer_made_impossible_is_its_doing(bench: CheckEnvironment) -> None:
    async def make(_: web.Request) -> web.Response:
        return web.json_response({"at": "nowhere at all"})

    async with serving(("GET", "/made", make)) as url:
        made = {"send": {"path": ["/made"]}, "keep": {"at": "/at"}}
        found = await find(bench, url=url, steps=[made, {"send": {"url": "{{kept.at}}"}}])

    assert found.result == "fail", found.message


async def test_values_of_a_response_are_found_within_texts_and_expressions(bench: CheckEnvironment) -> None:
    async def show(_: web.Request) -> web.Response:
        return web.json_response({"id": "a.b (c) - d", "list": [1, "/x/"], "say": "id a.b (c) - d!"})

    async with serving(("GET", "/", show)) as url:
        first = {"send": {"path": ["/"]}, "keep": {"id": "/id", "list": "/list"}}
        expect = {
            "json": {"id": "{{kept.id}}", "list": "{{kept.list}}", "say": {"contains": "{{kept.id}}"}},
            "body": "/id {{kept.id}}!/",
        }
        found = await find(bench, url=url, steps=[first, {"send": {"path": ["/"]}, "expect": expect}])

    assert found.result == "pass", found.message


async def test_status_headers_and_forms_are_held_to_what_is_expected(bench: CheckEnvironment) -> None:
    async def login(request: web.Request) -> web.Response:
        form = await request.post()
        if (form.get("user"), request.headers["X-Key"]) != ("ada", "k"):
            raise web.HTTPUnauthorized
        raise web.HTTPSeeOther("/home", headers={"X-Seen": "yes"})

    async def home(request: web.Request) -> web.Response:
        return web.Response(text="welcome")

    async with serving(("POST", "/login", login), ("GET", "/home", home)) as url:
        send = {"path": ["/login"], "form": {"user": "ada"}, "headers": {"x-key": "k"}}
        assert (await step(bench, url, send, body="Welcome")).result == "pass"
        assert (await step(bench, url, send, status=["302", "303"], headers={"x-seen": "YES"})).result == "pass"
        wrong = await step(bench, url, send, status="3xx", headers={"Location": "/login/"})
        missing = await step(bench, url, "/home", headers={"x-seen": "yes"})
        refused = await step(bench, url, send | {"form": {"user": "bob"}})
        assert (await step(bench, url, send | {"form": {"user": "bob"}}, status="401")).result == "pass"

    said(wrong.message)
    said(missing.message)
    said(refused.message)


async def test_a_redirect_in_a_ring_or_to_another_program_is_not_followed(bench: CheckEnvironment) -> None:
    async def ring(request: web.Request) -> web.Response:
        raise web.HTTPFound("/ring")

    async def lost(request: web.Request) -> web.Response:
        raise web.HTTPFound("mailto:ada@x")

    async with serving(("GET", "/x", echo)) as other:

        async def away(request: web.Request) -> web.Response:
            raise web.HTTPFound(f"{other}/x")

        async with serving(("GET", "/ring", ring), ("GET", "/away", away), ("GET", "/nowhere", lost)) as url:
            nowhere = await step(bench, url, "/nowhere")
            round_and_round = await step(bench, url, "/ring")
            strayed = await step(bench, url, "/away")
            assert (await step(bench, url, "/away", status="302")).result == "pass"

    said(round_and_round.message)
    said(strayed.message, other)
    said(nowhere.message)


@asynccontextmanager
async def dripping() -> AsyncIterator[str]:
    async with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\na", hangs=True) as url:
        yield url


async def test_endless_answer_is_bounded_in_bytes_and_a_missing_one_in_time(
    bench: CheckEnvironment,
) -> None:
    async def flood(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x" * (256 << 10))

    async with serving(("GET", "/", flood)) as url:
        said((await step(bench, url, "/")).message)
    async with dripping() as url:
        found = await step(bench, url, "/", within=0.05)
        assert found.result == "fail"
        said(found.message)


async def test_a_program_too_slow_for_all_repeats_fails(bench: CheckEnvironment) -> None:
    async with dripping() as url:
        found = await find(bench, timeout_s=0.2, url=url, steps=[{"send": {"path": ["/"]}}], repeat={"times": 3})

    assert found.result == "fail"
    said(found.message)


async def test_unreachable_server_counts_as_not_probed(bench: CheckEnvironment) -> None:
    with create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"

    refused = await step(bench, url, "/")
    assert (refused.result, refused.probes) == ("fail", 0)
    assert refused.message.startswith("GET / does not answer: nothing listens there (")
    assert (await find(bench, url=url)).probes == 0
    misasked = await find(bench, steps=[{"send": {"url": "nowhere"}}])
    assert (misasked.result, misasked.probes) == ("error", 0)


async def test_a_pattern_that_filling_has_spoilt_is_an_error_and_no_fail(bench: CheckEnvironment) -> None:
    async with serving(("*", "/", echo)) as url:
        found = await step(bench, url, {"body": "x"}, body="/(/")

    assert (found.result, found.message.startswith("/(/: ")) == ("error", True)


async def test_a_plain_check_reads_an_answer_in_pieces_to_its_end(bench: CheckEnvironment) -> None:
    async def pieces(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for piece in (b'{"ok":', b" true,", b' "n": 1}'):
            await response.write(piece)
            await anyio.lowlevel.checkpoint()
        return response

    async with serving(("GET", "/", pieces)) as url:
        found = await find(bench, url=f"{url}/", subset={"ok": True, "n": 1})

    assert (found.result, found.probes) == ("pass", 1)


async def test_a_kept_path_stays_on_the_site_of_the_check(bench: CheckEnvironment) -> None:
    asked: list[str] = []

    async def other(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.json_response({})

    async with serving(("*", "/{any:.*}", other)) as elsewhere:

        async def link(_request: web.Request) -> web.Response:
            return web.json_response({"at": elsewhere.replace("http://", "@")})

        async with serving(("GET", "/link", link)) as url:
            kept = {"send": {"path": ["/link"]}, "keep": {"at": "/at"}}
            found = await find(bench, url=url, steps=[kept, {"send": {"path": ["{{kept.at}}"]}, "expect": {}}])

    assert (found.result, asked) == ("fail", [])
