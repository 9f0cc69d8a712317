"""The locks that tasks name: exclusive, taken all or none before the task starts, released when it ends."""

from __future__ import annotations

from controllers.lock.acting import LockReconciler

__all__ = ["LockReconciler"]
