"""Conflicts over files between two agents: detected, routed to a common ancestor, resolved by a patch."""
