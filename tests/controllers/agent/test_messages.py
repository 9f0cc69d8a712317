"""Messages: refusals with reasons, delivery exactly once, and which agents may write to which."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planloop.controllers.agent.mail import message_policy
from planloop.schemas import limits
from planloop.schemas.address import parse_address
from planloop.schemas.objects.message import Message, ThreadSpec
from tests.controllers.agent.arena import arena
from tests.product import Change, JsonObject, MemoryView, Put, Record, RecordDraft, SetStatus, Uid

HELLO = Message("m1", "chat", "agent/a", "agent/.", "hello", 10.0)


class Post:
    """A view of some agents, and messages sent between them."""

    def __init__(self, agents: dict[str, list[str]]) -> None:
        self.view = MemoryView()
        puts = (Put(name, Uid(name), {"task": "task/.", "talk_to": talks}) for name, talks in agents.items())
        self.write(*puts)

    def write(self, *changes: Change) -> None:
        rev = self.view.rev + 1
        self.view.fold(Record(rev, 0.0, 1, RecordDraft("message.sent", "human:cli", "agent/.", changes)))

    def send(self, message: Message) -> str:
        """The result of a delivery: new, the same as before, or the reason of its refusal."""
        answer = message_policy.delivery_changes(self.view, message)
        if isinstance(answer, message_policy.DeliveryRefused):
            return answer.reason
        self.write(*answer)
        return "new" if answer else "known"

    def unread(self, agent: str = "agent/.") -> list[JsonObject]:
        found = self.view.get(agent)
        assert found is not None
        return list(found.status.get("inbox", {}).values())

    def read(self, agent: str = "agent/.") -> None:
        self.write(SetStatus(agent, Uid(agent), {"inbox": dict.fromkeys(each["id"] for each in self.unread(agent))}))


@pytest.fixture
def post() -> Post:
    return Post({"agent/.": ["children"], "agent/a": ["parent"], "agent/b": ["parent"]})


def test_messages_of_a_pair_are_numbered(post: Post) -> None:
    for number in (1, 2, 3):
        assert post.send(replace(HELLO, id=f"m{number}", body=number)) == "new"
    assert [each["seq"] for each in post.unread()] == [1, 2, 3]


def test_the_second_message_with_a_key_changes_nothing_even_when_the_first_was_read(post: Post) -> None:
    assert post.send(replace(HELLO, idempotency="k")) == "new"
    post.read()
    assert post.send(replace(HELLO, id="m2", body="other words", idempotency="k")) == "known"
    assert post.unread() == []


def test_repeated_unread_message_is_suppressed(post: Post) -> None:
    assert [post.send(HELLO), post.send(replace(HELLO, id="m2"))] == ["new", "known"]
    post.read()
    assert post.send(replace(HELLO, id="m3")) == "new"


def test_a_flood_on_one_edge_is_refused_and_ends_with_its_window(post: Post) -> None:
    for number in range(limits.EDGE_MESSAGES_MAX):
        assert post.send(replace(HELLO, id=f"m{number}", body=number)) == "new"
    assert post.send(replace(HELLO, id="over", body="over")) == "Flood"
    assert post.send(replace(HELLO, id="other", sender="agent/b", body="over")) == "new"
    later = HELLO.sent_at + limits.EDGE_WINDOW_S
    assert post.send(replace(HELLO, id="late", body="late", sent_at=later)) == "new"


def test_message_that_expired_or_is_for_an_earlier_run_is_refused_with_a_reason(post: Post) -> None:
    post.write(SetStatus("agent/.", Uid("agent/."), {"incarnation": 2}))
    assert post.send(replace(HELLO, expires_at=9.0)) == "Expired"
    # gastown #909: what was meant for the old run must not reach the new one.
    assert post.send(replace(HELLO, to_incarnation=1)) == "Stale"
    assert post.send(replace(HELLO, to_incarnation=2)) == "new"


def test_an_unread_message_that_expires_makes_room_and_is_not_read(post: Post) -> None:
    assert post.send(replace(HELLO, expires_at=20.0)) == "new"
    assert post.send(replace(HELLO, id="m2", body="x", sent_at=30.0)) == "new"
    assert [each["id"] for each in post.unread()] == ["m2"]


def test_gone_or_full_receiver_is_reported_as_such(post: Post) -> None:
    assert post.send(replace(HELLO, receiver="agent/none")) == "NoSuchAgent"
    for number in range(limits.INBOX_MESSAGES_MAX):
        post.send(replace(HELLO, id=f"h{number}", sender="human:cli", body=number))
    assert post.send(HELLO) == "Full"
    assert post.send(replace(HELLO, body="x" * limits.MESSAGE_BYTES_MAX)) == "TooLong"


PATHS = ("agent/.", "agent/a", "agent/b", "agent/a/x", "agent/a/y", "agent/b/x")
words = st.sampled_from(["parent", "children", "siblings", "all", "a", "b", "a/x", "agent/a/y"])
topologies = st.fixed_dictionaries({path: st.lists(words, max_size=3) for path in PATHS})
bridges = st.lists(
    st.tuples(st.sampled_from(PATHS), st.lists(st.sampled_from(PATHS), min_size=2, max_size=3, unique=True)), max_size=2
)


def said_by_the_plan(sender: str, receiver: str, talks: list[str]) -> bool:
    """The rule in other words: an agent may always write to its ancestors, else only to what its topology names."""
    one, two = parse_address(sender).path, parse_address(receiver).path
    if one[: len(two)] == two:
        return one != two
    named = {"all": True, "children": two[:-1] == one, "siblings": two[:-1] == one[:-1] and len(two) == len(one)}
    return any(named.get(word, word.removeprefix("agent/") == "/".join(two)) for word in talks if word != "parent")


@given(topologies, bridges)
def test_topology_lets_nothing_through_that_neither_the_plan_nor_a_bridge_says(
    talks: dict[str, list[str]], built: list[tuple[str, list[str]]]
) -> None:
    post = Post(talks)
    for index, (owner, members) in enumerate(built):
        address = f"thread/{index}"
        post.write(
            Put(address, Uid(str(index)), ThreadSpec("bridge", owner, "", tuple(members)).to_json(), owner=owner)
        )
    for sender in PATHS:
        for receiver in PATHS:
            found = post.view.get(sender)
            assert found is not None
            is_bridged = sender != receiver and any(
                {sender, receiver} <= set(members)
                and all(parse_address(each).is_within(parse_address(owner)) for each in (sender, receiver))
                for owner, members in built
            )
            allowed = said_by_the_plan(sender, receiver, talks[sender]) or is_bridged
            assert message_policy.may_write_to(post.view, found, parse_address(receiver)) is allowed, (sender, receiver)


@pytest.mark.anyio
async def test_a_bridge_of_the_ancestor_lets_two_talk_and_closing_it_ends_that(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            agent:
              script:
                - when: {message: early}
                  call: {bridge: {members: [a, b], about: the border}}
                - send: {to: a, text: go}
                - when: {message: talked}
                  call: {bridge: {members: [b, a], close: true}}
                - send: {to: a, text: go on}
                - {when: {children: done}, done: x}
            tasks:
              a:
                goal: a
                agent:
                  script:
                    - call: {send: {to: b, text: too early}}
                    - expect: {error: NotAllowed}
                    - say: {to: parent, text: early}
                    - when: {message: go}
                      call: {send: {to: b, text: hello}}
                    - expect: ok
                    - when: {message: go on}
                      call: {send: {to: b, text: too late}}
                    - expect: {error: NotAllowed}
                    - done: x
              b:
                goal: b
                agent: {script: [{when: {message: hello}, say: {to: parent, text: talked}}, {done: x}]}
        """)
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done", here.get("task/.").status
        assert here.store.view.list("thread") == []


@pytest.mark.anyio
async def test_message_to_a_suspended_agent_is_never_reported_as_read(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            agent:
              script:
                - {when: {child: over}, call: {send: {to: idle, text: hello}}}
                - expect: is paused
                - call: {send: {to: over, text: hello}}
                - expect: its task is done
                - done: x
            tasks:
              idle: {goal: a, pause: true, agent: {script: [{when: {message: hello}, done: x}]}}
              over: {goal: b, agent: {script: [{done: x}]}}
        """)
        await here.until(lambda: here.get("agent/.").status.get("turn", 0) == 4 or here.state("task/.") == "failed")
        assert [result["state"] for result in await here.results("send")] == ["Succeeded", "Succeeded"]
        await here.patch({"op": "remove", "path": "/tasks/idle/pause"})
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done" and here.state("task/idle") == "done"


@pytest.mark.anyio
async def test_messages_down_steer_messages_up_wait_and_none_interrupts_upward(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            agent: {script: [{send: {to: kid, text: down}}, {when: {message: up}, done: x}]}
            tasks:
              kid:
                goal: a
                agent:
                  script:
                    - when: {message: down}
                      call: {send: {to: parent, text: stop, delivery: interrupt}}
                    - expect: {error: NotAllowed}
                    - call: {send: {to: parent, text: up, untrusted: true}}
                    - done: x
        """)
        await here.until_state("task/kid", "done", "failed")
        assert here.state("task/kid") == "done"
        sent = [
            change.merge["inbox"]
            for draft in await here.log()
            for change in draft.changes
            if isinstance(change, SetStatus) and change.merge.get("inbox")
        ]
        messages = {each["body"]: each for merge in sent for each in merge.values() if each is not None}
        assert {body: each["delivery"] for body, each in messages.items()} == {"down": "steer", "up": "queue"}
        assert (messages["down"].get("trust"), messages["up"].get("trust")) == (None, "untrusted")
