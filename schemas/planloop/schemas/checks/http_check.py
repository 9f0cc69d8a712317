"""The steps of an `http` check as values, and the problems in one as written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Final

from planloop.schemas import json_pointer, limits
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.checks.matchers import pattern_problems as pattern_faults
from planloop.schemas.diagnostic import ValuePath, ValueProblem
from planloop.schemas.frozen import frozen
from planloop.schemas.spec.template_placeholders import find_placeholders, nonce_names

SAME: Final = "same"
KEPT: Final = "kept."
URL: Final = re.compile(r"https?://[^\s/?#]+([/?#]\S*)?", re.IGNORECASE)

_METHOD: Final = re.compile(r"[A-Z]+")
_STATUS: Final = re.compile(r"[1-5](\d\d|xx)", re.IGNORECASE)
_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_BODIES: Final = ("body", "json", "form")
_PLAIN: Final = ("status", "contains", "subset")


@frozen
class HttpSend:
    """A request. `paths` are tried in order; empty if `url` is complete. At most one of `bodies` is there.

    `bodies` holds `body` (text), `json` (any value, null included) or `form` (texts by name).
    """

    paths: tuple[str, ...] = ()
    url: str = ""
    method: str = "GET"
    bodies: Mapping[str, Json] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


@frozen
class HttpExpect:
    """What an answer must be. `patterns` holds those for `body` and `json`; no `statuses`: any below 400."""

    statuses: tuple[str, ...] = ()
    patterns: Mapping[str, Json] = field(default_factory=dict)
    headers: Mapping[str, Json] = field(default_factory=dict)
    within_s: float = limits.HTTP_ANSWER_S

    @property
    def is_redirect(self) -> bool:
        """Whether it is a redirect that is wanted, and not what it leads to."""
        return any(status[0] == "3" for status in self.statuses)


@frozen
class HttpStep:
    """One request and what is made of its answer. `keep` are pointers into its JSON by name."""

    send: HttpSend
    expect: HttpExpect = HttpExpect()
    keep: Mapping[str, str] = field(default_factory=dict)


@frozen
class HttpRepeat:
    """How often the steps are done, and how often at once."""

    times: int = 1
    parallel: int = 1
    is_distinct: bool = False


def parse_http_step(written: JsonObject) -> HttpStep:
    """A step as it was written, in which nothing is wrong."""
    send, expect = written["send"], written.get("expect", {})
    send = {"path": [send]} if isinstance(send, str) else send
    bodies = {name: send[name] for name in _BODIES if name in send}
    statuses = expect.get("status", ())
    return HttpStep(
        HttpSend(
            tuple(send.get("path", ())),
            send.get("url", ""),
            send.get("method", "POST" if bodies else "GET").upper(),
            bodies,
            send.get("headers", {}),
        ),
        HttpExpect(
            (statuses,) if isinstance(statuses, str) else tuple(statuses),
            {name: expect[name] for name in ("body", "json") if name in expect},
            expect.get("headers", {}),
            float(expect.get("within", limits.HTTP_ANSWER_S)),
        ),
        written.get("keep", {}),
    )


def parse_http_repeat(arguments: JsonObject) -> HttpRepeat:
    """How often the steps of a check are done."""
    written = arguments.get("repeat", {})
    return HttpRepeat(written.get("times", 1), written.get("parallel", 1), "nonce" in written.get("distinct", ()))


def http_check_problems(arguments: JsonObject, *, has_url: bool = False) -> Iterator[ValueProblem]:
    """Yield the problems of an `http` check. `has_url`: another field has the URL."""
    steps = arguments.get("steps")
    url = arguments.get("url")
    if url is not None and "{{" not in url and not URL.fullmatch(url):
        # A check without steps reports a bad URL when it runs: plans with such a check stay valid.
        yield from _bad_url(url, ("url",)) if steps else ()
    if steps is None:
        if url is None and not has_url:
            yield ValueProblem((), "P0210", "`http` lacks `url`", "add it", is_key=True)
        if "repeat" in arguments:
            yield ValueProblem(
                ("repeat",), "P0211", "`repeat` without `steps`", "write the request as a step", is_key=True
            )
        return
    for name in _PLAIN:
        if name in arguments:
            hint = f"put it into the `expect` of a step, `subset` as `json: {{subset: …}}`: `{name}` is for one request"
            yield ValueProblem((name,), "P0211", f"`{name}` beside `steps`", hint, is_key=True)
    yield from _steps_faults(steps, has_url=has_url or url is not None)
    yield from _repeat_faults(arguments)


def _steps_faults(steps: list[JsonObject], *, has_url: bool) -> Iterator[ValueProblem]:
    if not steps:
        yield ValueProblem(("steps",), "P0210", "`http` without a request", "as in `[{send: {path: /}}]`", is_key=True)
    kept: set[str] = set()
    has_path = False
    for index, step in enumerate(steps):
        at = ("steps", str(index))
        if "send" not in step:
            yield ValueProblem(at, "P0210", "a step lacks `send`", "as in `send: {path: /}`")
            continue
        send = {"path": [step["send"]]} if isinstance(step["send"], str) else step["send"]
        yield from _send_faults(send, (*at, "send"), has_url=has_url, has_path=has_path)
        has_path = has_path or "path" in send
        yield from http_expect_problems(step.get("expect", {}), (*at, "expect"))
        yield from _kept_faults(step, kept, at)
        kept |= step.get("keep", {}).keys()


def _send_faults(send: JsonObject, at: ValuePath, *, has_url: bool, has_path: bool) -> Iterator[ValueProblem]:
    given = [name for name in ("path", "url") if name in send]
    if len(given) != 1:
        summary = "a request has `path` and `url`" if given else "a request lacks `path` or `url`"
        yield ValueProblem(at, "P0211" if given else "P0210", summary, "as in `send: {path: /}`")
    if "path" in send and not has_url:
        hint = "add `url` beside `steps`: where the program is"
        yield ValueProblem((*at, "path"), "P0210", "a path, and no `url` that it is below", hint)
    yield from _path_faults(send, at, has_path=has_path)
    if "url" in send and "{{" not in send["url"] and not URL.fullmatch(send["url"]):
        yield from _bad_url(send["url"], (*at, "url"))
    if not _METHOD.fullmatch(send.get("method", "GET").upper()):
        yield ValueProblem(
            (*at, "method"),
            "P0212",
            f"unknown method `{send['method']}`",
            "use GET, POST, DELETE or another HTTP method",
        )
    bodies = [name for name in _BODIES if name in send]
    if len(bodies) > 1:
        said = " and ".join(f"`{name}`" for name in bodies)
        yield ValueProblem((*at, bodies[1]), "P0211", f"a request has {said}", "it has one body: keep one", is_key=True)
    for name in send.get("headers", {}):
        if not _HEADER.fullmatch(name):
            hint = "letters, digits and `-`"
            yield ValueProblem((*at, "headers", name), "P0223", f"`{name}` is not a header name", hint, is_key=True)


def _path_faults(send: JsonObject, at: ValuePath, *, has_path: bool) -> Iterator[ValueProblem]:
    paths = send.get("path", ())
    for index, path in enumerate(paths):
        here = (*at, "path", str(index))
        if path == SAME and len(paths) == 1:
            if not has_path:
                yield ValueProblem(here, "P0213", "`same`, and no step before has a path", "write the path")
        elif not path.startswith(("/", "{{")):
            yield ValueProblem(here, "P0223", f"`{path}` is not a path", f"start it with `/`: `/{path}`")


def _bad_url(url: str, at: ValuePath) -> Iterator[ValueProblem]:
    yield ValueProblem(at, "P0223", f"`{url}` is not an HTTP URL", "for example `http://localhost:8080`")


def http_expect_problems(expect: JsonObject, at: ValuePath) -> Iterator[ValueProblem]:
    """What is wrong with what an answer is held to, which stands at `at`."""
    statuses = expect.get("status", ())
    for status in (statuses,) if isinstance(statuses, str) else statuses:
        if not _STATUS.fullmatch(status):
            hint = "a number as 404, or a class as `2xx`"
            yield ValueProblem((*at, "status"), "P0212", f"`{status}` is not an HTTP status", hint)
    for name in ("body", "json"):
        if name in expect:
            yield from pattern_faults(expect[name], (*at, name))
    for name, pattern in expect.get("headers", {}).items():
        yield from pattern_faults(pattern, (*at, "headers", name))
    if expect.get("within") == 0:
        yield ValueProblem((*at, "within"), "P0212", "no answer comes within no time", "as in `within: 2s`")


def _kept_faults(step: JsonObject, kept: set[str], at: ValuePath) -> Iterator[ValueProblem]:
    for place, blank in find_placeholders(step, at):
        name = blank.removeprefix(KEPT)
        if blank.startswith(KEPT) and name not in kept:
            hint = f"a step before says `keep: {{{name}: /pointer}}`"
            yield ValueProblem(place, "P0213", f"nothing has been kept as `{name}`", hint)
    for name, text in step.get("keep", {}).items():
        try:
            json_pointer.parse_pointer(text)
        except json_pointer.BadPointer as error:
            yield ValueProblem((*at, "keep", name), "P0223", str(error), "as in `/id`")


def _repeat_faults(arguments: JsonObject) -> Iterator[ValueProblem]:
    repeat = arguments.get("repeat", {})
    for name, most in (("times", limits.HTTP_REPEATS_MAX), ("parallel", limits.HTTP_PARALLEL_MAX)):
        if not 1 <= repeat.get(name, 1) <= most:
            summary = f"`{name}` cannot be {repeat[name]}"
            yield ValueProblem(("repeat", name), "P0212", summary, f"from 1 to {most:,}")
    if "distinct" in repeat and not nonce_names(arguments["steps"]):
        hint = "say `{{nonce.word}}` in what is sent and in what is expected"
        yield ValueProblem(("repeat", "distinct"), "P0210", "no step has a nonce that could be distinct", hint)
