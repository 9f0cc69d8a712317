"""`ws` checks against real servers: right ones in many shapes hold, and each wrong one fails at what is wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from socket import create_server
from typing import Any

import anyio
import pytest

from planloop.controllers.task.checks.http_exchange import ExchangeTranscript
from planloop.controllers.task.checks.run import CheckEnvironment, CheckFinding, run_check
from planloop.controllers.task.checks.web.child import NO_BROWSER
from planloop.controllers.task.checks.ws.client import SocketClient, frame_matches
from planloop.controllers.task.checks.ws.conversation import PageSocket, check_ws, observe_page_socket
from planloop.reconciler.effects.local_processes import LocalProcesses
from planloop.schemas import limits
from tests import golden_text
from tests.controllers.task import chats
from tests.controllers.task.chats import Chats, at
from tests.controllers.task.harness import ENV
from tests.controllers.task.served import answering
from tests.controllers.task.web.sites import CRASH
from tests.product import CheckSpec, Json, JsonObject, RandomIds

pytestmark = pytest.mark.anyio


def broadcast(within: str) -> list[JsonObject]:
    return [
        {"ann": {"say": "{{nonce.hi}}"}},
        {"bob": {"hears": "{{nonce.hi}}", "within": within}},
        {"drop": "ann"},
        {"bob": {"not-closed": "50ms"}},
        {"bob": {"say": "{{nonce.b}}"}},
        {"bob": {"hears-not": "{{nonce.hi}}", "for": "50ms"}},
    ]


SURELY, IN_VAIN = broadcast("30s"), broadcast("200ms")  # A frame that arrives ends the wait.
FRAMES: list[Json] = ["text", {"json": {"message": "$"}}, {"json": {"type": "message", "text": "$"}}]
CHAT: JsonObject = {
    "clients": ["ann", "bob"],
    "discover": {"else": ["/ws", "/chat", "/socket", "/"]},
    "frame": {"else": FRAMES},
    "steps": SURELY,
}


@pytest.fixture
def bench(tmp_path: Path) -> CheckEnvironment:
    return CheckEnvironment(LocalProcesses(tmp_path / "run", str(tmp_path), 1), RandomIds(), str(tmp_path), None, ENV)


async def find(bench: CheckEnvironment, timeout_s: float = 60.0, **arguments: Any) -> CheckFinding:
    return await run_check(CheckSpec("0", "ws", CHAT | arguments, timeout_s), bench)


@pytest.mark.parametrize("serves", chats.RIGHT.values(), ids=chats.RIGHT)
async def test_every_correct_chat_passes_for_any_path_and_frames(bench: CheckEnvironment, serves: Chats) -> None:
    async with serves() as url:
        found = await find(bench, url=url)

    assert found.result == "pass", found.output.decode()
    golden_text.said(found.message)
    assert found.probes >= 5
    assert b"ann > " in found.evidence["frames.txt"]


DEAF: dict[str, type[chats.Chat]] = {
    "a constant": chats.Constant,
    "to the sender alone": chats.Echo,
    "one message late": chats.Late,
}


@pytest.mark.parametrize("chat", DEAF.values(), ids=DEAF)
async def test_a_chat_in_which_one_does_not_hear_the_other_fails(
    bench: CheckEnvironment, chat: type[chats.Chat]
) -> None:
    async with at("/ws", chat)() as url:
        found = await find(bench, url=url, frame={"else": ["text"]}, steps=IN_VAIN)

    assert (found.result, found.probes) == ("fail", 6)  # Two came in, one listened, and three paths were shut.
    golden_text.said(found.message)


WRONG: dict[str, tuple[Chats, str]] = {
    "all go when one goes": (at("/ws", chats.Fragile), "step 4: the connection of bob was closed with code 1000"),
    "everything twice": (at("/ws", chats.Twice), "step 6: bob receives"),
    "a flood": (at("/ws", chats.Flood), "bob received 1,000 frames, the limit"),
    "frames too large": (at("/ws", chats.Huge), "the connection of bob was closed"),
    "a socket at an untried path": (
        at("/elsewhere", chats.Chat),
        "/ws answers 404 and does not open a WebSocket; /chat",
    ),
    "no HTTP": (lambda: answering(b"220 mail\r\n"), "/ws does not open a WebSocket: Bad status line; /chat"),
    "one elsewhere": (
        lambda: answering(b"HTTP/1.1 302 Found\r\nLocation: http://localhost:1/\r\nContent-Length: 0\r\n\r\n"),
        "/ws does not open a WebSocket: it redirects to http://localhost:1/; /chat",
    ),
}


@pytest.mark.parametrize(("serves", "words"), WRONG.values(), ids=WRONG)
async def test_a_chat_that_is_wrong_in_one_thing_fails_at_that(
    bench: CheckEnvironment, serves: Chats, words: str
) -> None:
    async with serves() as url:
        found = await find(bench, url=url, frame={"else": ["text"]})

    assert found.result == "fail"
    assert words in found.message
    assert found.probes > 0


async def test_frame_that_arrives_as_the_wait_ends_is_received() -> None:
    bob = SocketClient("bob", ExchangeTranscript())

    async def send() -> None:
        bob.received.append("hi")

    async with anyio.create_task_group() as group:
        group.start_soon(send)  # Begins when `receives` first waits, and by then its time is over.
        assert await bob.receives("hi", 0.0)


@pytest.mark.parametrize(
    ("chat", "within", "words"),
    [
        (
            chats.Chat,
            "50ms",
            'bob does not receive "{hi}" within 0.05 s; its last frame is "{hi}", used by an earlier step',
        ),
        (chats.Hasty, "30s", 'bob does not receive "{hi}": the connection of bob was closed with code 1000'),
    ],
    ids=["heard before", "closed before"],
)
async def test_a_message_names_the_time_only_when_it_has_passed(
    bench: CheckEnvironment, chat: type[chats.Chat], within: str, words: str
) -> None:
    hears: JsonObject = {"bob": {"hears": "{{nonce.hi}}", "within": "30s"}}
    again: JsonObject = {"bob": {"hears": "{{nonce.hi}}", "within": within}}
    async with at("/ws", chat)() as url:
        steps: list[JsonObject] = [{"ann": {"say": "{{nonce.hi}}"}}, hears, again]
        found = await find(bench, url=url, frame={"else": ["text"]}, steps=steps, nonces={"hi": "0123456789ab"})

    assert (found.result, found.message) == (
        "fail",
        f"at /ws, in frames of plain text, step 3: {words.format(hi='0123456789ab')}",
    )


async def test_leftovers_of_one_try_do_not_help_another(bench: CheckEnvironment) -> None:
    async with at("/ws", chats.Memory)() as url:
        given = await find(bench, url=url, steps=IN_VAIN, nonces={"hi": "0123456789ab", "b": "ba9876543210"})

    assert (given.result, "(the best of 3 ways)" in given.message) == ("fail", True)
    said = [line for line in given.output.decode().splitlines() if line.startswith("ann > ")]
    assert said[0] == "ann > 0123456789ab"
    assert len(set(said)) == 3


async def test_dropped_client_reconnects_and_a_client_that_greets_is_admitted(bench: CheckEnvironment) -> None:
    steps: list[JsonObject] = [
        {"drop": "bob"},
        {"ann": {"say": "{{nonce.hi}}"}},
        {"ann": {"hears": "/^ann: {{nonce.hi}}$/", "within": "30s"}},
        {"connect": "bob"},
        {"ann": {"say": '"{{nonce.b}}"'}},
        {"bob": {"hears": {"not": {"contains": "{{nonce.hi}}"}}, "within": "30s"}},
        {"bob": {"hears-not": {"any": True}, "for": "10ms"}},
    ]
    shape = {"json": {"type": "say", "text": "$"}, "first": {"json": {"type": "join", "name": "$"}}}
    async with at("/ws", chats.Named)() as url:
        found = await find(bench, url=url, frame={"else": [shape]}, steps=steps)

    assert (found.result, found.message.startswith("7 steps pass at /ws, in frames like {")) == ("pass", True)


async def test_the_page_is_watched_first_and_its_greeting_and_its_frames_are_learnt(bench: CheckEnvironment) -> None:
    watched: list[str] = []

    async def seen_by(url: str, said: str, bench: CheckEnvironment, within_s: float) -> PageSocket:
        watched.append(url)
        return PageSocket("/rooms?of=1", ('{"type":"join","name":"x"}', f'{{"type":"say","text":"{said}","n":1}}'))

    async with at("/rooms", chats.Named)() as url:
        arguments = {"url": url, "clients": ["ann", "bob"], "steps": SURELY}
        found = await check_ws(CheckSpec("0", "ws", arguments, 30.0), bench, seen_by)

    assert watched == [f"{url}/"]
    assert found.result == "pass"
    golden_text.said(found.message)


@pytest.mark.parametrize(
    ("seen", "result", "words"),
    [
        (None, "fail", "the page opens no socket, and the check names no other way"),
        ("no browser here", "error", "the page cannot be observed: no browser here"),
    ],
)
async def test_complete_page_without_a_socket_is_distinguished_from_no_browser(
    bench: CheckEnvironment, seen: str | None, result: str, words: str
) -> None:
    async def seen_by(url: str, said: str, bench: CheckEnvironment, within_s: float) -> str | None:
        return seen

    arguments = CHAT | {"url": "http://127.0.0.1:9", "discover": {"from-page": "/"}, "frame": {"learn": "from-page"}}
    found = await check_ws(CheckSpec("0", "ws", arguments, 30.0), bench, seen_by)

    assert (found.result, found.message, found.probes) == (result, words, 0)


@pytest.mark.browser
@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("page", "path", "chat"),
    [
        (chats.SIMPLE_PAGE, "/live?room=1", chats.Message),
        (chats.NAMED_PAGE, "/live", chats.Named),
    ],
    ids=["a field and a button", "a name first"],
)
async def test_a_browser_uses_the_page_and_its_socket_is_found_with_its_frames(
    bench: CheckEnvironment, page: str, path: str, chat: type[chats.Chat]
) -> None:
    only = {"discover": {"from-page": "/"}, "frame": {"learn": "from-page"}}
    async with chats.at_page(page, "/live", chat) as url:
        found = await find(bench, timeout_s=60.0, url=url, **only)

    assert found.result == "pass"
    golden_text.said(found.message, path)


@pytest.mark.browser
@pytest.mark.timeout(120)
async def test_a_page_that_makes_its_tab_crash_is_one_without_a_socket_and_makes_no_error(
    bench: CheckEnvironment,
) -> None:
    page: JsonObject = {"discover": {"from-page": "/", "else": ["/live"]}, "frame": {"else": ["text"]}}
    async with chats.at_page(f"<body><script>{CRASH}</script>", "/live", chats.Echo) as url:
        found = await find(bench, url=url, steps=IN_VAIN, **page)

    assert found.result == "fail"
    golden_text.said(found.message)


@pytest.mark.browser
@pytest.mark.timeout(120)
async def test_page_that_sends_too_much_is_still_watched(bench: CheckEnvironment) -> None:
    """Long frames are not messages, and the first hundred of the short ones are kept."""
    flood = "for (let i = 0; i < 5; i++) s.send('x'.repeat(1_000_000)); for (let i = 0; i < 200; i++) s.send('hi')"
    script = f"const s = new WebSocket(`ws://${{location.host}}/live`); s.onopen = () => {{ {flood} }}"
    async with chats.at_page(f"<script>{script}</script>", "/live", chats.Memory) as url:
        seen = await observe_page_socket(f"{url}/", "x", bench, 90.0)

    assert seen == PageSocket("/live", ("hi",) * limits.OBSERVED_FRAMES_MAX)


async def test_missing_browser_is_reported_with_its_fix_and_leaves_nothing(
    bench: CheckEnvironment, tmp_path: Path
) -> None:
    alone = replace(bench, env={"PATH": str(tmp_path)})

    assert await observe_page_socket("http://127.0.0.1:9/", "x", alone, 60.0) == NO_BROWSER
    golden_text.said(str(await observe_page_socket("http://127.0.0.1:9/", "x", alone, 0.01)))
    assert await bench.processes.sweep(frozenset()) == []


async def test_unwatchable_page_is_an_error_for_a_wrong_chat_and_a_pass_for_a_right_one(
    bench: CheckEnvironment,
) -> None:
    async def seen_by(url: str, said: str, bench: CheckEnvironment, within_s: float) -> str:
        return "no browser here"

    page = CHAT | {"discover": {"from-page": "/", "else": ["/ws"]}, "frame": {"else": ["text"]}, "steps": IN_VAIN}
    async with at("/ws", chats.Echo)() as url:
        wrong = await check_ws(CheckSpec("0", "ws", page | {"url": url}, 30.0), bench, seen_by)
    async with at("/ws", chats.Chat)() as url:
        right = await check_ws(CheckSpec("0", "ws", page | {"url": url, "steps": SURELY}, 30.0), bench, seen_by)

    assert (wrong.result, right.result) == ("error", "pass")
    golden_text.said(wrong.message)


async def test_a_url_with_a_path_is_the_sockets_own(bench: CheckEnvironment) -> None:
    async with at("/deep/down", chats.Chat)() as url:
        address = f"{url.replace('http', 'ws')}/deep/down"
        arguments = {"url": address, "clients": ["ann", "bob"], "steps": SURELY}
        found = await run_check(CheckSpec("0", "ws", arguments, 30.0), bench)

    assert found.result == "pass"
    golden_text.said(found.message)


async def test_a_program_that_lets_all_time_go_by_fails_at_the_best_that_it_did(bench: CheckEnvironment) -> None:
    async with at("/ws", chats.Echo)() as url:
        shapes = {"else": [{"json": {f"m{number}": "$"}} for number in range(12)]}
        found = await find(bench, timeout_s=1.2, url=url, frame=shapes, steps=broadcast("100ms"))

    assert found.result == "fail"
    assert found.message.endswith("more were not tried for lack of time)")


@pytest.mark.parametrize("paths", [["/ws"], ["/ws", "/chat"]])
async def test_a_program_that_never_answers_the_handshake_fails_there(
    bench: CheckEnvironment, paths: list[Json]
) -> None:
    async with answering(b"", hangs=True) as url:
        found = await find(bench, timeout_s=0.3, url=url, discover={"else": paths})

    assert (found.result, found.probes) == ("fail", 1)
    left = " (more were not tried for lack of time)" if len(paths) > 1 else ""
    golden_text.said(found.message, left)


@pytest.mark.process
async def test_program_without_answers_fails_at_the_step_that_waits_for_them(
    bench: CheckEnvironment,
) -> None:
    steps: list[JsonObject] = [{"ann": {"say": "hi"}}, {"bob": {"hears": "hi", "within": "15s"}}]
    async with at("/ws", chats.Memory)() as url:
        found = await find(
            bench, timeout_s=5.0, url=url, discover={"else": ["/ws"]}, frame={"else": ["text"]}, steps=steps
        )

    words = 'at /ws, in frames of plain text, step 2: bob receives "hi": not done before the time limit of the check'
    assert (found.result, found.message) == ("fail", words)
    assert found.probes == 3
    assert b"ann > hi" in found.evidence["frames.txt"]


@pytest.mark.process
async def test_program_that_reads_nothing_fails_without_delay(bench: CheckEnvironment) -> None:
    steps: list[JsonObject] = [{"ann": {"say": "x" * (16 << 20)}}, {"bob": {"hears": "x", "within": "30s"}}]
    async with at("/ws", chats.Unread)() as url:
        found = await find(
            bench, timeout_s=5.0, url=url, discover={"else": ["/ws"]}, frame={"else": ["text"]}, steps=steps
        )

    assert found.result == "fail"
    assert found.message.endswith("not done before the time limit of the check")


async def test_missing_listener_is_reported_as_such_and_as_not_probed(bench: CheckEnvironment) -> None:
    with create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"

    found = await find(bench, url=url)
    assert (found.result, found.probes) == ("fail", 0)
    assert found.message.startswith(f"{url} does not answer: nothing listens there (")


async def test_a_pattern_that_filling_has_spoilt_is_an_error_and_no_fail(bench: CheckEnvironment) -> None:
    async with at("/ws", chats.Chat)() as url:
        found = await find(bench, url=url, steps=[{"ann": {"say": "x"}}, {"bob": {"hears": "/(/"}}])

    assert (found.result, found.message.startswith("step 2: /(/: ")) == ("error", True)


@pytest.mark.parametrize(
    ("pattern", "frame", "is_one"),
    [
        ("hi", "oh HI there", True),
        ("hi", '{"a": [{"b": "hi"}]}', True),
        ("hi", '["{\\"text\\": \\"hi\\"}"]', True),
        ("hi", '{"hi": 1}', False),
        ("/^hi$/", '{"a": "hi"}', True),
        ("/^hi$/", "hi there", False),
        ("12", '{"n": 12}', True),
        ({"type": "number"}, "12", True),
        ({"subset": {"a": 1}}, '{"a": 1, "b": 2}', True),
        ({"subset": {"a": 1}}, "text", False),
        ({"any": True}, "", True),
    ],
)
def test_text_matches_anywhere_in_a_frame_and_a_pattern_must_match_all_of_it(
    pattern: Json, frame: str, is_one: bool
) -> None:
    assert frame_matches(pattern, frame) is is_one
