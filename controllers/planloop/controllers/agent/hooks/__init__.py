"""Hooks of an agent: what they are asked, when, and what their verdicts do."""
