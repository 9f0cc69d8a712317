"""What commands of agents and tasks are enclosed in, where they work, and whether that is to be had."""

from planloop.controllers.sandboxes.having import EVERY, NO_OTHERS, Sandboxes
from planloop.controllers.sandboxes.rooming import room_of
from planloop.controllers.sandboxes.staying import (
    LEADS_OUT,
    Astray,
    beside,
    ground,
    is_git_outside,
    led_out,
    make_folder,
    without_links,
)
from planloop.controllers.sandboxes.wishing import agent_above, mounted_folders, sandbox_of, steering_files

__all__ = [
    "EVERY",
    "LEADS_OUT",
    "NO_OTHERS",
    "Astray",
    "Sandboxes",
    "agent_above",
    "beside",
    "ground",
    "is_git_outside",
    "led_out",
    "make_folder",
    "mounted_folders",
    "room_of",
    "sandbox_of",
    "steering_files",
    "without_links",
]
