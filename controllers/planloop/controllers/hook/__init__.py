"""The life of hooks: one begins with its agent, anew in each incarnation of it, and is over when its time has come."""

from __future__ import annotations

from planloop.controllers.hook.acting import HookReconciler

__all__ = ["HookReconciler"]
