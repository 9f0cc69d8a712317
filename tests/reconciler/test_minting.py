"""Ids are never used again, however many are minted."""

from __future__ import annotations

from tests.product import IDS_DRAWN, MINTED, RandomIds


def test_ids_are_distinct_and_of_one_form_over_several_draws() -> None:
    ids = RandomIds()
    minted = [ids.mint() for _ in range(3 * IDS_DRAWN + 1)]

    assert len(set(minted)) == len(minted)
    assert all(MINTED.fullmatch(one) for one in minted)
