"""Acceptance checks. They know nothing of tasks, plans or the log."""
