"""Which hooks are asked what, at which point of the open turn. Pure.

A turn has five moments: *opening* before the decider is asked, *reply* before its calls or its answer count, *starting*
before a call that had to wait begins (for hooks that were added or changed meanwhile), *results* when every call has
ended, *closing* when the agent would sleep or end. Within a moment, questions have a fixed order and form groups. The
questions of a group go to different hooks at the same time, and the next group waits for their verdicts. A hook
therefore has one question at a time, and never two that change its memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

from planloop.controllers.agent.hooks import claude_code, verdicts
from planloop.controllers.agent.mail.wake_reasons import VERDICT_CLAIM, is_own_news
from planloop.controllers.agent.observe import ObservedAgent
from planloop.controllers.agent.status import OpenTurn, TurnCall, TurnVerdict, verdict_key
from planloop.controllers.agent.turn import permissions
from planloop.controllers.agent.turn.permissions import ENDING_TOOLS, CallRefused, ToolMap
from planloop.schemas import limits, patterns
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen, remade
from planloop.schemas.objects.approval import YES
from planloop.schemas.objects.call import CallState, arguments_as_map
from planloop.schemas.objects.hook import STARTING, HookPoint, HookProgram, HookSpec, HookVerdict
from planloop.schemas.resource import Resource
from planloop.schemas.tools import AGENT_TOOL, PATCHING_TOOLS

HookMoment: TypeAlias = Literal["opening", "reply", "starting", "results", "closing"]

LATE_POINT: Final = limits.HOOK_REWRITES_MAX + 2
"""The `rewrites` of the first question right before a call starts; later ones count up from here."""

_GOING_ON: Final = frozenset({"results", "again"})


@frozen
class HookQuestion:
    """One question to one hook. `call` has the arguments with which it would start now."""

    hook: Resource
    spec: HookSpec
    point: HookPoint
    index: int = 0
    rewrites: int = 0
    call: TurnCall | None = None

    @property
    def key(self) -> str:
        """The name of the question within its turn."""
        return verdict_key(self.spec.name, self.point, self.index, self.rewrites)


QuestionGroup: TypeAlias = tuple[HookQuestion, ...]


@frozen
class RewrittenCall:
    """A call with the verdicts of its hooks so far.

    Its arguments were rewritten `rewrites` times, the last time by the hook `by`. `said` are the verdicts on these
    arguments, `asks` the questions about them without a verdict. `refused` says why the rights forbid the arguments
    although no hook denied them.
    """

    call: TurnCall
    rewrites: int = 0
    by: str = ""
    said: tuple[verdicts.CountedVerdict, ...] = ()
    asks: QuestionGroup = ()
    refused: str = ""

    @property
    def merged(self) -> verdicts.MergedVerdict:
        """The strictest of the verdicts."""
        return verdicts.merge_verdicts(self.said)


@frozen
class HookWait:
    """Hooks that the agent waits for.

    `is_thinking`: a program or function runs, which counts as the agent's active time. `due_at`, in seconds since 1970,
    is the end of the wait (None: jobs have their own time limits).
    """

    hooks: tuple[str, ...]
    is_thinking: bool
    due_at: float | None = None

    @property
    def why(self) -> str:
        """The reason that the agent's status shows."""
        return f"waits for {', '.join(self.hooks[: limits.CHILDREN_NAMED_MAX])}"


def pending_questions(agent: ObservedAgent, moment: HookMoment, tools: ToolMap) -> QuestionGroup:
    """The questions of `moment` to ask now, or that wait for verdicts; none if the moment is over."""
    opened = agent.status.open
    if opened is None or not agent.hooks.watching:
        return ()
    for group in _groups(agent, opened, moment, tools):
        unasked = tuple(each for each in group if each.key not in opened.hooks.fired)
        if unasked:
            return unasked
    return ()


def _groups(agent: ObservedAgent, opened: OpenTurn, moment: HookMoment, tools: ToolMap) -> Iterator[QuestionGroup]:
    match moment:
        case "opening":
            for point, index in _opening_points(opened):
                yield _to_all(agent, point, index)
        case "reply":
            yield from _before_calls(agent, opened, tools)
            if is_final_reply(agent, opened):
                yield _to_all(agent, "before-reply", 0)
        case "starting":
            yield from _before_starts(agent, opened, tools)
        case "results":
            yield from _after_calls(agent, opened, tools)
        case "closing":
            if (last := _last_point(agent, opened)) is not None:
                yield _to_all(agent, last, 0)


def _opening_points(opened: OpenTurn) -> Iterator[tuple[HookPoint, int]]:
    """The points at the beginning of a turn. The index counts messages, so that a later message is a new question."""
    heard, reasons = len(opened.news.messages), set(opened.news.reasons)
    if reasons - _GOING_ON:
        yield "on-wake", 0
    if opened.turn == 1 or any(not is_own_news(each) for each in opened.news.messages):
        yield "on-input", heard
    if any(reason.startswith("child ") for reason in reasons):
        yield "on-child", heard
    if "budget" in reasons:
        yield "on-budget", 0
    if any(each.kind == "conflict" for each in opened.news.messages):
        yield "on-conflict", heard


def _last_point(agent: ObservedAgent, opened: OpenTurn) -> HookPoint | None:
    """The point at which the turn ends; None if the agent continues or is parked."""
    if verdict_on_answer(agent, opened).decision != "allow":
        return None
    if opened.claim is not None:
        return None if opened.claim["kind"] == VERDICT_CLAIM else "on-end"
    goes_on = bool(opened.reply.calls) or opened.reply.then == "again" or any(each.wakes for each in agent.unread)
    if goes_on or opened.is_last or opened.is_answer:
        return None
    return "on-sleep"


def _to_all(agent: ObservedAgent, point: HookPoint, index: int) -> QuestionGroup:
    return tuple(
        HookQuestion(hook, spec, point, index) for hook, spec in agent.hooks.watching.values() if point in spec.on
    )


def _about(
    agent: ObservedAgent, point: HookPoint, index: int, call: TurnCall, tools: ToolMap, rewrites: int = 0
) -> QuestionGroup:
    """The questions about a call. A hook on patches is asked about a patch once, at `on-patch`."""
    out: list[HookQuestion] = []
    for hook, spec in agent.hooks.watching.values():
        asked: HookPoint = (
            "on-patch" if point == "before-call" and "on-patch" in spec.on and changes_plan(call) else point
        )
        if call.tool in ENDING_TOOLS and spec.match in ("", "*"):
            continue  # `done` and `fail` are replies; denying them as calls would make the agent repeat them forever.
        if asked in spec.on and is_hook_for_call(spec, call, tools):
            out.append(HookQuestion(hook, spec, asked, index, rewrites, call))
    return tuple(out)


def questions_about_new_arguments(agent: ObservedAgent, call: TurnCall, tools: ToolMap) -> QuestionGroup:
    """The questions about a call of the open turn whose arguments were changed by something other than a hook."""
    assert agent.status.open is not None, "calls run inside a turn"
    index = [each.address for each in agent.status.open.reply.calls].index(call.address)
    return _about(agent, "before-call", index, normalize_call(call, tools), tools, limits.HOOK_REWRITES_MAX + 1)


def _before_starts(agent: ObservedAgent, opened: OpenTurn, tools: ToolMap) -> Iterator[QuestionGroup]:
    for index, call in enumerate(opened.reply.calls):
        made = agent.objects.calls.get(call.address)
        if made is not None and made.state == CallState.AUTHORIZED:
            yield _since(agent, opened, index, normalize_call(opened.standing(call), tools), tools)


def _after_calls(agent: ObservedAgent, opened: OpenTurn, tools: ToolMap) -> Iterator[QuestionGroup]:
    for index, call in enumerate(opened.reply.calls):
        if _has_run(opened, call):
            yield _about(agent, "after-call", index, normalize_call(opened.standing(call), tools), tools)


def _since(agent: ObservedAgent, opened: OpenTurn, index: int, call: TurnCall, tools: ToolMap) -> QuestionGroup:
    """The questions about an authorized call, to hooks that were added or changed after it was authorized."""
    asked = _asked_about(opened, index)
    out: list[HookQuestion] = []
    for each in _about(agent, "before-call", index, call, tools):
        before = [one for one in asked if one.hook == each.spec.name]
        if not before or not {hook_version(each.hook), ""} & {one.version for one in before}:
            count = sum(one.rewrites >= LATE_POINT for one in before)
            out.append(remade(each, rewrites=LATE_POINT + count))
    return tuple(out)


def late_verdicts(agent: ObservedAgent, call: str) -> list[TurnVerdict]:
    """The verdicts on the call at this address that were given after it was authorized, the newest last."""
    opened = agent.status.open
    assert opened is not None, "calls start inside a turn"
    index = [each.address for each in opened.reply.calls].index(call)
    found = [one for one in _asked_about(opened, index) if one.rewrites >= LATE_POINT]
    return sorted(found, key=lambda one: one.rewrites)


def _asked_about(opened: OpenTurn, index: int) -> list[TurnVerdict]:
    return [one for one in opened.hooks.fired.values() if one.point in STARTING and one.index == index]


def hook_version(hook: Resource) -> str:
    """The version of a hook. It changes if the plan changes the hook, or another hook gets its name."""
    return f"{hook.uid}.{hook.generation}"


def normalize_call(call: TurnCall, tools: ToolMap) -> TurnCall:
    """The call in the form of its tool, so that a hook matches it despite aliases of arguments or quoted numbers."""
    tool = tools.get(call.tool)
    return call if tool is None else remade(call, arguments=tool.plain(arguments_as_map(call.arguments)))


def changes_plan(call: TurnCall) -> bool:
    """Whether a call changes the plan. An agent used as a tool adds a child; an approval grants a request."""
    if call.tool == "answer":
        return str(arguments_as_map(call.arguments).get("answer", "")).strip().lower() in YES
    return call.tool in PATCHING_TOOLS or call.tool.startswith(AGENT_TOOL)


def is_hook_for_call(spec: HookSpec, call: TurnCall, tools: ToolMap) -> bool:
    """Whether the hook wants to be asked about `call`."""
    if not spec.match:
        return True
    given = arguments_as_map(call.arguments)
    if isinstance(spec.mind, HookProgram) and spec.mind.contract == "claude-code":
        return claude_code.claude_matches(spec.match, call.tool) or _is_covered(spec.match, call.tool, given, tools)
    return _is_covered(spec.match, call.tool, given, tools)


def _is_covered(match: str, name: str, given: JsonObject, tools: ToolMap) -> bool:
    tool = tools.get(name)
    subjects = () if tool is None else tool.subjects(given)
    server, dot, _ = name.partition(".")
    return any(patterns.find_denial((match,), each, subjects) for each in ((name, server) if dot else (name,)))


def _before_calls(agent: ObservedAgent, opened: OpenTurn, tools: ToolMap) -> Iterator[QuestionGroup]:
    made = [agent.objects.calls.get(call.address) for call in opened.reply.calls]
    if not any(each is not None and each.state == CallState.PROPOSED for each in made):
        return
    rulings = permissions.check_calls(agent, tools, ())
    for index, ruled in enumerate(rulings):
        if not isinstance(ruled, CallRefused):
            yield rewritten_call(agent, index, tools).asks


def rewritten_call(agent: ObservedAgent, index: int, tools: ToolMap) -> RewrittenCall:
    """The call at `index` of the open turn after all verdicts so far, with each rewriting of its arguments applied.

    After a rewriting, the new arguments are checked against the rights and all hooks again.
    """
    opened = agent.status.open
    assert opened is not None, "hooks are asked inside a turn"
    call, by = normalize_call(opened.reply.calls[index], tools), ""
    order = tuple(agent.hooks.watching)
    for rewrites in range(limits.HOOK_REWRITES_MAX + 1):
        asked = _about(agent, "before-call", index, call, tools, rewrites)
        asks = tuple(each for each in asked if each.key not in opened.hooks.fired)
        said = verdicts.counted_verdicts(_on(opened, index, rewrites), order)
        now = RewrittenCall(call, rewrites, by, tuple(said), asks)
        wanted = verdicts.first_rewrite(said, arguments_as_map(call.arguments))
        if asks or wanted is None or now.merged.decision in ("deny", "defer"):
            return now
        by, arguments = wanted
        if rewrites == limits.HOOK_REWRITES_MAX:
            return _without_end(now, by)
        call = normalize_call(remade(call, arguments=arguments), tools)
        ruled = permissions.check_call(call, agent.spec, tools, ())
        if isinstance(ruled, CallRefused):
            why = f"{ruled.result.text} (with the arguments from hook {by})"
            return RewrittenCall(call, rewrites + 1, by, refused=why)
    raise AssertionError("the last rewriting returns")


def _on(opened: OpenTurn, index: int, rewrites: int) -> Iterator[TurnVerdict]:
    """The verdicts on a call with the arguments that it has after `rewrites` rewritings."""
    for one in opened.hooks.fired.values():
        if one.point in STARTING and (one.index, one.rewrites) == (index, rewrites):
            yield one


def _without_end(now: RewrittenCall, name: str) -> RewrittenCall:
    """Deny a call that is rewritten endlessly. The policy for errors does not apply, because a hook wanted a change."""
    why = f"the hook failed: it rewrote the arguments more than {limits.HOOK_REWRITES_MAX} times"
    return remade(now, said=(*now.said, verdicts.CountedVerdict(name, HookVerdict("deny", why))))


def _has_run(opened: OpenTurn, call: TurnCall) -> bool:
    result = opened.results.get(call.address)
    return result is not None and result.state != CallState.DENIED


def is_final_reply(agent: ObservedAgent, opened: OpenTurn) -> bool:
    """Whether the reply is an answer: it has no calls, or only `done` and `fail`.

    If it has other calls too, it is an answer once all of them have ended, and is judged with their results. The answer
    of a last turn cannot be sent back.
    """
    if (
        opened.is_last
        or not (opened.reply.text or opened.reply.calls)
        or (opened.reply.then == "again" and not opened.reply.calls)
    ):
        return False
    if any(call.tool not in ENDING_TOOLS for call in opened.reply.calls):
        return opened.claim is not None and opened.claim["kind"] in ENDING_TOOLS
    return all(_is_proposed(agent, call) for call in opened.reply.calls) and not _is_nap(agent, opened)


def _is_nap(agent: ObservedAgent, opened: OpenTurn) -> bool:
    """Whether a model only waits for its children, and no agent or operator waits for its text.

    This depends on the turn only: a child that ends meanwhile does not change it.
    """
    if opened.reply.calls or opened.reply.then != "sleep" or not agent.nature.is_model or agent.status.mail.asked:
        return False
    has_asked = any(one.spec["kind"] == "request" for one in agent.objects.approvals.values())
    return not has_asked and not any(each.sender.startswith("human:") for each in opened.news.messages)


def _is_proposed(agent: ObservedAgent, call: TurnCall) -> bool:
    made = agent.objects.calls.get(call.address)
    return made is not None and made.state == CallState.PROPOSED


def verdict_on_answer(agent: ObservedAgent, opened: OpenTurn) -> verdicts.MergedVerdict:
    """The merged verdict on the final answer; `allow` after it was sent back `limits.HOOK_SENT_BACK_MAX` times."""
    if agent.status.progress.sent_back >= limits.HOOK_SENT_BACK_MAX:
        return verdicts.MergedVerdict()
    order = tuple(agent.hooks.watching)
    said = (one for one in opened.hooks.fired.values() if one.point == "before-reply")
    return verdicts.merge_verdicts(verdicts.counted_verdicts(said, order))
