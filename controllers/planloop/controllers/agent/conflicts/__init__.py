"""Conflict threads: opened by who waits or asks, told to the nearest agent above, ruled by a patch, closed by level.

Everything but `evidence.py` and `acting.py` is pure. What stands is found anew at every look (`standing.py`), so a
crash, a party that ends and a lock that is let go are all the same case.
"""

from __future__ import annotations

from planloop.controllers.agent.conflicts.acting import ConflictReconciler

__all__ = ["ConflictReconciler"]
