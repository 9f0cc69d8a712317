"""What commands of agents and tasks are enclosed in: read from the plan's objects, and whether it is to be had."""

from controllers.sandboxes.having import EVERY, NO_OTHERS, Sandboxes
from controllers.sandboxes.rooming import room_of
from controllers.sandboxes.wishing import agent_above, mounted_folders, sandbox_of, steering_files

__all__ = [
    "EVERY",
    "NO_OTHERS",
    "Sandboxes",
    "agent_above",
    "mounted_folders",
    "room_of",
    "sandbox_of",
    "steering_files",
]
