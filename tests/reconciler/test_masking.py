"""Values of secrets in what is kept and shown: as they are, in JSON, and in pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from planloop.reconciler.effects.secret_masks import MASK, SecretMasks
from planloop.schemas import canonical_json

SECRET = 'tok"en\n-12345-ü'


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (f"a {SECRET} b {SECRET}", f"a {MASK} b {MASK}"),
        (canonical_json.encode_text({"inner": SECRET}), f'{{"inner":"{MASK}"}}'),
        ('"tok\\"en\\n-12345-\\u00fc"', f'"{MASK}"'),
        ("hunter22 and hunter2", f"{MASK} and {MASK}"),
        ("no short", "no short"),
        ("it is spaced out!", f"it is {MASK}!"),
    ],
)
def test_secret_is_masked_plain_and_in_json_and_short_ones_are_not_masked(text: str, masked: str) -> None:
    masks = SecretMasks([SECRET, "hunter2", "hunter22", "short", "", "  spaced out\n"])
    assert masks.mask_text(text) == masked
    assert masks.mask(text.encode()) == masked.encode()


WORDS = some.lists(
    some.sampled_from([b"secret", b"secrets", b"secre", b"ts-of", b"s", b"\n", b"-x", b"x"]), max_size=12
)


@given(WORDS)
def test_pieces_are_masked_as_the_whole_and_only_what_may_be_a_secret_waits(pieces: list[bytes]) -> None:
    masks = SecretMasks(["secret", "secrets-of-x", "cretsx"])
    stream, said = masks.stream(), b""
    for count, piece in enumerate(pieces, 1):
        said += stream.feed(piece)
        come = b"".join(pieces[:count])
        assert not come.endswith(b"\n") or said == masks.mask(come)
    assert said + stream.flush() == masks.mask(b"".join(pieces))


def test_masking_without_secrets_delays_nothing() -> None:
    stream = SecretMasks(["abc"]).stream()
    assert (stream.feed(b"ab"), stream.flush()) == (b"ab", b"")
