"""The queues of locks: served when something is let go, first come first served, with rings of waits broken at once."""

from __future__ import annotations

from planloop.controllers.lock.acting import LockReconciler

__all__ = ["LockReconciler"]
