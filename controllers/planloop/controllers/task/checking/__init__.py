"""Acceptance checks: one file a kind, and what runs them. They know nothing of tasks, plans or the log."""

from planloop.controllers.task.checking.contract import Bench, Finding, Result, RunCheck
from planloop.controllers.task.checking.running import KINDS, run_check, run_checks

__all__ = ["KINDS", "Bench", "Finding", "Result", "RunCheck", "run_check", "run_checks"]
