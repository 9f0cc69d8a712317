"""Sandboxes for commands: cgroup limits (tier 1), bubblewrap (tier 2), or a container (tier 3)."""
