"""Grants of locks, as changes for the record that makes them true. Used by all controllers.

Pure, over one view: `granted` and `queued` before an effect, `fenced` at the effect, `released` after it. Who waits is
served by the lock controller.
"""

from planloop.controllers.leases.breaking import Broken, broken
from planloop.controllers.leases.granting import (
    Blocker,
    Granted,
    Taken,
    Wants,
    barring,
    blockers,
    fenced,
    granted,
    held,
    queued,
    released,
    unqueued,
    wants_of,
    wish,
)
from planloop.controllers.leases.owners import AWAITING, Owner, is_family, owner_of
from planloop.controllers.leases.places import covers, overlap

__all__ = [
    "AWAITING",
    "Blocker",
    "Broken",
    "Granted",
    "Owner",
    "Taken",
    "Wants",
    "barring",
    "blockers",
    "broken",
    "covers",
    "fenced",
    "granted",
    "held",
    "is_family",
    "overlap",
    "owner_of",
    "queued",
    "released",
    "unqueued",
    "wants_of",
    "wish",
]
