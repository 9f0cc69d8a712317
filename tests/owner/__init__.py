"""The process that owns a plan, forks and replays: `planloop.owner`."""
