"""The case controller: once the task of a benchmark's entry is over, what it made is graded and the verdict written."""

from __future__ import annotations

from planloop.benchmarks.controller.acting import CaseReconciler

__all__ = ["CaseReconciler"]
