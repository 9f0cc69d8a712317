"""Replay a plan from its log: decisions run for real, everything external is played back."""
