"""Commands: `planloop.cli`."""
