"""Sandboxes for commands: cgroup limits, bubblewrap, or a container."""
