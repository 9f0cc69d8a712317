"""What is to be asked, of which hooks, and when: pure functions of the open turn and the verdicts it has.

A turn has five moments: *opening* before the mind is asked, *reply* before its calls or its answer count, *starting*
before a call that had to wait begins (for hooks that are new or were changed meanwhile), *results* when every call has
ended, *closing* when the agent would sleep or end. Within one, questions stand in a fixed order and
form groups; those of a group go to different hooks and are put at once. The next group waits for the verdicts of the
one before, so that a hook has one question at a time and its memory is never raced.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

from planloop.controllers.agent.calling import calls
from planloop.controllers.agent.calling.calls import ENDINGS, Refused, Tools
from planloop.controllers.agent.hooking import claude_names, lattice
from planloop.controllers.agent.mail.answering import VERDICT
from planloop.controllers.agent.mail.telling import is_made
from planloop.controllers.agent.observing import Observed
from planloop.controllers.agent.status import Fired, OpenTurn, TurnCall, fired_key
from planloop.schemas import limits, patterns
from planloop.schemas.approval import YES
from planloop.schemas.call import CallState, as_map
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import frozen, remade
from planloop.schemas.hook import STARTING, HookProgram, HookSpec, Point, Verdict
from planloop.schemas.resource import Resource
from planloop.schemas.tools import AGENT_TOOL, PATCHING_TOOLS

Moment: TypeAlias = Literal["opening", "reply", "starting", "results", "closing"]

LATE: Final = limits.HOOK_REWRITES_MAX + 2
"""The `rewrites` of a question that is put right before a call starts, and those above for each further one."""

_GOING_ON: Final = frozenset({"results", "again"})


@frozen
class Question:
    """One question to one hook. `call` has the arguments that it would start with now."""

    hook: Resource
    spec: HookSpec
    point: Point
    index: int = 0
    rewrites: int = 0
    call: TurnCall | None = None

    @property
    def key(self) -> str:
        """Names it within its turn."""
        return fired_key(self.spec.name, self.point, self.index, self.rewrites)


Group: TypeAlias = tuple[Question, ...]


@frozen
class Standing:
    """A call as its hooks' verdicts have it so far: the arguments after `rewrites` rewritings, the last one by `by`.

    `said` are the verdicts on these arguments, `asks` the questions on them that have none yet. `refused` says why the
    arguments stand no more though nobody denied them: the rights, or a rewriting without end.
    """

    call: TurnCall
    rewrites: int = 0
    by: str = ""
    said: tuple[lattice.Said, ...] = ()
    asks: Group = ()
    refused: str = ""

    @property
    def merged(self) -> lattice.Merged:
        """What the verdicts come to."""
        return lattice.merged(self.said)


@frozen
class Waits:
    """Hooks that the agent waits for. `is_thinking`: a program or a function works, which is the agent's own time.

    `due_at`, in seconds since 1970, is when somebody is waited for no more (None: jobs bound themselves).
    """

    hooks: tuple[str, ...]
    is_thinking: bool
    due_at: float | None = None

    @property
    def why(self) -> str:
        """For people."""
        return f"asks {', '.join(self.hooks[: limits.CHILDREN_NAMED_MAX])}"


def pending(seen: Observed, moment: Moment, tools: Tools) -> Group:
    """The questions of `moment` that are to be put now, or wait for their verdicts; none when the moment is over."""
    opened = seen.status.open
    if opened is None or not seen.hooks:
        return ()
    for group in _groups(seen, opened, moment, tools):
        unasked = tuple(each for each in group if each.key not in opened.fired)
        if unasked:
            return unasked
    return ()


def _groups(seen: Observed, opened: OpenTurn, moment: Moment, tools: Tools) -> Iterator[Group]:
    match moment:
        case "opening":
            for point, index in _opening_points(opened):
                yield _to_all(seen, point, index)
        case "reply":
            yield from _before_calls(seen, opened, tools)
            if is_final(seen, opened):
                yield _to_all(seen, "before-reply", 0)
        case "starting":
            yield from _before_starts(seen, opened, tools)
        case "results":
            yield from _after_calls(seen, opened, tools)
        case "closing":
            if (last := _last_point(seen, opened)) is not None:
                yield _to_all(seen, last, 0)


def _opening_points(opened: OpenTurn) -> Iterator[tuple[Point, int]]:
    """What a turn begins with. The index counts messages, so that one which comes later is a question of its own."""
    heard, reasons = len(opened.messages), set(opened.reasons)
    if reasons - _GOING_ON:
        yield "on-wake", 0
    if opened.turn == 1 or any(not is_made(each) for each in opened.messages):
        yield "on-input", heard
    if any(reason.startswith("child ") for reason in reasons):
        yield "on-child", heard
    if "budget" in reasons:
        yield "on-budget", 0
    if any(each.kind == "conflict" for each in opened.messages):
        yield "on-conflict", heard


def _last_point(seen: Observed, opened: OpenTurn) -> Point | None:
    """Where the turn leads; None when the agent goes on, or is parked."""
    if sent_back(seen, opened).decision != "allow":
        return None
    if opened.claim is not None:
        return None if opened.claim["kind"] == VERDICT else "on-end"
    goes_on = bool(opened.calls) or opened.then == "again" or any(each.wakes for each in seen.unread)
    if goes_on or opened.is_last or opened.is_answer:
        return None
    return "on-sleep"


def _to_all(seen: Observed, point: Point, index: int) -> Group:
    return tuple(Question(hook, spec, point, index) for hook, spec in seen.hooks.values() if point in spec.on)


def _about(seen: Observed, point: Point, index: int, call: TurnCall, tools: Tools, rewrites: int = 0) -> Group:
    """The questions about a call: at a patch, a hook that guards patches is asked as such, once."""
    out: list[Question] = []
    for hook, spec in seen.hooks.values():
        asked: Point = "on-patch" if point == "before-call" and "on-patch" in spec.on and is_patch(call) else point
        if call.tool in ENDINGS and spec.match in ("", "*"):
            continue  # How it ends is a reply, unless a hook is after these very calls: who is refused asks for ever.
        if asked in spec.on and matches(spec, call, tools):
            out.append(Question(hook, spec, asked, index, rewrites, call))
    return tuple(out)


def anew(seen: Observed, call: TurnCall, tools: Tools) -> Group:
    """The questions about a call of the open turn that something else than a hook has given these arguments."""
    assert seen.status.open is not None, "calls run inside a turn"
    index = [each.address for each in seen.status.open.calls].index(call.address)
    return _about(seen, "before-call", index, plain(call, tools), tools, limits.HOOK_REWRITES_MAX + 1)


def _before_starts(seen: Observed, opened: OpenTurn, tools: Tools) -> Iterator[Group]:
    for index, call in enumerate(opened.calls):
        made = seen.calls.get(call.address)
        if made is not None and made.state == CallState.AUTHORIZED:
            yield _since(seen, opened, index, plain(opened.standing(call), tools), tools)


def _after_calls(seen: Observed, opened: OpenTurn, tools: Tools) -> Iterator[Group]:
    for index, call in enumerate(opened.calls):
        if _has_run(opened, call):
            yield _about(seen, "after-call", index, plain(opened.standing(call), tools), tools)


def _since(seen: Observed, opened: OpenTurn, index: int, call: TurnCall, tools: Tools) -> Group:
    """The questions about a call that was ruled on, to hooks that were not asked about it as they are now."""
    asked = _asked_about(opened, index)
    out: list[Question] = []
    for each in _about(seen, "before-call", index, call, tools):
        before = [one for one in asked if one.hook == each.spec.name]
        if not before or not {version_of(each.hook), ""} & {one.version for one in before}:
            count = sum(one.rewrites >= LATE for one in before)
            out.append(remade(each, rewrites=LATE + count))
    return tuple(out)


def late(seen: Observed, call: str) -> list[Fired]:
    """The verdicts on the call at this address that were given after it was ruled on, the newest last."""
    opened = seen.status.open
    assert opened is not None, "calls start inside a turn"
    index = [each.address for each in opened.calls].index(call)
    found = [one for one in _asked_about(opened, index) if one.rewrites >= LATE]
    return sorted(found, key=lambda one: one.rewrites)


def _asked_about(opened: OpenTurn, index: int) -> list[Fired]:
    return [one for one in opened.fired.values() if one.point in STARTING and one.index == index]


def version_of(hook: Resource) -> str:
    """What is another one when the plan says something else of the hook, or it is another hook of its name."""
    return f"{hook.uid}.{hook.generation}"


def plain(call: TurnCall, tools: Tools) -> TurnCall:
    """The call as its tool takes it: no other name of an argument, and no number in quotes, gets past a hook."""
    tool = tools.get(call.tool)
    return call if tool is None else remade(call, arguments=tool.plain(as_map(call.arguments)))


def is_patch(call: TurnCall) -> bool:
    """Whether a call changes the plan: an agent as a tool begins a child, a yes grants what was asked for."""
    if call.tool == "answer":
        return str(as_map(call.arguments).get("answer", "")).strip().lower() in YES
    return call.tool in PATCHING_TOOLS or call.tool.startswith(AGENT_TOOL)


def matches(spec: HookSpec, call: TurnCall, tools: Tools) -> bool:
    """Whether the hook wants to be asked about `call`."""
    if not spec.match:
        return True
    given = as_map(call.arguments)
    if isinstance(spec.mind, HookProgram) and spec.mind.contract == "claude-code":
        return claude_names.matches(spec.match, call.tool) or _is_covered(spec.match, call.tool, given, tools)
    return _is_covered(spec.match, call.tool, given, tools)


def _is_covered(match: str, name: str, given: JsonObject, tools: Tools) -> bool:
    tool = tools.get(name)
    subjects = () if tool is None else tool.subjects(given)
    server, dot, _ = name.partition(".")
    return any(patterns.denied_by((match,), each, subjects) for each in ((name, server) if dot else (name,)))


def _before_calls(seen: Observed, opened: OpenTurn, tools: Tools) -> Iterator[Group]:
    made = [seen.calls.get(call.address) for call in opened.calls]
    if not any(each is not None and each.state == CallState.PROPOSED for each in made):
        return
    rulings = calls.rulings(seen, tools, ())
    for index, ruled in enumerate(rulings):
        if not isinstance(ruled, Refused):
            yield standing(seen, index, tools).asks


def standing(seen: Observed, index: int, tools: Tools) -> Standing:
    """The call at `index` of the open turn after the verdicts that there are, through every rewriting.

    Other arguments go through the rights and through all hooks again; what the rights refuse is refused.
    """
    opened = seen.status.open
    assert opened is not None, "hooks are asked inside a turn"
    call, by = plain(opened.calls[index], tools), ""
    order = tuple(seen.hooks)
    for rewrites in range(limits.HOOK_REWRITES_MAX + 1):
        asked = _about(seen, "before-call", index, call, tools, rewrites)
        asks = tuple(each for each in asked if each.key not in opened.fired)
        said = lattice.counted(_on(opened, index, rewrites), order)
        now = Standing(call, rewrites, by, tuple(said), asks)
        wanted = lattice.rewritten(said, as_map(call.arguments))
        if asks or wanted is None or now.merged.decision in ("deny", "defer"):
            return now
        by, arguments = wanted
        if rewrites == limits.HOOK_REWRITES_MAX:
            return _without_end(now, by)
        call = plain(remade(call, arguments=arguments), tools)
        ruled = calls.ruling(call, seen.spec, tools, ())
        if isinstance(ruled, Refused):
            why = f"{ruled.result.text} (with the arguments that hook {by} gave it)"
            return Standing(call, rewrites + 1, by, refused=why)
    raise AssertionError("the last rewriting returns")


def _on(opened: OpenTurn, index: int, rewrites: int) -> Iterator[Fired]:
    """The verdicts on a call with the arguments that it has after so many rewritings."""
    for one in opened.fired.values():
        if one.point in STARTING and (one.index, one.rewrites) == (index, rewrites):
            yield one


def _without_end(now: Standing, name: str) -> Standing:
    """Rewriting for ever denies, whatever the policy for faults: what stood before the next one suits a hook not."""
    why = f"it broke: it rewrote the arguments more than {limits.HOOK_REWRITES_MAX} times"
    return remade(now, said=(*now.said, lattice.Said(name, Verdict("deny", why))))


def _has_run(opened: OpenTurn, call: TurnCall) -> bool:
    result = opened.results.get(call.address)
    return result is not None and result.state != CallState.DENIED


def is_final(seen: Observed, opened: OpenTurn) -> bool:
    """Whether the reply is an answer, and not a step on the way to one: nothing is called but what ends the work.

    What ends it beside other calls is an answer when all of them have ended, and is judged by what came of them. In a
    last turn there is nobody to send an answer back to.
    """
    if opened.is_last or not (opened.text or opened.calls) or (opened.then == "again" and not opened.calls):
        return False
    if any(call.tool not in ENDINGS for call in opened.calls):
        return opened.claim is not None and opened.claim["kind"] in ENDINGS
    return all(_is_proposed(seen, call) for call in opened.calls) and not _is_nap(seen, opened)


def _is_nap(seen: Observed, opened: OpenTurn) -> bool:
    """Whether a model only says that it waits for its children, and nobody else is there to hear it.

    From the turn alone: a child that ends meanwhile makes no answer of what was said.
    """
    if opened.calls or opened.then != "sleep" or not seen.nature.is_model or seen.status.asked:
        return False
    has_asked = any(one.spec["kind"] == "request" for one in seen.approvals.values())
    return not has_asked and not any(each.sender.startswith("human:") for each in opened.messages)


def _is_proposed(seen: Observed, call: TurnCall) -> bool:
    made = seen.calls.get(call.address)
    return made is not None and made.state == CallState.PROPOSED


def sent_back(seen: Observed, opened: OpenTurn) -> lattice.Merged:
    """What the hooks say to the final answer; an `allow` when it passes, as it does after it was sent back often."""
    if seen.status.sent_back >= limits.HOOK_SENT_BACK_MAX:
        return lattice.Merged()
    order = tuple(seen.hooks)
    said = (one for one in opened.fired.values() if one.point == "before-reply")
    return lattice.merged(lattice.counted(said, order))
