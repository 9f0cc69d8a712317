"""Calls from what a mind proposed to their one result: rights, approval, locks, the run itself."""
