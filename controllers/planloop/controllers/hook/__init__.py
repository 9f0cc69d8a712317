"""The life of hooks: a hook begins with its agent, restarts with each incarnation, and ends."""
