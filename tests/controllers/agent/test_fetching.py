"""`fetch` returns pages of a real server as text, within limits, and only from hosts that the rights allow."""

from __future__ import annotations

import asyncio
import ipaddress
import json
from pathlib import Path

import pytest
from aiohttp import web

from planloop.controllers.agent.tools import fetch
from planloop.controllers.agent.tools.errors import ToolFailed
from planloop.controllers.agent.tools.fetch import PageText, parse_page
from planloop.schemas import limits
from tests import rows
from tests.controllers.agent.arena import arena
from tests.fakes.pages import Answer, moved, page, serving
from tests.golden_text import said
from tests.product import JsonObject

pytestmark = pytest.mark.anyio

HTML = """<html><head><title>A  page</title><style>p {}</style><script>alert(1)</script></head>
<body><h1>Head</h1><p>One &amp; two<br>three</p><ul><li>first</li><li><a href="/x">second</a></li></ul></body></html>"""


async def got(
    folder: Path,
    url: str,
    *,
    allowed: tuple[str, ...] = ("localhost:*",),
    more: str = "",
    tools: str = "[fetch]",
    arguments: str = "",
    environment: dict[str, str] | None = None,
) -> JsonObject:
    """The one result of a fetch by an agent with these hosts in its rights."""
    text = f"""
        rights: {{network: all, hosts: {json.dumps(list(allowed))}{more}}}
        agent:
          tools: {tools}
          script:
            - call: {{fetch: {{url: {json.dumps(url)}{arguments}}}}}
            - expect: {{not: "no such text"}}
            - done: so
    """
    async with arena(folder, surrounding=environment) as here:
        await here.apply(text)
        await here.until_state("task/.", "done", "failed")
        await here.settled()
        settled = await here.results("fetch")
        if settled:
            return settled[0]
        ruled, *_ = [draft for draft in await here.log() if draft.type == "call.authorized" and draft.data]
        return {"state": "Denied", "text": str(ruled.data)}


async def test_page_is_read_as_text_with_its_title_and_a_trust_warning(tmp_path: Path) -> None:
    async with serving({"/a": page(HTML)}) as pages:
        result = await got(tmp_path, pages.url("/a"))
    assert result["state"] == "Succeeded", result
    assert "# Head" in result["text"] and "One & two\nthree" in result["text"] and "- first" in result["text"]
    assert "alert" not in result["text"]
    said(result["text"].splitlines()[0])
    assert result["value"]["title"] == "A page" and result["value"]["trust"] == "untrusted"


async def test_links_are_shown_when_wanted_and_json_is_handed_on_parsed(tmp_path: Path) -> None:
    async with serving({"/a": page(HTML), "/j": page('{"a": [1]}', "application/json")}) as pages:
        result = await got(tmp_path, pages.url("/a"), arguments=", links: true")
        assert f"second ({pages.url('/x')})" in result["text"]
        parsed = await got(tmp_path / "2", pages.url("/j"))
    assert parsed["value"]["json"] == {"a": [1]}


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://localhost/x",
        "gopher://localhost/",
        "http://user:pw@localhost/",
        "http:///x",
        "data:text/plain,x",
        "http://[::1",
        "//localhost/x",
        "x" * 5000,
    ],
)
async def test_only_plain_web_addresses_are_fetched(tmp_path: Path, url: str) -> None:
    result = await got(tmp_path, url)
    assert result["state"] in ("Failed", "Denied") and result.get("error") in ("BadUrl", None)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.1", "2130706433", "0x7f000001", "[::ffff:127.0.0.1]"])
async def test_this_machine_is_not_asked_unless_the_rights_name_it(tmp_path: Path, host: str) -> None:
    async with serving({"/a": page("secret", "text/plain")}) as pages:
        result = await got(tmp_path, pages.url("/a", host), allowed=())
        assert pages.asked == []
    assert result["state"] in ("Denied", "Failed") and "secret" not in result["text"]


async def test_without_the_network_right_nothing_is_asked(tmp_path: Path) -> None:
    async with serving({"/a": page("x")}) as pages:
        text = f"agent: {{tools: [fetch], script: [{{call: {{fetch: {{url: '{pages.url('/a')}'}}}}}}, {{done: so}}]}}"
        async with arena(tmp_path) as here:
            await here.apply("goal: g\n" + text)
            await here.until_state("task/.", "done", "failed")
            assert here.state("task/.") == "failed" and "network" in str(here.get("task/.").status)
        assert pages.asked == []


async def test_a_denied_url_is_not_asked_by_name_nor_by_address_nor_after_a_redirect(tmp_path: Path) -> None:
    async with serving({"/a": page("x"), "/r": moved("/secret/b"), "/secret/b": page("y")}) as pages:
        for number, denial in enumerate(("fetch(http://localhost:*)", "fetch(http://127.*)", "fetch(127.0.0.1)")):
            result = await got(tmp_path / str(number), pages.url("/a"), more=f', deny: ["{denial}"]')
            assert result["state"] == "Denied", denial
        result = await got(tmp_path / "r", pages.url("/r"), more=', deny: ["fetch(*/secret/*)"]')
        assert result["state"] == "Denied"
        assert pages.asked == ["/r"]


async def test_allowance_applies_to_every_hop(tmp_path: Path) -> None:
    async with serving({"/ok/a": page("fine", "text/plain"), "/ok/r": moved("/other")}) as pages:
        tools = f'["fetch({pages.url("/ok/*")})"]'
        assert "fine" in (await got(tmp_path / "1", pages.url("/ok/a"), tools=tools))["text"]
        assert (await got(tmp_path / "2", pages.url("/ok/r"), tools=tools))["state"] == "Denied"


async def test_redirect_to_this_machine_or_to_a_file_is_refused(tmp_path: Path) -> None:
    async with serving({"/secret": page("y")}) as inner:
        to = {"/r": moved(inner.url("/secret", "127.0.0.1")), "/f": moved("file:///etc/passwd"), "/l": moved("/l")}
        async with serving(to) as pages:
            for path in to:
                result = await got(tmp_path / path[1:], pages.url(path), allowed=(f"localhost:{pages.port}",))
                assert result["state"] in ("Denied", "Failed"), path
            assert len([path for path in pages.asked if path == "/l"]) == limits.FETCH_REDIRECTS_MAX + 1
        assert inner.asked == []


async def test_sizes_kinds_and_statuses_are_bounded_and_reported(tmp_path: Path) -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        try:
            while True:
                await response.write(b"x" * 65536)
        except (ConnectionError, asyncio.CancelledError):
            return response

    pages: dict[str, Answer] = {"/big": endless, "/png": page("x", "image/png"), "/500": page("oh", status=503)}
    async with serving(pages) as here:
        big = await got(tmp_path / "big", here.url("/big"))
        assert f"cut after {limits.FETCH_BYTES_MAX}" in big["text"] and len(big["text"]) < 50_000
        assert (await got(tmp_path / "png", here.url("/png")))["error"] == "NotText"
        assert (await got(tmp_path / "500", here.url("/500")))["error"] == "ServerError"
        assert (await got(tmp_path / "404", here.url("/nowhere")))["error"] == "NotFound"
        gone = here.url("/a")
    assert (await got(tmp_path / "gone", gone))["error"] == "Unreachable"


async def test_server_that_never_answers_is_abandoned_by_a_mixin_or_by_the_tool(tmp_path: Path) -> None:
    async def hang(_: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    async with serving({"/h": hang}) as pages:
        text = f"""
            rights: {{network: all, hosts: ["localhost:*"]}}
            agent:
              tools: [fetch]
              mixins: [{{lib:timeout: {{after: 200ms}}}}]
              script: [{{call: {{fetch: {{url: "{pages.url("/h")}"}}}}}}, {{expect: {{error: TimedOut}}}}, {{done: so}}]
        """
        async with arena(tmp_path) as here:
            await here.apply(text)
            await here.until_state("task/.", "done", "failed")
            assert here.state("task/.") == "done"


async def test_the_test_switch_allows_this_machine_only(tmp_path: Path) -> None:
    switch = {"PLANLOOP_NO_NETWORK": "1"}
    result = await got(tmp_path / "a", "http://93.184.216.34/", environment=switch)
    assert result["state"] == "Denied" and "this machine" in result["text"]
    async with serving({"/a": page("near", "text/plain")}) as pages:
        assert "near" in (await got(tmp_path / "b", pages.url("/a"), environment=switch))["text"]


@pytest.mark.parametrize(
    "address",
    ["10.0.0.1", "169.254.169.254", "::1", "fe80::1", "::ffff:10.1.1.1", "64:ff9b::a00:1", "2002:a00:1::", "224.0.0.1",
     "0.0.0.0", "192.168.1.1", "172.16.0.1", "fd00::1", "100.64.0.1", "255.255.255.255"],
)  # fmt: skip
def test_non_public_addresses_are_recognised(address: str) -> None:
    assert not fetch.is_public(fetch.reached_address(ipaddress.ip_address(address)))


@rows.each(
    "address",
    [
        *("0.1.2.3", "100.64.0.1", "100.127.255.255", "192.0.0.8", "192.0.0.9", "192.0.0.10", "192.0.0.170"),
        *("192.0.0.192", "192.0.2.1", "192.31.196.1", "192.52.193.1", "192.88.99.1", "192.175.48.1", "198.18.0.1"),
        *("198.19.255.255", "198.51.100.7", "203.0.113.9", "239.1.1.1", "240.0.0.1", "255.255.255.255"),
        *("::", "::7f00:1", "::ffff:192.0.0.192", "::ffff:0:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::1", "100::1"),
        *("100:0:0:1::1", "2001::1", "2001:0:4136:e378:8000:63bf:f5ff:fffe", "2001:1::1", "2001:2::1", "2001:3::1"),
        *("2001:4:112::1", "2001:10::1", "2001:20::1", "2001:30::1", "2001:db8::1", "2002:7f00:1::", "2002:808:808::"),
        *("2620:4f:8000::1", "3fff::1", "4000::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fec0::1"),
        *("feff::1", "ff02::1", "ff0e::1"),
    ],
)
def test_every_special_purpose_address_of_iana_is_refused(address: str) -> None:
    assert not fetch.is_public(fetch.reached_address(ipaddress.ip_address(address)))


@rows.each(
    "address",
    [
        *(
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.1",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
        ),
        *(
            "192.0.1.1",
            "192.0.3.1",
            "198.17.0.1",
            "198.20.0.1",
            "223.255.255.254",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
        ),
        *("2001:200::1", "2001:4860:4860::8888", "2003::1", "2606:4700::1111", "2a00:1450::1", "2c0f:fb50::1"),
    ],
)
def test_address_next_to_a_special_range_is_public(address: str) -> None:
    assert fetch.is_public(fetch.reached_address(ipaddress.ip_address(address)))


def test_denial_of_an_address_covers_every_embedded_form() -> None:
    forms = ("::ffff:9.8.7.6", "64:ff9b::908:706", "2002:908:706::1", "2001:0:909:909::f6f7:f8f9")
    for form in forms:
        assert "9.8.7.6" in fetch.denial_names(fetch.UrlTarget("http://x.test/", "x.test", 80, (form,)))


def test_a_place_has_one_spelling() -> None:
    assert fetch.parse_url("HTTP://LocalHost:80#x").url == "http://localhost/"
    assert fetch.parse_url("https://exämple.org:444/ä?b").url.startswith("https://xn--exmple-cua.org:444/")
    with pytest.raises(ToolFailed):
        fetch.parse_url("http://localhost:99999/")


@pytest.mark.parametrize(
    ("html", "read"),
    [
        ("</div></script>x", PageText("", "x")),
        ("<a href='http://[x'>y</a>", PageText("", "y")),
        ("<title>t", PageText("t", "")),
        ("&#xfffffff;", PageText("", "\N{REPLACEMENT CHARACTER}")),
    ],
)
def test_broken_markup_gives_what_can_be_read(html: str, read: PageText) -> None:
    assert parse_page(html, "http://localhost/", has_links=True) == read


def test_text_before_a_tag_that_is_cut_off_is_read() -> None:
    read = parse_page("<p>a<b", "http://localhost/", has_links=True)

    assert read in (
        PageText("", "a<b"),
        PageText("", "a"),
    )  # Python 3.11.2's parser drops the tag, later ones keep its text.
