"""Forks: a git working tree and branch for a task and its descendants, created, merged back and removed."""
